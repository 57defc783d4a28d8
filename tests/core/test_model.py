"""The whole model: dtypes, devices, copies, compilation, inputs, tied weights and losses."""

import copy
import math
import pickle

import pytest
import torch
import torch.nn.functional as F
from helpers.parts import KEEP, D, assert_same, randomised, stack_config
from torch import Tensor

import glassformer as gf
from glassformer.core.heads import LanguageHead
from glassformer.core.model import initialise
from glassformer.core.positions import sinusoids

STACK = gf.StackConfig(d_model=12, num_layers=2, num_heads=3, num_kv_heads=1)
SCHEMES = ["sinusoidal", "learned", "rotary", "relative", "alibi", "none"]
ids = torch.randint(0, 20, (2, 6))


def writer(**changes: object) -> gf.Transformer:
    torch.manual_seed(0)
    config = STACK.replace(**changes)
    return gf.Transformer(gf.TransformerConfig(decoder=config, vocab_size=20)).eval()


@pytest.mark.parametrize("positions", SCHEMES)
def test_a_model_made_on_the_meta_device_and_filled_is_the_same(positions: str) -> None:
    real = writer(positions=positions)
    with torch.device("meta"):
        empty = gf.Transformer(real.config).eval()
    empty.load_state_dict(real.state_dict(), assign=True)
    assert torch.equal(empty(ids).logits, real(ids).logits)
    with torch.device("meta"):
        other = gf.Transformer(real.config).eval()
    other.to_empty(device="cpu").load_state_dict(real.state_dict())
    assert torch.equal(other(ids).logits, real(ids).logits)


def test_initialise_fills_every_parameter() -> None:
    config = gf.TransformerConfig(
        encoder=STACK.replace(positions="learned", qk_norm=True, norm_order="sandwich"),
        image=gf.ImageConfig(size=8, patch=4), head="class", num_classes=3, pooling="attention",
    )  # fmt: skip
    with torch.device("meta"):
        model = gf.Transformer(config)
    model.to_empty(device="cpu")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(float("nan"))
    initialise(model)
    assert all(parameter.isfinite().all() for parameter in model.parameters())


def test_the_sinusoidal_table_is_made_anew_for_another_dtype() -> None:
    model = writer(positions="sinusoidal").bfloat16().float()
    assert torch.equal(model.decoder.embed.positions.table, sinusoids(512, 12).float())
    assert torch.equal(model.double().decoder.embed.positions.table, sinusoids(512, 12))


@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("positions", SCHEMES)
def test_double_precision_is_double_throughout(norm: str, positions: str) -> None:
    """A change of 1e-9 in the input changes the output: nothing in between is rounded to float32."""
    model = writer(norm=norm, positions=positions).double()
    x = torch.randn(1, 4, 12, dtype=torch.float64)
    change = (model(inputs_embeds=x + 1e-9).logits - model(inputs_embeds=x).logits).abs().max()
    assert change > 0


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "quick_gelu", "silu", "relu_squared"])
def test_a_model_can_be_copied_and_pickled(activation: str) -> None:
    model = writer(activation=activation)
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(again(ids).logits, model(ids).logits)


def test_positions_and_segments_reach_the_encoder() -> None:
    config = gf.TransformerConfig(encoder=STACK, vocab_size=20, num_segments=2)
    model = gf.Transformer(config).eval()
    plain = model(ids).logits
    assert not torch.allclose(model(ids, position_ids=torch.arange(6).flip(0)[None]).logits, plain)
    assert not torch.allclose(model(ids, token_type_ids=torch.ones_like(ids)).logits, plain)
    assert torch.equal(model(ids, token_type_ids=torch.zeros_like(ids)).logits, plain)


def test_tables_of_positions_start_small_and_not_at_zero() -> None:
    torch.manual_seed(0)
    wide = STACK.replace(d_model=96, num_heads=48)
    learned = gf.Transformer(gf.TransformerConfig(decoder=wide.replace(positions="learned"), vocab_size=20))
    relative = gf.Transformer(gf.TransformerConfig(decoder=wide.replace(positions="relative"), vocab_size=20))
    assert learned.decoder.embed.positions.weight.std().item() == pytest.approx(0.02, rel=0.1)
    assert relative.decoder.position_bias.weight.std().item() == pytest.approx(0.02, rel=0.1)


def test_layers_of_one_kind_share_one_mask() -> None:
    near, far = gf.LayerKind(window=2), gf.LayerKind()
    stack = gf.Stack(STACK.replace(layer_kinds=(near, near, far), positions="rotary"), causal=True)
    x = torch.randn(1, 5, 12)
    context = stack.context(x, *stack.counted(x, None, None, None, None), None, None, None)
    assert context.mask(0) is context.mask(1) is context.mask(3)
    assert context.mask(0) is not context.mask(2)
    assert len(stack.rotaries) == 2


@pytest.mark.parametrize("positions", SCHEMES)
def test_a_model_is_traced_whole(positions: str) -> None:
    """A forward pass with a mask compiles into one graph."""
    model, mask = writer(positions=positions), torch.ones_like(ids).bool()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(ids, mask).logits, model(ids, mask).logits)


def test_a_sinusoidal_table_on_the_meta_device_takes_no_memory_until_it_is_real() -> None:
    """Sizes that would fail if memory were allocated: for the table, when it grows, and for another dtype."""
    long = STACK.replace(positions="sinusoidal", max_len=2**24)
    with torch.device("meta"):
        table = gf.Transformer(gf.TransformerConfig(decoder=long, vocab_size=20)).bfloat16().decoder.embed.positions
    assert (table.table.shape, table.table.dtype) == ((2**24, 12), torch.bfloat16)
    assert table(torch.empty(1, 4, dtype=torch.long, device="meta"), 10**14).is_meta
    assert len(table.table) == 10**14
    real = writer(positions="sinusoidal")
    for move in (lambda model: model.to("cpu"), lambda model: model.to_empty(device="cpu")):
        with torch.device("meta"):
            module = type(real.decoder.embed.positions)(12, 512)
        assert module.table.is_meta
        assert torch.equal(move(module).table, real.decoder.embed.positions.table)


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
    """The loss is the mean of -log p(label) over the labels that are not -100."""
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
