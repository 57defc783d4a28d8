"""Parameter counts: every grouping adds up to all parameters, and the printed percentages to 100."""

from io import StringIO

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import glassformer as gf
from glassformer.core.model import count
from glassformer.inspect.ledger import params

STACK = gf.StackConfig(d_model=64, num_layers=3, num_heads=4, positions="learned", max_len=40, qk_norm=True)
CONFIGS = {
    "encoder": gf.TransformerConfig(encoder=STACK, vocab_size=50, embed_norm=True, num_segments=2),
    "decoder": gf.TransformerConfig(decoder=STACK.replace(positions="relative"), vocab_size=50, tie_embeddings=False),
    "both": gf.TransformerConfig(encoder=STACK, decoder=STACK.replace(norm="rms"), vocab_size=50),
    "shared blocks": gf.TransformerConfig(encoder=STACK.replace(num_blocks=1), vocab_size=50, embed_dim=24),
    "image": gf.TransformerConfig(
        encoder=STACK, image=gf.ImageConfig(size=12, patch=4), head="class", num_classes=5, pooling="first"
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_every_way_of_adding_up_gives_all_parameters(name: str) -> None:
    model = gf.Transformer(CONFIGS[name])
    every = sum(parameter.numel() for parameter in {id(p): p for p in model.parameters()}.values())
    for found in (params.shares(model), params.shares_by_kind(model), params.shares_by_layer(model)):
        assert sum(share.parameters for share in found) == every
        assert len({share.part for share in found}) == len(found)
    for stack in (model.encoder, model.decoder):
        if stack is not None:
            inside = params.inside_blocks(stack.blocks)
            assert sum(share.parameters for share in inside) == sum(p.numel() for p in stack.blocks.parameters())


def test_kinds_hold_what_their_modules_hold() -> None:
    """The reference finds modules by their type, not by their name."""
    model = gf.Transformer(CONFIGS["both"])
    found = {share.part: share.parameters for share in params.shares_by_kind(model)}
    by_type: dict[str, int] = {}
    for module in model.modules():
        numbers = sum(p.numel() for p in module.parameters(recurse=False))
        by_type[type(module).__name__] = by_type.get(type(module).__name__, 0) + numbers
    assert found["norms"] == by_type["LayerNorm"] + by_type["RMSNorm"]
    assert found["positions"] == by_type["Learned"] == 2 * 40 * 64
    assert found[params.SHARED] == 50 * 64
    attention = [m for m in model.modules() if type(m).__name__ == "Attention"]
    cross = sum(p.numel() for m in attention if m.is_cross for x in (m.q, m.k, m.v, m.out) for p in x.parameters())
    assert found["cross-attention"] == cross
    assert found["feed-forward"] == sum(
        p.numel() for m in model.modules() if type(m).__name__ == "FeedForward" for p in m.parameters()
    )


def test_layers_are_as_large_as_their_blocks() -> None:
    model = gf.Transformer(CONFIGS["both"])
    found = {share.part: share.parameters for share in params.shares_by_layer(model)}
    for name, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        for i, block in enumerate(stack.blocks):
            assert found[f"{name} block {i}"] == sum(p.numel() for p in block.parameters())


def test_the_feed_forward_is_two_thirds_of_an_encoder_block_and_half_of_a_decoder_block() -> None:
    plain = gf.StackConfig(d_model=64, num_layers=2, num_heads=4)
    model = gf.Transformer(gf.TransformerConfig(encoder=plain, decoder=plain, vocab_size=50))
    for stack, part in ((model.encoder, 2 / 3), (model.decoder, 1 / 2)):
        inside = {share.part: share.share for share in params.inside_blocks(stack.blocks)}
        assert inside["feed-forward"] == pytest.approx(part, abs=0.01)


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=40))
def test_printed_percentages_add_up(numbers: list[int]) -> None:
    printed = [int(text.removesuffix("%").replace(".", "")) for text in params.percentages(numbers)]
    assert sum(printed) == (1000 if sum(numbers) else 0)
    for number, value in zip(numbers, printed, strict=True):
        assert abs(value - 1000 * number / (sum(numbers) or 1)) < 1
    assert params.percentages([1, 1, 1]) == ["33.4%", "33.3%", "33.3%"]


def test_tables_print_what_was_counted() -> None:
    with torch.device("meta"):
        model = gf.Transformer(CONFIGS["both"])
    console = Console(width=120, record=True, file=StringIO())
    tables = params.parameter_tables(model)
    for table in tables:
        console.print(table)
    text = console.export_text()
    assert len(tables) == 4
    assert text.count(f"{count(model):,}") == 2
    assert "the 3 decoder blocks" in text
    assert "encoder block 2" in text


def test_shares_add_up_and_the_feed_forward_holds_two_thirds_of_a_block() -> None:
    config = gf.StackConfig(d_model=64, num_layers=2, num_heads=4)
    encoder = gf.Transformer(gf.TransformerConfig(encoder=config, vocab_size=50))
    parts = {share.part: share.parameters for share in params.shares(encoder)}
    assert sum(parts.values()) == count(encoder) == sum(p.numel() for p in set(encoder.parameters()))
    assert sum(share.share for share in params.shares(encoder)) == pytest.approx(1.0)
    blocks = sum(p.numel() for p in encoder.encoder.blocks.parameters())
    assert parts["encoder feed-forward"] / blocks == pytest.approx(2 / 3, abs=0.01)
    both = gf.Transformer(gf.TransformerConfig(encoder=config, decoder=config, vocab_size=50))
    parts = {share.part: share.parameters for share in params.shares(both)}
    assert parts["shared embedding"] == 50 * 64
    assert parts["decoder feed-forward"] / sum(p.numel() for p in both.decoder.blocks.parameters()) == pytest.approx(
        1 / 2, abs=0.01
    )


def test_a_decoder_alone_has_no_table_of_encoder_blocks() -> None:
    tables = params.parameter_tables(gf.Transformer(CONFIGS["decoder"]))
    assert [table.columns[0].header for table in tables] == ["kind", "the 3 decoder blocks", "layer"]
