"""Position encodings agree with those of T5, BLOOM, LLaMA and GPT-NeoX in transformers."""

import pytest
import torch
from helpers.parts import D, assert_same, randomised, stack_config
from transformers import GPTNeoXConfig, LlamaConfig
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.gpt_neox import modeling_gpt_neox
from transformers.models.llama import modeling_llama
from transformers.models.t5.modeling_t5 import T5Attention

import glassformer as gf
from glassformer.config import RotaryScaling
from glassformer.core.positions import Alibi, RelativeBias, Rotary, alibi_slopes, rotate


@pytest.mark.parametrize("causal", [False, True], ids=["encoder", "decoder"])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (8, 20), (4, 3), (10, 50)])
def test_relative_buckets_are_t5s(causal, buckets, max_distance):
    config = stack_config(positions="relative", relative_buckets=buckets, relative_max_distance=max_distance)
    distance = torch.arange(-300, 301)

    ours = RelativeBias(config, causal).bucket(distance)

    theirs = T5Attention._relative_position_bucket(
        distance, bidirectional=not causal, num_buckets=buckets, max_distance=max_distance
    )
    assert torch.equal(ours, theirs)


def test_relative_bias_is_the_table_at_the_bucket():
    bias = randomised(
        RelativeBias(stack_config(num_heads=2, relative_buckets=8, relative_max_distance=20), causal=False)
    )
    queries, keys = torch.tensor([[3, 7]]), torch.tensor([[0, 5, 30]])

    added = bias(queries, keys)

    assert added.shape == (1, 2, 2, 3)
    for i, query in enumerate(queries[0]):
        for j, key in enumerate(keys[0]):
            bucket = T5Attention._relative_position_bucket(key - query, num_buckets=8, max_distance=20)
            assert torch.equal(added[0, :, i, j], bias.weight[bucket])


def test_alibi_slopes_are_the_papers():
    assert alibi_slopes(8).tolist() == [2.0**-n for n in range(1, 9)]
    between = [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]
    assert_same(alibi_slopes(12), torch.tensor([2.0**-n for n in range(1, 9)] + between))


@pytest.mark.parametrize("num_heads", [1, 2, 3, 6, 8, 12, 16])
def test_alibi_is_blooms(num_heads):
    """Theirs is slope times key position. It differs from ours by a constant per query, which softmax cancels."""
    theirs = build_alibi_tensor(torch.ones(1, 5), num_heads, torch.float32).view(1, num_heads, 1, 5)
    position = torch.arange(5)[None]

    ours = Alibi(stack_config(d_model=num_heads, num_heads=num_heads))(position, position)

    later = torch.ones(5, 5, dtype=torch.bool).triu(1)
    weights = ours.masked_fill(later, -torch.inf).softmax(-1)
    assert_same(weights, theirs.expand_as(ours).masked_fill(later, -torch.inf).softmax(-1))
    assert_same(ours, ours.transpose(2, 3))  # symmetric: an encoder penalises distance on both sides


@pytest.mark.parametrize(("base", "factor"), [(10_000.0, 1.0), (500.0, 1.0), (10_000.0, 4.0)])
def test_rotary_is_llamas(base, factor):
    rope = {"rope_type": "default" if factor == 1 else "linear", "rope_theta": base, "factor": factor}
    if factor == 1:
        del rope["factor"]
    theirs = modeling_llama.LlamaRotaryEmbedding(
        LlamaConfig(hidden_size=2 * D, num_attention_heads=2, rope_parameters=rope)
    )
    ours = Rotary(
        stack_config(positions="rotary", head_dim=D),
        gf.LayerKind(rotary_base=base, rotary_scaling=RotaryScaling(type="linear", factor=factor)),
    )
    q, k = torch.randn(2, 3, 5, D), torch.randn(2, 1, 5, D)
    positions = torch.tensor([[0, 1, 2, 3, 4], [7, 9, 40, 41, 300]])

    expected = modeling_llama.apply_rotary_pos_emb(q, k, *theirs(q, positions))

    rotation = ours(positions, 301)
    assert_same(rotate(q, rotation), expected[0])
    assert_same(rotate(k, rotation), expected[1])


@pytest.mark.parametrize("fraction", [0.25, 0.5])
def test_partial_rotary_is_gpt_neoxs(fraction):
    rope = {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": fraction}
    theirs = modeling_gpt_neox.GPTNeoXRotaryEmbedding(
        GPTNeoXConfig(hidden_size=32, num_attention_heads=2, rope_parameters=rope)
    )
    config = stack_config(positions="rotary", head_dim=16, rotary_fraction=fraction)
    q, k = torch.randn(2, 3, 5, 16), torch.randn(2, 1, 5, 16)
    positions = torch.tensor([[0, 1, 2, 3, 4], [7, 9, 40, 41, 300]])

    expected = modeling_gpt_neox.apply_rotary_pos_emb(q, k, *theirs(q, positions))

    rotation = Rotary(config, gf.LayerKind())(positions, 64)
    assert_same(rotate(q, rotation), expected[0])
    assert_same(rotate(k, rotation), expected[1])
    assert torch.equal(rotate(q, rotation)[..., config.rotary_dim :], q[..., config.rotary_dim :])
