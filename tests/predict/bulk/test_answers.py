"""Output files: the unchanged columns of the input, followed by those of the answers, row by row."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.command import run
from helpers.tiny_models import rounded

import glassformer as gf
from glassformer.predict.answers import Label
from glassformer.predict.bulk import job

FolderOf = Callable[[str], Path]
TEXTS = [
    "The quick brown fox",
    "Once upon a time there was a small model",
    "fox",
    'the lazy, "lazy" dog',
    "옛날 옛적에",
]


def read_csv(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))


def write_csv(file: Path, rows: list[dict[str, Any]]) -> Path:
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return file


def test_the_class_of_every_row(folder_of: FolderOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"id": f"00{i}", "text": text, "stars": "5.0"} for i, text in enumerate(TEXTS)]
    file = write_csv(tmp_path / "in.csv", rows)
    assert run("predict", folder_of("encoder"), "--file", file, "--out", tmp_path / "out.csv") == 0
    expected = gf.pipeline(folder_of("encoder"))(TEXTS)
    found = read_csv(tmp_path / "out.csv")
    assert list(found[0]) == ["id", "text", "stars", "label", "score"]
    assert [{name: row[name] for name in rows[0]} for row in found] == rows
    assert [row["label"] for row in found] == [answer.label for answer in expected]
    assert [float(row["score"]) for row in found] == pytest.approx([answer.score for answer in expected], rel=1e-4)
    shown = capsys.readouterr()
    assert not shown.out
    assert f"Saved 5 rows to {tmp_path / 'out.csv'}, with the answers in columns label and score" in shown.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "out.csv"]


ABILITIES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "encoder-decoder": ("output", {}, TEXTS),
    "decoder": ("output", {"max_new_tokens": 5, "do_sample": False}, TEXTS),
    "fill": ("masks", {"guesses": 2}, [f"{text} [MASK]" for text in TEXTS]),
    "label": ("tokens", {}, TEXTS),
    "span": ("answer", {"question": "Who?"}, TEXTS),
    "embed": ("vector", {}, TEXTS),
}


@pytest.mark.parametrize("kind", ABILITIES)
def test_every_ability_as_json_lines(kind: str, folder_of: FolderOf, tmp_path: Path) -> None:
    name, options, texts = ABILITIES[kind]
    rows = [{"text": text, "number": i, "list": [i, None]} for i, text in enumerate(texts)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    flags = [f"--{key.replace('_', '-')}={value}" for key, value in options.items() if key != "do_sample"]
    flags += ["--greedy"] if "do_sample" in options else []
    out = tmp_path / "out.jsonl"
    assert run("predict", folder_of(kind), "--file", tmp_path / "in.jsonl", "--out", out, *flags) == 0
    found = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [{key: row[key] for key in rows[0]} for row in found] == rows
    answers = gf.pipeline(folder_of(kind))(texts, **options)
    expected = {"answer": lambda answer: answer.answer}.get(name, lambda answer: answer)
    assert rounded([expected(answer) for answer in answers]) == rounded([row[name] for row in found])


def test_pairs_and_several_classes_at_once(tmp_path: Path) -> None:
    from helpers.head_checkpoints import LABELS, bert

    names = {"id2label": LABELS, "label2id": {name: i for i, name in LABELS.items()}}
    (tmp_path / "model").mkdir()
    folder = bert(tmp_path / "model", "ForSequenceClassification", problem_type="multi_label_classification", **names)
    pairs = [("Hello", "world"), ("how", "are you")]
    file = write_csv(tmp_path / "in.csv", [{"sentence1": one, "sentence2": other} for one, other in pairs])
    assert run("predict", folder, "--file", file, "--out", tmp_path / "out.csv") == 0
    found, expected = read_csv(tmp_path / "out.csv"), gf.pipeline(folder)(pairs)
    assert [json.loads(row["labels"]) for row in found] == [list(answer.labels) for answer in expected]
    scores = [json.loads(row["scores"]) for row in found]
    assert scores == [pytest.approx(list(answer.labels.values()), rel=1e-4) for answer in expected]


def test_the_id_alone_and_names_that_are_taken(folder_of: FolderOf, tmp_path: Path) -> None:
    rows = [{"id": i, "text": text, "label": "glad", "score": 1, "predicted_score": 2} for i, text in enumerate(TEXTS)]
    file = write_csv(tmp_path / "in.csv", rows)
    call = ["predict", folder_of("encoder"), "--file", file, "--out"]
    assert run(*call, tmp_path / "all.csv") == 0
    taken = ["id", "text", "label", "score", "predicted_score"]
    assert list(read_csv(tmp_path / "all.csv")[0]) == [*taken, "predicted_label", "predicted_score_2"]
    assert [row["label"] for row in read_csv(tmp_path / "all.csv")] == ["glad"] * 5
    assert run(*call, tmp_path / "ids.csv", "--id-column", "id") == 0
    whole = read_csv(tmp_path / "all.csv")
    assert read_csv(tmp_path / "ids.csv") == [
        {"id": row["id"], "label": row["predicted_label"], "score": row["predicted_score_2"]} for row in whole
    ]


def pictures(folder: Path) -> list[Path]:
    from PIL import Image

    folder.mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (3, 8, 8), dtype=np.uint8)
    for i, grey in enumerate(pixels):
        Image.fromarray(grey).save(folder / f"{i}.png")
    return sorted(folder.iterdir())


@pytest.mark.parametrize("given", ["folder", "table", "lines"])
def test_images_of_a_folder_or_of_a_table(
    given: str, folder_of: FolderOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = pictures(tmp_path / "pictures")
    monkeypatch.chdir("/")
    file = tmp_path / "pictures"
    if given == "table":  # its paths are relative to its own folder, as in training
        file = write_csv(tmp_path / "in.csv", [{"image": f"pictures/{one.name}", "who": "me"} for one in files])
    if given == "lines":
        file = tmp_path / "in.txt"
        file.write_text("".join(f"{one}\n" for one in files), encoding="utf-8")
    assert run("predict", folder_of("image"), "--file", file, "--out", tmp_path / "out.csv") == 0
    expected: list[Label] = gf.pipeline(folder_of("image"))([str(one) for one in files])
    found = read_csv(tmp_path / "out.csv")
    assert [row["label"] for row in found] == [answer.label for answer in expected]
    assert [Path(row["image"]).name for row in found] == [one.name for one in files]


def test_series_in_lines(folder_of: FolderOf, tmp_path: Path) -> None:
    rows = [[float(i * j % 7) for j in range(48)] for i in range(1, 4)]
    file = tmp_path / "in.txt"
    file.write_text("".join(",".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
    assert run("predict", folder_of("judge"), "--file", file, "--out", tmp_path / "out.csv") == 0
    found = read_csv(tmp_path / "out.csv")
    assert [row["label"] for row in found] == [answer.label for answer in gf.pipeline(folder_of("judge"))(rows)]
    assert found[0]["series"].startswith("0.0,1.0,2.0")


def test_series_in_a_table(folder_of: FolderOf, tmp_path: Path) -> None:
    rows = [[float(i * j % 7) for j in range(48)] for i in range(1, 4)]
    lines = [",".join(["label", *(f"t{j}" for j in range(48))])] + [",".join(["up", *map(str, row)]) for row in rows]
    (tmp_path / "in.csv").write_text("\n".join(lines), encoding="utf-8")
    call = ["predict", folder_of("judge"), "--file", tmp_path / "in.csv", "--out", tmp_path / "out.csv"]
    assert run(*call) == 0
    found = read_csv(tmp_path / "out.csv")
    assert [row["predicted_label"] for row in found] == [one.label for one in gf.pipeline(folder_of("judge"))(rows)]
    assert [(row["label"], row["t1"]) for row in found] == [("up", "1.0"), ("up", "2.0"), ("up", "3.0")]


def test_what_is_drawn_is_the_same_every_time(folder_of: FolderOf, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("The fox\nThe fox\n", encoding="utf-8")
    flags = ["--do-sample", "--temperature=3", "--max-new-tokens=9"]
    for name in ("one.csv", "two.csv"):
        call = ["predict", folder_of("decoder"), "--file", tmp_path / "in.txt", "--out", tmp_path / name]
        assert run(*call, *flags) == 0
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()
    first, second = read_csv(tmp_path / "one.csv")
    assert first["output"] != second["output"]


class TestRowsWithoutAnAnswer:
    def test_empty_rows_stay_empty_and_are_counted(
        self, folder_of: FolderOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        texts = ["fox", "", "  ", None, "dog"]
        lines = [json.dumps({"text": text}) + "\n" for text in texts]
        (tmp_path / "in.jsonl").write_text("".join(lines), encoding="utf-8")
        out = tmp_path / "out.csv"
        assert run("predict", folder_of("encoder"), "--file", tmp_path / "in.jsonl", "--out", out) == 0
        found = read_csv(out)
        assert [bool(row["label"]) for row in found] == [bool(row["score"]) for row in found] == [1, 0, 0, 0, 1]
        said = capsys.readouterr().err
        assert "3 rows have no answer (3 empty):\n  line 2: it is empty\n  line 3: it is" in said

    def test_a_row_that_the_model_refuses_stops_nothing(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        from helpers.head_checkpoints import bert

        (tmp_path / "model").mkdir()
        folder = bert(tmp_path / "model", "ForSequenceClassification")
        texts = [*TEXTS, "word " * 100, "", *TEXTS]
        file = write_csv(tmp_path / "in.csv", [{"n": i, "text": text} for i, text in enumerate(texts)])
        assert run("predict", folder, "--file", file, "--out", tmp_path / "out.csv") == 0
        found = read_csv(tmp_path / "out.csv")
        assert [i for i, row in enumerate(found) if not row["label"]] == [5, 6]
        assert [row["label"] for row in found[:5]] == [row["label"] for row in found[7:]]
        said = capsys.readouterr().err
        assert "2 rows have no answer (1 empty, 1 refused by the model):" in said
        assert "line 7: the text has 203 tokens: expected at most 64" in said

    def test_where_the_model_answers_nothing_the_reason_is_said_at_once(
        self, folder_of: FolderOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = write_csv(tmp_path / "in.csv", [{"text": text} for text in TEXTS])
        assert run("predict", folder_of("fill"), "--file", file, "--out", tmp_path / "out.csv") == 2
        said = capsys.readouterr().err
        assert "cannot answer any of the first 5 rows; line 2: the text 'The quick brown fox' has no [MASK]" in said
        assert not (tmp_path / "out.csv").exists()


def test_what_is_told_of_texts_is_told_once_for_all(
    folder_of: FolderOf, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from helpers.head_checkpoints import bert

    monkeypatch.setattr(job, "CHUNK_ROWS", (4, 4))
    (tmp_path / "model").mkdir()
    folder = bert(tmp_path / "model", "ForSequenceClassification")
    file = write_csv(tmp_path / "long.csv", [{"text": "word " * length} for length in (1, 99, 1, 1, 99, 99, 1)])
    assert run("predict", folder, "--file", file, "--out", tmp_path / "cut.csv", "--truncate") == 0
    said = capsys.readouterr().err
    assert "3 of 7 texts are longer than 64 tokens: truncated" in said
    assert said.count("truncated") == 1
    texts = ["fox 犬", "fox", "dog", "fox", "犬 dog 猫", "the"]
    file = write_csv(tmp_path / "unknown.csv", [{"text": text} for text in texts])
    assert run("predict", folder_of("encoder"), "--file", file, "--out", tmp_path / "unknown-out.csv") == 0
    said = capsys.readouterr().err
    assert "in 2 of 6 texts are unknown to the vocabulary: '犬', '猫'" in said
    assert said.count("unknown") == 2  # one of them in the file name
    assert run("predict", folder_of("encoder"), *texts) == 0
    assert capsys.readouterr().err.strip() == said.splitlines()[-1]
