"""Match: a pair of encoders on scenes and on user files; scores, baselines, export, and the user's labels."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from helpers.command import printed, run
from PIL import Image

import glassformer as gf
from glassformer.core.pair import contrastive_loss
from glassformer.data.scenes.make import make_scenes
from glassformer.data.scenes.words import caption_of
from glassformer.errors import InputError
from glassformer.predict.images import Picture
from glassformer.tasks.evaluate import evaluate
from glassformer.tasks.pictures import task as pictures
from glassformer.tasks.pictures.match import Match, colours_against_words, different_groups, in_groups, recalls
from glassformer.tasks.settings import MatchSettings

SMALL: dict[str, Any] = {
    "d_model": 16, "num_layers": 1, "num_heads": 2, "examples": 60, "batch_size": 8, "patch": 8
}  # fmt: skip
FLAGS = [f for name, value in SMALL.items() for f in (f"--{name.replace('_', '-')}", value)]
LABELS = ["a red circle", "a blue square", "a green triangle"]


@pytest.fixture(autouse=True, scope="module")
def few() -> Any:
    """Fewer scenes to score than in a real run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pictures, "SCORED_SCENES", {"valid": 66, "test": 70, "pairs": 10})
        yield


def task_of(**changes: Any) -> Match:
    return Match(MatchSettings(**{**SMALL, "out": Path("unused"), **changes}))


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's table of sixteen images and their captions."""
    root = tmp_path_factory.mktemp("own")
    made, lines = make_scenes(range(16), seed=3), []
    for number, (pixels, scene) in enumerate(zip(made.pixels, made.scenes, strict=True)):
        Image.fromarray(pixels.transpose(1, 2, 0)).save(root / f"{number}.png")
        lines.append(json.dumps({"image": f"{number}.png", "caption": caption_of(scene)}))
    (root / "captions.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, own: Path) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("runs")
    for where, more in (("scenes", []), ("files", ["--data", own / "captions.jsonl"])):
        assert run("train", "match", "--out", root / where, *FLAGS, "--steps", 2, *more) == 0
    return {"scenes": root / "scenes", "files": root / "files"}


# --- batches and scores -----------------------------------------------------------------------------------------------


def test_a_caption_is_read_between_its_start_and_its_end() -> None:
    task = task_of()
    batch = task.collate([0, 1, 2], 0)
    truths = [caption_of(scene) for scene in make_scenes([0, 1, 2], seed=0).scenes]
    config = task.model.config.text
    for ids, keep, truth in zip(batch["input_ids"], batch["attention_mask"].bool(), truths, strict=True):
        kept = ids[keep].tolist()
        assert (kept[0], kept[-1]) == (config.bos_token_id, config.eos_token_id)
        assert config.eos_token_id not in kept[:-1]
        assert task.tokenizer.decode(kept) == truth


def test_equal_captions_belong_to_the_images_of_each_other() -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(3, 3), torch.tensor([4, 7, 4])
    truth = torch.tensor([[0.5, 0, 0.5], [0, 1, 0], [0.5, 0, 0.5]])
    rows, columns = (-(truth * x.log_softmax(1)).sum(1).mean() for x in (logits, logits.t()))
    torch.testing.assert_close(contrastive_loss(logits, labels), (rows + columns) / 2)
    own = torch.nn.functional.cross_entropy
    there, back = (own(x, torch.arange(3)) for x in (logits, logits.t()))
    torch.testing.assert_close(contrastive_loss(logits), (there + back) / 2)
    task = task_of()
    batch = task.as_batch(task.train.take([0, 1, 2]), [task.train.told[i] for i in (0, 1, 0)])
    assert batch["labels"][0] == batch["labels"][2] != batch["labels"][1]


def test_recall_counts_what_says_the_same_and_groups_have_64() -> None:
    assert [len(group) for group in in_groups(list(range(130)))] == [64, 64]
    assert [len(group) for group in in_groups(list(range(63)))] == [63]
    texts = ["a", "b", "b"]
    found = recalls(torch.tensor([[9.0, 0, 0], [0, 0, 9], [9, 1, 0]]), texts, [[0, 1, 2]])
    assert found == {"recall": pytest.approx(5 / 6), "image_to_text": pytest.approx(2 / 3), "text_to_image": 1.0}
    assert recalls(torch.eye(3), texts, different_groups(texts)) == dict.fromkeys(found, 1.0)


def test_scores_are_taken_among_captions_that_differ() -> None:
    captions = [f"caption {i % 70 if i % 3 else 0}" for i in range(900)]
    groups = different_groups(captions)
    assert len(groups) > 3
    assert {len(group) for group in groups} == {64}
    assert all(len({captions[row] for row in group}) == 64 for group in groups)
    rows = [row for group in groups for row in group]
    assert len(rows) == len(set(rows)), "no pair is scored twice"
    assert different_groups(["a", "b", "a"]) == [[0, 1]]


def test_the_histogram_baseline_knows_colours_and_nothing_of_places() -> None:
    made = make_scenes(range(400), seed=0)
    texts = [caption_of(scene) for scene in made.scenes]
    asked = make_scenes(range(64), seed=0, part="test")
    captions = [caption_of(scene) for scene in asked.scenes]
    images, bags = colours_against_words(made.pixels, texts, asked.pixels, captions)
    assert recalls(images @ bags.t(), captions, [range(64)])["recall"] > 10 / 64
    mirrored, _ = colours_against_words(made.pixels, texts, asked.pixels[..., ::-1], captions)
    torch.testing.assert_close(mirrored, images)


def test_a_pair_learns_scenes() -> None:
    """After so few steps, far from perfect but well above chance."""
    settings = MatchSettings.from_dict({**SMALL, "out": "unused", "d_model": 32, "batch_size": 32, "examples": 6400})
    task = Match(settings)
    optimizer = torch.optim.AdamW(task.model.parameters(), lr=1e-3)
    before = task.validate()
    for batch in task.batches(0):
        inputs = task.collate(batch, 0)
        labels = inputs.pop("labels")
        loss = task.compare({**task.vectors(task.model(**inputs)), "labels": labels})
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    after = task.validate()
    assert after["loss"] < before["loss"] - 0.5
    assert after["recall"] > 0.1 > 3 * before["recall"]


# --- runs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["scenes", "files"])
def test_a_run_is_a_clip_that_transformers_opens(where: str, trained: dict[str, Path], own: Path) -> None:
    folder, files = trained[where], [own / "0.png", own / "1.png"]
    theirs, report = transformers.CLIPModel.from_pretrained(folder, output_loading_info=True)
    assert not any(report[problem] for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    processor = transformers.CLIPImageProcessor.from_pretrained(folder)
    inputs = tokenizer(LABELS, padding=True, return_tensors="pt")
    pixels = processor([Image.open(file) for file in files], return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        given = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        expected = theirs.eval()(**given, pixel_values=pixels)
    found = gf.pipeline(folder)([str(file) for file in files], labels=LABELS)
    for label, row in zip(found, expected.logits_per_image.softmax(dim=1).tolist(), strict=True):
        assert list(label.scores.values()) == pytest.approx(row, abs=1e-5)
        assert label.label == LABELS[int(np.argmax(row))]
        assert label.score == max(label.scores.values())
    vectors = gf.pipeline(folder)([str(files[0]), LABELS[0], str(files[1])])
    torch.testing.assert_close(vectors[[0, 2]], expected.image_embeds, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(vectors[1], expected.text_embeds[0], rtol=1e-4, atol=1e-5)


def test_a_run_is_verified_scored_and_reported(trained: dict[str, Path], own: Path) -> None:
    folder = trained["scenes"]
    assert gf.verify(folder).passed
    scores = evaluate(folder)
    assert list(scores.metrics) == ["recall", "image_to_text", "text_to_image", "recall_on_held_out_pairs"]
    assert scores.metrics["recall"] == pytest.approx(
        (scores.metrics["image_to_text"] + scores.metrics["text_to_image"]) / 2
    )
    among = round(1 / scores.baselines["random guess"]["recall"])
    assert 20 < among <= 64
    assert scores.baselines["colour histogram against words"]["recall"] > 0.1
    assert any(f"against {among} different captions" in note for note in scores.notes)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/png") > 5
    assert scores.examples[0]["expected"] in page
    on_files = evaluate(folder, [own / "captions.jsonl"])
    assert (on_files.count, on_files.unit) == (16, "captions")
    assert evaluate(trained["files"]).count == 2


def test_a_run_starts_from_a_clip_checkpoint(trained: dict[str, Path], own: Path, tmp_path: Path) -> None:
    first = trained["scenes"]
    more = ["--data", own / "captions.jsonl", "--init", first, "--batch-size", 8, "--steps", 1, "--rate", 1e-9]
    assert run("train", "match", "--out", tmp_path / "more", *more) == 0
    before, after = gf.load(first), gf.load(tmp_path / "more")
    assert before.config == after.config
    for name, weights in before.named_parameters():
        torch.testing.assert_close(dict(after.named_parameters())[name], weights, rtol=0, atol=1e-6)


def test_accumulation_changes_nothing(trained: dict[str, Path], tmp_path: Path) -> None:
    assert run("train", "match", "--out", tmp_path, *FLAGS, "--steps", 2, "--accumulate", 4) == 0
    whole, parts = gf.load(trained["scenes"]), gf.load(tmp_path)
    for name, weights in whole.named_parameters():
        torch.testing.assert_close(dict(parts.named_parameters())[name], weights, rtol=0, atol=2e-4)


# --- the user's labels ------------------------------------------------------------------------------------------------


def test_predict_names_the_best_label_and_gives_vectors(trained: dict[str, Path], own: Path, capsys: Any) -> None:
    folder, file = trained["scenes"], own / "0.png"
    capsys.readouterr()  # discards the output of training
    shown = printed(capsys, "predict", folder, file, "--labels", *LABELS).splitlines()
    assert sorted(line[:-5].strip() for line in shown) == sorted(LABELS)
    both = printed(capsys, "predict", folder, file, own / "1.png", "--labels", *LABELS, "--json").splitlines()
    said = [json.loads(line) for line in both]
    assert [one["input"] for one in said] == [str(file), str(own / "1.png")]
    assert all(sum(one["scores"].values()) == pytest.approx(1) for one in said)
    assert all(one["label"] == max(one["scores"], key=one["scores"].get) for one in said)
    rows = printed(capsys, "predict", folder, file, "a red circle", "--json").splitlines()
    vectors = [json.loads(line)["vector"] for line in rows]
    assert [np.linalg.norm(vector) for vector in vectors] == pytest.approx([1, 1], abs=1e-5)
    assert "1.000" in printed(capsys, "predict", folder, file, "a red circle")


def test_labels_of_a_folder_go_to_a_file(trained: dict[str, Path], own: Path, tmp_path: Path) -> None:
    out = tmp_path / "labels.csv"
    more = ["--file", own / "captions.jsonl", "--out", out, "--labels", *LABELS]
    assert run("predict", trained["scenes"], *more) == 0
    rows = out.read_text(encoding="utf-8").splitlines()
    assert rows[0] == "image,caption,label,score"
    assert len(rows) == 17


def test_a_picture_that_is_no_file_is_read_too(trained: dict[str, Path], own: Path) -> None:
    predict = gf.pipeline(trained["scenes"])
    pixels = np.asarray(Image.open(own / "0.png"))
    label = predict(Picture("scene", pixels), labels=LABELS)
    assert label.scores == pytest.approx(predict(str(own / "0.png"), labels=LABELS).scores)


@pytest.mark.parametrize(
    ("inputs", "labels", "message"),
    [
        (["a red circle"], LABELS, "input 1 is 'a red circle', a text: labels are for images"),
        (["missing.png"], LABELS, r"missing.png: there is no such image file"),
        (["{own}/0.png"], ["a", "{own}/1.png"], r"label 2 is the image .*: expected a text"),
        (["{own}/0.png"], ["a red circle"], "1 label given: expected at least 2"),
        (["{own}/0.png"], ["a red circle", "a red circle"], "label 2 is given twice"),
        (["{own}/0.png"], ["a red circle", " "], "label 2 is empty"),
        (["{own}/cut.png"], LABELS, "cannot be read as an image"),
        (["{own}/huge.png"], LABELS, "pixels: expected at most 89,478,485. Make it smaller"),
        (["{own}/0.png", ""], None, "text 1 is empty"),
        (["a red circle " * 40], None, "text 1 has .* tokens: expected at most 64. Shorten it, or use"),
    ],
)
def test_what_cannot_be_matched_is_one_sentence(
    inputs: list[str], labels: list[str] | None, message: str, trained: dict[str, Path], own: Path
) -> None:
    (own / "cut.png").write_bytes((own / "0.png").read_bytes()[:200])
    Image.new("1", (20_000, 20_000)).save(own / "huge.png")
    options = {} if labels is None else {"labels": [label.format(own=own) for label in labels]}
    with pytest.raises(InputError, match=message):
        gf.pipeline(trained["scenes"])([given.format(own=own) for given in inputs], **options)


def test_captions_that_are_all_the_same(own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"{own}/{number}.png,a shape\n" for number in range(12))
    (tmp_path / "same.csv").write_text("image,caption\n" + rows, encoding="utf-8")
    assert run("train", "match", "--data", tmp_path / "same.csv", "--out", tmp_path / "run", *FLAGS, "--steps", 2) == 2
    assert "all training captions are 'a shape'" in capsys.readouterr().err


def test_labels_are_for_a_pair(trained: dict[str, Path], tmp_path: Path) -> None:
    pair = gf.load(trained["scenes"])
    gf.save(pair.text, tmp_path / "text", tokenizer=gf.load_tokenizer(trained["scenes"]))
    with pytest.raises(InputError, match="--labels needs a model that matches images with texts"):
        gf.pipeline(tmp_path / "text")(["a red circle"], labels=LABELS)
    with pytest.raises(InputError, match="the engine runs a single model"):
        gf.pipeline(trained["scenes"], engine="on")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"label_smoothing": 0.1}, "match.s is contrastive"),
        ({"r_drop": 1.0}, "match.s is contrastive"),
        ({"batch_size": 1}, "expected at least 2"),
        ({"patch": 5}, "--patch 5 must divide the image size 32"),
        ({"mode": "grey"}, "scenes differ in colour"),
        ({"max_len": 5}, "Use --truncate, or raise --max-len"),
        ({"init": "{text}", "d_model": None, "num_layers": None, "num_heads": None, "patch": None},
         "needs a text and an image model together"),
    ],
)  # fmt: skip
def test_settings_that_do_not_go_together(
    settings: dict[str, Any], message: str, trained: dict[str, Path], tmp_path: Path
) -> None:
    if "init" in settings:
        gf.save(gf.load(trained["scenes"]).text, tmp_path / "text", tokenizer=gf.load_tokenizer(trained["scenes"]))
        settings = {**settings, "init": str(tmp_path / "text")}
    with pytest.raises(InputError, match=message):
        task_of(**settings)


def test_a_text_is_cut_before_its_end_token() -> None:
    task = task_of(max_len=6, truncate=True)
    rows = task.rows([one for _, one in task.train.looked])
    assert max(map(len, rows)) == 6
    assert {row[-1] for row in rows} == {task.model.config.text.eos_token_id}
    assert task.cut > 0
