"""Attention rollout against the paper's formula in NumPy."""

from typing import Any

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.errors import InputError
from glassformer.inspect.looks.rollout import rollout, rollout_of, traced_back


def by_numpy(layers: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """The rollout of one sequence, from layers (H, T, T)."""
    product = np.eye(layers[0].shape[1])
    for weights in layers:
        mixed = 0.5 * weights.astype(np.float64).mean(axis=0) + 0.5 * np.eye(weights.shape[1])
        product = mixed / mixed.sum(axis=1, keepdims=True) @ product
    return product


def test_the_formula() -> None:
    layers = [torch.rand(2, 3, 5, 5).softmax(dim=-1) for _ in range(4)]
    rolled = rollout(layers)
    for row in range(2):
        expected = by_numpy([weights[row].numpy() for weights in layers])
        np.testing.assert_allclose(rolled[row].numpy(), expected, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(rolled.sum(dim=2), torch.ones(2, 5))


def test_a_token_that_sees_nothing_stays_itself() -> None:
    weights = torch.rand(1, 2, 4, 4).softmax(dim=-1)
    weights[:, :, 2] = 0.0
    torch.testing.assert_close(rollout([weights, weights])[0, 2], torch.eye(4)[2])


@pytest.mark.parametrize("sees_nothing", [False, True])
def test_a_row_alone_is_a_row_of_the_whole(sees_nothing: bool) -> None:
    """The explorer computes one row, layer by layer; the figure has all rows."""
    torch.manual_seed(0)
    layers = [torch.rand(1, 3, 6, 6).softmax(dim=-1) for _ in range(5)]
    if sees_nothing:
        for layer, row in ((0, 2), (1, 2), (3, 4)):
            layers[layer][:, :, row] = 0.0
    whole = rollout(layers)[0]
    np.testing.assert_allclose(whole, by_numpy([weights[0].numpy() for weights in layers]), rtol=1e-5, atol=1e-7)
    for row in range(6):
        means = (weights[0].mean(dim=0) for weights in reversed(layers))
        alone = traced_back(torch.eye(6)[row : row + 1], means)[0]
        torch.testing.assert_close(alone, whole[row], rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(whole.sum(dim=1), torch.ones(6))


IMAGE = gf.ImageConfig(size=8, patch=4, channels=1)
SMALL = {"d_model": 12, "num_layers": 3, "num_heads": 2}


@pytest.mark.parametrize(
    ("config", "inputs", "stack"),
    [
        ({"encoder": gf.StackConfig(**SMALL), "image": IMAGE, "head": "class", "num_classes": 2},
         {"pixel_values": torch.rand(2, 1, 8, 8)}, "encoder"),
        ({"encoder": gf.StackConfig(**SMALL, num_blocks=1), "vocab_size": 20, "head": "none"},
         {"input_ids": torch.arange(12).view(2, 6), "attention_mask": torch.tensor([[1] * 6, [1] * 4 + [0] * 2])},
         "encoder"),
        ({"decoder": gf.StackConfig(**SMALL), "vocab_size": 20},
         {"input_ids": torch.arange(12).view(2, 6)}, "decoder"),
    ],
    ids=["vit", "shared blocks, padding", "decoder"],
)  # fmt: skip
def test_of_a_model(config: dict[str, Any], inputs: dict[str, torch.Tensor], stack: str) -> None:
    torch.manual_seed(0)
    model = gf.Transformer(gf.TransformerConfig(**config)).eval()
    with torch.no_grad(), gf.record(model) as seen:
        model(**inputs)
    rolled = rollout_of(model, inputs)
    for row in range(2):
        expected = by_numpy([seen[f"{stack}.blocks.{layer}.attn"][row].numpy() for layer in range(3)])
        np.testing.assert_allclose(rolled[row].numpy(), expected, rtol=1e-5, atol=1e-7)
    if stack == "decoder":  # nothing comes from later tokens
        assert not rolled.triu(diagonal=1).any()


def test_what_cannot_be_rolled_out() -> None:
    model = gf.Transformer(gf.TransformerConfig(decoder=gf.StackConfig(**SMALL), vocab_size=20))
    with pytest.raises(InputError, match="cannot roll out the encoder: this model has none"):
        rollout_of(model, {"input_ids": torch.ones(1, 2, dtype=torch.long)}, stack="encoder")
    with pytest.raises(InputError, match=r"cannot roll out weights of shape \(1, 2, 3, 4\)"):
        rollout([torch.rand(1, 2, 3, 4)])
    with pytest.raises(InputError, match="no layers to roll out"):
        rollout([])


def test_dropout_changes_nothing_and_stays_on() -> None:
    torch.manual_seed(0)
    stack = gf.StackConfig(**SMALL, dropout=0.5, attention_dropout=0.5)
    model = gf.Transformer(gf.TransformerConfig(decoder=stack, vocab_size=20)).eval()
    inputs = {"input_ids": torch.arange(12).view(2, 6)}
    expected = rollout_of(model, inputs)
    model.train()
    assert torch.equal(rollout_of(model, inputs), expected)
    assert torch.equal(rollout_of(model, inputs), expected)
    assert all(module.training for module in model.modules())
