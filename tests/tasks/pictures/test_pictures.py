"""Captions and questions about images: batches, scores, baselines, and runs on scenes and on user files."""

import json
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from helpers.command import printed, run
from helpers.tiny_models import make
from PIL import Image

import glassformer as gf
from glassformer.core.model import IGNORE
from glassformer.data.scenes.make import make_scenes
from glassformer.data.scenes.questions import questions_of
from glassformer.data.scenes.words import caption_of
from glassformer.errors import InputError
from glassformer.inspect.looks.examples import example_caption_image, example_scene
from glassformer.tasks.evaluate import evaluate, task_to_score
from glassformer.tasks.pictures import task as pictures
from glassformer.tasks.pictures.ask import Ask
from glassformer.tasks.pictures.caption import Caption
from glassformer.tasks.pictures.task import nearest_images
from glassformer.tasks.settings import AskSettings, CaptionSettings

SMALL: dict[str, Any] = {"d_model": 16, "num_layers": 1, "num_heads": 2, "examples": 60, "batch_size": 8}
FLAGS = [f for name, value in SMALL.items() for f in (f"--{name.replace('_', '-')}", value)]


@pytest.fixture(autouse=True, scope="module")
def few() -> Any:
    """Fewer scenes to score than in a real run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pictures, "SCORED_SCENES", {"valid": 10, "test": 12, "pairs": 10})
        yield


def caption(**changes: Any) -> Caption:
    return Caption(CaptionSettings(**{**SMALL, "out": Path("unused"), **changes}))


def ask(**changes: Any) -> Ask:
    return Ask(AskSettings(**{**SMALL, "out": Path("unused"), **changes}))


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve scenes as user files, with a table of captions and a table of questions."""
    root = tmp_path_factory.mktemp("own")
    made = make_scenes(range(12), seed=3)
    captions, questions = ["image,caption"], []
    for number, (pixels, scene) in enumerate(zip(made.pixels, made.scenes, strict=True)):
        name = f"pictures/{number}.png"
        (root / "pictures").mkdir(exist_ok=True)
        Image.fromarray(pixels.transpose(1, 2, 0)).save(root / name)
        captions.append(f'{name},"{caption_of(scene)}"')
        for question in questions_of(scene)[:3]:
            questions.append(json.dumps({"image": name, "question": question.text, "answer": question.answer}))
    (root / "captions.csv").write_text("\n".join(captions) + "\n", encoding="utf-8")
    (root / "questions.jsonl").write_text("\n".join(questions) + "\n", encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, own: Path) -> dict[str, Path]:
    """A tiny run of each task on scenes and on files."""
    root = tmp_path_factory.mktemp("runs")
    made = {}
    for task, table in (("caption", "captions.csv"), ("ask", "questions.jsonl")):
        for where, more in (("scenes", []), ("files", ["--data", own / table])):
            made[f"{task} {where}"] = root / f"{task}-{where}"
            assert run("train", task, "--out", made[f"{task} {where}"], *FLAGS, "--steps", 2, *more) == 0
    return made


# --- batches ----------------------------------------------------------------------------------------------------------


def test_every_epoch_has_scenes_of_its_own_and_each_batch_can_be_made_again() -> None:
    task = caption()
    first, again, next_epoch = (task.collate([3, 5], epoch)["pixel_values"] for epoch in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, next_epoch)
    assert torch.equal(task.collate([5], 0)["pixel_values"][0], first[1]), "whatever stands beside it"


def test_a_caption_is_written_behind_the_start_token_up_to_its_end() -> None:
    task = caption()
    batch = task.collate([0, 1, 2], 0)
    start, end = task.model.config.decoder_start_token_id, task.model.config.eos_token_id
    truths = [caption_of(scene) for scene in make_scenes([0, 1, 2], seed=0).scenes]
    for ids, labels, truth in zip(batch["decoder_input_ids"].tolist(), batch["labels"].tolist(), truths, strict=True):
        counted = [label for label in labels if label != IGNORE]
        assert ids[: len(counted)] == [start, *counted[:-1]]
        assert counted[-1] == end
        assert task.tokenizer.decode(counted) == truth


def test_questions_are_read_and_answers_written() -> None:
    task = ask(questions=2)
    scenes = make_scenes(range(4), seed=0, part="test").scenes
    part = task.scenes("test", range(4))
    batch = task.as_batch(part.pixels, [told[:1] for told in part.told])
    assert "documents" not in batch, "one text in a row needs none"
    start = task.model.config.decoder_start_token_id
    for ids, labels, scene in zip(batch["decoder_input_ids"].tolist(), batch["labels"].tolist(), scenes, strict=True):
        first = next(place for place, label in enumerate(labels) if label != IGNORE)
        assert (ids[0], ids[first]) == (start, start), "start question start"
        question = task.tokenizer.decode(ids[1:first])
        answer = task.tokenizer.decode([label for label in labels if label != IGNORE])
        known = {asked.text.replace(" ", ""): asked.answer for asked in questions_of(scene)}
        assert known[question.replace(" ", "")] == answer


def test_questions_in_one_row_do_not_see_each_other() -> None:
    """The logits of packed questions equal those of each question alone, about the same image."""
    task = ask(questions=4)
    task.model.eval()
    examples = task.scenes("train", range(3))
    packed = task.as_batch(examples.pixels, examples.told)
    packed.pop("labels")
    assert {int(row.max()) >= 3 for row in packed["documents"]} == {True}
    with torch.no_grad():
        together = task.model(**packed).logits
        for number, told in enumerate(examples.told):
            place = 0
            for one in told:
                alone = task.as_batch(examples.pixels[[number]], [[one]])
                alone.pop("labels")
                logits = task.model(**alone).logits[0]
                torch.testing.assert_close(together[number, place : place + len(logits)], logits, atol=1e-5, rtol=1e-5)
                place += len(logits)


def test_questions_are_of_all_topics_and_about_held_out_shapes_where_these_are_scored() -> None:
    task = ask(questions=3)
    told = [one for number in range(60) for one in task.scenes("train", [number]).told[0]]
    assert {one.topic for one in told} == {"colour", "shape", "count", "relation", "whole"}
    assert {some[0].topic for some in task.train.told} == {"whole"}
    assert "whole" not in {one.topic for _, one in task.valid.looked}
    assert task.pairs is not None
    for number, some in enumerate(task.pairs.told):
        scene = make_scenes([number], seed=0, part="pairs").scenes[0]
        about = {question.text for question in questions_of(scene) if question.held_out}
        assert {one.question for one in some} <= about


@pytest.mark.parametrize("make", [caption, ask])
def test_korean_scenes(make: Callable[..., Caption | Ask]) -> None:
    task = make(language="ko")
    texts = " ".join(task.texts())
    assert "사각형" in texts
    assert "square" not in texts
    assert task.count("valid") in (10, 20)


# --- scores -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [caption, ask])
def test_what_is_validated_is_what_greedy_search_writes(make: Callable[..., Caption | Ask]) -> None:
    """A model that has memorised its few images: validation and generation count the same texts as right."""
    task = make(examples=12, batch_size=12, d_model=32)
    task.valid = task.scenes("train", range(12))
    task.test = task.valid
    optimizer = torch.optim.AdamW(task.model.parameters(), lr=3e-3)
    for _ in range(40):
        batch = task.collate(range(12), 0)
        labels = batch.pop("labels")
        (task.loss(task.model(**batch).logits, labels) / task.weight(labels)).backward()
        optimizer.step()
        optimizer.zero_grad()
    task.model.eval()
    right = task.rate_of_right
    assert task.validate()[right] == pytest.approx(task.score_some(1000).metrics[right])


def test_scores_of_captions() -> None:
    task = caption()
    looked = task.valid.looked
    truths = [one.text for _, one in looked]
    assert task.measure(truths, looked)[0] == {"exact_match": 1.0, "facts": 1.0}
    assert task.measure([""] * len(looked), looked)[0] == {"exact_match": 0.0, "facts": 0.0}


def test_scores_of_answers_are_told_by_topic() -> None:
    task = ask()
    looked = task.valid.looked
    guesses = [one.text if one.topic == "count" else "?" for _, one in looked]
    found = task.measure(guesses, looked)[0]
    counts = sum(one.topic == "count" for _, one in looked)
    assert found["accuracy_of_count"] == 1.0
    assert found["accuracy"] == pytest.approx(counts / len(looked))


def test_the_nearest_picture_is_numpys() -> None:
    rng = np.random.default_rng(0)
    known, asked = (rng.integers(0, 256, (count, 3, 4, 4), dtype=np.uint8) for count in (30, 200))
    far = ((known[None].astype(float) - asked[:, None]) ** 2).sum(axis=(2, 3, 4))
    assert nearest_images(known, asked).tolist() == far.argmin(axis=1).tolist()


def test_the_question_alone_knows_the_commonest_answer() -> None:
    task = ask()
    looked = task.valid.looked
    found, _ = task.baselines(task.valid, looked)
    assert set(found) == {"the question alone", "commonest answer of the topic"}
    assert all(0 <= scores["accuracy"] < 1 for scores in found.values())


# --- runs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["caption scenes", "caption files", "ask scenes", "ask files"])
def test_a_run_is_scored_again_as_it_was(name: str, runs: dict[str, Path]) -> None:
    recorded = json.loads((runs[name] / "run.json").read_text(encoding="utf-8"))["results"]
    scores = evaluate(runs[name], engine="off")
    for metric, value in scores.metrics.items():
        assert recorded[metric] == pytest.approx(value, rel=1e-4), metric
    if "scenes" in name:
        assert any("on_held_out_pairs" in metric for metric in scores.metrics)
    assert scores.baselines


def test_a_run_is_scored_on_other_files(
    runs: dict[str, Path], own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f'{own}/pictures/{number}.png,"a red circle"' for number in range(3)]
    table = write(tmp_path / "other.csv", "file,said", *rows)
    flags = ["--image-column", "file", "--caption-column", "said", "--engine", "off", "--json"]
    told = json.loads(printed(capsys, "eval", runs["caption scenes"], "--data", table, *flags))
    assert told["count"] == 3
    assert {"exact_match", "bleu", "chrf"} <= set(told["metrics"])
    assert any("no baseline" in note for note in told["notes"])
    told = json.loads(printed(capsys, "eval", runs["ask files"], "--data", own / "questions.jsonl", "--json"))
    assert (told["count"], set(told["metrics"])) == (36, {"accuracy"})
    assert run("eval", runs["ask files"], "--data", own / "captions.csv") == 2
    assert "question" in capsys.readouterr().err


@pytest.mark.parametrize("task", ["caption", "ask"])
def test_the_report_shows_pictures_and_where_words_look(task: str, runs: dict[str, Path]) -> None:
    page = (runs[f"{task} scenes"] / "report.html").read_text(encoding="utf-8")
    assert page.count('<img class="seen" src="data:image/png;base64,') == (12 if task == "caption" else 20)
    assert 'class="looked words"' in page


@pytest.mark.parametrize("name", ["caption files", "ask files"])
def test_an_example_is_a_picture_that_the_run_held_out(name: str, runs: dict[str, Path], own: Path) -> None:
    shown = example_caption_image(runs[name])
    task: Any = task_to_score(runs[name])
    number, told = task.judged.looked[0]
    file = task.judged.found.images.files[task.judged.rows[number]]
    assert shown.name == f"held out: {told.text}"
    np.testing.assert_array_equal(shown.pixels, np.asarray(Image.open(file)))


def test_an_example_is_a_scene_where_the_table_is_gone(own: Path, runs: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(runs["caption files"], tmp_path / "run")
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    record["settings"]["data"] = str(tmp_path / "gone.csv")
    (folder / "run.json").write_text(json.dumps(record), encoding="utf-8")
    for run_without in (folder, runs["caption scenes"]):
        np.testing.assert_array_equal(example_caption_image(run_without).pixels, example_scene().pixels)


def test_predict_writes_a_caption(runs: dict[str, Path], own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, picture = runs["caption files"], own / "pictures" / "0.png"
    said = printed(capsys, "predict", folder, picture)
    assert gf.pipeline(folder)(str(picture)) == said.removesuffix("\n")
    rows = printed(capsys, "predict", folder, "--file", own / "captions.csv", "--json").splitlines()
    assert len(rows) == 12
    assert set(json.loads(rows[0])) == {"input", "output"}
    assert len(printed(capsys, "predict", folder, "--file", own / "pictures").splitlines()) == 12
    assert run("predict", folder, picture, "--question", "what is it?") == 2
    assert "--question needs a model that" in capsys.readouterr().err


def test_predict_answers_a_question(runs: dict[str, Path], own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, picture, question = runs["ask files"], own / "pictures" / "0.png", "how many shapes are there?"
    said = printed(capsys, "predict", folder, picture, "--question", question)
    answer = gf.pipeline(folder)
    assert answer((str(picture), question)) == answer(str(picture), question=question) == said.removesuffix("\n")
    table = own / "questions.jsonl"
    assert len(printed(capsys, "predict", folder, "--file", table).splitlines()) == len(
        table.read_text(encoding="utf-8").splitlines()
    )
    assert run("predict", folder, picture) == 2
    assert "no question given" in capsys.readouterr().err
    assert run("predict", folder, "--file", table, "--question", question) == 2
    assert "use one or the other" in capsys.readouterr().err


def test_a_file_of_questions_is_answered_row_by_row(
    runs: dict[str, Path], own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "answers.jsonl"
    printed(capsys, "predict", runs["ask files"], "--file", own / "questions.jsonl", "--out", out)
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert {"image", "question", "answer", "output"} == set(rows[0])


def test_a_run_goes_on_bit_for_bit(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    flags = [*FLAGS, "--schedule", "constant", "--warmup", 1]
    assert run("train", "ask", "--out", whole, *flags, "--steps", 4) == 0
    assert run("train", "ask", "--out", parts, *flags, "--steps", 2) == 0
    assert run("train", "ask", "--out", parts, "--resume", "--steps", 4) == 0
    one, other = (gf.load(folder).state_dict() for folder in (whole, parts))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_fine_tuning_starts_from_a_run(runs: dict[str, Path], own: Path, tmp_path: Path) -> None:
    out = tmp_path / "tuned"
    flags = ["--init", runs["caption scenes"], "--data", own / "captions.csv", "--steps", 1, "--rate", 1e-9]
    assert run("train", "caption", "--out", out, *flags) == 0
    before, after = (gf.load(folder).state_dict() for folder in (runs["caption scenes"], out))
    assert all(torch.allclose(before[name], after[name], atol=1e-6) for name in before)


@pytest.mark.parametrize("name", ["caption scenes", "ask files"])
def test_transformers_opens_a_run(name: str, runs: dict[str, Path], own: Path) -> None:
    theirs = transformers.VisionEncoderDecoderModel.from_pretrained(runs[name]).eval()
    ours = gf.load(runs[name]).eval()
    processor = transformers.AutoImageProcessor.from_pretrained(runs[name])
    tokenizer = transformers.AutoTokenizer.from_pretrained(runs[name])
    picture = own / "pictures" / "1.png"
    with Image.open(picture) as image:
        pixels = processor(image, return_tensors="pt")["pixel_values"]
    ids = torch.tensor([[1, 5, 6, 7]])
    with torch.no_grad():
        expected = theirs(pixel_values=pixels, decoder_input_ids=ids).logits
        torch.testing.assert_close(ours(pixel_values=pixels, decoder_input_ids=ids).logits, expected)
    if name.startswith("caption"):
        written = theirs.generate(pixels)
        assert gf.pipeline(runs[name])(str(picture)) == tokenizer.decode(written[0], skip_special_tokens=True)


# --- own files --------------------------------------------------------------------------------------------------------


def test_all_rows_of_a_picture_are_on_one_side(own: Path) -> None:
    task = ask(data=own / "questions.jsonl", valid_fraction=0.3, questions=2)
    files = [{str(part.found.images.files[row]) for row in part.rows} for part in (task.train, task.valid)]  # type: ignore[attr-defined]
    assert not files[0] & files[1]
    assert max(map(len, task.train.told)) == 2
    assert sum(map(len, task.train.told)) + task.count("valid") == 36


def write(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["image,caption", "pictures/0.png,a circle", "pictures/99.png,none"], r"line 3: .*99\.png does not exist"),
        (["image,caption", "pictures/0.png,"], r"line 2.*caption of 'pictures/0.png' is empty.*--skip-empty"),
        (["image,text", "pictures/0.png,a circle"], r"caption.*--caption-column"),
        (["path,caption", "pictures/0.png,a circle"], r"image.*--image-column"),
        (["image,caption", "broken.png,a circle"], r"broken\.png"),
        (["image,caption", "words.txt,a circle"], r"words\.txt"),
    ],
)
def test_bad_tables_are_refused_with_their_line(rows: list[str], message: str, own: Path) -> None:
    (own / "broken.png").write_bytes((own / "pictures" / "0.png").read_bytes()[:200])
    (own / "words.txt").write_text("words", encoding="utf-8")
    with pytest.raises(InputError, match=message):
        caption(data=write(own / "bad.csv", *rows))


def test_corrupt_files_and_empty_captions_are_left_out_and_told(own: Path) -> None:
    (own / "broken.png").write_bytes((own / "pictures" / "0.png").read_bytes()[:200])
    good = [f"pictures/{number}.png,a shape" for number in range(6)]
    table = write(own / "some.csv", "image,caption", *good, "broken.png,a shape", "pictures/7.png,")
    told = caption(data=table, skip_corrupt=True, skip_empty=True).describe()["images"]
    assert "1 of 7 files cannot be read, skipped (--skip-corrupt)" in told
    assert "1 row with an empty text left out (--skip-empty)" in told


def test_pictures_of_other_sizes_and_modes_are_brought_to_one(own: Path) -> None:
    rng = np.random.default_rng(0)
    for number, (mode, shape) in enumerate([("L", (40, 20)), ("RGB", (50, 60, 3)), ("RGBA", (48, 48, 4))]):
        Image.fromarray(rng.integers(0, 255, shape, dtype=np.uint8), mode).save(own / f"odd{number}.png")
    table = write(own / "odd.csv", "image,caption", *(f"odd{number}.png,shape {number}" for number in range(3)))
    task = caption(data=table, size=24, patch=8, valid_fraction=0.34)
    assert task.collate([0], 0)["pixel_values"].shape == (1, 3, 24, 24)
    assert "are resized to 24x24" in task.describe()["images"]


@pytest.mark.parametrize(
    ("make", "changes", "message"),
    [
        (caption, {"size": 64}, "--size 64: the built-in scenes are 32x32 pixels"),
        (caption, {"mode": "grey"}, "scenes differ in colour"),
        (caption, {"patch": 5}, "--patch 5 must divide"),
        (caption, {"max_len": 8}, "the decoder takes at most 8.*--max-len"),
        (ask, {"questions": 0}, "--questions"),
        (ask, {"language": "ko", "data": Path("x.csv")}, "--language"),
        (caption, {"data": Path("missing.csv")}, "missing.csv: there is no such file"),
    ],
)
def test_what_does_not_fit_is_refused(make: Callable[..., Any], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(**changes)


def test_a_model_that_does_not_write_about_pictures_is_no_start(tmp_path: Path) -> None:
    stack = gf.StackConfig(d_model=16, num_layers=1, num_heads=2)
    ids: dict[str, Any] = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    model = gf.Transformer(gf.TransformerConfig(encoder=stack, decoder=stack, vocab_size=70, **ids))
    tokenizer = gf.train_tokenizer(["a red circle", "a blue square"] * 4, 70)
    gf.save(model, tmp_path / "text", tokenizer=tokenizer)
    with pytest.raises(InputError, match="needs a model that reads images and writes text"):
        Caption(CaptionSettings(init=str(tmp_path / "text")))


def test_a_picture_for_a_model_of_texts_and_the_reverse(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("predict", runs["caption scenes"], "a red circle") == 2
    assert "there is no such image file" in capsys.readouterr().err
    reads_text = make(tmp_path / "lm", "decoder")
    for verb in (("predict",), ("inspect", "attention")):
        assert run(*verb, reads_text, "photos/gone.PNG") == 2
        assert "photos/gone.PNG is an image file, and this model reads text" in capsys.readouterr().err


def test_a_long_thin_picture_does_not_fill_the_memory(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.new("RGB", (3_000_000, 1)).save(tmp_path / "thin.png")
    assert run("predict", runs["caption scenes"], tmp_path / "thin.png") == 2
    assert "3,000,000 x 1 pixels would become" in capsys.readouterr().err


@pytest.mark.parametrize("question", [4, ["a?", "b?"]])
def test_a_question_is_one_text(runs: dict[str, Path], question: Any) -> None:
    answers = gf.pipeline(runs["ask scenes"])
    with pytest.raises(InputError, match="expected one text"):
        answers([str(runs["ask scenes"] / "example.png")], question=question)


def test_pixels_are_floats(runs: dict[str, Path]) -> None:
    with pytest.raises(InputError, match=r"pixel_values have dtype torch\.uint8: expected floats"):
        gf.generate(gf.load(runs["caption scenes"]), pixel_values=torch.zeros(1, 3, 32, 32, dtype=torch.uint8))


def test_loss_falls_on_scenes() -> None:
    """The first steps of training with default settings."""
    task = caption(d_model=32)
    optimizer = torch.optim.AdamW(task.model.parameters(), lr=3e-3)
    losses = []
    for step in range(12):
        batch = task.collate(range(8 * step, 8 * step + 8), 0)
        labels = batch.pop("labels")
        loss = task.loss(task.model(**batch).logits, labels) / task.weight(labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    assert sum(later < earlier for earlier, later in pairwise(losses)) >= 9
    assert losses[-1] < losses[0] - 1
