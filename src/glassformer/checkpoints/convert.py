"""Rewrites any model folder in today's format: safetensors, current names, a `tokenizer.json`, a chosen dtype."""

import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from glassformer.checkpoints.folder import BESIDE, CONFIG, OLD_TOKENIZERS, atomic_model_folder, read_settings_file
from glassformer.checkpoints.load import load_model
from glassformer.checkpoints.run import RUN
from glassformer.checkpoints.save import write_model
from glassformer.checkpoints.tensors import SHARD, as_dtype, parse_size
from glassformer.core.model import count
from glassformer.core.pair import Pair
from glassformer.errors import InputError
from glassformer.hub import find_folder
from glassformer.text import Tokenizer, read_tokenizer
from glassformer.text.tokenizer import TOKENIZER_FILES as TOKENIZER_FILES
from glassformer.text.vocabulary_files import NoTokenizerError

# Files that say how inputs are prepared; in a run, also its rules for texts and the scale of a series.
PREPARED = (*BESIDE, RUN, "series.json")
TOKENIZER_PATTERNS = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model", "*.spm")
WEIGHT_PATTERNS = ("*.safetensors", "*.safetensors.index.json", "pytorch_model*.bin", "pytorch_model*.bin.index.json")


@dataclass(frozen=True)
class Converted:
    """The result of a conversion."""

    source: str
    target: str
    model_type: str
    head: str
    dtype: str
    parameters: int
    tokenizer: bool
    files: dict[str, int]  # name -> bytes

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def convert(
    source: str | Path,
    target: str | Path,
    *,
    dtype: torch.dtype | str | None = None,
    max_shard_size: int | str = SHARD,
    overwrite: bool = False,
    revision: str | None = None,
    token: str | None = None,
) -> Converted:
    """Reads the model of a folder or hub id, in any known layout, and writes it to the folder `target`.

    Without `dtype`, the weights keep their dtype, whatever config.json says. `max_shard_size` is in bytes, or a text
    such as "5GB". If anything fails, no folder is written.
    """
    shard, wanted = parse_size(max_shard_size), as_dtype(dtype)
    folder, goal = find_folder(source, revision=revision, token=token), Path(target)
    check_empty_folder(folder, goal, overwrite)
    model = load_model(folder, dtype=wanted, as_stored=True, finite=True)
    tokenizer, carried = tokenizer_to_write(folder)
    old = tuple(file.name for pattern in WEIGHT_PATTERNS for file in goal.glob(pattern))
    with atomic_model_folder(goal, replaces=(*old, *PREPARED)) as written:
        write_model(model, written, tokenizer, max_shard_size=shard)
        for name in (*PREPARED, *carried):
            if (folder / name).is_file():
                shutil.copyfile(folder / name, written / name)
            elif (folder / name).is_dir():
                shutil.copytree(folder / name, written / name)
        written_files = sorted(file for file in written.rglob("*") if file.is_file())
        files = {file.relative_to(written).as_posix(): file.stat().st_size for file in written_files}
    return Converted(
        source=str(source),
        target=str(target),
        model_type=str(read_settings_file(goal / CONFIG)["model_type"]),
        head="pair" if isinstance(model, Pair) else model.config.head,
        dtype=str(model.dtype).removeprefix("torch."),
        parameters=count(model),
        tokenizer=tokenizer is not None,
        files=files,
    )


def tokenizer_to_write(folder: Path) -> tuple[Tokenizer | None, tuple[str, ...]]:
    """The tokenizer to write; or, if its files do not define how to tokenise, the names of files to copy unchanged."""
    if not has_tokenizer(folder):
        return None, ()
    try:
        return read_tokenizer(folder), ()
    except NoTokenizerError as error:
        print(f"the tokenizer's files are copied unchanged: {error}", file=sys.stderr)
        return None, (*TOKENIZER_FILES, *OLD_TOKENIZERS)


def check_empty_folder(source: Path, target: Path, overwrite: bool) -> None:
    """Raises if the target is not empty. Called before anything is read."""
    if target.is_file():
        raise InputError(f"{target} is a file: expected a folder to write to")
    if target.resolve() in (source.resolve(), Path.cwd()):
        which = "the source folder" if target.resolve() == source.resolve() else "the current folder"
        raise InputError(f"{target} is {which}: choose another folder to write to")
    if target.is_dir() and any(target.iterdir()) and not overwrite:
        raise InputError(f"{target} is not empty: choose another folder, or replace the model in it with --overwrite")


def has_tokenizer(folder: Path) -> bool:
    return any(file.is_file() for pattern in TOKENIZER_PATTERNS for file in folder.glob(pattern))
