"""The model card: a `README.md` beside the weights, for the hub's readers and for whoever finds the folder.

It says what the model is and how to load it. One that somebody else wrote is never replaced.
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

# What the hub calls what a head does.
PIPELINE_TAGS = {
    "class": "text-classification",
    "token": "token-classification",
    "span": "question-answering",
    "forecast": "time-series-forecasting",
}


def is_ours(file: Path) -> bool:
    """Whether a card is as `save` wrote it, and may be written anew."""
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
    """The hub's name for what a model does, by its head and what it reads."""
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
        more = [f"- vocabularies: {config.vocab_size:,} tokens, and {config.target_vocab_size:,} of the target"]
    if config.image:
        more.append(f"- images: {config.image.size} pixels to a side, in patches of {config.image.patch}")
    if config.series:
        more.append(f"- series: {config.series.length} values, of which {config.series.horizon} more are predicted")
    head = f"- head: {config.head}" + (f", {config.num_classes} classes" if config.num_classes else "")
    return [f"- parameters: {count(model):,}, as {dtype}", *filter(None, stacks), *more, head]


def stack_line(name: str, stack: StackConfig | None) -> str:
    if stack is None:
        return ""
    inside = f"width {stack.d_model}, feed-forward {stack.d_ff}"
    return f"- {name}: {stack.num_layers} layers, {stack.num_heads} heads, {inside}"


def loading(layout: Layout | PairLayout, *, has_tokenizer: bool) -> list[str]:
    """How to load it, here and with transformers; or why it does not open there."""
    ours = ["import glassformer as gf", "", 'model = gf.load("path/to/this/folder")']
    ours += ['tokenizer = gf.load_tokenizer("path/to/this/folder")'] * has_tokenizer
    lines = ["## Loading it", "", "```python", *ours, "```", ""]
    if isinstance(layout, Layout) and layout.family is None:
        return [*lines, f"It opens with Glassformer only: {layout.reason}.", ""] if layout.reason else lines
    name = layout.values["architectures"][0]
    theirs = [f"from transformers import {name}", "", f'model = {name}.from_pretrained("path/to/this/folder")']
    return [*lines, "With transformers:", "", "```python", *theirs, "```", ""]
