"""Small single layers of the core, with random weights that hide no missing term."""

import torch
from torch import Tensor, nn

import glassformer as gf
from glassformer.core.attention import Attention

D = 8
KEEP = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1]], dtype=torch.bool)


def stack_config(**choices) -> gf.StackConfig:
    return gf.StackConfig(**{"d_model": D, "num_layers": 1, "num_heads": 2, "positions": "none", **choices})


def randomised(module: nn.Module):
    """Random biases and norms: a 0 or 1 could hide a missing term."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


def assert_same(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def cut_out(attention: Attention, head: int) -> None:
    """Silences a head: sets its columns of the output matrix to 0."""
    columns = slice(head * attention.head_dim, (head + 1) * attention.head_dim)
    attention.out.weight[:, columns] = 0.0
