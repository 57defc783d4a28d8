"""Ablated heads: the logits are those of a model without them."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from helpers.parts import cut_out
from torch import Tensor

import glassformer as gf
from glassformer.errors import InputError
from glassformer.watch.ablate import ablate, attention_sites, choose_heads

HEADS = 3


def make_model(**stack: Any) -> gf.Transformer:
    torch.manual_seed(0)
    config = gf.StackConfig(**{"d_model": 12, "num_layers": 2, "num_heads": HEADS, **stack})
    return gf.Transformer(gf.TransformerConfig(encoder=config, decoder=config, vocab_size=20)).eval()


def logits_of(model: gf.Transformer) -> Tensor:
    ids = torch.arange(14).view(2, 7)
    with torch.no_grad():
        return model(ids, decoder_input_ids=ids.flip(1)[:, :5]).logits  # type: ignore[return-value]


@pytest.mark.parametrize("stack", [{}, {"num_kv_heads": 1}, {"norm_order": "post"}], ids=str)
def test_logits_are_those_of_a_model_without_the_columns(stack: dict[str, Any]) -> None:
    model = make_model(**stack)
    before = logits_of(model)
    names = ["decoder.blocks.0.cross.1", "decoder.blocks.1.attn.0", "encoder.blocks.0.attn.*"]
    without = deepcopy(model)
    cut_out(without.decoder.blocks[0].cross, 1)
    cut_out(without.decoder.blocks[1].attn, 0)
    for head in range(HEADS):
        cut_out(without.encoder.blocks[0].attn, head)
    with ablate(model, names) as chosen:
        torch.testing.assert_close(logits_of(model), logits_of(without), rtol=0, atol=0)
    assert chosen == [*(f"encoder.blocks.0.attn.{head}" for head in range(HEADS)), *names[:2]]
    assert not torch.equal(before, logits_of(without))
    torch.testing.assert_close(logits_of(model), before, rtol=0, atol=0)


def test_layers_that_share_a_block_lose_a_head_one_by_one() -> None:
    """Compared with a model that stores both layers, with the same weights."""
    shared, stored = make_model(num_blocks=1), make_model()
    weights = shared.state_dict()
    copied = {name: weights[name.replace(".blocks.1.", ".blocks.0.")] for name in stored.state_dict()}
    stored.load_state_dict(copied)
    torch.testing.assert_close(logits_of(shared), logits_of(stored))
    for layer in range(2):
        without = deepcopy(stored)
        cut_out(without.decoder.blocks[layer].cross, 2)
        with ablate(shared, [f"decoder.blocks.{layer}.cross.2"]):
            torch.testing.assert_close(logits_of(shared), logits_of(without))


def test_generation_with_a_cache_is_without_the_head_too() -> None:
    model = make_model(num_blocks=1)
    ids = torch.arange(6)[None]
    with ablate(model, ["decoder.*"]):
        quick = gf.generate(model, ids, max_new_tokens=6, decoder_start_token_id=1)
        slow = model(ids, decoder_input_ids=quick[:, :-1]).logits.argmax(dim=-1)
    assert quick[0, 1:].tolist() == slow[0].tolist()


def test_an_exception_puts_the_heads_back() -> None:
    model = make_model()
    before = logits_of(model)
    with pytest.raises(RuntimeError), ablate(model, ["*"]):
        raise RuntimeError
    torch.testing.assert_close(logits_of(model), before, rtol=0, atol=0)


def test_every_attention_has_a_path() -> None:
    assert list(attention_sites(make_model(num_blocks=1))) == [
        "encoder.blocks.0.attn",
        "encoder.blocks.1.attn",
        "decoder.blocks.0.attn",
        "decoder.blocks.0.cross",
        "decoder.blocks.1.attn",
        "decoder.blocks.1.cross",
    ]
    assert choose_heads(make_model(), ["decoder.blocks.*.cross.2"]) == [
        "decoder.blocks.0.cross.2",
        "decoder.blocks.1.cross.2",
    ]


@pytest.mark.parametrize(
    ("heads", "said"),
    [
        (["decoder.blocks.0.cross.3"], "decoder.blocks.0.cross has no head '3': expected a number from 0 to 2"),
        (["decoder.blocks.*.attn.7"], r"decoder.blocks.\*.attn has no head '7': expected a number from 0 to 2"),
        (["decoder.blocks.9.attn.0"], "the decoder has no layer 9, expected a number from 0 to 1"),
        (["decoder.blocks.1.cross"], r"is not a head: add its number, as in decoder.blocks.1.cross.0"),
        (["encoder.blocks.0.cross.1"], r"as \w+\.blocks\.0\.attn\.0: did you mean"),
        ([], "no head given"),
        ("decoder.blocks.0.attn.0", "expected a list of names"),
    ],
    ids=str,
)
def test_a_head_that_does_not_exist(heads: Any, said: str) -> None:
    with pytest.raises(InputError, match=said), ablate(make_model(), heads):
        pass


def test_a_module_without_a_stack_has_no_heads() -> None:
    with pytest.raises(InputError, match="a Linear has no Stack inside: give a Transformer or a Stack"):
        attention_sites(torch.nn.Linear(2, 2))
