"""Class names in memory and on disk, in transformers' layout and in our own."""

import json
from pathlib import Path

import pytest
import torch
import transformers
from helpers.export_configs import EXPORTED

import glassformer as gf
from glassformer.checkpoints.labels import class_names, name_classes
from glassformer.errors import InputError
from glassformer.predict.answers import as_labels

NAMES = ["bad", "so-so", "good", "better", "best"]
CONFIGS = {
    "own": EXPORTED["BertForSequenceClassification"].replace(pooling="mean"),
    "bert": EXPORTED["BertForSequenceClassification"],
    "vit": EXPORTED["ViTForImageClassification"],
}


@pytest.mark.parametrize("kind", CONFIGS)
def test_names_go_to_the_file_and_come_back(kind: str, tmp_path: Path) -> None:
    model = gf.Transformer(CONFIGS[kind])
    assert class_names(model) == ["0", "1", "2", "3", "4"]
    name_classes(model, NAMES, "multi_label_classification")
    for folder in (tmp_path / "once", tmp_path / "twice"):
        gf.save(model, folder)
        written = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        assert written["id2label"] == {"0": "bad", "1": "so-so", "2": "good", "3": "better", "4": "best"}
        assert written["label2id"]["best"] == 4
        assert written["model_type"] == {"own": "glassformer"}.get(kind, kind)
        model = gf.load(folder)
        assert model.config.num_classes == 5
        assert class_names(model) == NAMES
        scores = as_labels(model, torch.tensor([[0.0, 0.0, 3.0, 0.0, 0.0]]))[0]
        assert list(scores.labels) == ["good"]
        assert scores.scores["bad"] == 0.5, "each class by itself"
    if kind != "own":
        config = transformers.AutoConfig.from_pretrained(tmp_path / "once")
        assert config.id2label == dict(enumerate(NAMES))
        assert config.problem_type == "multi_label_classification"


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_new_head_has_no_old_names(kind: str, tmp_path: Path) -> None:
    model = gf.Transformer(CONFIGS[kind])
    name_classes(model, NAMES, "multi_label_classification")
    gf.save(model, tmp_path)
    fresh = gf.load(tmp_path, num_classes=3)
    assert not set(class_names(fresh)) & set(NAMES)
    assert as_labels(fresh, torch.zeros(1, 3))[0].score == pytest.approx(1 / 3), "one class among all again"
    name_classes(fresh, ["x", "y", "z"])
    gf.save(fresh, tmp_path / "again")
    assert class_names(gf.load(tmp_path / "again")) == ["x", "y", "z"]


def test_a_number_has_a_name_too(tmp_path: Path) -> None:
    model = gf.Transformer(CONFIGS["bert"].replace(num_classes=1))
    name_classes(model, ["stars"], "regression")
    gf.save(model, tmp_path)
    assert as_labels(gf.load(tmp_path), torch.tensor([[4.5]]))[0].scores == {"stars": 4.5}


@pytest.mark.parametrize(
    ("names", "problem", "message"),
    [
        (
            ["a", "b"],
            "single_label_classification",
            "names is a list of length 2: expected a list with one name per class, 5 in all",
        ),
        ("abcde", "single_label_classification", "names is 'abcde': expected a list"),
        (["a", "b", "a", "c", "d"], "single_label_classification", "two classes are called 'a'"),
        (NAMES, "regression", "num_classes = 5: a regression has 1 class"),
        (NAMES, "single", "problem is 'single': expected one of single_label_classification"),
    ],
)
def test_names_that_do_not_fit(names: list[str], problem: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        name_classes(gf.Transformer(CONFIGS["own"]), names, problem)


def test_a_model_without_classes() -> None:
    with pytest.raises(InputError, match="head='language' has no classes to name"):
        name_classes(gf.Transformer(EXPORTED["GPT2LMHeadModel"]), ["a"])
    with pytest.raises(InputError, match="num_classes = 1: a model with 1 class is a regression"):
        name_classes(gf.Transformer(CONFIGS["own"].replace(num_classes=1)), ["a"])
