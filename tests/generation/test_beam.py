"""With enough beams, beam search finds what an exhaustive search finds."""

import itertools
from typing import Any

import pytest
import torch
from helpers.oracle import STACK, sharpened, writer
from torch import Tensor

import glassformer as gf
from glassformer.errors import InputError
from glassformer.generation.beam import REDUCED_AT_ONCE, largest

END, VOCAB, LONGEST = 2, 4, 4


def tiny(vocab_size: int = VOCAB, ends: tuple[int, ...] = (END,), **more: Any) -> gf.Transformer:
    torch.manual_seed(5)
    config = gf.TransformerConfig(
        decoder=STACK, vocab_size=vocab_size, tie_embeddings=False, eos_token_id=ends, pad_token_id=None, **more
    )
    return sharpened(gf.Transformer(config).eval())


Text = tuple[float, list[int], list[float]]  # score, tokens, log p of each


@torch.no_grad()
def every_text(
    model: gf.Transformer, prompt: Tensor, length_penalty: float, source: Tensor | None = None
) -> list[Text]:
    """All continuations that end or reach the maximum length, best first."""
    found, ends = [], model.config.eos_token_ids
    for length in range(1, LONGEST + 1):
        for text in itertools.product(range(model.config.output_vocab_size), repeat=length):
            if set(ends) & set(text[:-1]) or (length < LONGEST and text[-1] not in ends):
                continue
            ids = torch.cat([prompt, torch.tensor([text])], dim=1)
            output = model(ids) if source is None else model(source, decoder_input_ids=ids)
            log_probs = output.logits[0, prompt.shape[1] - 1 : -1].log_softmax(dim=1)
            each = log_probs.gather(1, torch.tensor(text)[:, None]).squeeze(1)
            found.append((float(each.sum()) / length**length_penalty, list(text), each.tolist()))
    return sorted(found, reverse=True)


def written(found: Any, prompt_length: int, ends: tuple[int, ...]) -> list[tuple[list[int], list[float]]]:
    """Each row up to its end."""
    rows = []
    for ids, log_probs in zip(found.ids[:, prompt_length:].tolist(), found.log_probs.tolist(), strict=True):
        length = min((at + 1 for at, token in enumerate(ids) if token in ends), default=len(ids))
        rows.append((ids[:length], log_probs[:length]))
    return rows


PENALTIES = [0.0, 0.6, 1.0, 2.0, -1.0]


@pytest.mark.parametrize("length_penalty", PENALTIES)
@pytest.mark.parametrize("early_stopping", [False, "never"])
@pytest.mark.parametrize(("vocab_size", "ends"), [(4, (2,)), (3, (2,)), (4, (0, 2)), (5, ())])
def test_with_beams_enough_the_search_is_exhaustive(
    length_penalty: float, early_stopping: bool | str, vocab_size: int, ends: tuple[int, ...]
) -> None:
    model = tiny(vocab_size, ends)
    for prompt in torch.tensor([[0, 1, 2], [1, 1, 0]])[:, None]:
        expected = every_text(model, prompt, length_penalty)[:8]
        found = gf.generate(
            model, prompt, max_new_tokens=LONGEST, num_beams=vocab_size**3, num_return_sequences=8,
            length_penalty=length_penalty, early_stopping=early_stopping, return_log_probs=True,
        )  # fmt: skip
        rows = written(found, 3, ends)
        assert [ids for ids, _ in rows] == [ids for _, ids, _ in expected]
        for (_, log_probs), (_, _, each) in zip(rows, expected, strict=True):
            assert log_probs == pytest.approx(each, abs=1e-4)


@pytest.mark.parametrize("length_penalty", PENALTIES)
def test_so_it_is_for_each_source_of_a_batch(length_penalty: float) -> None:
    model = tiny(encoder=STACK, decoder_start_token_id=1)
    sources = torch.tensor([[0, 1, 3], [1, 1, 0], [3, 3, 3]])
    found = gf.generate(
        model, sources, max_new_tokens=LONGEST, num_beams=VOCAB**3, num_return_sequences=5, return_log_probs=True,
        length_penalty=length_penalty, early_stopping="never",
    )  # fmt: skip
    rows = written(found, 1, (END,))
    for at, source in enumerate(sources):
        expected = every_text(model, torch.tensor([[1]]), length_penalty, source[None])[:5]
        assert [ids for ids, _ in rows[5 * at : 5 * at + 5]] == [ids for _, ids, _ in expected]


def test_as_many_tokens_as_beams_need() -> None:
    """Any number of beams has enough continuations if there are two tokens and one of them does not end a text."""
    prompt = torch.zeros(1, 3, dtype=torch.long)
    for vocab_size, ends in ((2, (1,)), (2, ()), (4, (1, 2, 3))):
        for num_beams in (2, 5, 50):
            ids = gf.generate(tiny(vocab_size, ends), prompt, num_beams=num_beams, max_new_tokens=3)
            assert len(ids) == 1
    for vocab_size, ends in ((2, (0, 1)), (1, ()), (4, (0, 1, 2, 3))):
        with pytest.raises(InputError, match=f"num_beams is 2, and {len(ends)} of the {vocab_size} tokens end a text"):
            gf.generate(tiny(vocab_size, ends), prompt, num_beams=2)
        assert gf.generate(tiny(vocab_size, ends), prompt, max_new_tokens=1).shape == (1, 4)


@pytest.mark.parametrize(
    "width",
    [
        7,
        REDUCED_AT_ONCE * 8,
        REDUCED_AT_ONCE * 9,
        REDUCED_AT_ONCE * 40,
        REDUCED_AT_ONCE * 40 + 1,
        REDUCED_AT_ONCE * 41 - 1,
    ],
)
def test_the_largest_are_those_of_topk(width: int) -> None:
    torch.manual_seed(0)
    x = torch.stack([torch.randn(3, width), torch.arange(3.0 * width).view(3, width)])
    x[0, 0, : width // 2] = -torch.inf
    x[0, 1, 5:] = -torch.inf
    for count in (1, 5, 8):
        values, places = largest(x, min(count, width))
        expected = x.topk(min(count, width))
        assert torch.equal(values, expected.values)
        finite = values.isfinite()
        assert torch.equal(places[finite], expected.indices[finite])
        assert torch.equal(x.gather(2, places), values)
        assert all(len(set(row)) == len(row) for row in places.flatten(0, 1).tolist())


def test_one_source_is_settled_while_another_goes_on() -> None:
    """Rows of one batch end at different steps, and each gives the same result as alone."""
    model = writer(pad_token_id=None, eos_token_id=[END, 3, 15, 19, 23, 31])
    prompts = torch.randint(3, 40, (12, 5))
    for early_stopping in (True, False, "never"):
        choices = {
            "num_beams": 3, "num_return_sequences": 2, "max_new_tokens": 15, "early_stopping": early_stopping,
            "length_penalty": 0.0,
        }  # fmt: skip
        together = gf.generate(model, prompts, **choices)
        lengths = set()
        for row, prompt in enumerate(prompts):
            alone = gf.generate(model, prompt[None], **choices)
            lengths.add(alone.shape[1])
            rows = together[2 * row : 2 * row + 2]
            assert torch.equal(rows[:, : alone.shape[1]], alone)
            assert (rows[:, alone.shape[1] :] == END).all(), "without a pad token, the end token is the padding"
        assert len(lengths) > 2, "texts of many lengths"


def test_beams_are_recorded_and_share_their_source() -> None:
    """A record follows the reordering of the beams, and the source is encoded once for all of them."""
    torch.manual_seed(2)
    model = gf.Transformer(
        gf.TransformerConfig(encoder=STACK, decoder=STACK, vocab_size=9, decoder_start_token_id=1, eos_token_id=2)
    )
    with gf.record(model) as seen:
        gf.generate(model, torch.randint(3, 9, (2, 6)), num_beams=3, max_new_tokens=5)
    assert seen["encoder.blocks.0.attn"].shape == (2, 4, 6, 6)
    assert seen["decoder.blocks.1.cross"].shape == (6, 4, 5, 6)
    assert seen["decoder.blocks.1.attn"].shape == (6, 4, 5, 5)
