"""`gf.train`: flags as keyword arguments, and a result that can be used as a path."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer as gf

SMALL: dict[str, Any] = {"steps": 3, "d_model": 16, "num_layers": 1, "num_heads": 2, "vocab_size": 100}


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    file = tmp_path / "reviews.csv"
    rows = [f"{word} film {n},{word}" for n in range(30) for word in ("good", "bad")]
    file.write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    return file


def test_a_run_has_all_that_came_of_it(reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = gf.train("classify", data=str(reviews), out=tmp_path / "run", **SMALL)
    assert run.task == "classify"
    assert run.folder == tmp_path / "run"
    record = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    assert run.results == record["results"]
    assert run.metrics["accuracy"] == pytest.approx(record["results"]["accuracy"], abs=1e-5)
    assert run.baselines == record["baselines"]
    assert run.baselines
    assert run.curves["loss"].steps[-1] == 3
    assert len(run.curves["loss"].values) == len(run.curves["loss"].steps)
    assert run.curves["valid_loss"].steps
    assert not run.model.training
    assert run.model.config.num_classes == 2
    assert run.tokenizer is not None
    assert run.tokenizer.ids("good film")
    assert repr(run).startswith(f"TrainedRun(classify in {tmp_path / 'run'}: accuracy ")
    assert record["command"].startswith(f"gf.train('classify', data='{reviews}', out='{tmp_path / 'run'}', steps=3")
    shown = capsys.readouterr().out
    assert "step 3/3" in shown
    assert "this model" in shown


def test_the_run_stands_for_its_folder(reviews: Path, tmp_path: Path) -> None:
    run = gf.train("classify", data=reviews, out=str(tmp_path / "run"), **SMALL)
    one, several = gf.pipeline(run)("good film"), gf.pipeline(run)(["good film", "bad film"])
    assert one.label in ("good", "bad")
    assert (one.label, one.scores) == (several[0].label, pytest.approx(several[0].scores, abs=1e-6))
    assert len(several) == 2
    assert gf.evaluate(run).metrics == pytest.approx(run.metrics)
    assert torch.equal(gf.load(run).head.out.weight, run.model.head.out.weight)  # type: ignore[union-attr]


def test_the_same_settings_as_the_command_line(reviews: Path, tmp_path: Path) -> None:
    from helpers.command import run

    flags = [word for name, value in SMALL.items() for word in (f"--{name.replace('_', '-')}", value)]
    assert run("train", "classify", "--data", reviews, "--out", tmp_path / "typed", *flags) == 0
    called = gf.train("classify", data=reviews, out=tmp_path / "called", **SMALL)
    settings = [
        json.loads((tmp_path / name / "run.json").read_text(encoding="utf-8"))["settings"]
        for name in ("typed", "called")
    ]
    assert {**settings[0], "out": ""} == {**settings[1], "out": ""}
    typed = gf.load(tmp_path / "typed")
    assert all(map(torch.equal, typed.parameters(), called.model.parameters()))


def test_one_file_or_several_a_config_file_and_going_on(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"{n} apples\t사과 {n}개\n" for n in range(60)), encoding="utf-8")
    (tmp_path / "small.toml").write_text("d_model = 32\nnum_layers = 1\nnum_heads = 2\nsteps = 2\n", encoding="utf-8")
    given: dict[str, Any] = {"out": tmp_path / "run", "vocab_size": 100}
    run = gf.train("translate", data=tmp_path / "pairs.tsv", config=tmp_path / "small.toml", d_model=16, **given)
    assert run.model.config.decoder is not None
    assert run.model.config.decoder.d_model == 16
    assert run.curves["loss"].steps[-1] == 2
    longer = gf.train("translate", out=tmp_path / "run", resume=True, steps=4)
    assert longer.curves["loss"].steps[-1] == 4
    several = gf.train("translate", data=[str(tmp_path / "pairs.tsv")], out=tmp_path / "two", **SMALL)
    assert isinstance(gf.pipeline(several)("3 apples"), str)


@pytest.mark.parametrize(
    ("task", "settings", "sentence"),
    [
        ("clasify", {}, "gf.train: unknown task 'clasify': did you mean 'classify'?"),
        ("classify", {"rte": 0.1}, "gf.train: classify has no setting 'rte': did you mean 'rate'?"),
        ("classify", {"lr": 0.1}, "gf.train: --lr is called --rate here"),
        (
            "classify",
            {"use_lora": True},
            "gf.train: --use-lora is not supported. docs/not-here.md says what to use instead",
        ),
        ("ner", {}, "gf.train: unknown task 'ner'. docs/not-here.md says what to use instead"),
        ("classify", {"task": "lm"}, None),
        ("classify", {"steps": 0}, "--steps is 0: expected a number above 0"),
        ("classify", {"steps": "many"}, "--steps is 'many': expected a whole number"),
        ("classify", {"data": "nowhere.csv"}, "nowhere.csv"),
        ("lm", {"resume": True}, "so there is no run to continue"),
    ],
)
def test_bad_input_is_an_error_of_python(
    task: str, settings: dict[str, Any], sentence: str | None, tmp_path: Path
) -> None:
    if sentence is None:
        with pytest.raises(TypeError, match="multiple values for argument 'task'"):
            gf.train(task, **settings)
        return
    with pytest.raises(gf.InputError) as raised:
        gf.train(task, out=tmp_path / "run", **settings)
    assert sentence in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_a_finished_run_is_not_replaced_unasked(reviews: Path, tmp_path: Path) -> None:
    given = {"data": reviews, "out": tmp_path / "run", **SMALL}
    gf.train("classify", **given)
    with pytest.raises(gf.InputError, match="holds a finished run: choose another folder"):
        gf.train("classify", **given)
    gf.train("classify", overwrite=True, **given)


def test_it_may_be_called_in_any_thread(reviews: Path, tmp_path: Path) -> None:
    found: list[Any] = []

    def work() -> None:
        try:
            found.append(gf.train("classify", data=reviews, out=tmp_path / "run", **SMALL))
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert isinstance(found[0].metrics, dict)


def test_a_model_of_series_has_no_tokenizer(tmp_path: Path) -> None:
    given: dict[str, Any] = {"steps": 2, "d_model": 16, "num_layers": 1, "num_heads": 2}
    run = gf.train("forecast", out=tmp_path / "run", length=48, horizon=8, **given)
    assert run.tokenizer is None
    assert run.metrics["mse"] > 0
