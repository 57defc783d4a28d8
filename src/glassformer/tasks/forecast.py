"""Forecasting (PatchTST: Nie et al., 2023): an encoder over the patches of a series predicts its next values.

Each channel is forecast separately with the same weights, so relations between channels are not used. As in most
papers, scores cover every window of the held-out rows, on values standardised with the training rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.checkpoints.run import read_record
from glassformer.config import SeriesConfig, StackConfig, TransformerConfig
from glassformer.data.batches import shuffled_batches
from glassformer.data.columns.calendar import EVERY_WEEKDAY
from glassformer.data.files import table_format
from glassformer.data.seasons import seasons
from glassformer.data.series import Scaler, Series, SeriesFormat, Windows, read_series, split_rows, windows
from glassformer.errors import InputError, did_you_mean
from glassformer.generation.choose_engine import Work
from glassformer.io import write_json
from glassformer.predict.series import SCALE_FILE, check_numbers, read_scale
from glassformer.tasks.baselines import linear_forecast, seasonal_naive
from glassformer.tasks.models import describe_model, make_model, stack_sizes
from glassformer.tasks.registry import TASKS
from glassformer.tasks.settings import ForecastSettings
from glassformer.training.task import Batch, ForecastCurve, Scores, Task, sample_numbers

SCORE_BATCH = 256  # windows per batch in validation
DRAWN = 6  # curves in the report
SplitName = Literal["train", "validation", "test"]


class Forecast(Task):
    """Windows of a series, an encoder over patches, squared or absolute error, MSE and MAE over every window."""

    name: ClassVar[str] = "forecast"
    unit: ClassVar[str] = "windows"
    metrics: ClassVar[tuple[str, ...]] = ("mse", "mae")
    metric: ClassVar[str] = TASKS[name].metric
    steps: ClassVar[int] = 600

    def __init__(self, settings: ForecastSettings, files: Sequence[Path] = ()) -> None:
        self.settings: ForecastSettings = settings
        if len(files) > 1:
            raise InputError(f"{len(files)} files to score: expected one, with the channels of the training data")
        path = files[0] if files else settings.data
        self.series = self.read(path)
        rows = self.series.values
        check_numbers(rows)
        if files:
            assert settings.init_folder is not None  # scoring needs a loaded model
            self.scaler = self.scaler_of(settings.init_folder)
            everything = windows(self.scaler.scale(rows), settings.length, settings.horizon)
            self.train = self.valid = self.test = everything
        else:
            parts = split_rows(len(rows), settings.splits or (0.7, 0.1, 0.2))
            self.scaler = Scaler.fit(rows[: parts.train])
            scaled = self.scaler.scale(rows)
            names: tuple[SplitName, ...] = ("train", "validation", "test")
            self.train, self.valid, self.test = (
                windows(parts.part(scaled, name, settings.length), settings.length, settings.horizon) for name in names
            )
        self.is_trained_on = not files
        self.model = make_model(settings, self.config, head="forecast")
        self.check_windows()

    def read(self, path: Path | None) -> Series:
        settings = self.settings
        if path is None:
            return select(seasons(), settings.columns)
        series = read_series(path, self.format(), options=settings.tables)
        is_new = series.frequency == EVERY_WEEKDAY and settings.calendar == "auto"
        if is_new and settings.resume and "calendar" not in read_record(settings.out)["settings"]:
            raise InputError(
                f"--resume: {settings.out} was started by a version without trading days. Use --calendar every-day to "
                "continue it unchanged"
            )
        return series

    def format(self) -> SeriesFormat:
        """The format of the file: from the settings; for the score of a run, that of its training file."""
        settings = self.settings
        asked = SeriesFormat(
            columns=settings.columns,
            fill=None if settings.fill == "none" else settings.fill,
            cut=settings.cut,
            date_format=settings.date_format,
            decimal=settings.decimal,
            calendar=settings.calendar,
        )
        scale = read_scale(settings.init_folder) if settings.init_folder is not None and settings.is_judged else None
        if scale is None:
            return asked
        decimal = asked.decimal or scale.format.decimal
        return replace(scale.format, fill=asked.fill, cut=asked.cut, date_format=asked.date_format, decimal=decimal)

    def config(self) -> TransformerConfig:
        settings = self.settings
        sizes = stack_sizes(
            settings,
            tiny={"d_model": 64, "num_layers": 2, "num_heads": 4, "d_ff": 128},
            small={"d_model": 128, "num_layers": 3, "num_heads": 8, "d_ff": 256},
            base={"d_model": 256, "num_layers": 4, "num_heads": 8, "d_ff": 512},
        )
        # Dropout on the branches only, as in PatchTST: before the first block and the head it lowers the accuracy.
        stack = {"dropout": 0.2, **sizes, **({} if self.drops_before_blocks else {"embed_dropout": 0.0})}
        return TransformerConfig(
            encoder=StackConfig(**stack, positions="learned", activation="gelu", final_norm=False),
            series=SeriesConfig(
                length=settings.length,
                patch=settings.patch,
                stride=settings.stride,
                horizon=settings.horizon,
                channels=len(self.series.names),
                instance_norm=settings.instance_norm,
                fold=settings.fold,
            ),
            head="forecast",
            head_dropout=0.0,
        )

    @cached_property
    def drops_before_blocks(self) -> bool:
        """Whether the resumed run was started when the presets still had dropout before the first block."""
        if not self.settings.resume:
            return False
        record = read_record(self.settings.out)
        return bool(
            record.get("drops_before_blocks", "qk_norm" not in record["settings"])
        )  # qk_norm is newer than the change

    def record(self) -> dict[str, Any]:
        return {"drops_before_blocks": True} if self.drops_before_blocks else {}

    def scaler_of(self, run: Path) -> Scaler:
        """The scaler of a run; its channels must be those of this series."""
        scale = read_scale(run)
        if scale is None:
            raise InputError(f"{run} has no {SCALE_FILE}, which holds the scale of its series. Is it a forecast run?")
        if scale.names != self.series.names:
            ours, theirs = ", ".join(self.series.names), ", ".join(scale.names)
            raise InputError(f"the channels are {ours}, but {run} was trained on {theirs}. Choose with --columns")
        return scale.scaler

    def check_windows(self) -> None:
        """Refuses a length or horizon other than the loaded model's."""
        series = self.model.config.series
        for name, value in (("length", self.settings.length), ("horizon", self.settings.horizon)):
            its = getattr(series, name, None)
            if its != value:
                raise InputError(f"--init {self.settings.init} has {name} {its}: give --{name} {its}, not {value}")

    def batches(self, epoch: int) -> list[list[int]]:
        return shuffled_batches(len(self.train), self.settings.batch_size, seed=self.settings.seed, epoch=epoch)

    def collate(self, examples: Sequence[int], epoch: int) -> Batch:
        return as_batch(self.train, examples)

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        measures = {"mse": F.mse_loss, "mae": F.l1_loss, "huber": F.smooth_l1_loss}
        return measures[self.settings.loss](logits, labels, reduction="sum")

    def divergence(self, first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
        return (first - second).square().sum()

    def weight(self, labels: Tensor) -> float:
        return float(labels.numel())

    def size(self, batch: Batch) -> int:
        return len(batch["labels"])

    @torch.no_grad()
    def errors(self, chosen: Windows, numbers: Sequence[int] | None = None) -> dict[str, float]:
        """MSE and MAE over every value and channel of all windows, or of the windows with these numbers."""
        squared = absolute = 0.0
        numbers = range(len(chosen)) if numbers is None else numbers
        for start in self.follow(range(0, len(numbers), SCORE_BATCH)):
            batch = as_batch(chosen, numbers[start : start + SCORE_BATCH])
            apart = self.answer(batch["past_values"]) - batch["labels"]
            squared += float(apart.square().sum(dtype=torch.float64))
            absolute += float(apart.abs().sum(dtype=torch.float64))
        values = len(numbers) * chosen.horizon * chosen.rows.shape[1]
        return {"mse": squared / values, "mae": absolute / values}

    @torch.no_grad()
    def answer(self, past: Tensor) -> Tensor:
        forecast: Tensor = self.model(past_values=past.to(self.model.device)).logits.float().cpu()
        return forecast

    def count(self, split: Literal["test", "valid"]) -> int:
        return len(self.valid if split == "valid" else self.test)

    def validate(self, most: int | None = None) -> dict[str, float]:
        return self.errors(self.valid, sample_numbers(len(self.valid), most))

    @property
    def judged(self) -> Windows:
        return self.valid if self.split == "valid" else self.test

    def work(self) -> Work:
        assert self.model.config.series is not None
        return Work(reads=len(self.judged) * self.model.config.series.tokens_per_channel * len(self.series.names))

    def score_some(self, most: int) -> Scores:
        numbers = sample_numbers(len(self.judged), most)
        return Scores(metrics=self.errors(self.judged, numbers), count=len(numbers), unit=self.unit)

    def evaluate(self, most: int | None = None) -> Scores:
        judged, numbers = self.judged, sample_numbers(len(self.judged), most)
        metrics = self.errors(judged, numbers)
        baselines, notes = self.compared(self.methods(judged, numbers))
        which = f"all {len(judged):,} windows are" if len(numbers) == len(judged) else "windows are"
        if not self.is_trained_on:
            notes.append("no linear baseline: it needs the training rows, but only the file to score was read")
        if self.settings.is_judged:  # after training they have already been printed
            notes = [*self.notes(), *notes]
        return Scores(
            metrics=metrics,
            count=len(numbers),
            unit=self.unit,
            notes=[f"{which} scored, on values scaled by the training rows", *notes],
            baselines=baselines,
            curves=self.curves(),
            sample=self.sample_of(len(judged), len(numbers)),
        )

    def methods(self, judged: Windows, numbers: Sequence[int]) -> dict[str, Callable[[], dict[str, float]]]:
        """The baselines, on the windows with these numbers."""
        period, follow = min(self.settings.period, self.settings.length), self.follow
        found = {f"seasonal naive, {period}": lambda: seasonal_naive(judged, period, numbers, follow).metrics}
        if self.is_trained_on:
            found["linear"] = lambda: linear_forecast(self.train, judged, numbers=numbers, follow=follow).metrics
        return found

    def curves(self) -> list[ForecastCurve]:
        """Forecasts for the report: channel by channel, at positions spread over the test rows."""
        drawn = []
        for number in range(DRAWN):
            channel, place = number % len(self.series.names), (2 * number + 1) * len(self.judged) // (2 * DRAWN)
            past, future = self.judged[place]
            forecast = self.answer(torch.from_numpy(np.ascontiguousarray(past))[None])[0].numpy()
            shown: list[Any] = [
                self.scaler.unscale(values)[:, channel].tolist()
                for values in (past[-2 * self.settings.horizon :], future, forecast)
            ]
            drawn.append(
                ForecastCurve(name=self.series.names[channel], past=shown[0], truth=shown[1], forecast=shown[2])
            )
        return drawn

    def describe(self) -> dict[str, str]:
        settings, series = self.settings, self.series
        origin = settings.data or "a simulated town's utilities, hour by hour (no --data was given)"
        used = sum(settings.splits) or len(series)
        unused = f", of which the last {len(series) - used:,} are not used (--splits)" if used < len(series) else ""
        repaired = "".join(f"; {note}" for note in self.repairs())
        channels = f"{len(series.names)} channel{'s' * (len(series.names) > 1)}"
        reading = {"reading": "; ".join(series.notes)} if series.notes else {}
        return {
            "data": f"{origin}: {len(series):,} rows of {channels}, every {series.frequency}{unused}{repaired}",
            **({"format": str(table_format(settings.data, settings.tables))} if settings.data else {}),
            **reading,
            "windows": f"{settings.length} values back, {settings.horizon} ahead: {len(self.train):,} to train on, "
            f"{len(self.valid):,} to validate, {len(self.test):,} to test",
            "model": describe_model(self.model, settings),
        }

    def repairs(self) -> list[str]:
        cut, filled, fill = self.series.cut, self.series.filled, self.series.format.fill
        trimmed = [f"{cut:,} value{'s' * (cut > 1)} outside the common span trimmed (--cut)"] if cut else []
        return trimmed + ([f"{filled:,} missing value{'s' * (filled > 1)} filled (--fill {fill})"] if filled else [])

    def notes(self) -> list[str]:
        """How the file was read, and what was repaired."""
        return [*self.series.notes, *self.repairs()]

    def seen_example(self) -> Batch:
        past, _ = self.judged[len(self.judged) // 2]
        return {"past_values": torch.from_numpy(np.ascontiguousarray(past))[None]}

    def try_next(self, out: Path) -> list[list[str]]:
        file = str(self.settings.data or "yours.csv")
        return [["glassformer", "predict", str(out), "--file", file, "--picture", "forecast.png"]]

    def write_beside(self, folder: Path) -> None:
        values = {
            "names": list(self.series.names),
            "mean": self.scaler.mean.tolist(),
            "deviation": self.scaler.deviation.tolist(),
            "frequency": {"count": self.series.frequency.count, "unit": self.series.frequency.unit},
            "format": self.series.format.to_dict(),
        }
        write_json(folder / SCALE_FILE, values)


def select(series: Series, columns: Sequence[str]) -> Series:
    """Some channels of the built-in series, by name."""
    for name in columns:
        if name not in series.names:
            raise InputError(f"the built-in series has no channel {name!r}{did_you_mean(name, series.names)}")
    places = [series.names.index(name) for name in columns or series.names]
    return replace(series, names=tuple(columns or series.names), values=series.values[:, places])


def as_batch(chosen: Windows, examples: Sequence[int]) -> Batch:
    both = torch.from_numpy(chosen.all()[list(examples)].copy())  # (B, L+Z, C)
    return {"past_values": both[:, : chosen.length], "labels": both[:, chosen.length :]}
