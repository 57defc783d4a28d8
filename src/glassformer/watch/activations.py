"""The steps of a model that can be watched: their names, and the modules that compute them.

    {stack}.embed  .embed.positions  .placed  ...  .norm
    {stack}.blocks.{layer}.attn_norm  .attn.q  .attn.k  .attn.v  .attn.scores  .attn.mixed  .attn.out  .attn_residual
    the same with cross;  .ffn_norm  .ffn.up  .ffn.gate  .ffn.hidden  .ffn.down  .ffn_residual
    memory.project  memory.norm: the encoder's output, projected for the decoder
    head.project  head.norm  head.pooled  logits  loss

Names count layers, not stored blocks: a block that two layers share has two names. Read next: `listen.py`.
"""

from collections.abc import Iterator

from torch import nn

from glassformer.core.block import Block
from glassformer.core.heads import ClassHead, SpanHead
from glassformer.core.model import Transformer
from glassformer.core.stack import Stack


def stacks_of(model: nn.Module) -> list[tuple[str, Stack]]:
    """All stacks of a model, with the prefix of their names."""
    return [(f"{name}." if name else "", part) for name, part in model.named_modules() if isinstance(part, Stack)]


def attention_names(model: nn.Module) -> list[str]:
    """decoder.blocks.0.attn, decoder.blocks.0.cross, ...: the steps whose attention weights can be recorded."""
    return [
        f"{prefix}blocks.{layer}.{site}"
        for prefix, stack in stacks_of(model)
        for layer in range(stack.config.num_layers)
        for site in (("attn", "cross") if stack.cross else ("attn",))
    ]


def activation_names(model: nn.Module) -> list[str]:
    """The names of all other steps of this model."""
    names = []
    for prefix, stack in stacks_of(model):
        if isinstance(model, Transformer) and stack is model.decoder:
            names += [f"memory.{name}" for name, _ in bridge_outputs(model.memory)]
        names += [prefix + path for path, _ in parts_of_stack(stack) if path != "norm"]
        names += [f"{prefix}placed"]
        for layer in range(stack.config.num_layers):
            names += [f"{prefix}blocks.{layer}.{step}" for step in steps_of_block(stack.block_of(layer))]
        names += [f"{prefix}norm"] if is_real(stack.norm) else []
    if isinstance(model, Transformer):
        names += [f"head.{name}" for name, _ in bridge_outputs(model.head)]
        names += ["head.pooled"] if isinstance(model.head, ClassHead) else []
        names += head_outputs(model)
    return names


def head_outputs(model: Transformer) -> list[str]:
    """The names of logits and loss; none for a head without predictions."""
    if model.config.head in ("none", "pool"):
        return []
    return [*(("start_logits", "end_logits") if isinstance(model.head, SpanHead) else ("logits",)), "loss"]


def steps_of_block(block: nn.Module) -> Iterator[str]:
    """The step names of a block, in the order of computation."""
    assert isinstance(block, Block)
    modules = {path for path, _ in parts_of_block(block)}
    for site in ("attn", *(["cross"] if block.has_cross else [])):
        attention = (f"{site}.{step}" for step in ("q", "k", "v", "scores", "mixed", "out"))
        yield from before_or_after(block, site, modules, list(attention))
    ffn = [step for step in ("ffn.up", "ffn.gate", "ffn.hidden", "ffn.down") if step != "ffn.gate" or step in modules]
    if block.kind == "parallel":
        yield from ffn
    else:
        yield from before_or_after(block, "ffn", modules, ffn)


def before_or_after(block: Block, site: str, modules: set[str], branch: list[str]) -> Iterator[str]:
    norms = [name for name in (f"{site}_norm", f"{site}_post_norm") if name in modules]
    if block.norm_order == "post":
        yield from [*branch, *norms]
    else:
        yield from [*norms[:1], *branch, *norms[1:]]
    yield f"{site}_residual"


def is_real(module: nn.Module | None) -> bool:
    return module is not None and not isinstance(module, nn.Identity)


def parts_of_stack(stack: Stack) -> Iterator[tuple[str, nn.Module]]:
    for path in ("embed", "embed.positions", "embed.norm", "embed.project", "norm"):
        module = stack.embed if path == "embed" else stack.norm if path == "norm" else getattr(stack.embed, path[6:])
        if is_real(module):
            yield path, module


def parts_of_block(block: Block) -> Iterator[tuple[str, nn.Module]]:
    """The modules of a block whose output is a step: its norms, and layers of its branches."""
    for path, module in block.named_modules():
        is_norm = path.endswith("_norm") and "." not in path
        if is_real(module) and (is_norm or path in ("attn.out", "cross.out", "ffn.up", "ffn.gate", "ffn.down")):
            yield path, module


def bridge_outputs(outside: nn.Module | None) -> Iterator[tuple[str, nn.Module]]:
    """The modules of a head, or of the projection between the stacks, whose output is a step."""
    for name, module in outside.named_children() if outside is not None else ():
        if name in ("project", "norm") and is_real(module):
            yield name, module
