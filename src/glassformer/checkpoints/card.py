"""The model card: a `README.md` beside the weights that describes the model and how to load it.

A card that somebody else wrote is never replaced.
"""

from pathlib import Path

from glassformer.checkpoints.layout import Layout
from glassformer.checkpoints.own_format import OWN
from glassformer.checkpoints.pair_layout import PairLayout
from glassformer.config import StackConfig
from glassformer.core.model import Transformer, count
from glassformer.core.pair import Pair

CARD = "README.md"
MARK = "---\n# Written by glassformer, and again by its next save; take this line out to keep what you write below.\n"

# The hub's name for the task of a head.
PIPELINE_TAGS = {
    "class": "text-classification",
    "token": "token-classification",
    "span": "question-answering",
    "forecast": "time-series-forecasting",
}


def is_ours(file: Path) -> bool:
    """Whether `save` wrote this card, so that it may be replaced."""
    return file.name == CARD and file.is_file() and file.read_bytes().startswith(MARK.encode())


def write_card(model: Transformer | Pair, layout: Layout | PairLayout, folder: Path) -> None:
    (folder / CARD).write_text(card(model, layout, folder), encoding="utf-8")


def card(model: Transformer | Pair, layout: Layout | PairLayout, folder: Path) -> str:
    kind = OWN if layout.family is None else str(layout.values["model_type"])
    return "\n".join(
        [
            MARK + front_matter(kind, layout),
            "",
            f"# A {kind} model",
            "",
            *sizes(model),
            "",
            *loading(layout, has_tokenizer=(folder / "tokenizer.json").is_file()),
        ]
    )


def front_matter(kind: str, layout: Layout | PairLayout) -> str:
    lines = [f"library_name: {OWN if layout.family is None else 'transformers'}"]
    lines += [f"pipeline_tag: {pipeline_tag(layout)}", "tags:"]
    return "\n".join([*lines, *(f"- {tag}" for tag in dict.fromkeys([OWN, kind])), "---"])


def pipeline_tag(layout: Layout | PairLayout) -> str:
    """The hub's name for the task of a model, from its head and its input."""
    if isinstance(layout, PairLayout):
        return "zero-shot-image-classification"
    config = layout.config
    if config.image and config.decoder:
        return "image-to-text"
    if config.image:
        return "image-classification" if config.head == "class" else "image-feature-extraction"
    if config.head != "language":
        return PIPELINE_TAGS.get(config.head, "feature-extraction")
    if config.encoder is None:
        return "text-generation"
    if config.decoder is None:
        return "fill-mask"
    return "translation" if layout.family is not None and layout.family.translates else "text2text-generation"


def sizes(model: Transformer | Pair) -> list[str]:
    if isinstance(model, Pair):
        sides = (("text", model.text), ("image", model.image))
        return [line.replace("- ", f"- {name} model, ", 1) for name, side in sides for line in sizes(side)]
    config = model.config
    dtype = str(model.dtype).removeprefix("torch.")
    stacks = [stack_line(name, stack) for name, stack in (("encoder", config.encoder), ("decoder", config.decoder))]
    more = [f"- vocabulary: {config.vocab_size:,} tokens"] if config.vocab_size else []
    if config.vocab_size and config.target_vocab_size:
        more = [f"- vocabularies: {config.vocab_size:,} tokens (source), {config.target_vocab_size:,} tokens (target)"]
    if config.image:
        side, patch = config.image.size, config.image.patch
        more.append(f"- images: {side} x {side} pixels, in patches of {patch} x {patch}")
    if config.series:
        more.append(f"- series: reads {config.series.length} values, predicts the next {config.series.horizon}")
    head = f"- head: {config.head}" + (f", {config.num_classes} classes" if config.num_classes else "")
    return [f"- parameters: {count(model):,}, as {dtype}", *filter(None, stacks), *more, head]


def stack_line(name: str, stack: StackConfig | None) -> str:
    if stack is None:
        return ""
    inside = f"width {stack.d_model}, feed-forward {stack.d_ff}"
    return f"- {name}: {stack.num_layers} layers, {stack.num_heads} heads, {inside}"


def loading(layout: Layout | PairLayout, *, has_tokenizer: bool) -> list[str]:
    """How to load the model with Glassformer and with transformers, or why transformers cannot open it."""
    ours = ["import glassformer as gf", "", 'model = gf.load("path/to/this/folder")']
    ours += ['tokenizer = gf.load_tokenizer("path/to/this/folder")'] * has_tokenizer
    lines = ["## How to load it", "", "```python", *ours, "```", ""]
    if isinstance(layout, Layout) and layout.family is None:
        return [*lines, f"It opens with Glassformer only: {layout.reason}.", ""] if layout.reason else lines
    name = layout.values["architectures"][0]
    theirs = [f"from transformers import {name}", "", f'model = {name}.from_pretrained("path/to/this/folder")']
    return [*lines, "With transformers:", "", "```python", *theirs, "```", ""]
