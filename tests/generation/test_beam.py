"""Beam search finds what an exhaustive search finds, when it has beams enough."""

import itertools

import pytest
import torch
from helpers.oracle import STACK, sharpened, writer
from torch import Tensor

import glassformer as gf

END, VOCAB, LONGEST = 2, 4, 4


def tiny() -> gf.Transformer:
    torch.manual_seed(5)
    config = gf.TransformerConfig(
        decoder=STACK, vocab_size=VOCAB, tie_embeddings=False, eos_token_id=END, pad_token_id=None
    )
    return sharpened(gf.Transformer(config).eval())


@torch.no_grad()
def every_text(model: gf.Transformer, prompt: Tensor, length_penalty: float) -> list[tuple[float, list[int]]]:
    """All continuations that end, or are as long as allowed, with their scores; the best first."""
    found = []
    for length in range(1, LONGEST + 1):
        for text in itertools.product(range(VOCAB), repeat=length):
            if END in text[:-1] or (length < LONGEST and text[-1] != END):
                continue
            ids = torch.cat([prompt, torch.tensor([text])], dim=1)
            log_probabilities = model(ids).logits[0, prompt.shape[1] - 1 : -1].log_softmax(dim=1)
            total = log_probabilities.gather(1, torch.tensor(text)[:, None]).sum()
            found.append((float(total) / length**length_penalty, list(text)))
    return sorted(found, reverse=True)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 2.0, -1.0])
@pytest.mark.parametrize("early_stopping", [False, "never"])
def test_with_beams_enough_the_search_is_exhaustive(length_penalty: float, early_stopping: bool | str) -> None:
    model = tiny()
    for prompt in torch.tensor([[0, 1, 3], [1, 1, 0]])[:, None]:
        expected = every_text(model, prompt, length_penalty)[:8]
        found = gf.generate(
            model, prompt, max_new_tokens=LONGEST, num_beams=VOCAB**3, num_return_sequences=8,
            length_penalty=length_penalty, early_stopping=early_stopping,
        )[:, 3:]  # fmt: skip
        texts = [row[: row.index(END) + 1] if END in row else row for row in found.tolist()]
        assert texts == [text for _, text in expected]


def test_one_source_is_settled_while_another_goes_on() -> None:
    """Rows of one batch end at different steps, and each gives what it gives alone."""
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
            assert (rows[:, alone.shape[1] :] == END).all(), "without a padding, the end token fills"
        assert len(lengths) > 2, "texts of many lengths"


def test_beams_are_recorded_and_share_their_source() -> None:
    """A record follows the rows that the beams become, and the source is encoded once for all of them."""
    torch.manual_seed(2)
    model = gf.Transformer(
        gf.TransformerConfig(encoder=STACK, decoder=STACK, vocab_size=9, decoder_start_token_id=1, eos_token_id=2)
    )
    with gf.record(model) as seen:
        gf.generate(model, torch.randint(3, 9, (2, 6)), num_beams=3, max_new_tokens=5)
    assert seen["encoder.blocks.0.attn"].shape == (2, 4, 6, 6)
    assert seen["decoder.blocks.1.cross"].shape == (6, 4, 5, 6)
    assert seen["decoder.blocks.1.attn"].shape == (6, 4, 5, 5)
