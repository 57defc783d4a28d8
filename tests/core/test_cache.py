"""The logits are the same with and without a cache, in chunks of any size."""

import pytest
import torch
from helpers.properties import (
    assert_same,
    cuts,
    every_scheme,
    head_counts,
    in_chunks,
    make_model,
    padding,
    properties,
    seeds,
    stack_config,
    windows,
)
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.cache import Cache


@every_scheme
@properties
@given(st.data(), seeds, st.integers(1, 9), head_counts, windows, st.booleans())
def test_cached_and_uncached_logits_agree(positions, data, seed, length, heads, windows, padded):
    model = make_model(seed, stack_config(positions, heads, windows))
    ids = torch.randint(0, 11, (3, length))
    lengths = data.draw(st.lists(st.integers(1, length), min_size=2, max_size=2), label="lengths")
    keep = padding([*lengths, length], left=True) if padded else None
    rows = torch.ones_like(ids, dtype=torch.bool) if keep is None else keep
    ends = data.draw(cuts(length), label="chunk ends")

    with torch.no_grad():
        assert_same(in_chunks(model, ids, keep, ends, Cache())[rows], model(ids, keep).logits[rows])


def test_a_cache_grows_with_the_sequence():
    model = make_model(0, stack_config("rotary"))
    ids = torch.randint(0, 11, (2, 300))

    with torch.no_grad():
        assert_same(in_chunks(model, ids, None, [1, 60, 70, 71, 200, 300], Cache()), model(ids).logits)


@every_scheme
@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
@properties
@given(seeds, st.lists(st.integers(1, 6), min_size=1, max_size=3), st.integers(1, 4), windows)
def test_a_padded_prompt_is_continued_as_if_it_stood_alone(positions, left, seed, lengths, new, windows):
    """As in generation: the prompt has a mask, the tokens after it come one at a time and without a mask."""
    model = make_model(seed, stack_config(positions, windows=windows))
    keep = padding(lengths, left)
    prompt, continuation = torch.randint(0, 11, keep.shape), torch.randint(0, 11, (len(keep), new))

    with torch.no_grad():
        cache = Cache()
        model(prompt, keep, cache=cache)
        cached = in_chunks(model, continuation, None, list(range(1, new + 1)), cache)
        for i, kept in enumerate(keep):
            alone = torch.cat([prompt[i, kept], continuation[i]])[None]
            assert_same(cached[i], model(alone).logits[0, -new:])


@every_scheme
@properties
@given(st.data(), seeds, st.integers(1, 6), st.integers(1, 5), head_counts, windows, st.booleans())
def test_an_encoder_decoder_reads_its_source_once(positions, data, seed, length, source_length, heads, windows, padded):
    model = make_model(seed, stack_config(positions, heads, windows), encoder=True)
    source, target = torch.randint(0, 11, (2, source_length)), torch.randint(0, 11, (2, length))
    mask = padding([1, source_length], left=False) if padded else None
    ends = data.draw(cuts(length), label="chunk ends")
    made = []
    for block in model.decoder.blocks:
        block.cross.k.register_forward_hook(lambda *_: made.append("keys"))

    with torch.no_grad():
        expected = model(source, mask, decoder_input_ids=target).logits
        made.clear()
        cache, hidden = Cache(), []
        first = {"encoder_last_hidden_state": model.encode(source, mask), "attention_mask": mask}
        for start, end in zip([0, *ends], ends, strict=False):
            hidden.append(model.decode(target[:, start:end], **(first if start == 0 else {}), cache=cache))

    assert made == ["keys"] * len(model.decoder.blocks)
    assert_same(model.head(torch.cat(hidden, dim=1)), expected)


@every_scheme
@properties
@given(st.data(), seeds, st.integers(1, 6), st.integers(1, 4), windows, st.booleans())
def test_a_cropped_cache_has_forgotten(positions, data, seed, length, new, windows, padded):
    model = make_model(seed, stack_config(positions, windows=windows))
    ids, other = torch.randint(0, 11, (2, length)), torch.randint(0, 11, (2, new))
    keep = padding([1, length], left=True) if padded else None
    kept_length = data.draw(st.integers(0, length), label="cropped to")
    expected_keep = None if keep is None else torch.cat([keep[:, :kept_length], keep.new_ones(2, new)], dim=1)
    ends = data.draw(cuts(new), label="chunk ends")

    with torch.no_grad():
        cache = Cache()
        model(ids, keep, cache=cache)
        cache.crop(kept_length)
        assert cache.length == kept_length
        expected = model(torch.cat([ids[:, :kept_length], other], dim=1), expected_keep).logits[:, kept_length:]
        assert_same(in_chunks(model, other, None, ends, cache), expected)


@every_scheme
@properties
@given(seeds, st.lists(st.integers(0, 2), min_size=1, max_size=4), windows, st.booleans())
def test_a_reordered_cache_is_that_of_other_rows(positions, seed, rows, windows, padded):
    """Beams are kept, repeated or dropped, together with their source in an encoder-decoder."""
    model = make_model(seed, stack_config(positions, windows=windows), encoder=True)
    source, target = torch.randint(0, 11, (3, 4)), torch.randint(0, 11, (3, 5))
    mask = padding([1, 4, 2], left=False) if padded else None
    keep = padding([5, 2, 3], left=True) if padded else None
    new = torch.randint(0, 11, (len(rows), 2))

    with torch.no_grad():
        cache = Cache()
        model(source, mask, decoder_input_ids=target, decoder_attention_mask=keep, cache=cache)
        cache.reorder(torch.tensor(rows))
        cached = torch.cat([model.head(model.decode(new[:, i : i + 1], cache=cache)) for i in range(2)], dim=1)
        expected = model(
            source[rows],
            None if mask is None else mask[rows],
            decoder_input_ids=torch.cat([target[rows], new], dim=1),
            decoder_attention_mask=None
            if keep is None
            else torch.cat([keep[rows], keep.new_ones(len(rows), 2)], dim=1),
        )

    assert_same(cached, expected.logits[:, -2:])
