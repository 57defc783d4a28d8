"""Initial weights have the distribution of the paper ("paper") and of GPT-2 ("modern")."""

import math

import pytest
import torch
from helpers.parts import stack_config
from torch import nn

import glassformer as gf


def wide_model(init: str, **choices) -> gf.Transformer:
    """A model wide enough to measure the spread of its weights; its stacks differ in depth."""
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
