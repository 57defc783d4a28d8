"""Where a model's parameters are. A table that is shared counts once, as a part of its own; the shares add up to 1."""

from dataclasses import dataclass

from torch import nn

from glassformer.core.model import Transformer


@dataclass(frozen=True)
class Share:
    """One part of a model, how many parameters it has, and which part of all that is."""

    part: str
    parameters: int
    share: float


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def shares(model: Transformer) -> list[Share]:
    """The parameters by stack and kind, in the order of the model."""
    sites: dict[nn.Parameter, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        sites.setdefault(parameter, []).append(name)
    counts: dict[str, int] = {}
    for parameter, names in sites.items():
        part = _part(names[0]) if len(names) == 1 else "shared embedding"
        counts[part] = counts.get(part, 0) + parameter.numel()
    total = sum(counts.values())
    return [Share(part, number, number / total) for part, number in counts.items()]


def _part(name: str) -> str:
    """encoder.blocks.3.attn.q.weight -> encoder attention"""
    words = name.split(".")
    if "blocks" not in words:
        kind = {"embed": "embedding", "norm": "final norm", "position_bias": "position bias"}.get(words[1], "")
        return f"{words[0]} {kind}".strip()
    kinds = {"attn": "self-attention", "cross": "cross-attention", "ffn": "feed-forward"}
    return f"{words[0]} {kinds.get(words[3], 'norms')}"
