"""The engine's kernels against PyTorch's own, on every edge of a panel; and the packed twin of a model."""

import subprocess
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from helpers.oracle import translator, writer
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.generation import kernels
from glassformer.generation.kernels import NoKernels, load_kernels
from glassformer.generation.packing import PackedLinear, in_panels, packed, quantised

SIZES = st.integers(1, 70)


@pytest.fixture(scope="module", autouse=True)
def _ready() -> None:
    load_kernels()


@settings(deadline=None, max_examples=60)
@given(rows=SIZES, inputs=SIZES, outputs=SIZES, has_bias=st.booleans(), seed=st.integers(0, 99))
def test_a_product_is_that_of_torch(rows: int, inputs: int, outputs: int, has_bias: bool, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    x, weight = torch.randn(rows, inputs, generator=draw), torch.randn(outputs, inputs, generator=draw)
    bias = torch.randn(outputs, generator=draw) if has_bias else None
    exact = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    found = PackedLinear(weight, bias, "float32")(x)
    assert found.shape == exact.shape
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-5)
    whole, scale = quantised(weight)
    rounded = F.linear(x.double(), (whole * scale[:, None]).double(), None if bias is None else bias.double())
    torch.testing.assert_close(PackedLinear(weight, bias, "int8")(x).double(), rounded, rtol=1e-5, atol=1e-4)


def test_several_products_at_once_are_the_products_one_by_one() -> None:
    x, sizes = torch.randn(2, 3, 40), (7, 64, 33)
    layers = [
        PackedLinear(torch.randn(size, 40), torch.randn(size) if size != 64 else None, "float32") for size in sizes
    ]
    together = torch.ops.glassformer.linear(
        x, [layer.weight for layer in layers], list(sizes), [None] * 3, [layer.bias for layer in layers]
    )
    for layer, found in zip(layers, together, strict=True):
        assert torch.equal(found, layer(x))


def test_a_row_gets_the_same_bits_alone_and_in_a_batch() -> None:
    layer = PackedLinear(torch.randn(100, 129), torch.randn(100), "float32")
    x = torch.randn(50, 129)
    assert torch.equal(layer(x), torch.cat([layer(row) for row in x.split(1)]))


def test_large_products_are_cut_into_blocks() -> None:
    for rows, outputs in ((500, 40), (200, 700), (1, 3000)):
        x, weight = torch.randn(rows, 96), torch.randn(outputs, 96)
        torch.testing.assert_close(PackedLinear(weight, None, "float32")(x), x @ weight.T, rtol=1e-4, atol=1e-4)


def test_panels_hold_every_weight() -> None:
    weight, panel = torch.randn(45, 6), torch.ops.glassformer.panel()
    panels = in_panels(weight)
    assert panels.shape == (-(-45 // panel), 6, panel)
    assert torch.equal(panels.transpose(1, 2).flatten(0, 1)[:45], weight)


def test_a_column_of_zeros_is_rounded_to_zeros() -> None:
    whole, scale = quantised(torch.tensor([[0.0, 0.0], [1.0, -2.0]]))
    assert whole.tolist() == [[0, 0], [64, -127]]
    assert scale[1].item() == pytest.approx(2 / 127)


@settings(deadline=None, max_examples=60)
@given(
    batch=st.integers(1, 4),
    heads=st.sampled_from([(4, 4), (4, 2), (6, 1)]),
    keys=SIZES,
    width=st.integers(1, 40),
    kind=st.sampled_from(["all", "some", "bias", "bias by head"]),
    seed=st.integers(0, 99),
)
def test_attention_is_that_of_torch(
    batch: int, heads: tuple[int, int], keys: int, width: int, kind: str, seed: int
) -> None:
    draw, (num_heads, groups) = torch.Generator().manual_seed(seed), heads
    q = torch.randn(batch, num_heads, 1, width, generator=draw)
    k, v = (torch.randn(batch, groups, keys, width, generator=draw) for _ in range(2))
    allowed = torch.rand(batch, 1, 1, keys, generator=draw) > 0.3
    bias = torch.randn(1, num_heads if kind == "bias by head" else 1, 1, keys, generator=draw)
    mask = {"all": None, "some": allowed}.get(kind, bias.masked_fill(~allowed, -torch.inf))
    expected = F.scaled_dot_product_attention(q, k, v, mask, scale=0.3, enable_gqa=True)
    found = torch.ops.glassformer.attend(q, k, v, mask, None, 0.3)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_nothing_to_see_is_exactly_nothing() -> None:
    q, k = torch.randn(1, 2, 1, 8), torch.randn(1, 2, 5, 8)
    nothing = torch.zeros(1, 1, 1, 5, dtype=torch.bool)
    assert torch.equal(torch.ops.glassformer.attend(q, k, k, nothing, None, 1.0), torch.zeros(1, 2, 1, 8))


def test_large_scores_do_not_overflow() -> None:
    q, k = 1e4 * torch.randn(1, 2, 1, 8), 1e3 * torch.randn(1, 2, 5, 8)
    expected = F.scaled_dot_product_attention(q, k, k)
    torch.testing.assert_close(torch.ops.glassformer.attend(q, k, k, None, None, 8**-0.5), expected)


def test_rows_of_one_source_share_its_keys() -> None:
    q, k, rows = torch.randn(5, 2, 1, 8), torch.randn(2, 2, 7, 8), torch.tensor([0, 1, 1, 0, 1])
    keep = torch.rand(5, 1, 1, 7) > 0.4
    expected = F.scaled_dot_product_attention(q, k[rows], k[rows], keep)
    torch.testing.assert_close(torch.ops.glassformer.attend(q, k, k, keep, rows, 8**-0.5), expected)


@pytest.mark.parametrize("make", [writer, translator])
def test_the_twin_computes_what_the_model_does(make: object) -> None:
    model = make()  # type: ignore[operator]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    twin = packed(model)
    ids = torch.tensor([[5, 9, 3], [8, 4, 7]])
    more = {} if model.encoder is None else {"decoder_input_ids": ids}
    torch.testing.assert_close(twin(ids, **more).logits, model(ids, **more).logits, rtol=1e-5, atol=1e-5)
    assert twin.head is not model.head
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    norms = [name for name, _ in model.named_parameters() if "norm" in name]
    assert norms
    assert all(twin.get_parameter(name) is model.get_parameter(name) for name in norms)  # shared, not copied


def test_without_a_compiler_there_is_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kernels.compiler.cache_clear()
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(NoKernels, match=r"no C\+\+ compiler: CXX=no-such-compiler was not found"):
        kernels.compiler()
    monkeypatch.setattr(kernels, "compiler", lambda: "g++")
    broken = tmp_path / "broken.cpp"
    broken.write_text("int main( {", encoding="utf-8")
    monkeypatch.setattr(kernels, "SOURCE", broken)
    with pytest.raises(NoKernels, match=r"g\+\+ failed: .*error"):
        kernels.build(tmp_path)

    def late(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("g++", 1)

    monkeypatch.setattr(subprocess, "run", late)
    with pytest.raises(NoKernels, match="timed out"):
        kernels.build(tmp_path)
