"""The subject of a walkthrough: one layer, head and token of a recorded forward pass.

Steps are named as in `watch/activations.py`. Read next: `attention_equations.py`.
"""

from dataclasses import dataclass

from torch import Tensor, nn

from glassformer.core.block import Block
from glassformer.core.model import Transformer
from glassformer.core.norms import LayerNorm, RMSNorm
from glassformer.core.stack import Stack
from glassformer.inspect.steps.step import SourceLine, step_of
from glassformer.inspect.walk.equations import Equation, Numbers, Worked, numbers, products
from glassformer.watch.record import Record


@dataclass(frozen=True)
class RecordedPass:
    """The model, the recorded values, and the chosen layer, head and token."""

    model: Transformer
    seen: Record
    stack: Stack
    name: str  # encoder or decoder
    site: str  # attn or cross
    layer: int
    head: int
    row: int  # position in the stack
    before: int  # number of source rows before the stack's own tokens
    reads: Tensor  # ids of the stack's own tokens (T), or its image (C, Y, X)
    keys: list[str]  # names of the keys
    memory: Tensor | None  # (S, D)

    @property
    def block(self) -> Block:
        block = self.stack.block_of(self.layer)
        assert isinstance(block, Block)
        return block

    @property
    def token(self) -> int:
        """The index of the row among the stack's own tokens."""
        return self.row - self.before

    def at(self, step: str) -> str:
        return f"{self.name}.blocks.{self.layer}.{step}"

    def vector(self, name: str) -> Tensor:
        """The recorded value of this token: (D), or (H, K) if it is split into heads."""
        value, row = self.seen[name][0], self.token if name.startswith(f"{self.name}.embed") else self.row
        return value[row] if value.ndim == 2 else value[:, row]

    def equation(
        self,
        name: str,
        title: str,
        rows: list[Numbers | Worked],
        *,
        made: SourceLine | None = None,
        said: str | None = None,
    ) -> Equation:
        step = step_of(name, self.model.config)
        return Equation(name, title, said or step.equation, step.english, step.korean, made or step.place, rows)


def output_of(scene: RecordedPass, layer: int) -> str:
    return f"{scene.name}.blocks.{layer}.{'attn' if scene.block.kind == 'parallel' else 'ffn'}_residual"


def stream_before(scene: RecordedPass, site: str) -> str:
    """The step that holds the residual stream before a branch is added."""
    if site == "cross" or (site == "ffn" and not scene.block.has_cross):
        return scene.at("attn_residual")
    if site == "ffn":
        return scene.at("cross_residual")
    return f"{scene.name}.placed" if scene.layer == 0 else output_of(scene, scene.layer - 1)


def read_by(scene: RecordedPass, site: str) -> str:
    """The step that a branch reads: its norm, or the residual stream if the norm comes after."""
    site = "attn" if scene.block.kind == "parallel" else site
    normed = scene.at(f"{site}_norm")
    if scene.block.norm_order != "post" and normed in scene.seen:
        return normed
    return stream_before(scene, site)


def norm_rows(norm: nn.Module, x: Tensor, y: Tensor) -> list[Numbers | Worked]:
    """Mean and variance, and the first dimension worked out."""
    assert isinstance(norm, LayerNorm | RMSNorm)
    wide, eps = x.double(), norm.eps
    weight, bias = norm.weight, getattr(norm, "bias", None)
    if isinstance(norm, RMSNorm):
        size = float(wide.square().mean())
        scaled = "(1 + {})" if norm.offset else "{}"
        values, template = [float(x[0]), size, eps, float(weight[0])], f"{{}} / sqrt({{}} + {{}}) * {scaled}"
        rows: list[Numbers | Worked] = [numbers("mean(x^2)", size)]
    else:
        mean, variance = float(wide.mean()), float(wide.var(correction=0))
        values, template = [float(x[0]), mean, variance, eps, float(weight[0])], "({} - {}) / sqrt({} + {}) * {}"
        rows = [numbers("mean(x)", mean), numbers("var(x)", variance)]
    if bias is not None:
        values, template = [*values, float(bias[0])], f"{template} + {{}}"
    return [*rows, Worked("y[0]", template, values, float(y[0])), numbers("y", y)]


def row_of_layer(name: str, layer: nn.Module, unit: int, x: Tensor, y: Tensor) -> Worked:
    """One output of a linear layer: x . W[unit] + b[unit]. `y` is its output from that unit on."""
    assert isinstance(layer, nn.Linear)
    added = [] if layer.bias is None else [float(layer.bias[unit])]
    return products(name, x, layer.weight[unit], float(y[0]), added=added)
