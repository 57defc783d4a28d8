"""Finds the folder of a model: a local path, or a hub id through `huggingface_hub`.

A path that exists never uses the network. The variables HF_HOME, HF_TOKEN and HF_HUB_OFFLINE work as usual.
"""

import re
import shlex
from contextlib import suppress
from os import PathLike
from pathlib import Path

from glassformer.errors import InputError
from glassformer.io import replaced_place

# The files that a model needs; weights as safetensors if there are any.
SAFE_WEIGHT_FILES = ["model*.safetensors", "model.safetensors.index.json"]
OLD_WEIGHT_FILES = ["pytorch_model*.bin", "pytorch_model.bin.index.json"]
SMALL_FILES = ["*.json", "1_Pooling/*", "2_Normalize/*", "*.txt", "*.model", "*.spm", "*.bpe", "*.jinja"]
HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def find_folder(
    path: str | PathLike[str], *, revision: str | None = None, token: str | None = None, weights: bool = True
) -> Path:
    """The folder of a model: the path itself, or the cached copy of a hub model."""
    if not isinstance(path, str | PathLike):
        raise InputError(f"the path is {path!r}: expected a run or model folder, or a hub id owner/name, as text")
    folder = Path(path)
    if folder.is_dir():
        return folder
    if folder.exists():
        raise InputError(f"{path} is a file: expected the folder of a run or model")
    if (replaced := replaced_place(folder)).is_dir():
        raise InputError(
            f"{path}: replacing it was interrupted. The old folder is complete, in {replaced}: move it back with\n"
            f"  {shlex.join(['mv', str(replaced), str(path)])}"
        )
    # If the first half is a local folder, the path is more likely a mistyped run than a hub id.
    if not isinstance(path, str) or not HUB_ID.fullmatch(path) or folder.parent.is_dir():
        raise InputError(f"{path}: there is no such folder. Expected a run or model folder, or a hub id owner/name")
    return _download(path, revision, token, weights)


def _download(name: str, revision: str | None, token: str | None, weights: bool) -> Path:
    """The files of a hub model. Only new files are downloaded; offline, the cached ones are used."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.constants import HF_HUB_OFFLINE

    def fetch(large: list[str], *, from_cache: bool) -> Path:
        wanted = [*SMALL_FILES, *(large if weights else [])]
        return Path(
            snapshot_download(name, revision=revision, token=token, allow_patterns=wanted, local_files_only=from_cache)
        )

    try:
        if HF_HUB_OFFLINE:
            return fetch([*SAFE_WEIGHT_FILES, *OLD_WEIGHT_FILES], from_cache=True)
        files = HfApi(token=token).list_repo_files(name, revision=revision)
        is_safe = "model.safetensors" in files or "model.safetensors.index.json" in files
        return fetch(SAFE_WEIGHT_FILES if is_safe else OLD_WEIGHT_FILES, from_cache=False)
    except Exception as error:  # of many kinds: no network, unknown name, no permission, not cached
        if not HF_HUB_OFFLINE:
            with suppress(Exception):
                return fetch([*SAFE_WEIGHT_FILES, *OLD_WEIGHT_FILES], from_cache=True)
        reason = str(error).splitlines()[0]
        raise InputError(
            f"{name} is not a local folder, and downloading it from the hub failed ({type(error).__name__}: {reason}). "
            "Check the path or the name; offline, only models downloaded before can be loaded"
        ) from None
