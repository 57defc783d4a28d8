"""Loading and saving a model folder, in the layout of Hugging Face: `config.json`, `model.safetensors`,
`generation_config.json`, `tokenizer.json`, and a model card.

A folder of another library is read through its family's page (`families/`), and written back the same way. What no
family expresses is written under our own names, as `model_type: glassformer`. Strict both ways: every tensor of the
file is used or ignored on purpose, every parameter of the model is filled, and what does not fit is named. A folder
appears whole or not at all.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.checkpoints.golden import CERTIFICATE, GOLDEN, write_golden
from glassformer.checkpoints.hub import find_folder
from glassformer.checkpoints.layout import Layout, generation_values, layout_for, layout_of, stored_values
from glassformer.checkpoints.table import Rule, assign, check
from glassformer.checkpoints.tensors import SHARD, Tensors, open_tensors, write_tensors
from glassformer.config import ImageConfig, TransformerConfig
from glassformer.core.model import Transformer, initialise
from glassformer.errors import InputError
from glassformer.text.tokenizer import FILES as TOKENIZER_FILES
from glassformer.text.tokenizer import Tokenizer, check_vocabulary

CONFIG, WEIGHTS, GENERATION = "config.json", "model.safetensors", "generation_config.json"
FILES = (CONFIG, WEIGHTS, GENERATION, GOLDEN, CERTIFICATE, *TOKENIZER_FILES)


def load(
    path: str | Path,
    *,
    head: str | None = None,
    num_classes: int | None = None,
    image_size: int | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    revision: str | None = None,
    token: str | None = None,
) -> Transformer:
    """The model of a run, a Hugging Face folder or a hub id, ready to run (in evaluation mode).

    `head` asks for another head than the file has; what the file lacks of it is made anew, and said so. `image_size`
    stretches the positions of a model of images to another size. Without `dtype`, the weights keep theirs.
    """
    folder = find_folder(path, revision=revision, token=token)
    values = read_json(folder / CONFIG)
    generation = read_json(folder / GENERATION) if (folder / GENERATION).is_file() else None
    name = str(folder / CONFIG)
    stored_image = layout_of(values, name=name).config.image if image_size else None
    if image_size:
        if stored_image is None:
            raise InputError(f"image_size is {image_size}, and {folder} is no model of images")
        values = {**values, "image_size": image_size}
    layout = layout_of(values, generation, name=name, head=head, num_classes=num_classes)
    device = torch.device(device or "cpu")
    tensors = open_tensors(folder, device).renamed(modern_name)
    if head is None and layout.lacks_pooler(tensors.shapes):
        layout = layout_of(values, generation, name=name, head="none")
    model = make_empty(layout)
    rules = layout.rules(model, tensors.shapes)
    if has_own_matrix(layout, rules, tensors):
        layout = replace(layout, config=layout.config.replace(tie_embeddings=False))
        model = make_empty(layout)
        rules = layout.rules(model, tensors.shapes)
    if stored_image is not None:
        tensors = stretched(tensors, rules, stored_image, layout.config)
    check_fit(layout, rules, tensors, model, folder)
    fill(model, rules, tensors, dtype or stored_dtype(values))
    make_lacking(model, folder, device)
    return model.eval()


def read_config(folder: Path) -> TransformerConfig:
    """The config of a model folder, without its weights."""
    file = find_folder(folder) / CONFIG
    return layout_of(read_json(file), name=str(file)).config


def read_json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise InputError(f"{file.parent} has no {file.name}: it is half-written, or not a model folder")
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{file} is not JSON ({error}). Is the file whole?") from None
    if not isinstance(values, dict):
        raise InputError(f"{file}: expected the config of a model, an object with a model_type")
    return values


def make_empty(layout: Layout) -> Transformer:
    """The model without its weights: no memory is taken for them, and nothing is drawn at random."""
    with torch.device("meta"):
        model = Transformer(layout.config)
    if layout.family is not None:
        model.origin = {CONFIG: layout.values, **({GENERATION: layout.generation} if layout.generation else {})}
    return model


def modern_name(name: str) -> str:
    """The names that PyTorch gives to the weights of a norm; files from TensorFlow's days say gamma and beta."""
    for old, new in (("gamma", "weight"), ("beta", "bias")):
        if name.endswith(f"LayerNorm.{old}"):
            return name.removesuffix(old) + new
    return name


def has_own_matrix(layout: Layout, rules: list[Rule], tensors: Tensors) -> bool:
    """Whether a head that the config calls tied has a matrix of its own in the file, other than the embedding's.

    Some files of T5 do; transformers ties what the file leaves out, whatever the config says, and so do we.
    """
    if not (layout.family and layout.config.head == "language" and layout.config.tie_embeddings):
        return False
    name = layout.matrix_name
    if name not in tensors.shapes:
        return False
    last = "decoder" if layout.config.target_vocab_size else rules[0].names[0].partition(".")[0]
    table = next(rule.file for rule in rules if rule.names == (f"{last}.embed.tokens.weight",))
    if table not in tensors.shapes or tensors.shapes[table] != tensors.shapes[name]:
        return False
    return not torch.equal(tensors.read(name), tensors.read(table))


def check_fit(layout: Layout, rules: list[Rule], tensors: Tensors, model: Transformer, folder: Path) -> None:
    used = {rule.file for rule in rules}
    shapes = {
        name: shape
        for name, shape in tensors.shapes.items()
        if name in used or not layout.ignores(name, tensors.shapes)
    }
    head = {name for name, _ in model.named_parameters() if name.startswith("head.")}
    check(rules, shapes, may_lack=head if layout.is_new_head else set(), origin=str(folder))


def fill(model: Transformer, rules: list[Rule], tensors: Tensors, dtype: torch.dtype | None) -> None:
    """Reads each tensor into its place; where the layout is the same, the parameter is the file itself, mapped."""
    values: dict[str, Tensor] = {}
    for rule in rules:
        if rule.place.fixed:
            continue
        if rule.file in tensors.shapes:
            parts = rule.read(tensors.read(rule.file))
        elif rule.place.zero_if_absent:
            parts = [torch.zeros(shape) for shape in rule.shapes]
        else:
            continue
        values.update((name, part.to(dtype or part.dtype)) for name, part in zip(rule.names, parts, strict=True))
    assign(model, values)


def make_lacking(model: Transformer, folder: Path, device: torch.device) -> None:
    """Makes what a new head needs and the file does not have."""
    lacking = [name for name, parameter in model.named_parameters() if parameter.is_meta]
    if not lacking:
        return
    modules = {name.rpartition(".")[0] for name in lacking}
    dtype = next(parameter.dtype for parameter in model.parameters() if not parameter.is_meta)
    for name in modules:
        model.get_submodule(name).to_empty(device=device, recurse=False).to(dtype)
    initialise(model, only=modules)
    print(f"{folder} has no such head; new and untrained are {', '.join(lacking)}", file=sys.stderr)


def stored_dtype(values: dict[str, Any]) -> torch.dtype | None:
    """The dtype that a config.json says its weights have; None if it does not say."""
    name = values.get("dtype") or values.get("torch_dtype")
    found = getattr(torch, str(name).removeprefix("torch."), None)
    return found if isinstance(found, torch.dtype) else None


def stretched(tensors: Tensors, rules: list[Rule], stored: ImageConfig, config: TransformerConfig) -> Tensors:
    """The table of positions of one image size interpolated to another: bicubic, over the grid of patches."""
    assert config.image is not None
    rule = next(rule for rule in rules if rule.names == ("encoder.embed.positions.weight",))
    if stored.size == config.image.size or rule.file not in tensors.shapes:
        return tensors
    (table,) = rule.read(tensors.read(rule.file))
    before, grid = table[: stored.prefix_tokens], table[stored.prefix_tokens :]
    old, new = stored.size // stored.patch, config.image.size // config.image.patch
    grid = grid.unflatten(0, (old, old)).permute(2, 0, 1)[None].float()
    grid = F.interpolate(grid, size=(new, new), mode="bicubic", align_corners=False)[0].permute(1, 2, 0)
    return tensors.replaced(rule.file, rule.write([torch.cat([before, grid.flatten(0, 1).to(before.dtype)])]))


def save(
    model: Transformer, path: str | Path, *, tokenizer: Tokenizer | None = None, max_shard_size: int = SHARD
) -> None:
    """Writes the model, and the tokenizer if there is one. A table that is shared is stored once."""
    with whole_folder(Path(path)) as folder:
        write_model(model, folder, tokenizer, max_shard_size=max_shard_size)


def write_model(model: Transformer, folder: Path, tokenizer: Tokenizer | None, *, max_shard_size: int = SHARD) -> None:
    if tokenizer is not None:
        check_vocabulary(tokenizer, model.config.vocab_size or 0)
        tokenizer.save(folder)
    layout = layout_for(model)
    stored = {**dict(model.named_buffers()), **stored_values(model, layout)}
    values = {key: value for key, value in layout.values.items() if key != "torch_dtype"}
    if layout.family is not None:
        values["dtype"] = str(next(model.parameters()).dtype).removeprefix("torch.")
    write_json(folder / CONFIG, values)
    if layout.family is not None and layout.config.head == "language" and layout.config.decoder is not None:
        write_json(folder / GENERATION, generation_values(layout))
    rules = layout.rules(model if layout.config == model.config else make_empty(layout))
    write_tensors(
        folder, {rule.file: rule.write([stored[name] for name in rule.names]) for rule in rules}, max_shard_size
    )
    write_golden(model, folder)


def write_json(file: Path, values: dict[str, Any]) -> None:
    file.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


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
