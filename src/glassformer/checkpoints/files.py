"""Saving and loading a model folder: `config.json`, `model.safetensors`, `tokenizer.json`.

Strict both ways: every tensor of the file is used, every parameter of the model is filled, and what does not fit is
named. A folder appears whole or not at all.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from glassformer import __version__
from glassformer.config import TransformerConfig
from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.text.tokenizer import FILES as TOKENIZER_FILES
from glassformer.text.tokenizer import Tokenizer

CONFIG, WEIGHTS = "config.json", "model.safetensors"
FILES = (CONFIG, WEIGHTS, *TOKENIZER_FILES)
MODEL_TYPE = "glassformer"


def save(model: Transformer, path: str | Path, *, tokenizer: Tokenizer | None = None) -> None:
    """Writes the model, and the tokenizer if there is one. A table that is shared is stored once."""
    with whole_folder(Path(path)) as folder:
        write_model(model, folder, tokenizer)


def write_model(model: Transformer, folder: Path, tokenizer: Tokenizer | None) -> None:
    if tokenizer is not None:
        tokenizer.save(folder)
    header = {"model_type": MODEL_TYPE, "glassformer_version": __version__, "architectures": ["Transformer"]}
    text = json.dumps({**header, **model.config.to_dict()}, indent=2) + "\n"
    (folder / CONFIG).write_text(text, encoding="utf-8")
    tensors = {name: tensor.detach().contiguous() for name, tensor in model.named_parameters()}
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    shutil.copymode(folder / CONFIG, folder / WEIGHTS)  # readable to whom the others are


def load(path: str | Path) -> Transformer:
    """The model of a folder, ready to run (in evaluation mode)."""
    folder = Path(path)
    config = read_config(folder)
    if not (folder / WEIGHTS).is_file():
        raise InputError(f"{folder} is half-written: it has {CONFIG} and no {WEIGHTS}. Train or save it again")
    try:
        tensors = load_file(folder / WEIGHTS)
    except (SafetensorError, OSError) as error:
        raise InputError(f"{folder / WEIGHTS} cannot be read ({error}). Is the file whole? Save it again") from None
    model = Transformer(config)
    fill(model, tensors, folder / WEIGHTS)
    return model.eval()


def read_config(folder: Path) -> TransformerConfig:
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder. Expected a run or model folder")
    if not (folder / CONFIG).is_file():
        raise InputError(f"{folder} has no {CONFIG}: it is half-written, or not a model folder")
    try:
        values = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{folder / CONFIG} is not JSON ({error}). Is the file whole?") from None
    if not isinstance(values, dict) or values.pop("model_type", None) != MODEL_TYPE:
        raise InputError(f"{folder / CONFIG}: expected the config of a model, with model_type {MODEL_TYPE!r}")
    for key in ("glassformer_version", "architectures"):
        values.pop(key, None)
    try:
        return TransformerConfig.from_dict(values)
    except InputError as error:
        raise InputError(f"{folder / CONFIG}: {error}") from None


@torch.no_grad()
def fill(model: Transformer, tensors: dict[str, torch.Tensor], file: Path) -> None:
    """Copies the tensors into the model's parameters of the same names."""
    parameters = dict(model.named_parameters())
    ours = {name: tuple(parameter.shape) for name, parameter in parameters.items()}
    theirs = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    wrong = [f"missing     {name} {ours[name]}" for name in sorted(ours.keys() - theirs.keys())]
    wrong += [f"unexpected  {name} {theirs[name]}" for name in sorted(theirs.keys() - ours.keys())]
    wrong += [
        f"misshapen   {name}: the file has {theirs[name]}, the config asks for {ours[name]}"
        for name in sorted(ours.keys() & theirs.keys())
        if ours[name] != theirs[name]
    ]
    if wrong:
        raise InputError(f"{file} does not fit its {CONFIG}:\n  " + "\n  ".join(wrong))
    for name, parameter in parameters.items():
        parameter.copy_(tensors[name])


@contextmanager
def whole_folder(path: Path, *, replaces: tuple[str, ...] = ()) -> Iterator[Path]:
    """A folder to write to, which takes its place when everything in it is written; the old one stays until then.

    Of the old one, a model's files and those named in `replaces` go; whatever else was in it stays.
    """
    folder = path.resolve()
    if folder.is_file():
        raise InputError(f"{path} is a file: expected a folder to write")
    partial, old = (folder.with_name(f".{folder.name}.{os.getpid()}.{end}") for end in ("partial", "old"))
    try:
        shutil.rmtree(partial, ignore_errors=True)  # of a process that had this number before
        partial.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
    try:
        yield partial
        if folder.exists():
            folder.rename(old)
        partial.rename(folder)
    except BaseException:
        if old.exists() and not folder.exists():
            old.rename(folder)
        shutil.rmtree(partial, ignore_errors=True)
        raise
    if old.exists():
        for entry in old.iterdir():
            if entry.name not in {*FILES, *replaces} and not (folder / entry.name).exists():
                entry.rename(folder / entry.name)
        shutil.rmtree(old, ignore_errors=True)
