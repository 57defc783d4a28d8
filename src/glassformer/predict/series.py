"""Series for a model that says how they go on, or what they are: values -> windows -> answers.

A run keeps beside its model what its channels are called and how they were scaled in training (`series.json`). Where
that is there, a series is brought to this scale and its forecast back.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from glassformer.core.model import Transformer
from glassformer.data.series import Fill, Scaler, Series, Times, Values, read_series, step_times
from glassformer.errors import InputError
from glassformer.io import read_json
from glassformer.predict.predictors import BATCH, Label, Labels, as_labels

SCALE = "series.json"


@dataclass(frozen=True)
class Scale:
    """The channels that a model was trained on, and their scale."""

    names: tuple[str, ...]
    scaler: Scaler


def read_scale(folder: Path) -> Scale | None:
    file = folder / SCALE
    if not file.is_file():
        return None
    values = read_json(file)
    try:
        names = tuple(map(str, values["names"]))
        mean, deviation = (np.array(values[key], dtype=np.float32) for key in ("mean", "deviation"))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{file} cannot be used ({error}): expected names, mean and deviation, each a list") from None
    if not mean.shape == deviation.shape == (len(names),) or not (deviation > 0).all():
        raise InputError(f"{file}: expected a mean and a deviation above 0 for each of the {len(names)} names")
    return Scale(names, Scaler(mean, deviation))


def forecast(
    model: Transformer, scale: Scale | None, given: Series | ArrayLike | str | Path, *, fill: Fill | None = None
) -> Values:
    """How a series goes on: (horizon, channels). It is a file, a `Series`, or values (time, channels) or (time)."""
    series = read_series(Path(given), fill=fill) if isinstance(given, str | Path) else given
    if isinstance(series, Series):
        series = of_training(series, scale)
        values, names = series.values, series.names
    else:
        if fill is not None:
            raise InputError("fill is for a file: values that are given as they are have nothing missing")
        values, names = as_values(series), ()
    scaler = scaler_for(values, names, scale, model)
    return forecast_values(model, values, scaler)


def as_values(given: ArrayLike) -> Values:
    try:
        values: NDArray[Any] = np.asarray(given, dtype=np.float32)
    except (TypeError, ValueError):
        raise InputError(f"the series is {given!r:.60}: expected a file, a Series, or an array of numbers") from None
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2:
        raise InputError(f"the series has shape {values.shape}: expected (time, channels) or (time)")
    return values


def of_training(series: Series, scale: Scale | None) -> Series:
    """The channels that the model was trained on, in its order; others of a file are not asked for."""
    if scale is None or not set(scale.names) <= set(series.names):
        return series
    places = [series.names.index(name) for name in scale.names]
    return Series(scale.names, series.times, series.values[:, places], series.frequency)


def scaler_for(values: Values, names: Sequence[str], scale: Scale | None, model: Transformer) -> Scaler | None:
    """That of the training. Other channels can be read where each window is brought to its own level anyway."""
    assert model.config.series is not None
    if scale is None:
        return None
    if tuple(names) == scale.names or (not names and values.shape[1] == len(scale.names)):
        return scale.scaler
    if model.config.series.instance_norm:
        return Scaler.fit(values[-model.config.series.length :])
    known = ", ".join(scale.names)
    if names:
        missing = next((name for name in scale.names if name not in names), scale.names[0])
        raise InputError(f"the series has no channel {missing!r}: this model knows the scale of {known} only")
    raise InputError(f"the series has {values.shape[1]} channels: expected {len(scale.names)}, which are {known}")


@torch.no_grad()
def forecast_values(model: Transformer, values: Values, scaler: Scaler | None) -> Values:
    logits = model(past_values=last_window(model, values, scaler)).logits
    assert logits is not None
    future: Values = logits[0].float().cpu().numpy()  # (Z, C)
    return future if scaler is None else scaler.unscale(future)


def last_window(model: Transformer, values: Values, scaler: Scaler | None) -> Tensor:
    """The end of a series as a model reads it, on the model's scale: (1, L, C)."""
    series = model.config.series
    assert series is not None
    if len(values) < series.length:
        raise InputError(
            f"the series has {len(values)} values, and this model looks back on {series.length}: give at least as many"
        )
    window = values[-series.length :]
    wrong = np.argwhere(~np.isfinite(window))
    if len(wrong):
        row = len(values) - series.length + int(wrong[0][0])
        raise InputError(f"the series has {values[row, wrong[0][1]]} at row {row}: expected numbers only")
    window = window if scaler is None else scaler.scale(window)
    return torch.tensor(np.ascontiguousarray(window))[None].to(model.device, model.dtype)  # (1, L, C)


def judge_series(
    model: Transformer, scale: Scale | None, rows: Sequence[ArrayLike], *, batch_size: int = BATCH
) -> list[Label | Labels]:
    """The class of each series, of (length) or (length, channels) values."""
    series = model.config.series
    assert series is not None
    windows = []
    for i, row in enumerate(rows):
        values = as_values(row)
        if len(values) != series.length or not np.isfinite(values).all():
            said = f"has {len(values)} values" if len(values) != series.length else "has values that are not finite"
            raise InputError(f"series {i} {said}: this model reads {series.length} numbers, and no label")
        windows.append(values if scale is None else scale.scaler.scale(values))
    found = []
    for start in range(0, len(windows), batch_size):
        past = torch.tensor(np.stack(windows[start : start + batch_size])).to(model.device, model.dtype)  # (B, L, C)
        with torch.no_grad():
            logits = model(past_values=past).logits
        assert logits is not None
        found += as_labels(model, logits.float().cpu())
    return found


def following_times(series: Series, count: int) -> list[str]:
    """The times after the last one, at the same steps; without a time of day where all are at midnight."""
    last: datetime = series.times[-1].astype("datetime64[s]").item()
    times: Times = step_times(last, series.frequency, count + 1)[1:]
    whole_days = bool((times == times.astype("datetime64[D]")).all())
    shown = np.datetime_as_string(times.astype("datetime64[D]" if whole_days else "datetime64[s]"))
    return [str(time).replace("T", " ") for time in shown]


def as_csv(names: Sequence[str], times: Sequence[str], values: Values) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["date", *names])
    for time, row in zip(times, values, strict=True):
        writer.writerow([time, *(f"{value:.7g}" for value in row.tolist())])
    return text.getvalue()
