"""Saves a model folder in the Hugging Face layout, with a model card and golden values for `verify`.

The tensors have the names of the model's family or of the most similar one. A model that no family can express is
saved with our own names, as `model_type: glassformer`.
"""

from pathlib import Path

from torch import Tensor

from glassformer.checkpoints.card import write_card
from glassformer.checkpoints.choose_layout import layout_for
from glassformer.checkpoints.folder import CONFIG, GENERATION, atomic_model_folder
from glassformer.checkpoints.generation_file import generation_values
from glassformer.checkpoints.golden import write_golden
from glassformer.checkpoints.layout import Layout
from glassformer.checkpoints.load import make_empty
from glassformer.checkpoints.pair_layout import PairLayout, pair_layout_for
from glassformer.checkpoints.preparation import Preparation, write_preparation
from glassformer.checkpoints.tensors import SHARD, parse_size, write_tensors
from glassformer.core.model import Transformer
from glassformer.core.pair import Pair
from glassformer.io import write_json
from glassformer.text.tokenizer import Tokenizer, check_vocabulary


def save(
    model: Transformer | Pair,
    path: str | Path,
    *,
    tokenizer: Tokenizer | None = None,
    preparation: Preparation | None = None,
    max_shard_size: int | str = SHARD,
) -> None:
    """Writes the model, and its tokenizer and image preparation if given.

    Tied weights are stored once. `max_shard_size` is in bytes, or a text such as "5GB".
    """
    shard = parse_size(max_shard_size)
    with atomic_model_folder(Path(path)) as folder:
        write_model(model, folder, tokenizer, preparation, max_shard_size=shard)


def write_model(
    model: Transformer | Pair,
    folder: Path,
    tokenizer: Tokenizer | None,
    preparation: Preparation | None = None,
    *,
    max_shard_size: int = SHARD,
) -> None:
    text, image = (model.text, model.image) if isinstance(model, Pair) else (model, model)
    if preparation is not None:
        write_preparation(preparation, folder, image.config)
    if tokenizer is not None:
        check_vocabulary(tokenizer, text.config.vocab_size or 0)
        tokenizer.save(folder)
    layout = pair_layout_for(model) if isinstance(model, Pair) else layout_for(model)
    values = {key: value for key, value in layout.values.items() if key != "torch_dtype"}
    if layout.family is not None:
        values["dtype"] = str(model.dtype).removeprefix("torch.")
    write_json(folder / CONFIG, values)
    if isinstance(layout, Layout) and writes_text(layout):
        write_json(folder / GENERATION, generation_values(layout))
    write_card(model, layout, folder)
    write_tensors(folder, stored_tensors(model, layout), max_shard_size)
    write_golden(model, folder)


def writes_text(layout: Layout) -> bool:
    return layout.family is not None and layout.config.head == "language" and layout.config.decoder is not None


def stored_tensors(model: Transformer | Pair, layout: Layout | PairLayout) -> dict[str, Tensor]:
    """The tensors of the file, by their names there; converted if the family stores the model in an equivalent form."""
    stored = {name: parameter.detach() for name, parameter in model.named_parameters()}
    if isinstance(layout, PairLayout):
        assert isinstance(model, Pair)
        return {rule.file: rule.write([stored[name] for name in rule.names]) for rule in layout.rules(model)}
    assert isinstance(model, Transformer)
    empty = model
    if layout.family is not None and layout.config != model.config:
        empty, stored = make_empty(layout), layout.family.saved_weights(model.config, stored)
    stored = {**dict(model.named_buffers()), **stored}
    return {rule.file: rule.write([stored[name] for name in rule.names]) for rule in layout.rules(empty)}
