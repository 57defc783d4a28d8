"""The table of results: written from finished runs only; a row without a run stays unchanged."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from scipy import ndimage

from glassformer.data.series import windows

ROOT = Path(__file__).parent.parent
PAGE = "# Results\n\n<!-- results -->\n<!-- /results -->\n\n| `nsmc` | prose |\n\n<!-- etth1 -->\n<!-- /etth1 -->\n\n"
PAGE += "<!-- signatures -->\n<!-- /signatures -->\n"


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    spec = importlib.util.spec_from_file_location("results", ROOT / "benchmarks" / "results.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "results", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "PAGES", {"en": tmp_path / "results.md", "ko": tmp_path / "results.ko.md"})
    faces = {"en": tmp_path / "README.md", "ko": tmp_path / "README.ko.md"}
    monkeypatch.setattr(module, "READMES", faces)
    for face in faces.values():
        face.write_text("<!-- learned -->\n<!-- /learned -->\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["results.py"])
    for page in module.PAGES.values():
        page.write_text(PAGE, encoding="utf-8")
    return module


def finish(out: Path, results: dict[str, float], baselines: dict[str, dict[str, float]]) -> None:
    out.mkdir(parents=True)
    record = {"results": results, "baselines": baselines, "steps": 1250, "notes": []}
    (out / "run.json").write_text(json.dumps(record), encoding="utf-8")
    header = json.dumps({"__metadata__": {}, "a": {"shape": [3, 5]}, "b": {"shape": [7]}}).encode()
    (out / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)


def line(page: Path, name: str) -> list[str]:
    table = page.read_text(encoding="utf-8").partition("<!-- /results -->")[0]
    return next(
        [cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines() if f"`{name}`" in row
    )


def test_a_row_is_written_from_its_run_and_stays(results: ModuleType, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    finish(runs / "nsmc", {"accuracy": 0.8512}, {"always the most frequent class": {"accuracy": 0.5}})
    results.write_pages(runs)
    english, korean = results.PAGES.values()
    row = line(english, "nsmc")
    assert row[:3] == ["`nsmc`", "**85.12%**", "always the most frequent class 50.00%"]
    assert row[4:6] == ["1,250", "22"]
    assert line(korean, "nsmc")[2] == "최빈 클래스 50.00%"
    assert line(english, "multi30k")[1] == "not run yet"
    assert line(korean, "multi30k")[1] == "아직 실행하지 않음"
    assert "trained on nothing else | **85.12%** | Transformer 83.12 %" in results.READMES["en"].read_text("utf-8")
    before = english.read_text(encoding="utf-8")
    results.write_pages(tmp_path / "elsewhere")  # without runs, earlier results stay
    assert english.read_text(encoding="utf-8") == before


def test_a_translation_is_shown_with_its_signatures(results: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "runs" / "ko-en"
    finish(out, {"bleu": 10.5, "chrf": 30.25}, {})
    record = json.loads((out / "run.json").read_text("utf-8"))
    notes = ["bleu: tok:13a|version:2", "chrf: nc:6|version:2", "2 tokens are unknown"]
    (out / "run.json").write_text(json.dumps(record | {"notes": notes}), encoding="utf-8")
    everyday = {"metrics": {"bleu": 1.5, "chrf": 17.0}, "notes": notes[:1]}  # as `glassformer eval --json` prints it
    (out / "jhe.json").write_text(json.dumps(everyday), encoding="utf-8")
    results.write_pages(tmp_path / "runs")
    page = results.PAGES["en"]
    assert line(page, "ko-en")[1] == "**bible 10.50 BLEU; jhe 1.50 BLEU**"
    assert page.read_text("utf-8").partition("<!-- signatures -->\n")[2].splitlines()[:3] == [
        "- `ko-en`: 10.50 BLEU, `tok:13a|version:2`",
        "- `ko-en`: 30.25 chrF, `nc:6|version:2`",
        "- `ko-en`, `jhe.test`: 1.50 BLEU, `tok:13a|version:2`",
    ]
    before = page.read_text("utf-8")
    results.write_pages(tmp_path / "elsewhere")  # without runs, earlier signatures stay
    assert page.read_text("utf-8") == before


def test_times_of_trainings_that_were_not_measured_stay(results: ModuleType, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    for page in results.PAGES.values():
        page.write_text(page.read_text("utf-8") + "\n<!-- times -->\n<!-- /times -->\n", encoding="utf-8")
    one = {"plain": 0.2, "quicker": 0.1, "flops": 5e9, "limit": 1e11, "steps": 1200}
    for measured in ({"nsmc": one, "digits": one}, {"nsmc": one | {"quicker": 0.05}}):
        (runs / "times.json").write_text(json.dumps(measured), encoding="utf-8")
        results.write_pages(runs)
    rows = results.PAGES["en"].read_text("utf-8").partition("<!-- times -->")[2].splitlines()[3:5]
    assert rows == [
        "| `digits` | 0.200 | 0.100 | 50% | 1,200 | 2.0 |",
        "| `nsmc` | 0.200 | 0.050 | 100% | 1,200 | 1.0 |",
    ]
    assert "| 학습 | 기본 방식, 스텝당 초 |" in results.PAGES["ko"].read_text("utf-8")


def test_a_run_that_was_stopped_is_no_result(results: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "runs" / "fashion-mnist"
    out.mkdir(parents=True)
    (out / "run.json").write_text(json.dumps({"steps": 100}), encoding="utf-8")
    results.write_pages(tmp_path / "runs")
    assert line(results.PAGES["en"], "fashion-mnist")[1] == "not run yet"


def test_the_average_of_the_horizons_needs_all_of_them(results: ModuleType, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for number, horizon in enumerate(results.HORIZONS):
        for seed in range(3):
            scores = {"mse": 0.4 + 0.01 * number, "mae": 0.4}
            out = runs / f"etth1-{horizon}-{seed}"
            finish(out, scores, {"seasonal": {"mse": 0.5}, "linear": {"mse": 0.42}})
            (out / "dlinear.json").write_text('{"mse": 0.43}', encoding="utf-8")
        results.write_pages(runs)
        assert ("average" in results.PAGES["en"].read_text("utf-8")) == (number == 3), "no part of a table is written"
        rows = list(results.etth1_table(runs))
        assert (rows[-1][0] == "average") == (number == 3)
    assert rows[-1] == ["average", "", "0.4150", "0.4000", "0.4300", "0.4200", "0.5000"]
    assert rows[2][:3] == ["96", "3", "0.4000 ± 0.0000"]
    assert results.spread([0.45]) == "0.4500"  # one seed has no spread
    assert line(results.PAGES["en"], "etth1")[1] == "**MSE 0.4150**"
    assert line(results.PAGES["en"], "etth1")[4] == "1,250 x 12"


def test_dlinear_learns_waves_and_its_trend_is_scipys(results: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    import dlinear

    steps = np.arange(500, dtype=np.float32)[:, None]
    waves = np.concatenate([np.sin(steps / 3), 2 + np.cos(steps / 5)], axis=1)
    parts = [windows(waves[start:stop], 48, 8) for start, stop in ((0, 300), (252, 400), (352, 500))]
    naive = np.mean([(past[-1:] - future) ** 2 for past, future in parts[2]])
    monkeypatch.setattr(dlinear, "RATE", 0.01)  # few windows: the rate for ETTh1 would take hundreds of epochs
    assert dlinear.dlinear(*parts, seed=0) < 0.05 * naive
    model, past = dlinear.DLinear(48, 48), torch.from_numpy(waves[None, :48])
    for layer, weight in ((model.trend, torch.eye(48)), (model.rest, torch.zeros(48, 48))):
        layer.weight.data, layer.bias.data = weight, torch.zeros(48)
    theirs = ndimage.uniform_filter1d(waves[:48], size=dlinear.SPAN, axis=0, mode="nearest")
    np.testing.assert_allclose(model(past)[0].detach(), theirs, atol=1e-5)


def test_the_spread_over_seeds_needs_every_seed(results: ModuleType, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for seed, perplexity in enumerate((4.0, 4.4, 4.2)):
        finish(runs / f"shakespeare-{seed}", {"perplexity": perplexity}, {"character 5-grams": {"bits_per_byte": 2.25}})
        results.write_pages(runs)
        assert (line(results.PAGES["en"], "shakespeare")[1] == "not run yet") == (seed < 2)
    assert line(results.PAGES["en"], "shakespeare")[1:3] == [
        "**1.4343 ± 0.0389 nats**",
        "character 5-grams 1.5596 nats",
    ]
    assert line(results.PAGES["en"], "shakespeare")[4] == "1,250 x 3"


def test_a_run_of_another_recipe_is_no_result(results: ModuleType, tmp_path: Path) -> None:
    recipes = tmp_path / "recipes"
    recipes.mkdir()
    (recipes / "digits.toml").write_text("steps = 30\nerase = 0.25\n", encoding="utf-8")
    out = tmp_path / "runs" / "digits-0"
    settings = {"steps": 20, "erase": 0.25, "data": "elsewhere", "patch": 2}
    finish(out, {"accuracy": 0.9}, {})
    (out / "run.json").write_text(json.dumps({"results": {}, "settings": settings}), encoding="utf-8")
    with pytest.raises(SystemExit, match=r"other settings \(steps 20, now 30; patch 2, now None\)"):
        results.trained("images", "digits", [], out)
    (out / "run.json").write_text(json.dumps({"results": {}, "settings": settings | {"steps": 30}}), encoding="utf-8")
    assert results.trained("images", "digits", ["--patch", "2"], out)["settings"]["steps"] == 30


def test_flags_of_the_trainings_stand_behind_two_dashes(results: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["results.py", "etth1", "--horizons", "96", "192", "--", "--rate", "0.001"]
    monkeypatch.setattr(sys, "argv", words)
    arguments = results.read_arguments()
    assert arguments.horizons == [96, 192]
    assert arguments.flags == ["--rate", "0.001"]


def test_data_is_found_in_the_folder_of_all_sets(
    results: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(results, "ROOT", ROOT)
    (tmp_path / "nsmc").mkdir()
    (tmp_path / "nsmc" / "train.tsv.gz").touch()
    (tmp_path / "nsmc" / "test.tsv").touch()
    row = next(row for row in results.SINGLE if row.name == "nsmc")
    train, test = tmp_path / "nsmc" / "train.tsv.gz", tmp_path / "nsmc" / "test.tsv"
    assert results.data_flags(row, tmp_path) == ["--data", str(train), "--test", str(test)]
