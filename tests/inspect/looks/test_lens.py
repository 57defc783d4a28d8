"""The logit lens: its last row is the model's output, and every other row that of a model truncated there."""

from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer as gf
from glassformer.errors import InputError
from glassformer.inspect.looks.lens import lens_of_text, logit_lens, picture_lens
from glassformer.predict.prepare import text_preparer
from glassformer.tasks.settings import TranslateSettings
from glassformer.tasks.translate import Translate

SMALL = {"d_model": 12, "num_layers": 3, "num_heads": 2}
IDS = torch.tensor([[3, 7, 1, 9, 4], [2, 2, 8, 0, 0]])
KEEP = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])


def make_model(kind: str, **stack: Any) -> gf.Transformer:
    torch.manual_seed(0)
    config = gf.StackConfig(**{**SMALL, **stack})
    stacks = {name: config for name in ("encoder", "decoder") if kind in (name, "both")}
    return gf.Transformer(gf.TransformerConfig(**stacks, vocab_size=20, init="paper")).eval()


@pytest.mark.parametrize(
    "stack",
    [{}, {"norm_order": "post", "final_norm": False}, {"num_blocks": 1}, {"block": "parallel", "norm": "rms"}],
    ids=str,
)
@pytest.mark.parametrize("kind", ["encoder", "decoder", "both"])
def test_the_last_row_is_the_models_answer(kind: str, stack: dict[str, Any]) -> None:
    if kind == "both" and stack.get("block") == "parallel":
        pytest.skip("parallel blocks have no cross-attention")
    model = make_model(kind, **stack)
    target = {"decoder_input_ids": IDS.flip(1)} if kind == "both" else {}
    lens = logit_lens(model, IDS, KEEP, top=20, **target)
    with torch.no_grad():
        logits = model(IDS, KEEP, **target).logits
    assert torch.equal(lens.logits, logits)
    assert lens.tokens.shape == lens.probabilities.shape == (4, 2, 5, 20)
    back = torch.zeros(2, 5, 20).scatter(2, lens.tokens[-1], lens.probabilities[-1])
    torch.testing.assert_close(back, logits.softmax(dim=-1))


def test_each_row_is_the_answer_of_a_model_cut_off_there() -> None:
    """The reference is a smaller model with the same weights."""
    model = make_model("decoder")
    lens = logit_lens(model, IDS, top=1)
    for layers in (1, 2):
        shorter = make_model("decoder", num_layers=layers)
        kept = shorter.state_dict().keys()
        shorter.load_state_dict({name: value for name, value in model.state_dict().items() if name in kept})
        with torch.no_grad():
            best = shorter(IDS).logits.softmax(dim=-1).max(dim=-1)
        assert torch.equal(lens.tokens[layers, :, :, 0], best.indices)
        torch.testing.assert_close(lens.probabilities[layers, :, :, 0], best.values)


def test_of_a_text_and_as_a_picture(tmp_path: Path) -> None:
    task = Translate(TranslateSettings(out=Path("unused"), examples=60, **SMALL))
    lens, line = lens_of_text(text_preparer(task.model, task.tokenizer), "May 1st, 2031")
    assert lens.tokens.shape[2] == len(line.tokens)
    # Decoding was greedy, so the last row is what the model wrote.
    assert task.tokenizer.tokens(lens.tokens[-1, 0, :, 0]) == line.written
    picture_lens(text_preparer(task.model, task.tokenizer), "May 1st, 2031", tmp_path / "lens.png")
    assert (tmp_path / "lens.png").stat().st_size > 5000
    assert task.model.training  # as it was


def test_refused() -> None:
    config = gf.TransformerConfig(encoder=gf.StackConfig(**SMALL), vocab_size=20, head="class", num_classes=2)
    with pytest.raises(InputError, match="needs a model with head = 'language', but this one has head = 'class'"):
        logit_lens(gf.Transformer(config), IDS)
    with pytest.raises(InputError, match="top is 21: expected 1 to 20, the size of the vocabulary"):
        logit_lens(make_model("decoder"), IDS, top=21)


def test_dropout_changes_nothing_and_stays_on() -> None:
    model = make_model("decoder", dropout=0.5, attention_dropout=0.5)
    expected = logit_lens(model, IDS)
    model.train()
    for _ in range(2):
        assert torch.equal(logit_lens(model, IDS).probabilities, expected.probabilities)
    assert all(module.training for module in model.modules())
