"""Where the norms of a block and of a stack are placed."""

import pytest
import torch
import torch.nn.functional as F
from helpers.parts import D, assert_same, randomised, stack_config

from glassformer.core.block import Block
from glassformer.core.norms import LayerNorm
from glassformer.core.stack import Stack

FORMULAS = {
    ("pre", "serial"): lambda x, n, attn, ffn: (y := x + attn(n["attn_norm"](x))) + ffn(n["ffn_norm"](y)),
    ("post", "serial"): lambda x, n, attn, ffn: n["ffn_norm"]((y := n["attn_norm"](x + attn(x))) + ffn(y)),
    ("sandwich", "serial"): lambda x, n, attn, ffn: (
        (y := x + n["attn_post_norm"](attn(n["attn_norm"](x)))) + n["ffn_post_norm"](ffn(n["ffn_norm"](y)))
    ),
    ("pre", "parallel"): lambda x, n, attn, ffn: x + attn(h := n["attn_norm"](x)) + ffn(h),
    ("sandwich", "parallel"): lambda x, n, attn, ffn: x + n["attn_post_norm"](attn(h := n["attn_norm"](x)) + ffn(h)),
}


@pytest.mark.parametrize(("norm_order", "block"), FORMULAS)
def test_where_the_norms_stand(norm_order, block):
    stack = randomised(Stack(stack_config(norm_order=norm_order, block=block, final_norm=False), causal=True))
    ours: Block = stack.blocks[0]
    x = torch.randn(2, 3, D)
    context = stack.context(x, *stack.counted(x, None, None, None, None), None, None, None)
    norms = {name: module for name, module in ours.named_children() if name.endswith("_norm")}

    expected = FORMULAS[norm_order, block](x, norms, lambda h: ours.attn(h, context, 0), ours.ffn)

    assert_same(ours(x, context, 0), expected)
    assert_same(stack(x), expected)


@pytest.mark.parametrize(("norm_order", "expected"), [("pre", True), ("sandwich", True), ("post", False)])
def test_the_final_norm_is_a_choice_of_its_own(norm_order, expected):
    assert isinstance(Stack(stack_config(norm_order=norm_order), causal=False).norm, LayerNorm) is expected
    without = randomised(Stack(stack_config(norm_order=norm_order, final_norm=False), causal=False))
    with_norm = Stack(stack_config(norm_order=norm_order, final_norm=True), causal=False)
    with_norm.load_state_dict({**without.state_dict(), "norm.weight": torch.ones(D), "norm.bias": torch.zeros(D)})
    x = torch.randn(2, 3, D)
    assert_same(with_norm(x), F.layer_norm(without(x), (D,)))
