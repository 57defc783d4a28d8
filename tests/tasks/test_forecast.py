"""Forecasting: windows and their scale, losses and scores of other libraries, and a run scored elsewhere."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.command import run
from sklearn.metrics import mean_absolute_error, mean_squared_error
from sklearn.preprocessing import StandardScaler
from torch import nn

import glassformer as gf
from glassformer.errors import InputError
from glassformer.inspect.looks.patches import over_time
from glassformer.tasks.forecast import Forecast
from glassformer.tasks.settings import ForecastSettings

ROWS, LENGTH, HORIZON = 200, 16, 4
SIZES = {"d_model": 16, "num_layers": 1, "num_heads": 2, "d_ff": 16}
WINDOWS = {"length": LENGTH, "horizon": HORIZON, "patch": 4, "stride": 4, "period": 8}


def values() -> np.ndarray:
    steps = np.arange(ROWS)
    noise = np.random.default_rng(0).normal(0, 0.1, (3, ROWS))
    waves = np.stack([np.sin(steps * np.pi / 4), np.cos(steps * np.pi / 4), np.sin(steps * np.pi / 8)])
    return ((waves + noise).T * [5, 1, 30] + [100, 0, -7]).astype(np.float32)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three hourly waves of different amplitudes and levels."""
    file = tmp_path_factory.mktemp("series") / "waves.csv"
    hours = [datetime(2031, 5, 1) + timedelta(hours=i) for i in range(ROWS)]
    rows = [",".join([str(hour), *map(repr, map(float, row))]) for hour, row in zip(hours, values(), strict=True)]
    file.write_text("\n".join(["date,sun,wind,load", *rows]) + "\n", encoding="utf-8")
    return file


def made(table: Path, **changes: Any) -> Forecast:
    return Forecast(ForecastSettings(**{"out": Path("unused"), "data": table, **SIZES, **WINDOWS, **changes}))


def flags(values: dict[str, Any]) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}" for name, value in values.items()]


def test_dropout_is_on_the_branches_only(table: Path) -> None:
    config = made(table, dropout=0.4).model.config
    assert config.encoder is not None
    assert (config.encoder.dropout, config.encoder.embed_dropout, config.head_dropout) == (0.4, 0.0, 0.0)


def test_a_run_of_an_earlier_version_goes_on_with_its_own_dropout(table: Path, tmp_path: Path) -> None:
    """Its presets also had dropout before the first block. It is resumed more than once."""
    assert (
        run("train", "forecast", "--data", table, "--out", tmp_path / "run", "--steps=1", *flags(SIZES | WINDOWS)) == 0
    )
    file = tmp_path / "run" / "run.json"
    record = json.loads(file.read_text(encoding="utf-8"))
    old = {**record, "settings": {k: v for k, v in record["settings"].items() if k != "qk_norm"}}
    for kept, dropout in ((record, 0.0), (old, 0.4), ({**record, "drops_before_blocks": True}, 0.4)):
        file.write_text(json.dumps(kept), encoding="utf-8")
        task = made(table, dropout=0.4, out=tmp_path / "run", resume=True)
        assert task.model.config.encoder is not None
        assert task.model.config.encoder.embed_dropout == dropout
        assert task.record() == ({"drops_before_blocks": True} if dropout else {})


# --- data -------------------------------------------------------------------------------------------------------------


def test_windows_hold_the_series_scaled_by_its_training_rows(table: Path) -> None:
    task = made(table)
    scaled = StandardScaler().fit(values()[:140]).transform(values())
    batch = task.collate([0, 17], 0)
    assert batch["past_values"].shape == (2, LENGTH, 3)
    assert batch["labels"].shape == (2, HORIZON, 3)
    for row, start in enumerate((0, 17)):
        window = torch.cat([batch["past_values"][row], batch["labels"][row]])
        np.testing.assert_allclose(window, scaled[start : start + LENGTH + HORIZON], rtol=1e-4, atol=1e-5)
    assert [len(part) for part in (task.train, task.valid, task.test)] == [140 - 19, 20 - 3, 40 - 3]
    np.testing.assert_allclose(task.test[-1][1], scaled[-HORIZON:], rtol=1e-4, atol=1e-5)
    assert "200 rows of 3 channels" in task.describe()["data"]


def test_every_window_comes_once_an_epoch(table: Path) -> None:
    task = made(table, batch_size=50)
    first, second = task.batches(0), task.batches(1)
    assert sorted(i for batch in first for i in batch) == list(range(len(task.train)))
    assert [len(batch) for batch in first] == [50, 50, 21]
    assert first == task.batches(0) != second


def test_channels_are_chosen_by_name(table: Path) -> None:
    task = made(table, columns=("load", "sun"), splits=(100, 30, 30))
    assert task.series.names == ("load", "sun")
    np.testing.assert_allclose(task.series.values, values()[:, [2, 0]])
    np.testing.assert_allclose(task.scaler.mean, values()[:100, [2, 0]].mean(axis=0), rtol=1e-5)
    assert task.model.config.series.channels == 2
    assert "of which the last 40 are not used (--splits)" in task.describe()["data"]
    with pytest.raises(InputError, match="has no column 'winds': did you mean 'wind'"):
        made(table, columns=("winds",))


# --- losses and scores ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "theirs"), [("mse", nn.MSELoss()), ("mae", nn.L1Loss()), ("huber", nn.HuberLoss(delta=1.0))]
)
def test_losses_are_pytorchs(loss: str, theirs: nn.Module, table: Path) -> None:
    """For a batch and for the sum of its parts; also far from the truth, where the Huber loss is linear."""
    task = made(table, loss=loss)
    forecast, truth = 3 * torch.randn(2, 6, HORIZON, 3, generator=torch.Generator().manual_seed(0))
    parts = zip(forecast.chunk(2), truth.chunk(2), strict=True)
    ours = sum(task.loss(*part) for part in parts) / task.weight(truth)
    torch.testing.assert_close(ours, theirs(forecast, truth))
    assert task.size({"labels": truth}) == 6


def test_two_forecasts_are_apart_by_their_squares(table: Path) -> None:
    first, second = torch.randn(2, 6, HORIZON, 3, generator=torch.Generator().manual_seed(0))
    apart = made(table).divergence(first, second, first) / first.numel()
    assert float(apart) == pytest.approx(mean_squared_error(first.flatten(), second.flatten()), rel=1e-5)


def test_scores_are_scikit_learns_over_every_window(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.tasks.forecast.SCORE_BATCH", 10)  # several batches, the last one smaller
    task = made(table)
    task.model.eval()
    windows = [task.test[i] for i in range(len(task.test))]
    with torch.no_grad():
        forecast = task.model(past_values=torch.from_numpy(np.stack([past for past, _ in windows]))).logits
    truth = np.stack([future for _, future in windows]).ravel()
    scores = task.evaluate()
    assert scores.count == len(windows)
    assert scores.metrics["mse"] == pytest.approx(mean_squared_error(truth, forecast.flatten()), rel=1e-5)
    assert scores.metrics["mae"] == pytest.approx(mean_absolute_error(truth, forecast.flatten()), rel=1e-5)
    repeated = np.stack([past[LENGTH - 8 : LENGTH - 8 + HORIZON] for past, _ in windows]).ravel()
    assert scores.baselines["seasonal naive, 8"]["mse"] == pytest.approx(mean_squared_error(truth, repeated), rel=1e-4)
    assert set(scores.baselines) == {"seasonal naive, 8", "linear"}
    task.split = "valid"
    assert task.evaluate().count == len(task.valid)
    assert task.validate() == task.evaluate().metrics


def test_curves_are_at_the_scale_of_the_file(table: Path) -> None:
    task = made(table)
    curves = task.curves()
    assert [curve.name for curve in curves] == ["sun", "wind", "load"] * 2
    tested = values()[160 - LENGTH :]  # the first window reads rows before the test
    for number, curve in enumerate(curves):
        now = (2 * number + 1) * len(task.test) // 12 + LENGTH
        np.testing.assert_allclose(curve.truth, tested[now : now + HORIZON, number % 3], rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(curve.past, tested[now - 2 * HORIZON : now, number % 3], rtol=1e-3, atol=1e-3)


# --- a run ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "run"
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in {**SIZES, **WINDOWS}.items()]
    flags += ["--steps=60", "--warmup=5", "--rate=0.01"]
    assert run("train", "forecast", "--data", table, "--out", out, *flags) == 0
    return out


def test_a_run_learns_the_waves(trained: Path) -> None:
    results = json.loads((trained / "run.json").read_text(encoding="utf-8"))["results"]
    assert results["mse"] < 0.2, "1 is what the mean of the training rows would get"
    scale = json.loads((trained / "series.json").read_text(encoding="utf-8"))
    assert scale["names"] == ["sun", "wind", "load"]
    np.testing.assert_allclose(scale["mean"], values()[:140].mean(axis=0), rtol=1e-5)


def test_a_run_is_scored_on_another_file_at_its_own_scale(trained: Path, table: Path, tmp_path: Path) -> None:
    lines = table.read_text(encoding="utf-8").splitlines()
    (tmp_path / "end.csv").write_text("\n".join([lines[0], *lines[-60:]]) + "\n", encoding="utf-8")
    scores = gf.evaluate(trained, data=[tmp_path / "end.csv"])
    assert scores.count == 60 - LENGTH - HORIZON + 1
    assert list(scores.baselines) == ["seasonal naive, 8"], "there are no training rows for another"
    mean, deviation = (
        np.array(json.loads((trained / "series.json").read_text())[name]) for name in ("mean", "deviation")
    )
    rows = ((values()[-60:] - mean) / deviation).astype(np.float32)
    past, future = (
        np.stack([rows[i + start : i + end] for i in range(scores.count)])
        for start, end in ((0, LENGTH), (LENGTH, LENGTH + HORIZON))
    )
    with torch.no_grad():
        forecast = gf.load(trained).eval()(past_values=torch.from_numpy(past)).logits
    assert scores.metrics["mse"] == pytest.approx(mean_squared_error(future.ravel(), forecast.flatten()), rel=1e-3)
    with pytest.raises(InputError, match="2 files to score: expected one"):
        gf.evaluate(trained, data=[table, table])
    lines[0] = "date,sun,wind,rain"
    (tmp_path / "other.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"the channels are sun, wind, rain, but .* was trained on sun, wind, load"):
        gf.evaluate(trained, data=[tmp_path / "other.csv"])
    (trained / "series.json").rename(tmp_path / "series.json")
    with pytest.raises(InputError, match=r"has no series\.json, which holds the scale of its series"):
        gf.evaluate(trained, data=[table])
    (tmp_path / "series.json").rename(trained / "series.json")


def test_a_loaded_model_keeps_its_windows(trained: Path, table: Path) -> None:
    settings = {"init": str(trained), "length": LENGTH, "data": table, "out": Path("unused")}
    with pytest.raises(InputError, match="has horizon 4: give --horizon 4, not 5"):
        Forecast(ForecastSettings(**settings, horizon=5))
    assert len(Forecast(ForecastSettings(**settings, horizon=4)).train) == 140 - 19


# --- files as people have them ----------------------------------------------------------------------------------------


def write_days(file: Path, count: int = 130, form: str = "%d.%m.%Y") -> Path:
    """Trading days with a column of text; every 20th has no value."""
    days = [datetime(2024, 1, 1) + timedelta(days=i) for i in range(count) if i % 7 < 5]
    rows = [f"{day.strftime(form)},{'' if i % 20 == 7 else i % 11},A" for i, day in enumerate(days)]
    file.write_text("\n".join(["Datum,Kurs,Name", *rows]) + "\n", encoding="utf-8")
    return file


def test_what_was_decided_is_said_and_kept(tmp_path: Path) -> None:
    file = write_days(tmp_path / "days.csv")
    with pytest.raises(InputError, match=r"column 'Name': 'A' is not a number \(text\).* --columns Kurs$"):
        made(file)
    task = made(file, columns=("Kurs",), fill="previous")
    said = task.describe()
    assert said["data"].endswith("94 rows of 1 channel, every 1 weekday; 5 missing values filled (--fill previous)")
    assert said["reading"].startswith(
        "dates are read as day first (01.01.2024 to 09.05.2024); the rows are trading days"
    )
    task.write_beside(tmp_path)
    kept = json.loads((tmp_path / "series.json").read_text(encoding="utf-8"))
    assert kept["frequency"] == {"count": 1, "unit": "weekday"}
    assert kept["format"] == {
        "fill": "previous", "cut": False, "date_format": None, "dates": "day first", "decimal": None,
        "calendar": "weekdays",
    }  # fmt: skip


def test_eval_says_how_it_read_and_takes_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = write_days(tmp_path / "days.csv"), tmp_path / "run"
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in {**SIZES, **WINDOWS}.items()]
    flags += ["--steps=1", "--warmup=1", "--columns=Kurs", "--fill=previous"]
    assert run("train", "forecast", "--data", file, "--out", out, *flags) == 0
    own = gf.evaluate(out)
    assert own.notes[1:] == [*made(file, columns=("Kurs",), fill="previous").notes()]
    odd = write_days(tmp_path / "odd.csv", form="%Y|%d|%m")
    with pytest.raises(InputError, match=r"'2024|01|01' is not a date in a known format. Give --date-format"):
        gf.evaluate(out, [odd])
    capsys.readouterr()
    assert run("eval", out, "--data", odd, "--date-format=%Y|%d|%m", "--json") == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert "5 missing values filled (--fill previous)" in notes
    assert run("predict", out, odd, "--date-format=%Y|%d|%m") == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("2024-05-10,")


def test_other_channels_are_told_without_flags_that_predict_lacks(tmp_path: Path) -> None:
    file, out = write_days(tmp_path / "days.csv"), tmp_path / "run"
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in {**SIZES, **WINDOWS}.items()]
    flags += ["--steps=1", "--warmup=1", "--columns=Kurs", "--fill=previous"]
    assert run("train", "forecast", "--data", file, "--out", out, *flags) == 0
    file.write_text(file.read_text(encoding="utf-8").replace("Kurs", "Preis"), encoding="utf-8")
    with pytest.raises(InputError, match=r"'A' is not a number .* Give .* the columns of the training data: Kurs$"):
        gf.pipeline(out)(file)


def test_values_that_prediction_refuses_training_refuses(table: Path, tmp_path: Path) -> None:
    lines = table.read_text(encoding="utf-8").splitlines()
    lines[7] = lines[7].rsplit(",", 1)[0] + ",1e39"
    (tmp_path / "large.csv").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(InputError, match="row 7 of channel 2 is inf, which is too large to compute with"):
        made(tmp_path / "large.csv")


def test_a_format_without_a_year_is_refused() -> None:
    for text in ("%d/%m", "%Q", "day"):
        with pytest.raises(InputError, match=r"--date-format is .*: expected a format with a year, such as %d/%m/%Y"):
            ForecastSettings(date_format=text)


def test_a_season_that_is_longer_than_the_window_is_the_window(table: Path) -> None:
    assert f"seasonal naive, {LENGTH}" in made(table, period=24).evaluate().baselines


def test_the_built_in_series_has_columns_too() -> None:
    task = Forecast(ForecastSettings(out=Path("unused"), columns=("price",), **SIZES))
    assert task.series.names == ("price",)
    with pytest.raises(InputError, match="the built-in series has no channel 'prices': did you mean 'price'"):
        Forecast(ForecastSettings(out=Path("unused"), columns=("prices",), **SIZES))


def test_a_run_that_began_before_trading_days_were_known_goes_on_by_the_day(tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    (out / "run.json").write_text(json.dumps({"task": "forecast", "settings": {}}), encoding="utf-8")
    file = write_days(tmp_path / "days.csv")
    began = {"out": out, "columns": ("Kurs",), "fill": "previous", "resume": True}
    with pytest.raises(InputError, match=r"started by a version without trading days. Use --calendar every-day"):
        made(file, **began)
    assert len(made(file, **began, calendar="every-day").series) == 130


def test_a_folded_run_is_saved_forecasts_and_is_looked_at(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    folded = flags(SIZES | WINDOWS | {"fold": 4})
    assert run("train", "forecast", "--data", table, "--out", out, "--steps=3", *folded) == 0
    model = gf.load(out)
    assert (model.config.series.fold, model.encoder.embed.patches.in_features) == (4, 1)
    assert json.loads((out / "config.json").read_text(encoding="utf-8"))["model_type"] == "glassformer"
    assert run("predict", out, "--file", table, "--json") == 0
    assert run("inspect", "attention", out, table, "--picture", tmp_path / "a.png") == 0
    assert (tmp_path / "a.png").stat().st_size > 10_000
    assert run("inspect", "shapes", out) == 0
    assert "B*C*M" in capsys.readouterr().out
    assert run("explore", out, "--export", tmp_path / "page.html") == 2
    assert "folds a series (fold = 4), which the explorer does not show" in capsys.readouterr().err
    wrong = flags(SIZES | WINDOWS | {"fold": 3})
    assert run("train", "forecast", "--data", table, "--out", tmp_path / "no", "--steps=3", *wrong) == 2
    assert "--fold is 3: --length" in capsys.readouterr().err
    assert "glassformer explore" not in (out / "report.html").read_text(encoding="utf-8")


def test_attention_over_time_is_the_mean_over_the_rows_of_a_channel() -> None:
    series = gf.SeriesConfig(length=6, patch=2, horizon=2, fold=2, channels=2)
    weights = torch.rand(2 * 2, 3, 3, 3).softmax(dim=-1)  # two channels, two rows each, three heads, three patches

    shares = over_time(weights, series)

    for channel in range(2):
        mean = weights[2 * channel : 2 * channel + 2].mean(dim=(0, 2))  # (heads, patches)
        torch.testing.assert_close(shares[channel], mean.repeat_interleave(2, dim=1))
