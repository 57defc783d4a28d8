"""Each part of the core by itself, against somebody else's code or the formula written out."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import GPTNeoXConfig, LlamaConfig
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.gpt_neox import modeling_gpt_neox
from transformers.models.llama import modeling_llama
from transformers.models.t5.modeling_t5 import T5Attention

import glassformer as gf
from glassformer.config import RotaryScaling
from glassformer.core.block import Block
from glassformer.core.embeddings import PatchEmbedding, SeriesEmbedding, TokenEmbedding
from glassformer.core.feedforward import FeedForward
from glassformer.core.heads import ClassHead, ForecastHead, LanguageHead
from glassformer.core.norms import LayerNorm, RMSNorm
from glassformer.core.positions import Alibi, RelativeBias, Rotary, alibi_slopes, rotate, sinusoids
from glassformer.core.stack import Stack

pytestmark = pytest.mark.usefixtures("one_thread")

D = 8


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def stack_config(**choices) -> gf.StackConfig:
    return gf.StackConfig(**{"d_model": D, "num_layers": 1, "num_heads": 2, "positions": "none", **choices})


def randomised(module: nn.Module):
    """No bias at 0, no norm at 1: nothing that a missing term could hide behind."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


def assert_same(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


# --- norms and feed-forward -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (LayerNorm(D, eps=1e-3), nn.LayerNorm(D, eps=1e-3)),
        (LayerNorm(D, eps=1e-3, bias=False), nn.LayerNorm(D, eps=1e-3, bias=False)),
        (RMSNorm(D, eps=1e-3), nn.RMSNorm(D, eps=1e-3)),
    ],
    ids=["LayerNorm", "LayerNorm without bias", "RMSNorm"],
)
def test_norms_are_pytorchs(ours, theirs):
    theirs.load_state_dict(randomised(ours).state_dict())
    x, y = (torch.arange(6.0 * D).sin().view(2, 3, D).requires_grad_() for _ in range(2))
    wanted = torch.randn(2, 3, D)

    for norm, given in ((ours, x), (theirs, y)):
        (norm(given) * wanted).sum().backward()

    assert_same(ours(x), theirs(y))
    assert_same(x.grad, y.grad)
    for name, parameter in ours.named_parameters():
        assert_same(parameter.grad, theirs.get_parameter(name).grad)


def test_rms_norm_takes_the_mean_in_float32():
    x = torch.full((1, D), 300.0, dtype=torch.float16)  # its square is past the end of float16
    assert_same(RMSNorm(D, eps=1e-6).half()(x), torch.ones_like(x))


ACTIVATIONS = {
    "relu": nn.ReLU(),
    "gelu": nn.GELU(),
    "gelu_tanh": nn.GELU(approximate="tanh"),
    "silu": nn.SiLU(),
    "relu_squared": lambda x: x.clamp(min=0) ** 2,
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("gated", [False, True], ids=["plain", "gated"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_feed_forward(activation, gated, bias):
    ffn = randomised(FeedForward(stack_config(activation=activation, gated=gated, ffn_bias=bias, d_ff=11)))
    weights = dict(ffn.named_parameters())

    def linear(name: str, x: Tensor) -> Tensor:
        return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0)

    x = torch.randn(2, 3, D)
    act = ACTIVATIONS[activation]
    hidden = act(linear("gate", x)) * linear("up", x) if gated else act(linear("up", x))
    assert_same(ffn(x), linear("down", hidden))


# --- positions --------------------------------------------------------------------------------------------------------


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
    """Theirs is a slope times the key's position: a constant per query away from ours, which no softmax sees."""
    theirs = build_alibi_tensor(torch.ones(1, 5), num_heads, torch.float32).view(1, num_heads, 1, 5)
    position = torch.arange(5)[None]

    ours = Alibi(stack_config(d_model=num_heads, num_heads=num_heads))(position, position)

    later = torch.ones(5, 5, dtype=torch.bool).triu(1)
    weights = ours.masked_fill(later, -torch.inf).softmax(-1)
    assert_same(weights, theirs.expand_as(ours).masked_fill(later, -torch.inf).softmax(-1))
    assert_same(ours, ours.transpose(2, 3))  # an encoder forgets to both sides alike


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


# --- embeddings -------------------------------------------------------------------------------------------------------


def test_token_embedding_scales_adds_norms_and_projects():
    config = stack_config(positions="sinusoidal")
    embed = randomised(TokenEmbedding(config, 11, width=5, scale=3.0, num_segments=2, norm=True))
    ids, segments, positions = torch.randint(0, 11, (2, 4)), torch.randint(0, 2, (2, 4)), torch.tensor([[0, 1, 2, 3]])

    placed = embed.place(embed(ids), positions, 4, segments)

    summed = 3.0 * embed.tokens.weight[ids] + embed.segments.weight[segments] + sinusoids(4, 5).float()
    normed = F.layer_norm(summed, (5,), embed.norm.weight, embed.norm.bias)
    assert_same(placed, F.linear(normed, embed.project.weight, embed.project.bias))


def test_segments_left_out_are_all_the_first():
    embed = randomised(TokenEmbedding(stack_config(), 11, num_segments=2))
    x, positions = torch.randn(2, 4, D), torch.arange(4)[None]
    zeros = torch.zeros(2, 4, dtype=torch.long)
    assert torch.equal(embed.place(x, positions, 4), embed.place(x, positions, 4, zeros))
    assert not torch.allclose(embed.place(x, positions, 4), embed.place(x, positions, 4, zeros + 1))


@pytest.mark.parametrize("class_token", [True, False], ids=["class token", "no class token"])
def test_an_image_is_cut_row_by_row(class_token):
    image = gf.ImageConfig(size=6, patch=2, channels=3, class_token=class_token)
    embed = randomised(PatchEmbedding(stack_config(), image))
    pixels = torch.randn(2, 3, 6, 6)

    x = embed(pixels)

    cut = [pixels[:, :, i : i + 2, j : j + 2].flatten(1) for i in (0, 2, 4) for j in (0, 2, 4)]
    expected = [F.linear(patch, embed.patches.weight.flatten(1), embed.patches.bias) for patch in cut]
    if class_token:
        expected.insert(0, embed.class_token[0].expand(2, -1))
    assert x.shape[1] == image.num_tokens
    assert_same(x, torch.stack(expected, dim=1))


@pytest.mark.parametrize(
    ("length", "patch", "stride", "starts"),
    [(12, 4, None, [0, 4, 8]), (12, 4, 2, [0, 2, 4, 6, 8]), (11, 4, 3, [1, 4, 7]), (9, 2, 4, [3, 7]), (5, 5, 1, [0])],
)
def test_a_series_is_cut_so_that_its_newest_value_is_in_the_last_patch(length, patch, stride, starts):
    series = gf.SeriesConfig(length=length, patch=patch, stride=stride)
    embed = randomised(SeriesEmbedding(stack_config(), series))
    values = torch.randn(2, length, 3)

    x = embed(values)

    assert x.shape == (2 * 3, series.num_tokens, D)
    for row in range(2):
        for channel in range(3):
            cut = torch.stack([values[row, start : start + patch, channel] for start in starts])
            expected = F.linear(cut, embed.patches.weight, embed.patches.bias)
            assert_same(x[row * 3 + channel], expected)


# --- attention and block ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_qk_norm_is_a_norm_of_each_head(norm):
    stack = randomised(Stack(stack_config(qk_norm=True, norm=norm), causal=False))
    attention = stack.blocks[0].attn
    x = torch.randn(2, 3, D)
    theirs = {"layer": F.layer_norm, "rms": F.rms_norm}[norm]

    def heads(layer: nn.Linear, normed_by: nn.Module | None = None) -> Tensor:
        y = layer(x).view(2, 3, 2, D // 2)
        return y if normed_by is None else theirs(y, (D // 2,), **dict(normed_by.named_parameters()), eps=1e-5)

    q, k, v = heads(attention.q, attention.q_norm), heads(attention.k, attention.k_norm), heads(attention.v)
    weights = (torch.einsum("bthk,bshk->bhts", q, k) / (D // 2) ** 0.5).softmax(-1)
    mixed = torch.einsum("bhts,bshk->bthk", weights, v).flatten(2)
    assert_same(
        attention(x, stack.context(x, *stack.counted(x, None, None, None, None), None, None, None), layer=0),
        attention.out(mixed),
    )


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


# --- dropout ----------------------------------------------------------------------------------------------------------

SITES = {
    "self-attention weights": ("blocks.0.attn",),
    "cross-attention weights": ("blocks.0.cross",),
    "residual branches": ("blocks.0.dropout",),
    "hidden layer": ("blocks.0.ffn.dropout",),
    "embedding and position": ("embed.dropout",),
}


def stack_with_dropout_only_in(*names: str) -> Stack:
    """All sites at 0.5 by the config, then all but these silenced."""
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
    """With every known site silenced, and with dropout at 0, training and evaluation are the same."""
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
    """Values all 1: what attention mixes is the sum of the weights that are left, 1 on average."""
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


# --- heads ------------------------------------------------------------------------------------------------------------


def class_head(pooling, dropout=0.0):
    config = gf.TransformerConfig(
        encoder=stack_config(dropout=dropout), vocab_size=7, head="class", num_classes=5, pooling=pooling
    )
    return ClassHead(config)


KEEP = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1]], dtype=torch.bool)


@pytest.mark.parametrize("pooling", ["first", "mean", "max", "attention"])
@pytest.mark.parametrize("keep", [KEEP, None], ids=["padded", "unpadded"])
def test_pooling_reads_the_tokens_and_no_padding(pooling, keep):
    head = randomised(class_head(pooling))
    x = torch.randn(3, 4, D) - 2  # mostly negative, so that a maximum over zeroed padding would show

    logits, pooled = head(x, keep)

    for i in range(3):
        tokens = x[i] if keep is None else x[i, keep[i]]
        expected = {
            "first": lambda tokens: tokens[0],
            "mean": lambda tokens: tokens.mean(0),
            "max": lambda tokens: tokens.max(0).values,
            "attention": lambda tokens: head.query(tokens).softmax(0).T[0] @ tokens,
        }[pooling](tokens)
        assert_same(pooled[i], expected)
        assert_same(logits[i], F.linear(expected, head.out.weight, head.out.bias))


@pytest.mark.parametrize("pooling", ["first", "mean", "max", "attention"])
def test_pooling_a_sequence_of_padding_alone_stays_finite(pooling):
    head = randomised(class_head(pooling))
    x = torch.randn(2, 4, D, requires_grad=True)
    keep = torch.tensor([[True] * 4, [False] * 4])

    logits, pooled = head(x, keep)
    logits.sum().backward()

    assert pooled.isfinite().all()
    assert logits.isfinite().all()
    assert x.grad.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in head.parameters())


def test_class_dropout_is_before_the_scores():
    head = randomised(class_head("mean", dropout=0.5))
    x = torch.randn(2, 4, D)
    (once, pooled), (again, pooled_again) = head(x), head(x)
    assert not torch.allclose(once, again)
    assert torch.equal(pooled, pooled_again)
    head.eval()
    assert torch.equal(head(x)[0], head(x)[0])


def test_a_forecast_is_made_from_all_patches_of_its_own_channel():
    series = gf.SeriesConfig(length=8, patch=2, horizon=3)
    head = randomised(ForecastHead(D, series, 0.0))
    x = torch.randn(2 * 5, series.num_tokens, D)

    future = head(x, channels=5)

    assert future.shape == (2, 3, 5)
    for row in range(2):
        for channel in range(5):
            expected = F.linear(x[row * 5 + channel].flatten(), head.out.weight, head.out.bias)
            assert_same(future[row, :, channel], expected)


def test_channels_of_a_series_do_not_mix():
    model = gf.Transformer(
        gf.TransformerConfig(
            encoder=stack_config(), series=gf.SeriesConfig(length=8, patch=2, horizon=3), head="forecast"
        )
    )
    past = torch.randn(2, 8, 3)
    other = past.clone()
    other[:, :, 1] = torch.randn(2, 8)

    before, after = model(past_values=past).logits, model(past_values=other).logits

    assert_same(after[:, :, [0, 2]], before[:, :, [0, 2]])
    assert not torch.allclose(after[:, :, 1], before[:, :, 1])


def test_a_series_is_classified_by_all_its_channels():
    config = gf.TransformerConfig(
        encoder=stack_config(), series=gf.SeriesConfig(length=8, patch=2), head="class", num_classes=4, pooling="mean"
    )
    output = gf.Transformer(config)(past_values=torch.randn(2, 8, 3))

    assert output.logits.shape == (2, 4)
    assert_same(output.pooled, output.last_hidden_state.view(2, 3 * 4, D).mean(1))


# --- the whole model: tying, losses, initialisation -------------------------------------------------------------------


def test_one_vocabulary_is_one_table():
    model = gf.Transformer(gf.TransformerConfig(encoder=stack_config(), decoder=stack_config(), vocab_size=11))
    table = model.decoder.embed.tokens.weight
    assert model.encoder.embed.tokens.weight is table
    assert model.head.out.weight is table
    assert sum(parameter is table for parameter in model.parameters()) == 1
    model.double()
    assert model.encoder.embed.tokens.weight.data_ptr() == model.head.out.weight.data_ptr()


def test_of_two_vocabularies_the_target_is_tied():
    config = gf.TransformerConfig(encoder=stack_config(), decoder=stack_config(), vocab_size=11, target_vocab_size=7)
    model = gf.Transformer(config)
    assert model.head.out.weight is model.decoder.embed.tokens.weight
    assert model.head.out.weight.shape == (7, D)
    assert model.encoder.embed.tokens.weight.shape == (11, D)


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_a_stack_alone_ties_its_head(stack):
    model = gf.Transformer(gf.TransformerConfig(**{stack: stack_config()}, vocab_size=11))
    assert model.head.out.weight is getattr(model, stack).embed.tokens.weight


def test_untied_heads_are_their_own():
    config = gf.TransformerConfig(
        encoder=stack_config(), decoder=stack_config(), vocab_size=11, tie_embeddings=False, head_bias=True
    )
    model = gf.Transformer(config)
    assert model.head.out.weight is not model.decoder.embed.tokens.weight
    assert model.encoder.embed.tokens.weight is model.decoder.embed.tokens.weight
    assert model.head.out.bias.shape == (11,)


def test_a_narrow_embedding_is_tied_at_its_width():
    model = gf.Transformer(gf.TransformerConfig(encoder=stack_config(), vocab_size=11, embed_dim=3))
    head: LanguageHead = model.head
    assert head.out.weight is model.encoder.embed.tokens.weight
    assert head.out.weight.shape == (11, 3)
    hidden = torch.randn(2, 4, D)
    assert_same(head(hidden), F.linear(hidden, head.project.weight, head.project.bias) @ head.out.weight.T)


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Letter by letter: the mean of -log p(label) over the labels that are not -100."""
    losses = [
        math.log(sum(math.exp(score) for score in scores)) - scores[label]
        for scores, label in zip(logits.flatten(0, -2).tolist(), labels.flatten().tolist(), strict=True)
        if label != -100
    ]
    return torch.tensor(sum(losses) / len(losses))


def test_the_loss_of_an_encoder_decoder_shifts_the_labels_right():
    config = gf.TransformerConfig(
        encoder=stack_config(), decoder=stack_config(), vocab_size=11, pad_token_id=9, decoder_start_token_id=1
    )
    model = randomised(gf.Transformer(config))
    source = torch.randint(0, 11, (2, 3))
    labels = torch.tensor([[5, 6, 7, 2], [8, 2, -100, -100]])

    output = model(source, labels=labels)

    decoder_input = torch.tensor([[1, 5, 6, 7], [1, 8, 2, 9]])
    assert_same(output.logits, model(source, decoder_input_ids=decoder_input).logits)
    assert_same(output.loss, cross_entropy(output.logits, labels))

    chosen = model(source, decoder_input_ids=decoder_input.flip(1), labels=labels)
    assert_same(chosen.logits, model(source, decoder_input_ids=decoder_input.flip(1)).logits)
    assert_same(chosen.loss, cross_entropy(chosen.logits, labels))


def test_the_loss_of_a_decoder_is_of_the_next_token():
    model = randomised(gf.Transformer(gf.TransformerConfig(decoder=stack_config(), vocab_size=11)))
    ids = torch.randint(0, 11, (2, 5))
    labels = ids.clone()
    labels[0, :2] = labels[1, 4] = -100

    output = model(ids, labels=labels)

    assert output.logits.shape == (2, 5, 11)
    assert_same(output.loss, cross_entropy(output.logits[:, :4], labels[:, 1:]))


def test_the_loss_of_masked_words_is_where_they_stand():
    model = randomised(gf.Transformer(gf.TransformerConfig(encoder=stack_config(), vocab_size=11)))
    ids = torch.randint(0, 11, (2, 5))
    labels = torch.full((2, 5), -100)
    labels[0, 0], labels[1, 3], labels[1, 4] = 4, 0, 10

    output = model(ids, labels=labels)

    assert_same(output.loss, cross_entropy(output.logits, labels))


def test_the_loss_of_classes():
    config = gf.TransformerConfig(encoder=stack_config(), vocab_size=11, head="class", num_classes=3)
    model = randomised(gf.Transformer(config))
    labels = torch.tensor([2, -100, 0])

    output = model(torch.randint(0, 11, (3, 4)), attention_mask=KEEP, labels=labels)

    assert output.logits.shape == (3, 3)
    assert_same(output.loss, cross_entropy(output.logits, labels))


def test_the_loss_of_a_forecast():
    series = gf.SeriesConfig(length=8, patch=2, horizon=3)
    config = gf.TransformerConfig(encoder=stack_config(), series=series, head="forecast")
    model = randomised(gf.Transformer(config))
    labels = torch.randn(2, 3, 5)

    output = model(past_values=torch.randn(2, 8, 5), labels=labels)

    assert_same(output.loss, ((output.logits - labels) ** 2).mean())


def wide_model(init: str, **choices) -> gf.Transformer:
    """Wide enough for its weights to have statistics; the stacks differ in depth."""
    encoder = stack_config(d_model=64, d_ff=96, num_layers=6, activation="silu", gated=True)
    config = gf.TransformerConfig(
        encoder=encoder, decoder=encoder.replace(num_layers=2), vocab_size=200, num_segments=40, tie_embeddings=False,
        head_bias=True, init=init, **choices,
    )  # fmt: skip
    return gf.Transformer(config)


@pytest.mark.parametrize("init", ["paper", "modern"])
def test_biases_start_at_0_and_norms_at_1(init):
    for name, parameter in wide_model(init).named_parameters():
        if name.endswith("bias"):
            assert (parameter == 0).all(), name
        elif "norm" in name:
            assert (parameter == 1).all(), name
        else:
            assert parameter.std() > 0, name


def test_the_papers_initialisation():
    model = wide_model("paper")
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            bound = math.sqrt(6 / (module.in_features + module.out_features))
            assert 0.98 * bound < module.weight.abs().max() <= bound, name
            assert module.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05), name
        elif isinstance(module, nn.Embedding):
            assert module.weight.std().item() == pytest.approx(64**-0.5, rel=0.05), name


def test_the_modern_initialisation():
    model = wide_model("modern")
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            assert module.weight.mean().abs() < 0.002, name
        if name.endswith((".attn.out", ".cross.out", ".ffn.down")):
            layers = 6 if name.startswith("encoder") else 2
            assert module.weight.std().item() == pytest.approx(0.02 / math.sqrt(2 * layers), rel=0.05), name
        elif isinstance(module, nn.Linear | nn.Embedding):
            assert module.weight.std().item() == pytest.approx(0.02, rel=0.05), name


def test_scaled_embeddings_of_the_paper_have_variance_1():
    model = wide_model("paper", scale_embeddings=True)
    assert model.encoder.embed(torch.arange(200)[None]).std().item() == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize("init", ["paper", "modern"])
def test_patches_are_initialised_as_the_matrix_they_are(init):
    encoder = stack_config(d_model=64)
    config = gf.TransformerConfig(
        encoder=encoder, image=gf.ImageConfig(size=8, patch=4), head="class", num_classes=2, init=init
    )
    weight = gf.Transformer(config).encoder.embed.patches.weight
    expected = math.sqrt(2 / (3 * 4 * 4 + 64)) if init == "paper" else 0.02
    assert weight.std().item() == pytest.approx(expected, rel=0.05)


def test_joined_products_are_the_three() -> None:
    """The training loop computes q, k and v at once: the same outputs and gradients."""
    for bias in (True, False):
        config = gf.StackConfig(
            d_model=12,
            num_layers=1,
            num_heads=6,
            num_kv_heads=2,
            head_dim=4,
            qkv_bias=bias,
            qk_norm=True,
            positions="rotary",
        )
        torch.manual_seed(0)
        stack = Stack(config, causal=True).double().train()
        x = torch.randn(2, 5, 12, dtype=torch.float64)
        found = []
        for joined in (False, True):
            stack.blocks[0].attn.joined = joined
            stack.zero_grad()
            output = stack(None, embeds=x)
            output.square().sum().backward()
            found.append([output.detach(), *(p.grad.clone() for p in stack.parameters())])
        for plain, together in zip(*found, strict=True):
            torch.testing.assert_close(together, plain, rtol=1e-12, atol=1e-12)
