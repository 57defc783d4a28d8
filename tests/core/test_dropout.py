"""Dropout is active at its sites, independently of each other, and nowhere else."""

import pytest
import torch
from helpers.parts import D, randomised, stack_config
from torch import nn

from glassformer.core.stack import Stack

SITES = {
    "self-attention weights": ("blocks.0.attn",),
    "cross-attention weights": ("blocks.0.cross",),
    "residual branches": ("blocks.0.dropout",),
    "hidden layer": ("blocks.0.ffn.dropout",),
    "embedding and position": ("embed.dropout",),
}


def stack_with_dropout_only_in(*names: str) -> Stack:
    """A stack with dropout 0.5 at these sites and 0 at all others."""
    stack = randomised(Stack(stack_config(dropout=0.5, activation="gelu"), causal=False, cross=True))
    for name, module in stack.named_modules():
        if name not in names and isinstance(module, nn.Dropout):
            module.p = 0.0
        elif name not in names and name.endswith(("attn", "cross")):
            module.dropout = 0.0
    return stack


@pytest.mark.parametrize("site", SITES)
def test_each_dropout_is_active_on_its_own(site):
    stack = stack_with_dropout_only_in(*SITES[site])
    x, memory = torch.randn(2, 6, D), torch.randn(2, 5, D)

    once, again = stack(x, memory=memory), stack(x, memory=memory)
    assert not torch.allclose(once, again, atol=1e-3)

    stack.eval()
    assert torch.equal(stack(x, memory=memory), stack(x, memory=memory))


def test_no_dropout_but_these_is_active():
    """With dropout 0 at every known site, or in the config, train and eval mode give the same output."""
    x, memory = torch.randn(2, 6, D), torch.randn(2, 5, D)
    for stack in (stack_with_dropout_only_in(), randomised(Stack(stack_config(), causal=False, cross=True))):
        assert torch.equal(stack.train()(x, memory=memory), stack.eval()(x, memory=memory))


@pytest.mark.parametrize("field", ["dropout", "attention_dropout", "ffn_dropout"])
def test_each_dropout_field_reaches_its_sites(field):
    zero = {"dropout": 0.0, "attention_dropout": 0.0, "ffn_dropout": 0.0}
    stack = Stack(stack_config(**{**zero, field: 0.5}), causal=False, cross=True)
    found = {
        "dropout": [stack.embed.dropout.p, stack.blocks[0].dropout.p],
        "attention_dropout": [stack.blocks[0].attn.dropout, stack.blocks[0].cross.dropout],
        "ffn_dropout": [stack.blocks[0].ffn.dropout.p],
    }
    assert found == {name: [0.5 if name == field else 0.0] * len(sites) for name, sites in found.items()}


def test_every_residual_branch_is_dropped():
    stack = stack_with_dropout_only_in("blocks.0.dropout")
    dropped = []
    stack.blocks[0].dropout.register_forward_hook(lambda _, given, output: dropped.append((given[0], output)))

    stack(torch.randn(2, 6, D), memory=torch.randn(2, 5, D))

    assert len(dropped) == 3  # attention, cross-attention, feed-forward
    for branch, output in dropped:
        assert ((output == 0) | torch.isclose(output, branch / 0.5)).all()
        assert 0 < (output == 0).float().mean() < 1


def test_attention_dropout_keeps_the_mean():
    """If all values are 1, the output is the sum of the weights that were not dropped: 1 on average."""
    stack = stack_with_dropout_only_in("blocks.0.attn")
    attention = stack.blocks[0].attn
    nn.init.zeros_(attention.v.weight)
    nn.init.ones_(attention.v.bias)
    mixed = []
    attention.out.register_forward_pre_hook(lambda _, given: mixed.append(given[0]))
    x = torch.randn(50, 20, D) / 10

    attention(x, stack.context(x, *stack.counted(x, None, None, None, None), x, None, None), layer=0)

    assert mixed[0].std() > 0.1
    assert abs(mixed[0].mean() - 1) < 0.02
