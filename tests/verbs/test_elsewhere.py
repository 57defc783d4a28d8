"""For a flag or verb of another tool, one sentence names ours."""

from dataclasses import fields
from pathlib import Path

import pytest
from helpers.command import run

from glassformer.cli import VERBS
from glassformer.tasks.registry import TASK_ENTRIES
from glassformer.verbs.elsewhere import (
    EPOCH_FLAGS,
    NO_SUCH_TASK,
    NOT_SUPPORTED,
    SAME_FLAGS,
    VERBS_ELSEWHERE,
    flag_elsewhere,
    verb_elsewhere,
)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["train", "classify", "--lr", "1e-3"], "--lr is called --rate here"),
        (["train", "lm", "--learning_rate=0.1"], "--learning-rate is called --rate here"),
        (["train", "translate", "--batch-size", "8"], "--batch-size is called --batch-tokens here, and counts tokens"),
        (["train", "images", "--max-steps", "8"], "--max-steps is called --steps here"),
        (["train", "images", "--dropout-rate", "0.1"], "--dropout-rate is called --dropout here"),
        (["train", "images", "--hidden-size", "8"], "--hidden-size is called --d-model here"),
        (
            ["train", "mlm", "--num_train_epochs", "3"],
            "--num-train-epochs: set the length of training with --steps N or",
        ),
        (["train", "lm", "--output-dir", "x"], "--output-dir is called --out here"),
        (["train", "lm", "--max_seq_length", "9"], "--max-seq-length is called --context here"),
        (["train", "forecast", "--pred_len", "9"], "--pred-len is called --horizon here"),
        (["train", "images", "--warmup-ratio", "0.1"], "--warmup-ratio is called --warmup here, and counts steps"),
        (["train", "lm", "--use-lora"], "--use-lora is not supported. docs/not-here.md says what to use instead"),
        (["predict", "run", "x", "--beam-size", "4"], "--beam-size is called --num-beams here"),
        (["predict", "--model", "x"], "--model is not a flag here: name the model right after the verb"),
        (["finetune", "x"], "unknown verb 'finetune': use `glassformer train TASK --init MODEL`"),
        (["fit"], "unknown verb 'fit': use `glassformer train TASK`"),
        (["generate", "--help-me"], "unknown verb 'generate': use `glassformer predict RUN`"),
        (["lora"], "unknown verb 'lora'. docs/not-here.md says what to use instead"),
        (["train", "ner"], "unknown task 'ner'. docs/not-here.md says what to use instead"),
        (["train", "gpt"], "unknown task 'gpt': use `glassformer train lm`"),
        (["train", "translat"], "unknown task 'translat'"),
    ],
)
def test_a_word_of_another_tool_is_answered_with_ours(
    words: list[str], answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == 2
    said = capsys.readouterr().err
    assert answer in said
    assert said.count("\n") == 1


def test_what_an_epoch_is_is_said_where_it_is_soon_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("text,label\n" + "good,1\n" * 639, encoding="utf-8")
    assert run("train", "classify", "--data", rows, "--epochs", "3") == 2
    assert "--steps N or --minutes M; one epoch of your data is about 10 steps" in capsys.readouterr().err
    assert run("train", "classify", "--epochs", "3", "--data", rows, "--batch-size", "32") == 2
    assert "one epoch of your data is about 20 steps" in capsys.readouterr().err
    assert run("train", "classify", "--epochs", "3", "--data", tmp_path / "none.csv") == 2
    assert "epoch of your data" not in capsys.readouterr().err


def test_keys_of_a_file_are_answered_like_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.toml").write_text("seed = 1\nlr = 0.1\n", encoding="utf-8")
    assert run("train", "lm", "--config", tmp_path / "mine.toml") == 2
    assert "mine.toml, line 2: --lr is called --rate here" in capsys.readouterr().err


def test_what_is_pointed_at_exists() -> None:
    known = {entry.name for row in TASK_ENTRIES for entry in fields(row.settings)}
    known |= {entry.name for name in ("predict", "eval") for entry in fields(VERBS[name].settings)}
    assert {name for ours in SAME_FLAGS for name in ours} <= known
    for ours in VERBS_ELSEWHERE:
        name = ours.removesuffix(" --init MODEL").removesuffix(" RUN").removesuffix(" TASK").removesuffix(" LOOK")
        assert any(verb == name or verb.startswith(f"{name} ") for verb in VERBS)


def test_our_own_words_are_never_taken_for_others() -> None:
    for row in TASK_ENTRIES:
        names = {entry.name for entry in fields(row.settings)}
        assert not [name for name in names if flag_elsewhere(name, names)]
    theirs = [word for words in (*SAME_FLAGS.values(), EPOCH_FLAGS, NOT_SUPPORTED) for word in words.split()]
    assert all("-" not in word for word in theirs), "hyphens are brought to underscores"
    assert not [verb for verb in VERBS if verb_elsewhere(verb)]
    both = set(NO_SUCH_TASK.split()) & {word for words in VERBS_ELSEWHERE.values() for word in words.split()}
    assert not both


def test_a_file_leaves_open_what_depends_on_a_flag(tmp_path: Path) -> None:
    """The learning rate for a pretrained model applies if the file sets none."""
    from glassformer.tasks.settings import ClassifySettings
    from glassformer.verbs.flags import read_settings

    (tmp_path / "mine.toml").write_text("seed = 1\n", encoding="utf-8")
    words = ["--config", str(tmp_path / "mine.toml"), "--init", "some/model"]
    settings = read_settings(ClassifySettings, "train classify", words)
    assert isinstance(settings, ClassifySettings)
    assert settings.rate == ClassifySettings(init="some/model").rate != ClassifySettings().rate
    assert settings.given == {"init"}
