"""Maps a module to the step that its parameters and its cost belong to.

Modules are named by stored block, steps by layer. The two differ where several layers share a block.
"""

from torch import nn

from glassformer.core.model import Transformer
from glassformer.core.stack import Stack
from glassformer.watch.names import StepName

# Modules whose step has another name, by the end of their path.
WITHIN = {
    "embed.tokens": "embed",
    "embed.patches": "embed",
    "embed.class_token": "embed",
    "embed.distillation_token": "embed",
    "embed.segments": "placed",
    "position_bias": "blocks.0.attn.scores",
    "q_norm": "q",
    "k_norm": "k",
    "head.query": "head.pooled",
    "head.out": "logits",
    "head.second": "logits",
}
ANSWERS = {"span": "start_logits", "pool": "head.pooled"}  # the step that the last layer of these heads computes


def step_of_module(path: str, head: str) -> str:
    """encoder.embed.tokens -> encoder.embed: the step that a module or a bare parameter belongs to."""
    path = path.partition(".stem.")[0]  # the convolutions before the patches
    for end, step in WITHIN.items():
        if path == end or path.endswith(f".{end}"):
            return path.removesuffix(end) + (ANSWERS.get(head, step) if step == "logits" else step)
    return path


def of_layer(path: str, layer: int) -> str:
    """decoder.blocks.0.ffn.up -> decoder.blocks.7.ffn.up, where layer 7 applies the stored block 0."""
    name = StepName.parse(path)
    return path if name.layer is None else str(name._replace(layer=layer))


def parameters_by_step(model: Transformer, steps: list[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Two counts by step: parameters that it uses first, and parameters that an earlier step has already used."""
    users: dict[nn.Parameter, set[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        module = name if name.endswith("_token") else name.rpartition(".")[0]
        for path in applied(module, model):
            users.setdefault(parameter, set()).add(step_of_module(path, model.config.head))
    place = {step: i for i, step in enumerate(steps)}
    counted: dict[str, int] = {}
    shared: dict[str, int] = {}
    for parameter, names in users.items():
        first, *later = sorted(names, key=place.__getitem__)
        counted[first] = counted.get(first, 0) + parameter.numel()
        for step in later:
            shared[step] = shared.get(step, 0) + parameter.numel()
    return counted, shared


def applied(path: str, model: Transformer) -> list[str]:
    """The path of a module in every layer that applies its block; outside the blocks, the path itself."""
    name = StepName.parse(path)
    if name.layer is None:
        return [path]
    stack = model.get_submodule(name.stack)
    assert isinstance(stack, Stack)
    block = stack.blocks[name.layer]
    return [str(name._replace(layer=i)) for i in range(stack.config.num_layers) if stack.block_of(i) is block]
