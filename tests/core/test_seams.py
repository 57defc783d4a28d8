"""Parts of the core that published families need; whole models are compared in tests/families."""

import pytest
import torch
from torch import Tensor, nn
from transformers import LlamaConfig, PatchTSTConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding
from transformers.models.patchtst.modeling_patchtst import PatchTSTStdScaler

import glassformer as gf
from glassformer.config import RotaryScaling
from glassformer.core import context
from glassformer.core.attention import attend, attend_in_tiles, attention_weights
from glassformer.core.context import Mask
from glassformer.core.embeddings import level_of
from glassformer.core.positions import Learned, Rotary, Sinusoidal, sinusoids
from glassformer.core.stack import Stack
from glassformer.errors import InputError

SMALL = {"d_model": 12, "num_layers": 3, "num_heads": 3, "positions": "none"}


def naive(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, scale: float, cap: float | None) -> Tensor:
    """The formula, one query of one head at a time."""
    output = torch.zeros_like(q)
    for b, h, t in torch.cartesian_prod(*(torch.arange(n) for n in q.shape[:3])).tolist():
        group = h * k.shape[1] // q.shape[1]
        scores = torch.stack([q[b, h, t] @ key * scale for key in k[b, group]])
        if cap is not None:
            scores = cap * torch.tanh(scores / cap)
        scores = scores.masked_fill(~allowed[b, t], -torch.inf)
        if allowed[b, t].any():
            output[b, h, t] = scores.softmax(0) @ v[b, group]
    return output


@pytest.mark.parametrize("cap", [None, 0.7])
@pytest.mark.parametrize("scale", [1.0, 0.3])
@pytest.mark.parametrize("tile", [2**25, 2 * 4 * 9 * 2])
def test_scale_and_cap_are_in_the_formula(cap: float | None, scale: float, tile: int, monkeypatch) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(context, "TILE", tile)
    q, k, v = torch.randn(2, 4, 9, 5), torch.randn(2, 2, 9, 5), torch.randn(2, 2, 9, 5)
    keep = torch.tensor([[True] * 9, [False] * 3 + [True] * 6])
    allowed = torch.ones(9, 9, dtype=torch.bool).tril() & keep[:, None]
    expected = naive(q, k, v, allowed, scale, cap)
    mask = Mask(9, 9, keep, causal=True, positions=torch.arange(9)[None])
    torch.testing.assert_close(attend_in_tiles(q, k, v, mask, scale=scale, cap=cap), expected)
    torch.testing.assert_close(attend(q, k, v, allowed[:, None], scale=scale, cap=cap), expected)
    weights = attention_weights(q, k, allowed[:, None], scale=scale, cap=cap)
    torch.testing.assert_close(weights @ v.repeat_interleave(2, 1), expected)


def test_a_plain_causal_stack_with_a_cap_does_not_see_ahead() -> None:
    stack = Stack(gf.StackConfig(**SMALL, score_cap=1.0), causal=True).eval()
    x = torch.randn(1, 6, 12)
    torch.testing.assert_close(stack(None, embeds=x)[:, :4], stack(None, embeds=x[:, :4]))


@pytest.mark.parametrize(
    "choices", [{"score_cap": 0.5}, {"attention_scale": 2.0}, {"num_blocks": 1}, {"block": "parallel_two_norms"}]
)
def test_what_is_recorded_is_what_was_attended(choices) -> None:
    torch.manual_seed(0)
    config = gf.TransformerConfig(decoder=gf.StackConfig(**SMALL, **choices), vocab_size=17)
    model = gf.Transformer(config).eval()
    ids = torch.randint(0, 17, (2, 6))
    values, mixed = [], []
    for block in model.decoder.blocks:
        block.attn.v.register_forward_hook(lambda _, __, out: values.append(out))
        block.attn.out.register_forward_pre_hook(lambda _, args: mixed.append(args[0]))
    with gf.record(model) as seen:
        model(ids)
    assert list(seen) == [f"decoder.blocks.{i}.attn" for i in range(3)], "records are named by layer"
    for layer in range(3):
        v = values[layer].unflatten(-1, (3, 4)).transpose(1, 2)
        expected = (seen[f"decoder.blocks.{layer}.attn"] @ v).transpose(1, 2).flatten(2)
        torch.testing.assert_close(mixed[layer], expected)


def test_fewer_blocks_than_layers_are_applied_in_runs() -> None:
    stack = Stack(gf.StackConfig(**{**SMALL, "num_layers": 5}, num_blocks=2), causal=False)
    assert [stack.blocks._modules["0"] is stack.block_of(layer) for layer in range(5)] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert len(stack.blocks) == 2
    with pytest.raises(InputError, match="num_blocks is 4: expected at most num_layers = 3"):
        gf.StackConfig(**SMALL, num_blocks=4)


def test_two_branches_in_parallel_read_the_same_stream() -> None:
    stack = Stack(gf.StackConfig(**{**SMALL, "num_layers": 1}, block="parallel_two_norms"), causal=True).eval()
    block, x, seen = stack.blocks[0], torch.randn(2, 5, 12), {}
    for name, part in (("attn", block.attn), ("ffn", block.ffn)):
        part.register_forward_hook(lambda _, args, out, name=name: seen.update({name: (args[0], out)}))
    output = stack(None, embeds=x)
    torch.testing.assert_close(seen["attn"][0], block.attn_norm(x))
    torch.testing.assert_close(seen["ffn"][0], block.ffn_norm(x))
    torch.testing.assert_close(output, stack.norm(x + seen["attn"][1] + seen["ffn"][1]))


def test_the_first_norm_may_be_absent() -> None:
    stack = Stack(gf.StackConfig(**SMALL, first_norm=False), causal=False)
    names = [name for name, _ in stack.named_parameters()]
    assert "blocks.0.attn_norm.weight" not in names
    assert {"blocks.1.attn_norm.weight", "blocks.0.ffn_norm.weight"} <= set(names)
    with pytest.raises(InputError, match="first_norm is False: only block='serial' with norm_order='pre'"):
        gf.StackConfig(**SMALL, first_norm=False, norm_order="post")


@pytest.mark.parametrize("width", [8, 9])
def test_sinusoids_in_halves_are_marians(width: int) -> None:
    theirs = MarianSinusoidalPositionalEmbedding(40, width)
    theirs.weight.data = theirs.create_weight()
    torch.testing.assert_close(sinusoids(40, width, "halves").float(), theirs.weight.data, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("width", "padding"), [(8, 1), (9, 5)])
def test_closed_halves_with_an_offset_are_m2m100s(width: int, padding: int) -> None:
    theirs = M2M100SinusoidalPositionalEmbedding(40, width, padding)
    ours = Sinusoidal(width, 4, layout="closed_halves", offset=padding + 1)
    ids = torch.full((1, 30), padding + 3)
    torch.testing.assert_close(ours(torch.arange(30)[None], 30), theirs(ids), atol=1e-4, rtol=1e-4)
    assert len(ours.table) >= 30 + padding + 1, "it grew"


def test_a_learned_table_is_read_from_its_offset_on() -> None:
    learned = Learned(4, 6, offset=2)
    torch.nn.init.normal_(learned.weight)
    assert learned.weight.shape == (8, 4)
    assert torch.equal(learned(torch.tensor([[0, 5]]), 6)[0], learned.weight[[2, 7]])
    with pytest.raises(InputError, match="a sequence of 7 positions does not fit a learned table of max_len = 6"):
        learned(torch.tensor([[6]]), 7)


SCALED = {
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 3.0},
    "llama3": {
        "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
    },
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 64},
    "longrope": {
        "factor": 4.0, "original_max_position_embeddings": 64, "short_factor": [1.1] * 8, "long_factor": [2.5] * 8,
    },
}  # fmt: skip
OURS = {
    "linear": RotaryScaling(type="linear", factor=4.0),
    "dynamic": RotaryScaling(type="dynamic", factor=3.0, trained_len=128),
    "llama3": RotaryScaling(type="llama3", factor=8.0, trained_len=64),
    "yarn": RotaryScaling(type="yarn", factor=4.0, trained_len=64, amplitude=1.1386294361119891),
    "longrope": RotaryScaling(
        type="longrope", trained_len=64, short_factors=(1.1,) * 8, long_factors=(2.5,) * 8, amplitude=1.1547005383792515
    ),
}


@pytest.mark.parametrize("length", [20, 64, 65, 300])
@pytest.mark.parametrize("kind", SCALED)
def test_stretched_angles_are_llamas(kind: str, length: int) -> None:
    rope = {"rope_type": kind, "rope_theta": 10_000.0, **SCALED[kind]}
    config = LlamaConfig(hidden_size=32, num_attention_heads=2, max_position_embeddings=128, rope_parameters=rope)
    theirs, positions = LlamaRotaryEmbedding(config), torch.arange(length)[None]
    stack = gf.StackConfig(d_model=32, num_layers=1, num_heads=2, positions="rotary")
    ours = Rotary(stack, gf.LayerKind(rotary_scaling=OURS[kind]))(positions, length)
    for mine, reference in zip(ours, theirs(torch.zeros(1), positions), strict=True):
        torch.testing.assert_close(mine[:, 0], reference, atol=1e-5, rtol=1e-5)


def test_labels_may_begin_with_the_last_of_them() -> None:
    stack = gf.StackConfig(**SMALL)
    config = gf.TransformerConfig(encoder=stack, decoder=stack, vocab_size=17, label_shift="last", pad_token_id=0)
    labels = torch.tensor([[5, 6, 2, 9], [7, 2, 8, -100], [4, 3, 0, 0]])
    shifted = gf.Transformer(config).shift_right(labels)
    assert shifted.tolist() == [[9, 5, 6, 2], [8, 7, 2, 8], [3, 4, 3, 0]]


def test_a_span_is_learned_from_where_it_begins_and_ends() -> None:
    torch.manual_seed(0)
    model = gf.Transformer(gf.TransformerConfig(encoder=gf.StackConfig(**SMALL), vocab_size=17, head="span"))
    ids, labels = torch.randint(0, 17, (2, 6)), torch.tensor([[1, 3], [0, -100]])
    output = model(ids, labels=labels)
    losses = [-output.start_logits[0].log_softmax(0)[1], -output.end_logits[0].log_softmax(0)[3]]
    losses.append(-output.start_logits[1].log_softmax(0)[0])
    torch.testing.assert_close(output.loss, torch.stack(losses).mean())
    assert output.logits is None


# --- stochastic depth -------------------------------------------------------------------------------------------------


def outcomes(block: str) -> tuple[list[float], list[float]]:
    """For each of three layers, the fraction of sequences whose branch is dropped, and the mean of what it adds.

    All weights are 0 and the last bias is 1, so a branch adds 1 / (1 - rate), or 0 if it is dropped.
    """
    config = gf.StackConfig(d_model=4, num_layers=3, num_heads=1, drop_path=0.6, block=block, positions="none")
    torch.manual_seed(0)
    stack = gf.Stack(config, causal=False).train()
    for name, parameter in stack.named_parameters():
        nn.init.constant_(parameter, 1.0 if name.endswith("ffn.down.bias") else 0.0)
    x, rates, means = torch.zeros(4000, 2, 4), [], []
    context = stack.context(x, *stack.counted(x, None, None, None, None), None, None, None)
    for layer in range(3):
        gained = stack.block_of(layer)(x, context, layer)
        assert (gained == gained[:, :1, :1]).all(), "a branch is dropped for the whole sequence"
        rates.append((gained[:, 0, 0] == 0).float().mean().item())
        means.append(gained.mean().item())
    return rates, means


@pytest.mark.parametrize("block", ["serial", "parallel", "parallel_two_norms"])
def test_drop_path_leaves_out_whole_branches_more_and_more(block: str) -> None:
    rates, means = outcomes(block)
    assert rates == pytest.approx([0.0, 0.3, 0.6], abs=0.03)
    assert means == pytest.approx([1.0, 1.0, 1.0], abs=0.06), "scaling keeps the mean"


@pytest.mark.parametrize("norm_order", ["pre", "post", "sandwich"])
def test_drop_path_is_for_training_only(norm_order: str) -> None:
    plain = gf.StackConfig(d_model=8, num_layers=3, num_heads=2, norm_order=norm_order)
    torch.manual_seed(0)
    one, other = gf.Stack(plain, causal=True), gf.Stack(plain.replace(drop_path=0.9), causal=True)
    other.load_state_dict(one.state_dict())
    x = torch.randn(4, 3, 8)
    assert torch.equal(one.eval()(x), other.eval()(x))
    assert not torch.equal(one.train()(x), other.train()(x))
    with pytest.raises(gf.InputError, match=r"StackConfig.drop_path is 1.0: expected a probability"):
        plain.replace(drop_path=1.0)


# --- instance norm ---------------------------------------------------------------------------------------------------


def reader(**choices: object) -> gf.Transformer:
    torch.manual_seed(0)
    series = gf.SeriesConfig(length=12, patch=4, horizon=3, instance_norm=True)
    return gf.Transformer(gf.TransformerConfig(encoder=gf.StackConfig(**SMALL), series=series, **choices)).eval()


def test_a_window_is_levelled_as_transformers_does_it() -> None:
    window = 5 * torch.randn(2, 12, 3) + torch.tensor([100.0, 0.0, -3.0])
    levelled, mean, deviation = PatchTSTStdScaler(PatchTSTConfig())(window, torch.ones_like(window))
    ours = level_of(window)
    torch.testing.assert_close(ours[0], mean)
    torch.testing.assert_close(ours[1], deviation)
    with_norm, without = reader(head="forecast"), reader(head="forecast").encoder
    without.embed.series = without.embed.series.replace(instance_norm=False)
    torch.testing.assert_close(with_norm.encoder(window), without(levelled), atol=1e-4, rtol=1e-4)


def test_a_forecast_is_at_the_level_of_its_window() -> None:
    """Scaling a channel by 2 and adding 7 does the same to its forecast; a constant channel stays finite."""
    model, window = reader(head="forecast"), torch.randn(2, 12, 3)
    window[:, :, 2] = 4.0
    louder = window * torch.tensor([2.0, 1.0, 1.0]) + torch.tensor([7.0, 0.0, 0.0])
    before, after = model(past_values=window).logits, model(past_values=louder).logits
    torch.testing.assert_close(after[:, :, 0], 2 * before[:, :, 0] + 7, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(after[:, :, 1], before[:, :, 1])
    assert before.isfinite().all()
    labels = torch.zeros_like(before)
    torch.testing.assert_close(model(past_values=window, labels=labels).loss, before.square().mean())


def test_a_class_does_not_depend_on_the_level() -> None:
    model, window = reader(head="class", num_classes=4), torch.randn(2, 12, 3)
    logits = model(past_values=window).logits
    torch.testing.assert_close(model(past_values=3 * window + 9).logits, logits, atol=1e-3, rtol=1e-3)
