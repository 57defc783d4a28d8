"""Prepares series for a model that forecasts or classifies them: values -> windows -> answers.

A run saves the names of its channels, their scale in training, and how its file was read (`series.json`). If that file
exists, inputs are read and scaled in the same way, and forecasts are scaled back.
"""

import csv
import io
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from glassformer.checkpoints.run import is_run, read_record
from glassformer.config import SeriesConfig
from glassformer.core.model import Transformer
from glassformer.data.columns.calendar import Frequency, times_after
from glassformer.data.columns.numbers import Decimal
from glassformer.data.files import AS_FOUND, with_training_flags
from glassformer.data.formats.table import TableOptions
from glassformer.data.series import ANY, Fill, Scaler, Series, SeriesFormat, Values, read_series
from glassformer.errors import InputError, join_names
from glassformer.generation.encode import BATCH_TOKENS, map_batches
from glassformer.io import read_json
from glassformer.predict.answers import Label, Labels, as_labels
from glassformer.predict.prepared import Prepared, StackTokens, Window, plain_tokens

SCALE_FILE = "series.json"
MAX_MAGNITUDE = 1e15  # its square, needed for a standard deviation, still fits into float32


@dataclass(frozen=True)
class Scale:
    """The channels that a model was trained on, their scale, and how the file was read."""

    names: tuple[str, ...]
    scaler: Scaler
    format: SeriesFormat = ANY
    frequency: Frequency | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)  # as in training


def read_scale(folder: Path) -> Scale | None:
    file = folder / SCALE_FILE
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
    settings = read_record(folder)["settings"] if is_run(folder) else {}
    form = read_format(folder, values, names, settings)
    return Scale(names, Scaler(mean, deviation), form, frequency_in(values), settings)


def read_format(
    folder: Path, values: Mapping[str, Any], names: tuple[str, ...], told: Mapping[str, Any]
) -> SeriesFormat:
    """How a run read its file. Older runs saved only the settings, and treated missing weekends as gaps."""
    kept = values.get("format", {})
    if "format" not in values and told:
        fill = None if told.get("fill") == "none" else told.get("fill")
        kept = {"fill": fill, "cut": told.get("cut", False), "calendar": "every-day"}
    if not isinstance(kept, Mapping):
        raise InputError(f"{folder / SCALE_FILE}: the format is {kept!r:.60}, expected fields such as fill and dates")
    known = {name: kept[name] for name in ANY.to_dict() if name in kept}
    try:
        return SeriesFormat(columns=names, remembered=True, **known)
    except InputError as error:
        raise InputError(f"{folder / SCALE_FILE} cannot be used: {error}") from None


def frequency_in(values: Mapping[str, Any]) -> Frequency | None:
    kept = values.get("frequency")
    is_known = isinstance(kept, Mapping) and {"count", "unit"} <= set(kept)
    return Frequency(int(kept["count"]), kept["unit"]) if is_known and kept else None


def read_as_trained(
    path: Path,
    scale: Scale | None,
    *,
    fill: Fill | None = None,
    date_format: str | None = None,
    decimal: Decimal | None = None,
    options: TableOptions = AS_FOUND,
) -> Series:
    """Reads a file as in training: the same channels, dates, numbers and calendar, and gaps filled in the same way."""
    form = SeriesFormat(remembered=True) if scale is None else scale.format
    form = replace(form, date_format=date_format or form.date_format, decimal=decimal or form.decimal)
    if scale is not None:
        options = with_training_flags(options, scale.settings)
    series = of_training(read_series(path, form, fill=fill, options=options), scale)
    notes = [*series.notes]
    if series.filled:
        told = "" if fill else ", as in training"
        missing = "1 missing value was" if series.filled == 1 else f"{series.filled:,} missing values were"
        notes.append(f"{missing} filled (--fill {fill or form.fill}{told})")
    if scale is not None and scale.frequency not in (None, series.frequency):
        notes.append(f"the rows are {series.frequency} apart, and in training they were {scale.frequency} apart")
    if scale is not None and series.names != scale.names:
        notes.append(
            f"the channels are {join_names(series.names)}, and in training they were {join_names(scale.names)}"
        )
    return replace(series, notes=tuple(notes))


class SeriesPreparer:
    """Prepares series for a model that forecasts or classifies them."""

    kind = "series"

    def __init__(self, model: Transformer, scale: Scale | None) -> None:
        self.model, self.scale = model, scale

    def prepare(
        self,
        given: Series | ArrayLike | str | Path,
        *,
        fill: Fill | None = None,
        date_format: str | None = None,
        decimal: Decimal | None = None,
        name: str | None = None,
    ) -> Prepared:
        """The call for the last window of a file, of a `Series`, or of values (time, channels) or (time). Remarks on
        how a file was read are printed on standard error."""
        config = self.model.config.series
        assert config is not None
        if isinstance(given, str | Path):
            name = Path(given).name if name is None else name
            given = read_as_trained(Path(given), self.scale, fill=fill, date_format=date_format, decimal=decimal)
            for note in given.notes:
                print(note, file=sys.stderr)
        elif fill is not None:
            raise InputError("fill only works with a file: leave it out for a Series or values")
        values, names, times = self.read(given)
        scaler = self.scaler_for(values, names)
        past = last_window(self.model, values, scaler)  # (1, L, C)
        patches = patch_spans(config)
        shown = names or tuple(f"channel {number}" for number in range(values.shape[1]))
        notes = given.notes if isinstance(given, Series) else ()
        window = Window(values[-config.length :], shown, (times[-config.length], times[-1]), patches, notes)
        tokens = plain_tokens([f"{first}–{end - 1}" for first, end in patches])
        return Prepared(
            {"past_values": past},
            {"encoder": StackTokens(tokens, prompt=len(tokens))},
            name=name or "",
            window=window,
            unscale=None if scaler is None else scaler.unscale,
        )

    def read(self, given: Series | ArrayLike) -> tuple[Values, tuple[str, ...], Sequence[str]]:
        """The values, the names of the channels (empty if unknown), and the times."""
        if isinstance(given, Series):
            series = of_training(given, self.scale)
            return series.values, series.names, [str(time).replace("T", " ") for time in series.times]
        values, scale = window_values(given), self.scale
        names = scale.names if scale is not None and len(scale.names) == values.shape[1] else ()
        return values, names, [str(number) for number in range(len(values))]

    def scaler_for(self, values: Values, names: Sequence[str]) -> Scaler | None:
        """The scaler used in training. Other channels need a model with instance norm, which rescales each window."""
        config, scale = self.model.config.series, self.scale
        assert config is not None
        if scale is None:
            return None
        if tuple(names) == scale.names:
            return scale.scaler
        if config.instance_norm:
            return Scaler.fit(values[-config.length :])
        known = ", ".join(scale.names)
        if names:
            missing = next((name for name in scale.names if name not in names), scale.names[0])
            raise InputError(f"the series has no channel {missing!r}: this model only knows the scale of {known}")
        raise InputError(f"the series has {values.shape[1]} channels: expected {len(scale.names)}, named {known}")


def patch_spans(config: SeriesConfig) -> list[tuple[int, int]]:
    """The values of a window that each token covers: start, and end (exclusive)."""
    first = (config.length - config.patch) % config.stride
    starts = range(first, config.length - config.patch + 1, config.stride)
    return [(start, start + config.patch) for start in starts]


@torch.no_grad()
def forecast(
    model: Transformer,
    scale: Scale | None,
    given: Series | ArrayLike | str | Path,
    *,
    fill: Fill | None = None,
    date_format: str | None = None,
    decimal: Decimal | None = None,
) -> Values:
    """The forecast (horizon, channels) of a file, a `Series`, or values (time, channels) or (time)."""
    prepared = SeriesPreparer(model, scale).prepare(given, fill=fill, date_format=date_format, decimal=decimal)
    logits = prepared.run(model).logits
    assert logits is not None
    return future_of(prepared, logits)


def future_of(prepared: Prepared, logits: Tensor) -> Values:
    """The forecast (1, Z, C) on the scale of the input, (Z, C)."""
    future: Values = logits[0].float().cpu().numpy()
    return future if prepared.unscale is None else prepared.unscale(future)


def window_values(given: ArrayLike) -> Values:
    try:
        values: NDArray[Any] = np.asarray(given, dtype=np.float32)
    except (TypeError, ValueError):
        raise InputError(f"the series is {given!r:.60}: expected a file, a Series, or an array of numbers") from None
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2:
        raise InputError(f"the series has shape {values.shape}: expected (time, channels) or (time)")
    return values


def of_training(series: Series, scale: Scale | None) -> Series:
    """Selects the channels that the model was trained on, in its order; other channels of a file are ignored."""
    if scale is None or not set(scale.names) <= set(series.names):
        return series
    places = [series.names.index(name) for name in scale.names]
    return replace(series, names=scale.names, values=series.values[:, places])


def last_window(model: Transformer, values: Values, scaler: Scaler | None) -> Tensor:
    """The last values of a series, on the model's scale: (1, L, C)."""
    config = model.config.series
    assert config is not None
    check_values(model, values)
    window = values[-config.length :]
    window = window if scaler is None else scaler.scale(window)
    return torch.tensor(np.ascontiguousarray(window))[None].to(model.device, model.dtype)  # (1, L, C)


def check_values(model: Transformer, values: Values) -> None:
    """Refuses a wrong number of rows or channels, and numbers that the model cannot compute with."""
    config = model.config.series
    assert config is not None
    if model.config.head == "class" and len(values) != config.length:
        raise InputError(f"the series has {len(values)} values: expected {config.length} numbers, without the label")
    if len(values) < config.length:
        raise InputError(
            f"the series has {len(values)} values, and this model reads the last {config.length}: give at least that "
            "many"
        )
    if config.channels not in (None, values.shape[1]):
        raise InputError(f"the series has {values.shape[1]} channels: expected {config.channels}")
    check_numbers(values, start=len(values) - config.length)


def check_numbers(values: Values, *, start: int = 0) -> None:
    """Refuses NaN and numbers too large for float32, from row `start` on."""
    wrong = np.argwhere(~(np.abs(values[start:]) <= MAX_MAGNITUDE))
    if len(wrong):
        row, channel = start + int(wrong[0][0]), int(wrong[0][1])
        value = values[row, channel]
        if np.isnan(value):
            raise InputError(f"the series has {value} in row {row + 1}: expected only numbers")
        raise InputError(
            f"row {row + 1} of channel {channel} is {value:g}, which is too large to compute with: expected at most "
            f"{MAX_MAGNITUDE:g}. Use another unit for the series"
        )


def classify_series(
    model: Transformer,
    scale: Scale | None,
    rows: Sequence[ArrayLike],
    *,
    batch_tokens: int = BATCH_TOKENS,
    batch_size: int | None = None,
) -> list[Label | Labels]:
    """The class of each series of values (length) or (length, channels)."""
    preparer, windows = SeriesPreparer(model, scale), []
    for number, row in enumerate(rows, start=1):
        try:
            windows.append(preparer.prepare(row).arguments["past_values"])
        except InputError as error:
            raise InputError(str(error).replace("the series", f"series {number}", 1)) from None
    assert model.config.series is not None

    @torch.no_grad()
    def run(numbers: Sequence[int]) -> list[Label | Labels]:
        logits = model(past_values=torch.cat([windows[i] for i in numbers])).logits
        return as_labels(model, logits.float().cpu())

    lengths = [model.config.series.tokens_per_channel * window.shape[2] for window in windows]  # a row for each channel
    return map_batches(lengths, run, batch_tokens, batch_size=batch_size)


def following_times(series: Series, count: int) -> list[str]:
    """The next times at the same frequency, without a time of day if all of them are at midnight."""
    times = times_after(series.times, series.frequency, count)
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
