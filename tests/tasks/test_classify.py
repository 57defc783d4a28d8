"""Classification of texts, pairs and series: weights, labels, scores, and a run that other libraries load."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from rich.console import Console
from sklearn.utils.class_weight import compute_class_weight

import glassformer as gf
from glassformer.cli import main
from glassformer.errors import InputError
from glassformer.tasks.classify import Classify
from glassformer.tasks.settings import ClassifySettings
from glassformer.text import train_tokenizer
from glassformer.training.run import run

ANIMALS, COLOURS = ["cat", "dog", "bird", "fish"], ["red", "green", "blue", "white"]
OWN = {
    "vocab_size": ClassifySettings.vocab_size,
    "d_model": None,
    "num_layers": None,
    "num_heads": None,
    "dropout": None,
}


def write(file: Path, rows: list[str]) -> Path:
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts labelled by what comes first, the animal or the colour, so word order matters. Some have neither."""
    rows = ["text,label"]
    for i in range(160):
        words = ANIMALS[i % 4], COLOURS[i // 4 % 4]
        first, second = words if i % 3 else words[::-1]
        rows.append(f"so {first} {i % 7} {second},{'animal' if i % 3 else 'colour'}")
    rows += [f"only {i} here,none" for i in range(16)]
    return write(tmp_path_factory.mktemp("texts") / "order.csv", rows)


def tiny(out: Path, **changes: Any) -> ClassifySettings:
    small = {"steps": 3, "d_model": 16, "num_layers": 1, "num_heads": 2, "batch_size": 16, "vocab_size": 100}
    return ClassifySettings.from_dict({"out": str(out), **small, "warmup": 5, "dropout": 0.0, **changes})


def made(out: Path, data: Path, **changes: Any) -> Classify:
    task = Classify(tiny(out, data=str(data), **changes))
    task.model.eval()
    return task


def test_classes_are_in_their_proportion_on_both_sides(tmp_path: Path, texts: Path) -> None:
    task = made(tmp_path, texts)
    assert task.names == ["animal", "colour", "none"]
    assert task.train is not None
    assert task.valid is not None
    shares = [np.bincount(task.as_targets(side).numpy(), minlength=3) / len(side) for side in (task.train, task.valid)]
    np.testing.assert_allclose(*shares, atol=0.04)
    held_out = {example.texts for example in task.valid}
    assert not held_out & {example.texts for example in task.train}, "no text is on both sides"


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("accumulate", [1, 4])
def test_balanced_weights_are_those_of_torch_and_scikit_learn(
    tmp_path: Path, texts: Path, smoothing: float, accumulate: int
) -> None:
    """However a batch is split into parts, their sum is torch's weighted mean."""
    task = made(tmp_path, texts, class_weights="balanced", label_smoothing=smoothing)
    labels = task.targets
    expected = compute_class_weight("balanced", classes=np.arange(3), y=labels.numpy())
    assert task.class_weights is not None
    np.testing.assert_allclose(task.class_weights.numpy(), expected, rtol=1e-6)
    batch = task.collate(list(range(24)), 0)
    logits = torch.randn(24, 3, generator=torch.Generator().manual_seed(0))
    theirs = torch.nn.CrossEntropyLoss(weight=torch.tensor(expected, dtype=torch.float), label_smoothing=smoothing)
    weight = task.weight(batch["labels"])
    parts = zip(logits.chunk(accumulate), batch["labels"].chunk(accumulate), strict=True)
    ours = sum(task.loss(*part) / weight for part in parts)
    torch.testing.assert_close(ours, theirs(logits, batch["labels"]))
    assert task.weight(batch["labels"]) == pytest.approx(
        sum(task.weight(part) for part in batch["labels"].chunk(accumulate))
    )


def test_a_run_learns_order_and_beats_a_bag_of_words(tmp_path: Path, texts: Path) -> None:
    settings = tiny(tmp_path / "run", data=str(texts), steps=250, d_model=32, num_layers=2, rate=0.005)
    task, scores = run(Classify, settings, Console(quiet=True), verb="train classify")
    assert isinstance(task, Classify)
    words = scores.baselines["bag of words, logistic regression"]["accuracy"]
    assert scores.metrics["accuracy"] > max(words, 0.9)
    assert scores.baselines["always the most frequent class"]["accuracy"] < 0.8
    assert scores.classes == ["animal", "colour", "none"]
    assert sum(map(sum, scores.confusion)) == scores.count
    assert sum(scores.confusion[i][i] for i in range(3)) == pytest.approx(scores.metrics["accuracy"] * scores.count)
    assert {"input", "expected", "answer"} == set(scores.examples[0])
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["classes"] == scores.classes

    init = str(tmp_path / "run")
    again = Classify(tiny(tmp_path / "other", init=init, rate=None, **OWN), [texts])
    assert again.evaluate().count == 176, "a finished run is judged by a file"
    assert again.names == task.names


def test_from_the_command_line_to_transformers(tmp_path: Path, texts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    words = ["train", "classify", "--data", str(texts), "--steps", "3", "--out", str(out)]
    main([*words, "--vocab-size", "100", "--d-model", "16", "--num-layers", "1", "--class-weights", "balanced"])
    said = capsys.readouterr().out
    assert "3, one label per example: animal, colour, none" in said
    assert "bag of words" in said
    theirs, report = transformers.AutoModelForSequenceClassification.from_pretrained(out, output_loading_info=True)
    assert not any(report[problem] for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert theirs.config.model_type == "modernbert"
    assert theirs.config.id2label == {0: "animal", 1: "colour", 2: "none"}
    pipeline = gf.pipeline(out)
    (answer,) = pipeline(["so cat 3 red"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    logits = theirs.eval()(**tokenizer(["so cat 3 red"], return_tensors="pt", return_token_type_ids=False)).logits[0]
    assert answer.scores == pytest.approx(
        dict(zip(answer.scores, logits.softmax(dim=0).tolist(), strict=True)), abs=1e-5
    )


def bert(folder: Path) -> Path:
    tokenizer = train_tokenizer([" ".join([*ANIMALS, *COLOURS])] * 9, 120, "wordpiece", around="segments")
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), max_position_embeddings=24, hidden_size=16, num_hidden_layers=1,
        num_attention_heads=2, intermediate_size=32,
    )  # fmt: skip
    transformers.BertForMaskedLM(config).save_pretrained(folder)
    tokenizer.save(folder)
    return folder


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = ["sentence1\tsentence2\tlabel"]
    rows += [f"{ANIMALS[i % 4]} cat\t{ANIMALS[i * 7 // 4 % 4]} {COLOURS[i % 3]}\t{i % 2}" for i in range(60)]
    return write(tmp_path_factory.mktemp("pairs") / "pairs.tsv", rows)


def test_a_new_head_by_name_on_a_bert_that_reads_pairs(tmp_path: Path, pairs: Path) -> None:
    folder = str(bert(tmp_path / "bert"))
    settings = tiny(tmp_path / "run", data=str(pairs), init=folder, head="class", rate=None, **OWN)
    assert settings.rate == 5e-5
    task = Classify(settings)
    batch = task.collate([4, 9], 0)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert task.train is not None
    expected = tokenizer(
        *([task.train[i].texts[side] for i in (4, 9)] for side in (0, 1)), padding=True, return_tensors="pt"
    )
    for name in ("input_ids", "token_type_ids", "attention_mask"):
        assert batch[name].tolist() == expected[name].tolist(), name
    assert batch["token_type_ids"].any()
    run(Classify, settings, Console(quiet=True), verb="train classify")
    config = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "run").config
    assert (config.model_type, config.id2label) == ("bert", {0: "0", 1: "1"})
    with pytest.raises(InputError, match="Use --head class to replace it with a new, untrained one"):
        Classify(settings.replace(head=None))


def test_pairs_from_scratch_have_no_segments(tmp_path: Path, pairs: Path) -> None:
    task = made(tmp_path, pairs)
    assert set(task.collate([0, 1], 0)) == {"input_ids", "attention_mask", "labels"}
    separators = (task.collate([0], 0)["input_ids"] == task.reader.tokenizer.sep_token_id).sum()  # type: ignore[union-attr]
    assert separators == 2


def test_several_labels_at_once(tmp_path: Path) -> None:
    rows = ["text,label"]
    for i in range(150):
        words = [word for j, word in enumerate(ANIMALS[:3]) if i >> j & 1]
        rows.append(f"look {i % 5} {' '.join(words)} there,{'|'.join(words)}")
    data = write(tmp_path / "several.csv", rows)
    settings = tiny(tmp_path / "run", data=str(data), label_separator="|", steps=120, d_model=32, rate=0.01)
    task, scores = run(Classify, settings, Console(quiet=True), verb="train classify")
    assert isinstance(task, Classify)
    assert scores.metrics["micro_f1"] > 0.9
    assert not scores.confusion
    batch = task.collate(list(range(10)), 0)
    logits = torch.randn(10, 3)
    mean = torch.nn.functional.binary_cross_entropy_with_logits(logits, batch["labels"])
    torch.testing.assert_close(task.loss(logits, batch["labels"]) / task.weight(batch["labels"]), mean)
    theirs = transformers.AutoConfig.from_pretrained(tmp_path / "run")
    assert theirs.problem_type == "multi_label_classification"
    (answer,) = gf.pipeline(tmp_path / "run")(["look 2 bird cat there"])
    assert sum(answer.scores.values()) > 1.2, "each class by itself"
    again = Classify(
        tiny(tmp_path / "other", init=str(tmp_path / "run"), label_separator="|", rate=None, **OWN), [data]
    )
    assert again.evaluate().metrics["micro_f1"] > 0.9


def series_rows(count: int, seed: int) -> list[tuple[str, list[float]]]:
    """Rising or falling, at any level and with noise."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        values = rng.normal(0, 100) + (1 if i % 2 else -1) * np.arange(40) * 0.2 + rng.normal(0, 0.5, 40)
        rows.append((str(i % 2 + 1), values.round(4).tolist()))
    return rows


def test_series_of_the_archive_are_learned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {}
    for name, count in (("TRAIN", 60), ("TEST", 40)):
        rows = ["\t".join([label, *map(str, values)]) for label, values in series_rows(count, len(name))]
        files[name] = write(tmp_path / f"Slope_{name}.tsv", rows)
    out = tmp_path / "run"
    words = ["train", "classify", "--reads", "series", "--data", str(files["TRAIN"]), "--test", str(files["TEST"])]
    main([*words, "--steps", "60", "--d-model", "16", "--num-layers", "1", "--out", str(out)])
    said = capsys.readouterr().out
    assert "40 values, in 39 patches of 2, stride 1" in said
    record = json.loads((out / "run.json").read_text())
    assert record["results"]["accuracy"] > 0.9
    assert record["results"]["count"] == 40
    model = gf.load(out)
    values = torch.tensor([values for _, values in series_rows(40, 4)])[:, :, None]
    right = model(past_values=values).logits.argmax(dim=1) == torch.arange(40) % 2
    assert right.float().mean() > 0.9
    again = Classify(tiny(tmp_path / "other", init=str(out), reads="series", rate=None, **OWN), [files["TEST"]])
    assert again.evaluate().metrics["accuracy"] == pytest.approx(record["results"]["accuracy"])


def test_series_of_a_csv_with_a_header(tmp_path: Path) -> None:
    rows = [f"{values[0]},{label},{','.join(map(str, values[1:]))}" for label, values in series_rows(20, 1)]
    data = write(tmp_path / "slope.csv", [",".join(["t0", "way", *(f"t{i}" for i in range(1, 40))]), *rows])
    task = made(tmp_path / "run", data, reads="series", label_column="way")
    assert task.train is not None
    assert len(task.train[0].values) == 40
    assert task.names == ["1", "2"]


@pytest.mark.parametrize(
    ("rows", "changes", "message"),
    [
        (["text,label", "a,x", "b,y"], {"text_columns": ["txt"]}, "columns text, label, but none called 'txt'"),
        (["text,label", "a,x", "b,y"], {"label_column": "class"}, "but none called 'class'"),
        (["text,label", "a,x", "b,x", "c,x"], {}, "the label is 'x' in all examples, expected two or more"),
        (["text,label", "a,x", ",y"], {}, "line 3: text is empty"),
        (["label,t0,t1", "x,1,2", "y,1,two"], {"reads": "series"}, "line 3, column 't1': 'two' is not a number"),
        (
            ["class,t0,t1", "x,1,2"],
            {"reads": "series"},
            "has a header, but no column called 'label'.*Give the label column with --label-column",
        ),
        (["x,one,2"], {"reads": "series"}, r"line 1, column 2: 'one' is not a number \(without a header"),
        (["x,1,2", "y,1,NaN"], {"reads": "series"}, "line 2, column 3: 'NaN' is not a number"),
        (["x,1,2", "y,1,2,3"], {"reads": "series"}, "line 2: 3 values, but line 1 has 2"),
        (["x,1,2", ",1,2"], {"reads": "series"}, "line 2: the label is empty"),
        (["x,1,2", "y"], {"reads": "series"}, "line 2: 'y' has a label but no values"),
        (
            [f"{name},{i},4" for i in range(9) for name in "xy"],
            {"reads": "series", "patch": 3},
            "--patch 3 is longer than the series: expected at most 2 values",
        ),
    ],
)
def test_bad_files_are_named(tmp_path: Path, rows: list[str], changes: dict[str, Any], message: str) -> None:
    data = write(tmp_path / "rows.csv", rows)
    with pytest.raises(InputError, match=message) as error:
        made(tmp_path / "run", data, **changes)
    assert "rows.csv" in str(error.value) or "patch" in changes


def test_a_label_seen_only_in_the_test_set_is_named(tmp_path: Path, texts: Path) -> None:
    test = write(tmp_path / "test.csv", ["text,label", "so cat 3 red,animal", "so dog 2 blue,color"])
    with pytest.raises(InputError, match=r"test.csv, line 3: no training example has the label 'color'.*colour"):
        made(tmp_path / "run", texts, test=str(test))


def test_several_labels_where_one_is_expected(tmp_path: Path, texts: Path) -> None:
    test = write(tmp_path / "test.jsonl", ['{"text": "so cat 3 red", "label": ["animal", "colour"]}'])
    with pytest.raises(InputError, match=r"test.jsonl, line 1: the labels are .* expected one"):
        made(tmp_path / "run", texts, test=str(test))


def test_longer_texts_are_cut_only_when_told_to(tmp_path: Path, texts: Path) -> None:
    with pytest.raises(InputError, match=r"line \d+ has \d+ tokens, but the model takes at most 5 .*--truncate"):
        made(tmp_path / "run", texts, max_len=5)
    task = made(tmp_path / "run", texts, max_len=5, truncate=True)
    assert max(map(task.reader.length, task.encoded)) == 5
    assert "texts truncated to 5 tokens" in task.describe()["tokens"]


def test_empty_texts_are_left_out_when_told_to(tmp_path: Path) -> None:
    rows = ["text,label", *(f"{'' if i == 7 else f'word {i}'},{i % 2}" for i in range(40))]
    task = made(tmp_path / "run", write(tmp_path / "rows.csv", rows), skip_empty=True)
    assert "; 1 empty ones left out (--skip-empty)" in task.describe()["data"]


def test_words_are_cut_differently_in_each_epoch(tmp_path: Path, texts: Path, pairs: Path) -> None:
    task = made(tmp_path / "run", texts, subword_dropout=0.5)
    ids = [task.collate([3], epoch)["input_ids"][0].tolist() for epoch in range(9)]
    assert len({tuple(row) for row in ids}) > 1
    assert ids[2] == task.collate([3], 2)["input_ids"][0].tolist()
    with pytest.raises(InputError, match="--subword-dropout works on single texts, but these are pairs"):
        made(tmp_path / "run", pairs, subword_dropout=0.5)


def test_a_loaded_model_keeps_its_pooling(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--pooling is 'max': the loaded model"):
        tiny(tmp_path, init="somewhere", pooling="max", **OWN)


def test_a_loaded_model_that_reads_something_else(tmp_path: Path, texts: Path) -> None:
    rows = [f"{label},{','.join(map(str, values))}" for label, values in series_rows(20, 1)]
    series = write(tmp_path / "rows.csv", rows)
    stack = gf.StackConfig(d_model=16, num_layers=1, num_heads=2)
    reader = gf.TransformerConfig(encoder=stack, vocab_size=100, head="class", num_classes=2)
    looker = gf.TransformerConfig(
        encoder=stack, series=gf.SeriesConfig(length=12, patch=4), head="class", num_classes=2
    )
    tokenizer = train_tokenizer(["so cat 3 red"], 64, "characters")
    for name, config in (("reader", reader), ("looker", looker)):
        gf.save(gf.Transformer(config), tmp_path / name, tokenizer=tokenizer if name == "reader" else None)
    loaded = {**OWN, "rate": None, "head": "class"}
    with pytest.raises(InputError, match="reader does not read series: expected a model trained on series"):
        made(tmp_path / "run", series, reads="series", init=str(tmp_path / "reader"), **loaded)
    with pytest.raises(InputError, match=r"rows\.csv, line \d+: 40 values, but the model reads 12"):
        made(tmp_path / "run", series, reads="series", init=str(tmp_path / "looker"), **loaded)
    with pytest.raises(InputError, match="--reads series needs --data: there are no built-in series with classes"):
        Classify(tiny(tmp_path / "run", reads="series"))
