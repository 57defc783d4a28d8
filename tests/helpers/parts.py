"""One layer of the core, small, with weights that hide nothing."""

import torch
from torch import Tensor, nn

import glassformer as gf
from glassformer.core.attention import Attention

D = 8
KEEP = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1]], dtype=torch.bool)


def stack_config(**choices) -> gf.StackConfig:
    return gf.StackConfig(**{"d_model": D, "num_layers": 1, "num_heads": 2, "positions": "none", **choices})


def randomised(module: nn.Module):
    """No bias at 0, no norm at 1: nothing that a missing term could hide behind."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


def assert_same(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def cut_out(attention: Attention, head: int) -> None:
    """A head that adds nothing: its columns of the output matrix are 0."""
    columns = slice(head * attention.head_dim, (head + 1) * attention.head_dim)
    attention.out.weight[:, columns] = 0.0
