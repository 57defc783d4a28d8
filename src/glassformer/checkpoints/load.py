"""Loads a model folder in the Hugging Face layout: `config.json`, `model.safetensors`, `generation_config.json`.

Models of other libraries are translated by their family (`families/`). Loading is strict: every tensor in the file is
used or ignored on purpose, every parameter of the model is filled, and an error names whatever does not fit.
"""

import functools
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.checkpoints.folder import CONFIG, GENERATION, read_settings_file
from glassformer.checkpoints.labels import labels_in
from glassformer.checkpoints.layout import LAST_LAYER, Layout
from glassformer.checkpoints.pair_layout import is_pair, pair_layout_of
from glassformer.checkpoints.read_layout import layout_of
from glassformer.checkpoints.tensors import DTYPES, Tensors, as_dtype, can_compute, open_tensors
from glassformer.config import ImageConfig, TransformerConfig
from glassformer.core.model import Metadata, Transformer, initialise
from glassformer.core.pair import Pair
from glassformer.errors import InputError
from glassformer.families.table import Rule, assign, check
from glassformer.hub import find_folder
from glassformer.threads import exactly

QUICKLY_MADE = 64  # layers: up to here the model is built, so that an error can list every missing tensor
TENSORS_OF_A_BLOCK = 4  # at least: in and out projections of attention and of the feed-forward layer


def load(
    path: str | Path,
    *,
    head: str | None = None,
    num_classes: int | None = None,
    image_size: int | None = None,
    dtype: torch.dtype | str | None = None,
    device: torch.device | str | None = None,
    revision: str | None = None,
    token: str | None = None,
) -> Any:  # a Transformer, or a Pair if the folder holds two models
    """Loads the model of a run, a Hugging Face folder or a hub id, in evaluation mode. It is a `Pair` if the folder
    holds a text and an image model.

    `head` and `num_classes` replace the head of the file; weights that the file lacks are initialised, with a message.
    `image_size` interpolates the positions of an image model to another size. `dtype` is torch.bfloat16 or "bfloat16";
    it defaults to the dtype in `config.json`, or else that of the weights.
    """
    usable_device(device)
    for name, number in (("num_classes", num_classes), ("image_size", image_size)):
        if number is not None and (type(number) is not int or number < 1):
            raise InputError(f"{name} is {number!r}: expected a whole number of at least 1")
    wanted, folder = as_dtype(dtype), find_folder(path, revision=revision, token=token)
    asked = {"head": head, "num_classes": num_classes, "image_size": image_size}
    return load_model(folder, dtype=wanted, device=device, **asked)


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pauses Python's garbage collector: loading creates thousands of objects and no garbage, and one collection,
    which goes through all of PyTorch's objects, would take longer than loading."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@gc_paused()
def load_folder(
    folder: Path,
    *,
    head: str | None = None,
    num_classes: int | None = None,
    image_size: int | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    as_stored: bool = False,
    finite: bool = False,
) -> Transformer:
    """`load` for checked arguments. With `as_stored`, the dtype is that of the weights, not of `config.json`.

    With `finite`, NaN and infinite weights are refused. This reads all weights, which are otherwise read when first
    used, so it is for callers that run the model next.
    """
    place, name = usable_device(device), str(folder / CONFIG)
    values, generation = read_configs(folder / CONFIG)
    settle = functools.partial(layout_of, generation=generation, name=name, num_classes=num_classes)
    layout = settle(values, head=head)
    stored_image = layout.config.image if image_size else None
    if image_size:
        if stored_image is None:
            raise InputError(f"image_size is {image_size}, but {folder} does not read images: leave it out")
        values = with_image_size(values, image_size)
        layout = settle(values, head=head)
    tensors = open_tensors(folder, place).renamed(modern_name)
    check_depth(layout.config, tensors, name)
    found = head_of_file(layout, tensors) if head is None else layout.head
    if found != layout.head:
        layout = settle(values, head="none") if found == "none" else settle(with_class_of(layout, values, found))
    model = make_empty(layout)
    rules = layout.rules(model, tensors.shapes)
    if has_own_matrix(layout, rules, tensors):
        layout = replace(layout, config=layout.config.replace(tie_embeddings=False))
        model = make_empty(layout)
        rules = layout.rules(model, tensors.shapes)
    if stored_image is not None:
        tensors = interpolate_positions(tensors, rules, stored_image, layout.config)
    if layout.is_new_head:
        tensors = without_old_head(layout, rules, tensors)
    check_fit(layout, rules, tensors, model, folder)
    if dtype is None and not as_stored:
        dtype = stored_dtype(values, name)
    fill_parameters(model, rules, tensors, dtype, folder, finite)
    initialise_missing(model, reason_for_new_head(layout, folder), place)
    return model.eval().to(place if device is None else device)


def load_model(
    folder: Path, *, dtype: torch.dtype | None = None, device: Any = None, **asked: Any
) -> Transformer | Pair:
    """`load_folder`, or `load_pair` if the folder holds a pair."""
    values, _ = read_configs(folder / CONFIG)
    if not is_pair(values):
        return load_folder(folder, dtype=dtype, device=device, **asked)
    for name in ("head", "num_classes", "image_size"):
        if asked.pop(name, None) is not None:
            raise InputError(f"{name} does not work with a pair of models, which {folder} holds: leave it out")
    return load_pair(folder, values, dtype=dtype, device=device, **asked)


@gc_paused()
def load_pair(
    folder: Path,
    values: dict[str, Any],
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    as_stored: bool = False,
    finite: bool = False,
) -> Pair:
    place, name = usable_device(device), str(folder / CONFIG)
    layout = pair_layout_of(values, name=name)
    tensors = open_tensors(folder, place).renamed(modern_name)
    for side in (layout.text, layout.image):
        check_depth(side.config, tensors, name)
    with torch.device("meta"):
        pair = Pair(layout.config)
    pair.about = Metadata(settings=layout.values)
    pair.text.about, pair.image.about = Metadata(settings=layout.text.values), Metadata(settings=layout.image.values)
    rules = layout.rules(pair, tensors.shapes)
    needless = layout.ignored(tensors.shapes) - {rule.file for rule in rules}
    shapes = {name: shape for name, shape in tensors.shapes.items() if name not in needless}
    check(rules, shapes, may_lack=set(), origin=str(folder))
    if dtype is None and not as_stored:
        dtype = stored_dtype(values, name)
    fill_parameters(pair, rules, tensors, dtype, folder, finite)
    return pair.eval().to(place if device is None else device)


def read_configs(file: Path) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The content of a `config.json`, and of the `generation_config.json` beside it if there is one."""
    beside = file.with_name(GENERATION)
    return read_settings_file(file), read_settings_file(beside) if beside.is_file() else None


def check_depth(config: TransformerConfig, tensors: Tensors, name: str) -> None:
    """Raises if there are too few tensors for the layers of the config, before the layers are built."""
    layers = sum(stack.num_blocks for stack in (config.encoder, config.decoder) if stack is not None)
    if layers > QUICKLY_MADE and TENSORS_OF_A_BLOCK * layers > len(tensors.shapes):
        raise InputError(
            f"{name} has {layers} layers, but the weights beside it have only {len(tensors.shapes)} tensors: expected "
            f"at least {TENSORS_OF_A_BLOCK} per layer. Download both from the same place"
        )


def head_of_file(layout: Layout, tensors: Tensors) -> str:
    """The kind of head in the file, judged by its tensors if config.json names none or a pooler that is missing."""
    kind = layout.head if layout.file_head is not None else layout.head_in(tensors.shapes) or layout.head
    return "none" if kind == "pool" and layout.lacks_pooler(tensors.shapes) else kind


def with_class_of(layout: Layout, values: dict[str, Any], kind: str) -> dict[str, Any]:
    """The `config.json` with the transformers class for this kind of head."""
    assert layout.family is not None
    return {**values, "architectures": [layout.family.head(kind).architecture]}


def usable_device(device: torch.device | str | None) -> torch.device:
    """The device to read tensors to: the requested one, or the CPU for `meta`. Raises if it cannot be used."""
    try:
        wanted = torch.device("cpu" if device is None else device)
        torch.empty(0, device=wanted)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InputError(
            f"--device {device} cannot be used on this machine ({str(error).splitlines()[0]}). Use cpu, or leave it out"
        ) from None
    return torch.device("cpu") if wanted.type == "meta" else wanted


def make_empty(layout: Layout) -> Transformer:
    """The model on the meta device: without memory for its weights, and without initialising them."""
    with torch.device("meta"):
        model = Transformer(layout.config)
    classes = labels_in(layout.values) if layout.config.num_classes else {}
    if layout.family is None:
        model.about = Metadata(classes=classes)
    else:
        model.about = Metadata(classes=classes, settings=layout.values, generation=layout.generation)
    return model


def modern_name(name: str) -> str:
    """Renames gamma and beta of a norm, the names in files from TensorFlow, to PyTorch's weight and bias."""
    for old, new in (("gamma", "weight"), ("beta", "bias")):
        if name.endswith(f"LayerNorm.{old}"):
            return name.removesuffix(old) + new
    return name


def has_own_matrix(layout: Layout, rules: list[Rule], tensors: Tensors) -> bool:
    """Whether a head that is tied in the config has its own matrix in the file, different from the embedding.

    Some T5 files do. Like transformers, we tie the head only if its matrix is not in the file.
    """
    if not (layout.family and layout.config.head == "language" and layout.config.tie_embeddings):
        return False
    name = layout.matrix_name
    if name not in tensors.shapes:
        return False
    tables = {rule.names[0]: rule.file for rule in rules if rule.names[0].endswith(".embed.tokens.weight")}
    table = tables.get("decoder.embed.tokens.weight") or tables["encoder.embed.tokens.weight"]
    if table not in tensors.shapes or tensors.shapes[table] != tensors.shapes[name]:
        return False
    return not torch.equal(tensors.read(name), tensors.read(table))


def without_old_head(layout: Layout, rules: list[Rule], tensors: Tensors) -> Tensors:
    """Drops tensors that a new head cannot use: the last layer of another kind, or with another number of classes."""
    misshapen = {
        rule.file
        for rule in rules
        if rule.names[0].startswith(LAST_LAYER) and tensors.shapes.get(rule.file) != rule.file_shape
    }
    return tensors.without(misshapen | layout.last_layer(rules, tensors.shapes))


def check_fit(layout: Layout, rules: list[Rule], tensors: Tensors, model: Transformer, folder: Path) -> None:
    needless = layout.ignored(tensors.shapes) - {rule.file for rule in rules}
    shapes = {name: shape for name, shape in tensors.shapes.items() if name not in needless}
    head = {name for name, _ in model.named_parameters() if name.startswith("head.")}
    check(rules, shapes, may_lack=head if layout.is_new_head else set(), origin=str(folder))


def fill_parameters(
    model: nn.Module, rules: list[Rule], tensors: Tensors, dtype: torch.dtype | None, folder: Path, finite: bool
) -> None:
    """Reads each tensor into its parameter. If no conversion is needed, the parameter is the memory-mapped file."""
    values: dict[str, Tensor] = {}
    stored: dict[str, Tensor] = {}
    rules = [rule for rule in rules if not rule.place.fixed]
    for rule in rules:
        if rule.file in tensors.shapes:
            tensor = tensors.read(rule.file)
            if not can_compute(tensor.dtype):
                raise InputError(
                    f"{folder}: {rule.file} has dtype {tensor.dtype}: expected floats of at least 16 bits. Load the "
                    "unquantised model"
                )
            if finite:
                stored[rule.file] = tensor
            values.update(zip(rule.names, rule.read(tensor), strict=True))
    if finite:
        check_finite(stored, folder)
    # A model computes in one dtype: if the file has several, take one that holds them all.
    dtype = dtype or functools.reduce(torch.promote_types, {value.dtype for value in values.values()})
    for rule in rules:
        if rule.place.zero_if_absent and rule.file not in tensors.shapes:
            some = next(iter(values.values()))
            values.update((name, some.new_zeros(shape)) for name, shape in zip(rule.names, rule.shapes, strict=True))
    converted = {name: value.to(dtype) for name, value in values.items()}
    if finite:
        check_range(converted, values, folder)
    assign(model, converted)


@exactly(1)  # memory-bound: more threads would not be faster
def check_finite(tensors: dict[str, Tensor], folder: Path) -> None:
    for name, tensor in tensors.items():
        if count := count_infinite(tensor):
            nans = int(tensor.isnan().sum())
            kinds = [f"{number:,} {kind}" for number, kind in ((nans, "NaN"), (count - nans, "infinite")) if number]
            raise InputError(
                f"{folder}: {count:,} of {tensor.numel():,} weights of {name} are not finite ({', '.join(kinds)}), so "
                "the model is unusable. Download or train it again; if training diverged, use a lower --rate"
            )


@exactly(1)
def check_range(converted: dict[str, Tensor], values: dict[str, Tensor], folder: Path) -> None:
    """Raises if converting to a dtype with a smaller range made weights infinite."""
    for name, value in converted.items():
        narrower = torch.finfo(value.dtype).max < torch.finfo(values[name].dtype).max
        if narrower and (count := count_infinite(value)):
            kind = str(value.dtype).removeprefix("torch.")
            raise InputError(
                f"{folder}: {count:,} of {value.numel():,} weights of {name} are too large for {kind}. Choose another "
                "--dtype, such as bfloat16"
            )


def count_infinite(tensor: Tensor) -> int:
    """The number of NaN and infinite values. A finite sum proves in one quick pass that there are none."""
    total = tensor.sum(dtype=torch.promote_types(tensor.dtype, torch.float32))
    return 0 if bool(total.isfinite()) else int((~tensor.isfinite()).sum())


def reason_for_new_head(layout: Layout, folder: Path) -> str:
    """Why a head is new: the file has none of this kind, or one with another number of classes."""
    before, classes = layout.file_classes, layout.config.num_classes
    if layout.is_new_head and layout.file_head == layout.head and classes is not None:
        return f"the head of {folder} (classes: {before}) is replaced by a new one (classes: {classes})"
    return f"{folder} has no {layout.head!r} head"


def initialise_missing(model: Transformer, reason: str, device: torch.device) -> None:
    """Initialises the parameters of a new head that the file does not have."""
    lacking = {name: parameter for name, parameter in model.named_parameters() if parameter.is_meta}
    if not lacking:
        return
    dtype = next(parameter.dtype for parameter in model.parameters() if not parameter.is_meta)
    modules = {name: model.get_submodule(name) for name in dict.fromkeys(name.rpartition(".")[0] for name in lacking)}
    # `initialise` fills whole modules. Restore the parameters that came from the file, such as a tied embedding.
    given = [(module, leaf, parameter) for module in modules.values() for leaf, parameter in module.named_parameters()]
    for module, leaf, parameter in given:
        setattr(module, leaf, nn.Parameter(torch.empty(parameter.shape, dtype=dtype, device=device)))
    initialise(model, only=modules)
    for module, leaf, parameter in given:
        if not parameter.is_meta:
            setattr(module, leaf, parameter)
    new = ", ".join(f"{name} {tuple(parameter.shape)}" for name, parameter in lacking.items())
    print(f"{reason}. New and untrained: {new}", file=sys.stderr)


def stored_dtype(values: dict[str, Any], name: str) -> torch.dtype | None:
    """The dtype of the weights according to config.json; None if it does not say."""
    key = "dtype" if values.get("dtype") else "torch_dtype"
    word = values.get(key)
    if word in (None, "auto"):
        return None
    found = getattr(torch, str(word).removeprefix("torch."), None)
    if not isinstance(found, torch.dtype) or not can_compute(found):
        raise InputError(f"{name}: {key} is {word!r}: expected one of {', '.join(DTYPES)}. Correct the file")
    return found


def with_image_size(values: dict[str, Any], size: int) -> dict[str, Any]:
    if isinstance(values.get("image"), dict):  # our own files
        return {**values, "image": {**values["image"], "size": size}}
    for part in ("encoder", "vision_config"):  # models of images and text
        if isinstance(values.get(part), dict):
            return {**values, part: {**values[part], "image_size": size}}
    return {**values, "image_size": size}


def interpolate_positions(
    tensors: Tensors, rules: list[Rule], stored: ImageConfig, config: TransformerConfig
) -> Tensors:
    """Interpolates the position table to another image size: bicubic, over the grid of patches."""
    assert config.image is not None
    rule = next(rule for rule in rules if rule.names == ("encoder.embed.positions.weight",))
    if stored.size == config.image.size or rule.file not in tensors.shapes:
        return tensors
    (table,) = rule.read(tensors.read(rule.file))
    before, grid = table[: stored.prefix_tokens], table[stored.prefix_tokens :]
    old, new = stored.patches_per_side, config.image.patches_per_side
    grid = grid.unflatten(0, (old, old)).permute(2, 0, 1)[None].float()
    grid = F.interpolate(grid, size=(new, new), mode="bicubic", align_corners=False)[0].permute(1, 2, 0)
    return tensors.replaced(rule.file, rule.write([torch.cat([before, grid.flatten(0, 1).to(before.dtype)])]))
