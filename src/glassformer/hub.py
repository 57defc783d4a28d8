"""A name -> a folder on this machine: a local path as it is, and a hub id through `huggingface_hub`.

A path that exists never opens a socket. The hub's own variables hold: HF_HOME, HF_TOKEN, HF_HUB_OFFLINE.
"""

import re
import shlex
from contextlib import suppress
from os import PathLike
from pathlib import Path

from glassformer.errors import InputError
from glassformer.io import replaced_place

# What a model needs; of the weights, safetensors where there are any.
SAFE = ["model*.safetensors", "model.safetensors.index.json"]
OLD = ["pytorch_model*.bin", "pytorch_model.bin.index.json"]
SMALL = ["*.json", "1_Pooling/*", "2_Normalize/*", "*.txt", "*.model", "*.spm", "*.bpe", "*.jinja"]
HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def find_folder(
    path: str | PathLike[str], *, revision: str | None = None, token: str | None = None, weights: bool = True
) -> Path:
    """The folder of a model: the path itself, or the hub's copy in the cache of this machine."""
    if not isinstance(path, str | PathLike):
        raise InputError(f"the path is {path!r}: expected a run or model folder, or a hub id owner/name, as text")
    folder = Path(path)
    if folder.is_dir():
        return folder
    if folder.exists():
        raise InputError(f"{path} is a file: expected the folder of a run or model")
    if (replaced := replaced_place(folder)).is_dir():
        raise InputError(
            f"{path}: its replacement was stopped halfway. The old folder is whole, in {replaced}: move it back with\n"
            f"  {shlex.join(['mv', str(replaced), str(path)])}"
        )
    # Where the first half is a folder here, a mistyped run is likelier than a name on the hub.
    if not isinstance(path, str) or not HUB_ID.fullmatch(path) or folder.parent.is_dir():
        raise InputError(f"{path}: there is no such folder. Expected a run or model folder, or a hub id owner/name")
    return _download(path, revision, token, weights)


def _download(name: str, revision: str | None, token: str | None, weights: bool) -> Path:
    """The hub's files, of which only new ones are fetched; without a network, those that were fetched before."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.constants import HF_HUB_OFFLINE

    def fetch(large: list[str], *, from_cache: bool) -> Path:
        wanted = [*SMALL, *(large if weights else [])]
        return Path(
            snapshot_download(name, revision=revision, token=token, allow_patterns=wanted, local_files_only=from_cache)
        )

    try:
        if HF_HUB_OFFLINE:
            return fetch([*SAFE, *OLD], from_cache=True)
        files = HfApi(token=token).list_repo_files(name, revision=revision)
        is_safe = "model.safetensors" in files or "model.safetensors.index.json" in files
        return fetch(SAFE if is_safe else OLD, from_cache=False)
    except Exception as error:  # a dozen kinds: no network, no such name, no permission, not in the cache
        if not HF_HUB_OFFLINE:
            with suppress(Exception):
                return fetch([*SAFE, *OLD], from_cache=True)
        reason = str(error).splitlines()[0]
        raise InputError(
            f"{name}: there is no such folder here, and the hub gave none ({type(error).__name__}: {reason}). Check "
            "the path or the name; offline, only what was downloaded before can be loaded"
        ) from None
