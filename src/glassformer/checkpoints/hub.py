"""A name -> a folder on this machine: a local path as it is, and a hub id through `huggingface_hub`.

A path that exists never opens a socket. The hub's own variables hold: HF_HOME, HF_TOKEN, HF_HUB_OFFLINE.
"""

import re
from pathlib import Path

from glassformer.errors import InputError

# What a model needs; of the weights, safetensors where there are any.
SMALL = ["*.json", "1_Pooling/*", "*.txt", "*.model", "*.spm", "*.bpe", "*.jinja"]
HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def find_folder(path: str | Path, *, revision: str | None = None, token: str | None = None) -> Path:
    """The folder of a model: the path itself, or the hub's copy in the cache of this machine."""
    folder = Path(path)
    if folder.is_dir():
        return folder
    if folder.exists():
        raise InputError(f"{path} is a file: expected the folder of a run or model")
    if not isinstance(path, str) or not HUB_ID.fullmatch(path):
        raise InputError(f"{path}: there is no such folder. Expected a run or model folder, or a hub id owner/name")
    return _download(path, revision, token)


def _download(name: str, revision: str | None, token: str | None) -> Path:
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.constants import HF_HUB_OFFLINE

    try:
        weights = ["*.safetensors", "*.safetensors.index.json"]
        if not HF_HUB_OFFLINE:
            files = HfApi(token=token).list_repo_files(name, revision=revision)
            if not any(file.endswith(".safetensors") for file in files):
                weights = ["pytorch_model*.bin", "*.bin.index.json"]
        folder = snapshot_download(
            name, revision=revision, token=token, allow_patterns=[*SMALL, *weights], local_files_only=HF_HUB_OFFLINE
        )
    except Exception as error:  # a dozen kinds: no network, no such name, no permission, not in the cache
        reason = str(error).splitlines()[0]
        raise InputError(
            f"{name}: there is no such folder here, and the hub gave none ({type(error).__name__}: {reason}). Check "
            "the path or the name; offline, only what was downloaded before can be loaded"
        ) from None
    return Path(folder)
