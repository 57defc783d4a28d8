"""Models that write about an image: what they read, what they generate, and what they refuse."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.tiny_models import QUESTION

import glassformer as gf
from glassformer.errors import InputError
from glassformer.predict.captions import CaptionPreparer, prompt_ids
from glassformer.predict.images import Picture
from glassformer.predict.prepare import ability_of, preparer_of

FolderOf = Callable[[str], Path]


def picture(seed: int = 0) -> Picture:
    return Picture(f"scene {seed}", np.random.default_rng(seed).integers(0, 256, (12, 12, 3), np.uint8))


def preparer_for(folder: Path) -> CaptionPreparer:
    preparer = preparer_of(gf.load(folder).eval(), folder)
    assert isinstance(preparer, CaptionPreparer)
    return preparer


def test_the_run_says_whether_a_model_answers(folder_of: FolderOf) -> None:
    for kind in ("caption", "ask"):
        folder = folder_of(kind)
        assert ability_of(gf.load(folder), folder) == kind


def test_a_question_is_the_prompt_of_the_decoder(folder_of: FolderOf) -> None:
    preparer = preparer_for(folder_of("ask"))
    start = preparer.model.config.decoder_start_token_id
    ids = preparer.tokenizer.ids(QUESTION, add_special=False)
    assert prompt_ids(preparer.model.config, preparer.tokenizer, QUESTION) == [start, *ids, start]
    prepared = preparer.prepare(picture(), QUESTION)
    line = prepared.lines["decoder"]
    assert line.prompt == len(ids) + 2
    assert prepared.written[: line.prompt] == [start, *ids, start]
    assert line.begins == len(ids) + 1
    assert line.written[: line.begins] == line.names[: line.begins]  # the question is read, not generated


@pytest.mark.parametrize("kind", ["caption", "ask"])
def test_what_is_prepared_is_what_the_pipeline_writes(kind: str, folder_of: FolderOf) -> None:
    folder, question = folder_of(kind), QUESTION if kind == "ask" else None
    preparer = preparer_for(folder)
    prepared = preparer.prepare(picture(), question)
    asked = picture() if question is None else (picture(), question)
    assert gf.pipeline(folder)(asked) == prepared.text
    likeliest = prepared.run(preparer.model).logits[0].argmax(dim=-1)  # type: ignore[index]
    line = prepared.lines["decoder"]
    assert [token["id"] for token in line.writes or ()][line.prompt - 1 :] == likeliest[line.prompt - 1 :].tolist()


def test_questions_of_any_length_are_answered_as_each_alone(folder_of: FolderOf) -> None:
    predict = gf.pipeline(folder_of("ask"))
    asked = [(picture(0), QUESTION), (picture(1), "What ?"), (picture(2), "is the circle blue ?")]
    assert predict(asked) == [predict(one) for one in asked]
    assert predict([picture(0)], question=QUESTION) == [predict((picture(0), QUESTION))]


def test_a_target_is_read_with_its_end(folder_of: FolderOf) -> None:
    preparer = preparer_for(folder_of("caption"))
    prepared = preparer.prepare(picture(), target="a red circle")
    ids = preparer.tokenizer.ids("a red circle", add_special=False)
    assert prepared.written[1:] == ids
    assert prepared.lines["decoder"].written[-1] == "</s>"
    same = preparer.prepare(picture(), continued=ids)
    assert torch.equal(same.arguments["decoder_input_ids"], prepared.arguments["decoder_input_ids"])


def test_what_is_refused(folder_of: FolderOf, tmp_path: Path) -> None:
    caption, ask = preparer_for(folder_of("caption")), preparer_for(folder_of("ask"))
    with pytest.raises(InputError, match="no question given, and this model answers questions about an image"):
        ask.prepare(picture())
    with pytest.raises(InputError, match="was given to a model that writes captions: leave it out"):
        caption.prepare(picture(), QUESTION)
    with pytest.raises(InputError, match="target is empty"):
        caption.prepare(picture(), target=" ")
    with pytest.raises(InputError, match="there is no such image file"):
        caption.prepare(tmp_path / "none.png")
    with pytest.raises(InputError, match="continued contains 9999"):
        caption.prepare(picture(), continued=[9999])
    with pytest.raises(InputError, match="question with its answer has"):
        ask.prepare(picture(), QUESTION, continued=[5] * 128)
    with pytest.raises(InputError, match="input 1 is 3: expected the path of an image"):
        gf.pipeline(folder_of("caption"))([3])
