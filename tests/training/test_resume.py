"""A killed and resumed run gives the same result, bit for bit; half-written files are never read."""

import json
import os
import random
import resource
import shutil
import signal
import time
from pathlib import Path
from subprocess import DEVNULL

import pytest
import torch
from helpers.command import python, run, started
from helpers.tiny_runs import few, tiny, train, weights_of
from PIL import Image
from rich.console import Console
from safetensors.torch import load_file

from glassformer.errors import InputError, Stopped
from glassformer.tasks.settings import TranslateSettings
from glassformer.tasks.translate import Translate
from glassformer.training import checkpoint
from glassformer.training.loop import Trainer
from glassformer.training.run import run as start
from glassformer.verbs.flags import read_settings

EVERYTHING = {"steps": 12, "dropout": 0.1, "ema": 0.9, "average": 2, "eval_every": 4, "checkpoint_every": 5}
WAYS = {
    "adam": {},
    "muon": {"optimizer": "muon", "rate": 0.01, "schedule": "cosine"},
    "r-drop": {"r_drop": 1.0, "accumulate": 2, "optimizer": "adamw"},
}


class Killed(BaseException):
    """Stands for a kill: nothing in the loop catches it."""


def killed_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Trainer.update

    def update(self: Trainer, examples: list[int]) -> None:
        if self.state.step == step:
            raise Killed
        real(self, examples)

    monkeypatch.setattr(Trainer, "update", update)


@pytest.mark.parametrize("way", WAYS)
def test_a_killed_run_ends_with_the_same_weights(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {**EVERYTHING, **WAYS[way]}
    whole, _ = train(tiny(tmp_path / "whole", **chosen))
    for step in (2, 7, 11):  # before the first checkpoint, between two, after the last
        with monkeypatch.context() as patch, pytest.raises(Killed):
            killed_at(step, patch)
            train(tiny(tmp_path / "cut", **chosen, resume=step > 2))
    cut, _ = train(tiny(tmp_path / "cut", **chosen, resume=True))
    assert torch.equal(weights_of(cut), weights_of(whole))
    lines = [json.loads(line) for line in (tmp_path / "cut" / "metrics.jsonl").read_text().splitlines()]
    expected = [json.loads(line) for line in (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()]
    assert [entry["loss"] for entry in lines if "loss" in entry] == [e["loss"] for e in expected if "loss" in e]
    assert [entry for entry in lines if "valid_loss" in entry] == [e for e in expected if "valid_loss" in e]


def test_what_a_killed_life_did_beyond_its_checkpoint_is_forgotten(tmp_path: Path) -> None:
    """With a time limit, the resumed run may evaluate at other steps; weights saved before the kill must not win."""
    train(tiny(tmp_path / "run", steps=6, eval_every=2, checkpoint_every=2, keep=0))
    folder = tmp_path / "run" / "checkpoints"
    for later in ("step-00000004", "step-00000006"):
        shutil.rmtree(folder / later)
    (tmp_path / "run" / "model.safetensors").unlink()
    assert (folder / "best-00000006").is_dir()
    train(tiny(tmp_path / "run", steps=3, eval_every=2, checkpoint_every=2, keep=0, resume=True))
    record = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    assert record["steps"] == 3
    assert not (folder / "best-00000006").exists()
    assert "step 3" in record["kept"] or "step 2" in record["kept"]


def test_the_best_weights_stay_until_a_checkpoint_knows_better_ones(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        killed_at(7, patch)
        train(tiny(tmp_path / "run", steps=9, eval_every=2, checkpoint_every=5))
    names = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    state = json.loads((tmp_path / "run" / "checkpoints" / "step-00000005" / "state.json").read_text())
    assert f"best-{state['best_step']:08}" in names


def test_a_finished_run_can_be_made_longer(tmp_path: Path) -> None:
    train(tiny(tmp_path / "run", steps=4, schedule="constant", rate=0.001))
    longer, _ = train(tiny(tmp_path / "run", steps=8, schedule="constant", rate=0.001, resume=True))
    whole, _ = train(tiny(tmp_path / "whole", steps=8, schedule="constant", rate=0.001))
    assert torch.equal(weights_of(longer), weights_of(whole))


def test_resume_refuses_what_would_make_it_another_run(tmp_path: Path) -> None:
    train(tiny(tmp_path / "run"))
    with pytest.raises(InputError, match=r"--resume: --seed is 3, but the run was started with 0"):
        train(tiny(tmp_path / "run", seed=3, resume=True))
    with pytest.raises(InputError, match="there is no run to continue"):
        train(tiny(tmp_path / "other", resume=True))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_says_how_to_go_on(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = train(tiny(tmp_path / "whole", steps=8))
    real, before = Trainer.update, signal.getsignal(number)

    def update(self: Trainer, examples: list[int]) -> None:
        real(self, examples)
        if self.state.step == 5:
            os.kill(os.getpid(), number)

    with monkeypatch.context() as patch, pytest.raises(Stopped) as stopped:
        patch.setattr(Trainer, "update", update)
        train(tiny(tmp_path / "run", steps=8))
    assert stopped.value.number == number
    assert f"stopped by {number.name} at step 5" in str(stopped.value)
    assert f"glassformer train translate --out {tmp_path / 'run'} --resume" in str(stopped.value)
    assert signal.getsignal(number) == before
    cut, _ = train(tiny(tmp_path / "run", steps=8, resume=True))
    assert torch.equal(weights_of(cut), weights_of(whole))


def test_a_kill_during_the_write_leaves_the_checkpoint_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {"steps": 9, "checkpoint_every": 3}
    whole, _ = train(tiny(tmp_path / "whole", **chosen))
    real = checkpoint.write_json

    def write(file: Path, values: dict[str, object], **options: bool) -> None:
        if values.get("step") == 6 and "epoch" in values:
            raise Killed
        real(file, values, **options)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(checkpoint, "write_json", write)
        train(tiny(tmp_path / "run", **chosen))
    assert (tmp_path / "run" / "checkpoints" / ".step-00000006.partial").is_dir(), "the kill left a partial checkpoint"
    assert (tmp_path / "run" / "checkpoints" / "step-00000003").is_dir()
    cut, _ = train(tiny(tmp_path / "run", **chosen, resume=True))
    assert torch.equal(weights_of(cut), weights_of(whole))
    assert not list((tmp_path / "run").rglob("*partial*"))


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files may not grow past a limit, as on a full disk."""
    settings = tiny(tmp_path / "run", steps=9, checkpoint_every=3, eval_every=100)
    real = Trainer.update
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def update(self: Trainer, examples: list[int]) -> None:
        real(self, examples)
        if self.state.step == 4:
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))

    try:
        with (
            monkeypatch.context() as patch,
            pytest.raises(InputError, match=r"step-00000006 could not be written") as e,
        ):
            patch.setattr(Trainer, "update", update)
            train(settings)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "the last complete one is" in str(e.value)
    assert "step-00000003" in str(e.value)
    cut, _ = train(settings.replace(resume=True))
    whole, _ = train(settings.replace(out=tmp_path / "whole"))
    assert torch.equal(weights_of(cut), weights_of(whole))


def test_a_loss_that_is_no_number_names_step_examples_and_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tiny(tmp_path / "run", steps=9, checkpoint_every=2, rate=0.001)
    task = few(Translate(settings))
    real, calls = task.loss, []

    def loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return real(logits, labels) * (float("inf") if len(calls) == 6 else 1.0)

    monkeypatch.setattr(task, "loss", loss)
    with pytest.raises(InputError) as error:
        train(settings, task)
    said = str(error.value)
    examples = task.batches(0)[5] if len(task.batches(0)) > 5 else task.batches(1)[5 - len(task.batches(0))]
    assert "the loss is inf at step 6" in said
    assert f"on examples {', '.join(map(str, examples[:8]))}" in said
    assert "step-00000004" in said
    assert "Lower --rate (0.001)" in said


TINY = ["--examples=200", "--d-model=32", "--num-layers=2", "--num-heads=2", "--batch-tokens=256", "--steps=300"]
TINY += ["--warmup=20", "--eval-every=50", "--checkpoint-every=10", "--ema=0.95", "--dropout=0.1"]


def length_of(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0


@pytest.mark.slow
def test_killed_ten_times_at_random_moments(tmp_path: Path) -> None:
    """With SIGKILL, which cannot be caught: in a step, in an evaluation, or in the middle of a write."""
    rng = random.Random(0)
    command = ["-m", "glassformer", "train", "translate"]
    python(*command, *TINY, "--out", tmp_path / "whole")
    lasts = json.loads((tmp_path / "whole" / "run.json").read_text(encoding="utf-8"))["results"]["train_seconds"]
    out = tmp_path / "cut"
    for kill in range(10):
        how = ["--resume"] if (out / "run.json").is_file() else TINY
        size = length_of(out / "metrics.jsonl")
        with started(*command, "--out", out, *how, stdout=DEVNULL) as process:
            while kill % 5 and length_of(out / "metrics.jsonl") == size:  # one in five is killed while it starts
                assert process.poll() is None, process.communicate()[1]
                time.sleep(0.02)
            time.sleep(rng.uniform(0, 0.1 * lasts))
            assert process.poll() is None, f"it ended before kill {kill + 1}: train longer"
            process.kill()
    python(*command, "--out", out, "--resume")
    whole, cut = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "cut"))
    for name, value in whole.items():
        assert torch.equal(cut[name], value), name


def test_a_checkpoint_of_another_model_is_named(tmp_path: Path) -> None:
    train(tiny(tmp_path / "run"))
    file = tmp_path / "run" / "run.json"
    record = json.loads(file.read_text(encoding="utf-8"))
    record["settings"]["d_model"] = 32
    file.write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(InputError, match=r"does not fit this model \(.*\. Resume with the settings"):
        train(tiny(tmp_path / "run", d_model=32, steps=5, resume=True))


PAIRS = "".join(f"word {i}\t단어 {i}\n" for i in range(60))
SMALL = ["--steps=4", "--d-model=16", "--num-layers=1", "--num-heads=2", "--batch-tokens=128", "--vocab-size=64"]


def test_a_run_goes_on_from_any_folder_and_refuses_data_that_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = tmp_path / "pairs.tsv", tmp_path / "run"
    data.write_text(PAIRS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert run("train", "translate", "--data", "pairs.tsv", "--out", "run", *SMALL) == 0
    record = json.loads((out / "run.json").read_text(encoding="utf-8"))
    assert record["settings"]["data"] == [str(data)]
    assert list(record["data"]) == [str(data)]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    resume = ["train", "translate", "--out", out, "--resume"]
    assert run(*resume, "--steps=5") == 0
    assert run("eval", out) == 0
    monkeypatch.chdir(tmp_path)
    assert run(*resume, "--data", "pairs.tsv", "--steps=6") == 0, "the same file by another name"
    capsys.readouterr()

    data.write_text(PAIRS.replace("단어 7", "단어 8"), encoding="utf-8")
    assert run(*resume, "--steps=7") == 2
    said = capsys.readouterr().err
    assert f"--resume: the data has changed since the run was started: {data}" in said
    assert "--accept-changed-data" in said
    assert run(*resume, "--steps=7", "--accept-changed-data") == 0
    assert "the data changed during the run" in capsys.readouterr().out
    record = json.loads((out / "run.json").read_text(encoding="utf-8"))
    assert record["changed_data"] == [str(data)]
    assert record["settings"]["accept_changed_data"] is False
    assert run(*resume, "--steps=8") == 0, "it was accepted for good"
    assert "the data changed during the run" in capsys.readouterr().out
    assert run("train", "translate", "--accept-changed-data") == 2


def test_images_that_a_table_names_are_part_of_the_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "photos").mkdir()
    names = [f"photos/{i}.png" for i in range(12)]
    for i, name in enumerate(names):
        Image.new("L", (8, 8), 20 * i).save(tmp_path / name)
    rows = [f"{name},{'dark' if i < 6 else 'light'}" for i, name in enumerate(names)]
    data, out = tmp_path / "labels.csv", tmp_path / "run"
    data.write_text("\n".join(["image,label", *rows]) + "\n", encoding="utf-8")
    small = ["--d-model=16", "--num-layers=1", "--num-heads=2", "--warmup=1"]
    assert run("train", "images", "--data", data, "--out", out, "--steps=2", *small) == 0
    resume = ("train", "images", "--out", out, "--resume", "--steps=3")
    assert run(*resume) == 0
    Image.new("L", (8, 8), 255).save(tmp_path / names[0])
    assert run(*resume) == 2
    assert f"the data has changed since the run was started: {data}" in capsys.readouterr().err
    file = out / "run.json"
    record = json.loads(file.read_text(encoding="utf-8"))
    del record["data"][str(data)]["names"]  # as an earlier version stored it
    file.write_text(json.dumps(record), encoding="utf-8")
    assert run(*resume) == 0


def test_a_run_of_an_earlier_version_goes_on_without_a_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its paths are relative to the folder where it was started."""
    (tmp_path / "pairs.tsv").write_text(PAIRS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for out in ("whole", "cut"):
        steps = "--steps=6" if out == "whole" else "--steps=3"
        flags = ["--warmup=2", "--schedule=constant", "--rate=0.001"]
        assert run("train", "translate", "--data", "pairs.tsv", "--out", out, *SMALL, *flags, steps) == 0
    record = json.loads(Path("cut/run.json").read_text(encoding="utf-8"))
    record["settings"]["data"] = ["pairs.tsv"]
    for name in ("data", "plan", "seconds", "sample"):
        del record[name]
    del record["settings"]["accept_changed_data"]
    Path("cut/run.json").write_text(json.dumps(record), encoding="utf-8")
    assert run("train", "translate", "--out", "cut", "--resume", "--steps=6") == 0
    whole, cut = (load_file(f"{name}/model.safetensors") for name in ("whole", "cut"))
    for name, value in whole.items():
        assert torch.equal(cut[name], value), name
    record = json.loads(Path("cut/run.json").read_text(encoding="utf-8"))
    assert record["settings"]["data"] == [str(tmp_path / "pairs.tsv")]


def test_another_length_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    train(tiny(tmp_path / "run", minutes=3, steps=3))
    words = ["--out", str(tmp_path / "run"), "--resume", "--steps", "9"]
    settings = read_settings(TranslateSettings, "train translate", words)
    assert isinstance(settings, TranslateSettings)
    assert (settings.steps, settings.minutes) == (9, None)
    same = read_settings(TranslateSettings, "train translate", words[:3])
    assert isinstance(same, TranslateSettings)
    assert (same.steps, same.minutes) == (3, 3.0)


def test_a_beginning_is_taken_up_by_the_same_command_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before its first checkpoint, the same run may start again, as nothing is lost. Another run is refused."""
    whole, _ = train(tiny(tmp_path / "whole"))
    for how in ({}, {"resume": True}, {"overwrite": True}):
        with monkeypatch.context() as patch, pytest.raises(Killed):
            killed_at(2, patch)
            train(tiny(tmp_path / "cut"))
        with pytest.raises(InputError, match="holds an unfinished run"):
            train(tiny(tmp_path / "cut", seed=3))
        cut, _ = train(tiny(tmp_path / "cut", **how))
        assert torch.equal(weights_of(cut), weights_of(whole))
        shutil.rmtree(tmp_path / "cut")


def test_a_folder_that_was_there_is_left_as_it_was_found(tmp_path: Path) -> None:
    """A run that is refused after writing run.json deletes it again."""
    (tmp_path / "empty").mkdir()

    def refuse(_: object) -> Translate:
        assert (tmp_path / "empty" / "run.json").is_file(), "run.json is written first"
        raise InputError("no such data")

    with pytest.raises(InputError, match="no such data"):
        start(refuse, tiny(tmp_path / "empty"), Console(quiet=True), verb="train translate")
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


def test_a_replacement_that_is_refused_leaves_an_unfinished_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(Killed):
        killed_at(2, patch)
        train(tiny(tmp_path / "run", checkpoint_every=1))
    before = sorted(tmp_path.rglob("*"))
    task = few(Translate(tiny(tmp_path / "run", seed=3, overwrite=True)))
    monkeypatch.setattr(task, "loss", lambda logits, labels: logits.sum() * float("nan"))
    with pytest.raises(InputError, match="the loss is nan"):
        train(tiny(tmp_path / "run", seed=3, overwrite=True), task)
    assert sorted(tmp_path.rglob("*")) == before
