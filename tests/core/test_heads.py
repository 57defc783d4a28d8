"""Heads: pooling without padding, class logits, and forecasts per channel."""

import pytest
import torch
import torch.nn.functional as F
from helpers.parts import KEEP, D, assert_same, randomised, stack_config

import glassformer as gf
from glassformer.core.heads import ClassHead, ForecastHead


def class_head(pooling, dropout=0.0):
    config = gf.TransformerConfig(
        encoder=stack_config(dropout=dropout), vocab_size=7, head="class", num_classes=5, pooling=pooling
    )
    return ClassHead(config)


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


@pytest.mark.parametrize(("pooling", "places"), [("end", [4, 3]), ("first_end", [2, 3]), ("highest_id", [1, 2])])
def test_a_text_is_pooled_where_its_ids_say(pooling, places):
    config = gf.TransformerConfig(decoder=stack_config(), vocab_size=9, head="pool", pooling=pooling, eos_token_id=5)
    model = randomised(gf.Transformer(config))
    ids, keep = torch.tensor([[1, 8, 5, 2, 5], [3, 4, 7, 5, 5]]), torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 1, 0]])

    output = model(ids, keep)

    assert_same(output.pooled, output.last_hidden_state[torch.arange(2), torch.tensor(places)])


@pytest.mark.parametrize("bias", [True, False])
def test_a_pooled_vector_is_normed_and_brought_to_a_width_of_its_own(bias):
    config = gf.TransformerConfig(
        encoder=stack_config(), vocab_size=7, head="pool", pooling="mean", pooled_dim=3, head_norm=True, head_bias=bias
    )
    head, x = randomised(ClassHead(config)), torch.randn(2, 4, D)

    logits, pooled = head(x)

    assert logits is None
    assert (head.out.bias is not None) == bias
    assert_same(pooled, F.linear(head.norm(x.mean(1)), head.out.weight, head.out.bias))


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


def test_logits_at_some_tokens_are_those_of_all_tokens():
    encoder = randomised(gf.Transformer(gf.TransformerConfig(encoder=stack_config(), vocab_size=9)))
    decoder = randomised(gf.Transformer(gf.TransformerConfig(decoder=stack_config(), vocab_size=9)))
    ids, at = torch.randint(0, 9, (3, 4)), torch.rand(3, 4) < 0.5

    for model in (encoder, decoder):
        assert_same(model(ids, logits_at=at).logits, model(ids).logits[at])
    labels = torch.randint(0, 9, (3, 4))
    whole = encoder(ids, labels=labels.masked_fill(~at, -100))
    assert_same(encoder(ids, labels=labels[at], logits_at=at).loss, whole.loss)
