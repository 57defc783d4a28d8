"""Optimisers: Adam (Kingma & Ba, 2015), AdamW (Loshchilov & Hutter, 2019), and Muon (Jordan et al., 2024)."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from glassformer.training.settings import TrainSettings

# Quintic iteration that drives singular values towards 1, five steps; Jordan's coefficients.
QUINTIC, ROUNDS = (3.4445, -4.7750, 2.0315), 5
MOMENTUM = 0.95


def make_optimizers(model: nn.Module, settings: TrainSettings) -> list[torch.optim.Optimizer]:
    """One optimiser, or two with Muon: for the matrices inside the blocks, and for the rest. The loop sets their
    learning rate at each step."""
    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    inside = {
        name for name, parameter in named if settings.optimizer == "muon" and ".blocks." in name and parameter.ndim == 2
    }
    rest = [(name, parameter) for name, parameter in named if name not in inside]
    decay = 0.0 if settings.optimizer == "adam" else settings.weight_decay
    groups = [
        {"params": [p for _, p in rest if p.ndim >= 2], "weight_decay": decay},
        {"params": [p for _, p in rest if p.ndim < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    optimizers: list[torch.optim.Optimizer] = []
    if inside:
        optimizers.append(Muon([p for name, p in named if name in inside], weight_decay=settings.weight_decay))
    if groups:
        betas = (settings.beta1, settings.beta2)
        optimizers.append(torch.optim.AdamW(groups, betas=betas, eps=1e-9, fused=True))
    return optimizers


class Muon(torch.optim.Optimizer):
    """W <- W - rate 0.2 sqrt(max(rows, columns)) orthogonal(momentum of the gradient).

    The factor matches the size of Adam's updates (Liu et al., 2025), so that one learning rate serves both. PyTorch's
    Muon orthogonalises in bfloat16, which is a hundred times slower on a CPU without bfloat16 support; here it uses
    float32 there.
    """

    def __init__(self, parameters: Iterable[Tensor], *, weight_decay: float, lr: float = 0.0) -> None:
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            alike: dict[torch.Size, list[tuple[Tensor, Tensor]]] = {}
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(parameter)
                momentum = state["momentum"].mul_(MOMENTUM).add_(parameter.grad)
                direction = parameter.grad + MOMENTUM * momentum  # Nesterov momentum
                alike.setdefault(parameter.shape, []).append((parameter, direction))
            for (rows, columns), members in alike.items():
                # Matrices of one shape are orthogonalised together: few large products instead of many small ones.
                stacked = torch.stack([gather_matrix(direction) for _, direction in members])  # (n, rows, columns)
                size = group["lr"] * 0.2 * max(rows, columns) ** 0.5
                for (parameter, _), update in zip(members, orthogonal(stacked), strict=True):
                    parameter.mul_(1 - group["lr"] * group["weight_decay"])
                    parameter.add_(sharded_like(update, parameter), alpha=-size)


def orthogonal(matrices: Tensor) -> Tensor:
    """The nearest matrices with singular values of about 1, by Newton-Schulz iteration."""
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.to(torch.bfloat16) if matrices.is_cuda else matrices
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    a, b, c = QUINTIC
    for _ in range(ROUNDS):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return (x.mT if tall else x).to(matrices.dtype)


def gather_matrix(tensor: Tensor) -> Tensor:
    """Gathers a matrix that is sharded across processes; returns others unchanged."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def sharded_like(tensor: Tensor, model: Tensor) -> Tensor:
    """The inverse: the shard of this process."""
    if isinstance(model, DTensor):
        return distribute_tensor(tensor, model.device_mesh, model.placements)
    return tensor
