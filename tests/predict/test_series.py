"""Forecasting and classifying series."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from helpers.command import lines, run
from helpers.head_checkpoints import (
    LABELS,
)

import glassformer as gf
from glassformer.errors import InputError


@pytest.fixture(scope="module")
def forecaster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("forecaster")
    torch.manual_seed(0)
    config = transformers.PatchTSTConfig(
        num_input_channels=2, context_length=24, patch_length=8, patch_stride=4, prediction_length=5, d_model=16,
        num_hidden_layers=1, num_attention_heads=2, ffn_dim=20, norm_type="layernorm", pooling_type=None,
        positional_encoding_type="random", scaling="std", loss="mse", share_projection=True,
    )  # fmt: skip
    transformers.PatchTSTForPrediction(config).save_pretrained(folder)
    return folder


def waves(length: int = 30) -> Any:
    import numpy as np

    steps = np.arange(length)
    return np.stack([np.sin(steps / 3) * 10 + 50, steps % 7 * 1.0], axis=1).astype(np.float32)


def write_wide(file: Path, values: Any, days: bool = False) -> Path:
    from datetime import datetime, timedelta

    step = timedelta(days=1) if days else timedelta(hours=1)
    rows = [f"{datetime(2024, 1, 30) + i * step},{row[0]},{row[1]}" for i, row in enumerate(values)]
    file.write_text("\n".join(["date,load,wind", *rows]) + "\n", encoding="utf-8")
    return file


@torch.no_grad()
def test_forecasts(forecaster: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    from glassformer.data.series import read_series

    values = waves()
    model = transformers.PatchTSTForPrediction.from_pretrained(forecaster).eval()
    expected = model(past_values=torch.tensor(values[None, -24:])).prediction_outputs[0].numpy()
    predict = gf.pipeline(forecaster)
    file = write_wide(tmp_path / "wide.csv", values)
    for given in (values, file, str(file), read_series(file), values.tolist()):
        np.testing.assert_allclose(predict(given), expected, rtol=1e-3, atol=1e-3)
    assert run("predict", forecaster, "--file", file) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "date,load,wind"
    assert [row.split(",")[0] for row in shown[1:3]] == ["2024-01-31 06:00:00", "2024-01-31 07:00:00"]
    assert [float(row.split(",")[2]) for row in shown[1:]] == pytest.approx(expected[:, 1].tolist(), abs=1e-3)
    assert run("predict", forecaster, file, "--json") == 0
    (row,) = lines(capsys)
    assert row["forecast"]["load"] == pytest.approx(expected[:, 0].tolist(), abs=1e-3)
    assert len(row["times"]) == 5
    long = [
        f"{name},{2020 + i // 12}-{i % 12 + 1:02}-01,{values[i, c]}" for c, name in enumerate("ab") for i in range(30)
    ]
    (tmp_path / "long.csv").write_text("\n".join(["unique_id,ds,y", *long]), encoding="utf-8")
    out, picture = tmp_path / "forecast.csv", tmp_path / "forecast.png"
    assert run("predict", forecaster, tmp_path / "long.csv", "--out", out, "--picture", picture) == 0
    assert capsys.readouterr().out == ""
    written = out.read_text(encoding="utf-8").splitlines()
    assert written[0] == "date,a,b"
    assert [row.split(",")[0] for row in written[1:3]] == ["2022-07-01", "2022-08-01"]
    assert [float(row.split(",")[1]) for row in written[1:]] == pytest.approx(expected[:, 0].tolist(), abs=1e-3)
    from PIL import Image

    colours = Image.open(picture).convert("RGB").getcolors(maxcolors=1 << 20)
    assert colours is not None
    assert len(colours) > 30


def test_a_forecast_from_standard_input(
    forecaster: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_wide(tmp_path / "wide.csv", waves(), days=True)
    assert run("predict", forecaster, file) == 0
    expected = capsys.readouterr().out
    assert expected.splitlines()[1].startswith("2024-02-29,")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    assert run("predict", forecaster) == 0
    assert capsys.readouterr().out == expected
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"date,a\n2024-01-01,x\n")))
    assert run("predict", forecaster) == 2
    assert "standard input, line 2, column 'a': 'x' is not a number" in capsys.readouterr().err


def test_series_that_cannot_be_forecast(forecaster: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    predict = gf.pipeline(forecaster)
    with pytest.raises(InputError, match="has 23 values, and this model reads the last 24: give at least that many"):
        predict(waves(23))
    broken = waves()
    broken[28, 1] = float("nan")
    with pytest.raises(InputError, match="the series has nan in row 29: expected only numbers"):
        predict(broken)
    with pytest.raises(InputError, match="expected a file, a Series, or an array of numbers"):
        predict(["a", "b"])
    with pytest.raises(InputError, match="batch_size is not a known option"):
        predict(waves(), batch_size=3)
    with pytest.raises(InputError, match="the series has 1 channels: expected 2"):
        predict(waves()[:, 0])
    file = write_wide(tmp_path / "wide.csv", broken)
    assert run("predict", forecaster, file) == 2
    assert "line 30, column 'wind': no value" in capsys.readouterr().err
    assert run("predict", forecaster, file, "--fill", "previous") == 0
    assert run("predict", forecaster, file, file) == 2
    assert "2 files were given, and this model forecasts one at a time" in capsys.readouterr().err
    assert run("predict", forecaster, "--file", file, "--text-columns", "wind") == 2
    assert "--text-columns needs a model that reads texts" in capsys.readouterr().err
    assert run("predict", forecaster, file, "--num-beams=2") == 2
    assert "--num-beams needs a model that translates texts" in capsys.readouterr().err


def own_series_model(folder: Path, **settings: Any) -> gf.Transformer:
    torch.manual_seed(0)
    stack = gf.StackConfig(d_model=16, num_layers=1, num_heads=2, dropout=0.0)
    series = gf.SeriesConfig(length=12, patch=4, **settings.pop("series", {}))
    model = gf.Transformer(gf.TransformerConfig(encoder=stack, series=series, **settings)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    folder.mkdir(exist_ok=True)
    gf.save(model, folder)
    return model


@torch.no_grad()
def test_a_forecast_comes_back_to_the_scale_of_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    model = own_series_model(tmp_path / "run", head="forecast", series={"horizon": 3})
    values = waves(20)
    plain = gf.pipeline(tmp_path / "run")
    assert "has no series.json: the values are not scaled" in plain.note
    logits = model(past_values=torch.tensor(values[None, -12:])).logits[0]
    np.testing.assert_allclose(plain(values), logits.numpy(), rtol=1e-4)
    scale = {"names": ["wind", "load"], "mean": [3.0, 50.0], "deviation": [2.0, 7.0], "frequency": "1 hour"}
    (tmp_path / "run" / "series.json").write_text(json.dumps(scale), encoding="utf-8")
    mean, deviation = np.float32([3, 50]), np.float32([2, 7])
    swapped = values[:, ::-1]
    past = torch.tensor(np.ascontiguousarray((swapped[None, -12:] - mean) / deviation))
    expected = model(past_values=past).logits[0].numpy() * deviation + mean
    scaled = gf.pipeline(tmp_path / "run")
    assert not scaled.note
    np.testing.assert_allclose(scaled(swapped), expected, rtol=1e-4)
    file = write_wide(tmp_path / "wide.csv", values)  # its channels are in the other order
    np.testing.assert_allclose(scaled(file), expected, rtol=1e-4)
    assert run("predict", tmp_path / "run", file) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "date,wind,load"
    assert float(shown[1].split(",")[1]) == pytest.approx(float(expected[0, 0]), rel=1e-4)
    with pytest.raises(InputError, match="the series has 1 channels: expected 2, named wind, load"):
        scaled(values[:, :1])
    file.write_text(file.read_text(encoding="utf-8").replace("wind", "sun"), encoding="utf-8")
    with pytest.raises(InputError, match="has no channel 'wind': this model only knows the scale of wind, load"):
        scaled(file)
    (tmp_path / "run" / "series.json").write_text('{"names": ["a"], "mean": [0], "deviation": [0]}', encoding="utf-8")
    with pytest.raises(InputError, match="expected a mean and a deviation above 0 for each of the 1 names"):
        gf.pipeline(tmp_path / "run")


@torch.no_grad()
def test_other_channels_of_a_model_that_finds_its_level_itself(tmp_path: Path) -> None:
    """Values far from the scale of training give the same answer as values near it."""
    import numpy as np

    own_series_model(tmp_path / "run", head="forecast", series={"horizon": 3, "instance_norm": True})
    scale = {"names": ["a"], "mean": [0.0], "deviation": [1.0]}
    (tmp_path / "run" / "series.json").write_text(json.dumps(scale), encoding="utf-8")
    predict = gf.pipeline(tmp_path / "run")
    values = waves(20)
    near = predict(values)
    np.testing.assert_allclose(predict(values * np.float32(1e-4)) * 1e4, near, rtol=1e-3)


@torch.no_grad()
def test_classes_of_series(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from glassformer.checkpoints.labels import name_classes

    model = own_series_model(tmp_path / "run", head="class", num_classes=3)
    name_classes(model, list(LABELS.values()))
    gf.save(model, tmp_path / "run")
    rows = [waves(12)[:, 0].tolist(), waves(12)[:, 1].tolist(), [1.0] * 12]
    expected = model(past_values=torch.tensor(rows)[:, :, None]).logits.softmax(dim=1)
    for label, scores in zip(gf.pipeline(tmp_path / "run")(rows, batch_size=2), expected, strict=True):
        assert list(label.scores.values()) == pytest.approx(scores.tolist(), abs=1e-5)
        assert label.label == LABELS[int(scores.argmax())]
    file = tmp_path / "rows.csv"
    file.write_text("\n".join(", ".join(map(str, row)) for row in rows), encoding="utf-8")
    assert run("predict", tmp_path / "run", "--file", file, "--json") == 0
    shown = lines(capsys)
    assert [row["input"] for row in shown] == [pytest.approx(row) for row in rows]
    assert [row["label"] for row in shown] == [LABELS[int(i)] for i in expected.argmax(dim=1)]
    assert run("predict", tmp_path / "run", " ".join(["1"] * 11)) == 2
    assert "series 1 has 11 values: expected 12 numbers, without the label" in capsys.readouterr().err
    file.write_text("1, 2, three\n", encoding="utf-8")
    assert run("predict", tmp_path / "run", "--file", file) == 2
    assert "rows.csv, line 1: 'three' is not a number" in capsys.readouterr().err


@pytest.mark.parametrize("content", ['{"names": ["a"]}', '{"names": ["a"], "mean": ["x"], "deviation": [1]}'])
def test_a_scale_that_cannot_be_read_is_named(content: str, tmp_path: Path) -> None:
    own_series_model(tmp_path / "run", head="forecast", series={"horizon": 3})
    (tmp_path / "run" / "series.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"series\.json cannot be used .*: expected names, mean and deviation, each a"):
        gf.pipeline(tmp_path / "run")


def test_values_that_are_no_series(forecaster: Path) -> None:
    predict = gf.pipeline(forecaster)
    with pytest.raises(InputError, match="fill only works with a file: leave it out for a Series or values"):
        predict(waves(), fill="previous")
    with pytest.raises(InputError, match=r"the series has shape \(1, 30, 2\): expected \(time, channels\) or \(time\)"):
        predict(waves()[None])
