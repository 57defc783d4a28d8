"""Attention maps with their tokens, and parameter shares."""

from pathlib import Path

import pytest
import torch

import glassformer as gf
from glassformer.core.model import count
from glassformer.inspect.ledger.params import shares
from glassformer.inspect.looks.attention import attention_maps
from glassformer.tasks.settings import TranslateSettings
from glassformer.tasks.translate import Translate


@pytest.fixture(scope="module")
def task() -> Translate:
    return Translate(TranslateSettings(out=Path("unused"), examples=60, d_model=16, num_heads=2, num_layers=2))


@pytest.mark.parametrize("part", ["cross", "encoder", "decoder"])
def test_maps_carry_the_tokens_they_are_about(task: Translate, part: str) -> None:
    """The same maps, from one pass over the finished translation with the plain formula of the recorder."""
    model, tokenizer, text = task.model.eval(), task.tokenizer, "May 1st, 2031"
    maps = attention_maps(model, tokenizer, text, part=part, layer=0)  # type: ignore[arg-type]
    encoded = tokenizer.encode([text])
    ids = gf.generate(model, encoded.input_ids, attention_mask=encoded.attention_mask, max_new_tokens=128)
    with gf.record(model) as seen:
        model(encoded.input_ids, encoded.attention_mask, decoder_input_ids=ids[:, :-1])
    name = {"cross": "decoder.blocks.0.cross", "encoder": "encoder.blocks.0.attn", "decoder": "decoder.blocks.0.attn"}
    torch.testing.assert_close(maps.weights, seen[name[part]][0], rtol=1e-4, atol=1e-5)
    source, target = tokenizer.tokens(encoded.input_ids[0].tolist()), tokenizer.tokens(ids[0].tolist())
    assert maps.rows == (source if part == "encoder" else target[1:])
    assert maps.columns == (target[:-1] if part == "decoder" else source)
    assert maps.weights.shape == (2, len(maps.rows), len(maps.columns))


def test_a_record_follows_the_rows_of_a_reordered_cache() -> None:
    config = gf.StackConfig(d_model=12, num_layers=1, num_heads=3)
    model = gf.Transformer(gf.TransformerConfig(decoder=config, vocab_size=20)).eval()
    ids, rows = torch.randint(0, 20, (3, 4)), torch.tensor([2, 0])
    with torch.no_grad(), gf.record(model) as seen:
        cache = gf.Cache()
        model(ids[:, :3], cache=cache)
        cache.reorder(rows)
        model(ids[rows, 3:], cache=cache)
    with torch.no_grad(), gf.record(model) as whole:
        model(ids[rows])
    torch.testing.assert_close(seen["decoder.blocks.0.attn"], whole["decoder.blocks.0.attn"])


def test_shares_add_up_and_the_feed_forward_holds_two_thirds_of_a_block() -> None:
    config = gf.StackConfig(d_model=64, num_layers=2, num_heads=4)
    encoder = gf.Transformer(gf.TransformerConfig(encoder=config, vocab_size=50))
    parts = {share.part: share.parameters for share in shares(encoder)}
    assert sum(parts.values()) == count(encoder) == sum(p.numel() for p in set(encoder.parameters()))
    assert sum(share.share for share in shares(encoder)) == pytest.approx(1.0)
    blocks = sum(p.numel() for p in encoder.encoder.blocks.parameters())
    assert parts["encoder feed-forward"] / blocks == pytest.approx(2 / 3, abs=0.01)
    both = gf.Transformer(gf.TransformerConfig(encoder=config, decoder=config, vocab_size=50))
    parts = {share.part: share.parameters for share in shares(both)}
    assert parts["shared embedding"] == 50 * 64
    assert parts["decoder feed-forward"] / sum(p.numel() for p in both.decoder.blocks.parameters()) == pytest.approx(
        1 / 2, abs=0.01
    )
