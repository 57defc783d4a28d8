"""Packs a model's weights for the kernels: a copy of the model whose linear layers use packed panels.

    packed[p, k, c] = W[p PANEL + c, k]        the last panel is filled with zeros

The copy shares everything else with the model, including embeddings and norms, and runs the same `forward`. With
int8, each output channel has its own scale (weights only: Dettmers et al., 2022, without their outliers):

    W[n, k] = scale[n] q[n, k],   q whole numbers within +-127,   scale[n] = max_k |W[n, k]| / 127
"""

import copy
from typing import Literal, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.core.model import Transformer
from glassformer.generation.kernels import load_kernels

Weights = Literal["float32", "int8"]
Module = TypeVar("Module", bound=nn.Module)


class PackedLinear(nn.Module):
    """y = x W^T + b by the kernel `linear`."""

    weight: Tensor
    scale: Tensor | None
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None, weights: Weights) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        weight, scale = quantised(weight) if weights == "int8" else (weight, None)
        self.register_buffer("weight", in_panels(weight))
        self.register_buffer("scale", scale)
        self.register_buffer("bias", bias)

    def forward(self, x: Tensor) -> Tensor:
        arguments = ([self.weight], [self.out_features], [self.scale], [self.bias])
        return torch.ops.glassformer.linear(x, *arguments)[0]


def quantised(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Whole numbers, and the scale of each output channel."""
    scale = weight.abs().amax(dim=1).clamp(min=torch.finfo(torch.float32).tiny) / 127  # (N)
    return (weight / scale[:, None]).round().to(torch.int8), scale  # (N, K), (N)


def in_panels(weight: Tensor) -> Tensor:
    """(N, K) -> (panels, K, PANEL)."""
    panel = torch.ops.glassformer.panel()
    weight = F.pad(weight, (0, 0, 0, -len(weight) % panel))
    return weight.unflatten(0, (-1, panel)).transpose(1, 2).contiguous()


@torch.no_grad()
def packed(model: Transformer, weights: Weights = "float32") -> Transformer:
    """The packed copy of a float32 model on the CPU. Linear layers that share a weight share its packed version."""
    load_kernels()
    known = dict[tuple[int, int | None], PackedLinear]()

    def replace(module: nn.Module) -> None:
        for name, child in module.named_children():
            if isinstance(child, nn.Linear):
                key = (id(child.weight), None if child.bias is None else id(child.bias))
                if key not in known:
                    known[key] = PackedLinear(child.weight.detach(), child.bias, weights)
                module._modules[name] = known[key]
            else:
                replace(child)

    made = module_copy(model)
    replace(made)
    return made.eval()


def module_copy(module: Module) -> Module:
    """A copy of the modules over the same parameters, without hooks."""
    new = copy.copy(module)
    new._parameters, new._buffers = dict(module._parameters), dict(module._buffers)
    new._forward_hooks, new._forward_pre_hooks = type(module._forward_hooks)(), type(module._forward_pre_hooks)()
    new._modules = {name: None if child is None else module_copy(child) for name, child in module._modules.items()}
    return new
