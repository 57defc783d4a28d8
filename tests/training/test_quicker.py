"""The speed-ups of training compute what the core computes: up to rounding, or in expectation."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import glassformer as gf
from glassformer.core.attention import Attention
from glassformer.core.layers import Linear
from glassformer.core.model import IGNORE
from glassformer.core.stack import Stack
from glassformer.training import quicker
from glassformer.training.quicker import FastDropout, FastLinear, cross_entropy, keep_freed_memory, speed_up

GROUPED = gf.StackConfig(
    d_model=12, num_layers=1, num_heads=6, num_kv_heads=2, head_dim=4, qk_norm=True, positions="rotary"
)


def test_joined_products_are_the_three() -> None:
    for bias in (True, False):
        torch.manual_seed(0)
        plain = Stack(GROUPED.replace(qkv_bias=bias), causal=True).double().train()
        joined = copy.deepcopy(plain)
        speed_up(joined)
        x = torch.randn(2, 5, 12, dtype=torch.float64)
        found = []
        for stack in (plain, joined):
            output = stack(None, embeds=x)
            output.square().sum().backward()
            found.append([output.detach(), *(p.grad for p in stack.parameters())])
        for one, other in zip(*found, strict=True):
            torch.testing.assert_close(other, one, rtol=1e-12, atol=1e-12)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this PyTorch has no oneDNN")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(200, 130, 120), (1, 1500, 1400), (70, 96, 700)])
def test_products_of_onednn_are_those_of_the_plain_layer(
    rows: int, inputs: int, outputs: int, bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quicker, "is_onednn_faster", lambda: True)
    torch.manual_seed(0)
    plain = nn.Sequential(Linear(inputs, outputs, bias=bias))
    quick = copy.deepcopy(plain)
    speed_up(quick)
    assert type(quick[0]) is FastLinear
    asked: list[int] = []
    monkeypatch.setattr(quicker, "times", lambda *given, real=quicker.times: asked.append(1) or real(*given))
    start = torch.randn(2, rows // 2 or 1, inputs)
    found = []
    for model in (plain, quick):
        x = start.clone().requires_grad_()
        y = model(x)
        (y * torch.linspace(-1, 1, outputs)).sum().backward()
        found.append([y.detach(), x.grad, *(parameter.grad for parameter in model.parameters())])
    assert len(asked) == 3  # the output and two gradients
    for one, other in zip(*found, strict=True):
        assert other.is_contiguous()
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-4)
    quick.eval()
    assert torch.equal(quick(start), plain(start))
    assert len(asked) == 3


@pytest.mark.parametrize("kind", ["small", "double", "bfloat16", "autocast", "frozen"])
def test_other_products_are_left_to_the_plain_layer(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "frozen" and not torch.backends.mkldnn.is_available():
        pytest.skip("this PyTorch has no oneDNN")
    asked: list[str] = []
    monkeypatch.setattr(
        quicker, "times", lambda x, weight, bias=None, real=quicker.times: asked.append(kind) or real(x, weight, bias)
    )
    layer = FastLinear(4 if kind == "small" else 1024, 2048).train()
    dtype = {"double": torch.float64, "bfloat16": torch.bfloat16}.get(kind, torch.float32)
    layer.to(dtype)
    x = torch.randn(2, layer.in_features, dtype=dtype)
    if kind == "frozen":  # no gradient of the weight is computed
        layer.weight.requires_grad_(False)
        layer(x.requires_grad_()).sum().backward()
        assert layer.weight.grad is None
        assert len(asked) == 2
        return
    with torch.autocast("cpu", torch.bfloat16, enabled=kind == "autocast"):
        y, plain = layer(x), nn.Linear.forward(layer, x)
    assert torch.equal(y, plain)
    assert not asked


def test_an_evaluation_computes_them_one_by_one() -> None:
    """So that hooks see q, k and v, and an answer equals that of the loaded model bit for bit."""
    torch.manual_seed(0)
    plain = Stack(GROUPED.replace(dropout=0.5), causal=True).eval()
    joined = copy.deepcopy(plain)
    speed_up(joined)
    assert all(isinstance(block.attn, Attention) for block in joined.blocks)
    seen: list[torch.Size] = []
    joined.blocks[0].attn.q.register_forward_hook(lambda module, given, made: seen.append(made.shape))
    x = torch.randn(2, 5, 12)
    assert torch.equal(joined(None, embeds=x), plain(None, embeds=x))
    assert seen == [(2, 5, 24)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.999])
def test_quick_dropout_leaves_out_as_many_and_keeps_the_mean(p: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    dropout = nn.Dropout(p)
    speed_up(nn.Sequential(dropout))
    assert type(dropout) is FastDropout
    x = torch.ones(333, 1001, dtype=dtype, requires_grad=True)
    y = dropout(x)
    assert y.dtype == dtype
    kept = y != 0
    assert float(kept.double().mean()) == pytest.approx(1 - p, abs=4 * (p * (1 - p) / x.numel()) ** 0.5 + 2**-16)
    values = y.detach()[kept].double()
    torch.testing.assert_close(values, torch.full_like(values, 1 / (1 - p)), rtol=8e-3, atol=0)
    y.double().sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, y.detach())


def test_quick_dropout_leaves_neighbours_to_themselves() -> None:
    """Four masks come from one 64-bit word; they must be independent."""
    torch.manual_seed(0)
    dropped = (FastDropout(0.3)(torch.ones(4, 400_000)) == 0).double().view(-1, 4)
    correlations = torch.corrcoef(dropped.T) - torch.eye(4, dtype=torch.float64)
    assert float(correlations.abs().max()) < 0.01
    assert torch.allclose(dropped.mean(dim=0), torch.tensor(0.3, dtype=torch.float64), atol=0.005)


def test_quick_dropout_follows_the_seed() -> None:
    drawn = []
    for _ in range(2):
        torch.manual_seed(3)
        drawn.append(FastDropout(0.2)(torch.ones(7, 3)))
    assert torch.equal(*drawn)
    assert not torch.equal(drawn[0], FastDropout(0.2)(torch.ones(7, 3)))


def test_nothing_is_drawn_where_nothing_is_left_out() -> None:
    x = torch.randn(3, 5)
    assert torch.equal(FastDropout(0.0)(x), x)
    assert torch.equal(FastDropout(0.7).eval()(x), x)
    assert not FastDropout(1.0)(x).any()


def test_a_compiled_model_keeps_its_dropout() -> None:
    model = nn.Sequential(nn.Dropout(0.1))
    speed_up(model, compiled=True)
    assert type(model[0]) is nn.Dropout


def test_memory_is_kept_and_given_back_without_a_change_of_results() -> None:
    x = torch.randn(2000, 3000)
    with keep_freed_memory():
        inside = (x * 2).sum()
    assert torch.equal((x * 2).sum(), inside)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("rows", "classes"), [(7, 3), (300, 5000), (2, 2**17 + 1)])
def test_cross_entropy_and_its_gradient_are_those_of_pytorch(rows: int, classes: int, smoothing: float) -> None:
    torch.manual_seed(0)
    labels = torch.randint(classes, (rows,))
    labels[::2] = IGNORE
    found = []
    for quick in (False, True):
        logits = (
            3 * torch.randn(rows, classes, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        ).requires_grad_()
        if quick:
            loss = cross_entropy(logits, labels, ignore=IGNORE, smoothing=smoothing)
        else:
            loss = F.cross_entropy(logits, labels, ignore_index=IGNORE, reduction="sum", label_smoothing=smoothing)
        (loss / 3).backward()
        found.append((loss.detach(), logits.grad))
    torch.testing.assert_close(found[1], found[0], rtol=1e-12, atol=1e-12)


def test_cross_entropy_of_ignored_rows_is_zero_and_of_bfloat16_is_wide() -> None:
    logits = torch.randn(4, 9, dtype=torch.bfloat16, requires_grad=True)
    nothing = cross_entropy(logits, torch.full((4,), IGNORE), ignore=IGNORE, smoothing=0.1)
    nothing.backward()
    assert float(nothing.detach()) == 0
    assert logits.grad is not None
    assert not logits.grad.any()
    assert cross_entropy(logits, torch.arange(4), ignore=IGNORE, smoothing=0.1).dtype == torch.float32


def test_cross_entropy_refuses_a_label_that_is_no_class() -> None:
    for label in (3, -1):
        with pytest.raises(RuntimeError, match="out of bounds"):
            cross_entropy(torch.zeros(1, 3), torch.tensor([label]), ignore=IGNORE, smoothing=0.0)
