"""The whole model as an object: other dtypes and devices, copies, compilation, and where its inputs go."""

import copy
import pickle

import pytest
import torch

import glassformer as gf
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
    """A change of 1e-9 in the input is seen at the output: nothing on the way is rounded to float32."""
    model = writer(norm=norm, positions=positions).double()
    x = torch.randn(1, 4, 12, dtype=torch.float64)
    change = (model(inputs_embeds=x + 1e-9).logits - model(inputs_embeds=x).logits).abs().max()
    assert change > 0


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu", "relu_squared"])
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
    """What torch.compile needs: a forward pass, with a mask, in one graph."""
    model, mask = writer(positions=positions), torch.ones_like(ids).bool()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(ids, mask).logits, model(ids, mask).logits)


def test_a_sinusoidal_table_on_the_meta_device_takes_no_memory_until_it_is_real() -> None:
    """A petabyte could not be made by mistake: neither for the table, nor when it grows, nor for another dtype."""
    long = STACK.replace(positions="sinusoidal", max_len=10**13)
    with torch.device("meta"):
        table = gf.Transformer(gf.TransformerConfig(decoder=long, vocab_size=20)).bfloat16().decoder.embed.positions
    assert (table.table.shape, table.table.dtype) == ((10**13, 12), torch.bfloat16)
    assert table(torch.empty(1, 4, dtype=torch.long, device="meta"), 10**14).is_meta
    assert len(table.table) == 10**14
    real = writer(positions="sinusoidal")
    for move in (lambda model: model.to("cpu"), lambda model: model.to_empty(device="cpu")):
        with torch.device("meta"):
            module = type(real.decoder.embed.positions)(12, 512)
        assert module.table.is_meta
        assert torch.equal(move(module).table, real.decoder.embed.positions.table)
