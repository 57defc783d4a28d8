"""Forecasting: a series cut into patches that look at each other, from which the future of each channel is read off.

Channels are forecast one by one, by the same weights (PatchTST: Nie et al., 2023): what one tells about another is not
used. Scores are over every window of the held-out rows, on values scaled by the training rows, as is the custom.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.config import SeriesConfig, StackConfig, TransformerConfig
from glassformer.data.batches import in_order
from glassformer.data.seasons import seasons
from glassformer.data.series import Scaler, Series, Windows, read_series, split_rows, windows
from glassformer.errors import InputError, nearest
from glassformer.generation.choose_engine import Work
from glassformer.io import write_json
from glassformer.predict.series import SCALE, read_scale
from glassformer.tasks.baselines import linear_forecast, seasonal_naive
from glassformer.tasks.models import describe_model, make_model, sizes_of
from glassformer.tasks.registry import TASKS
from glassformer.tasks.settings import ForecastSettings
from glassformer.training.task import Batch, Curve, Scores, Task, spread

JUDGED = 256  # windows that are looked at together
DRAWN = 6  # curves in the report
Part = Literal["train", "validation", "test"]


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
            raise InputError(f"{len(files)} files to score: expected one, with the channels of the training")
        path = files[0] if files else settings.data
        self.series = self.read(path)
        rows = self.series.values
        if files:
            assert settings.init_folder is not None  # what is scored is loaded
            self.scaler = self.scaler_of(settings.init_folder)
            everything = windows(self.scaler.scale(rows), settings.length, settings.horizon)
            self.train = self.valid = self.test = everything
        else:
            parts = split_rows(len(rows), settings.splits or (0.7, 0.1, 0.2))
            self.scaler = Scaler.fit(rows[: parts.train])
            scaled = self.scaler.scale(rows)
            names: tuple[Part, ...] = ("train", "validation", "test")
            self.train, self.valid, self.test = (
                windows(parts.part(scaled, name, settings.length), settings.length, settings.horizon) for name in names
            )
        self.is_trained_on = not files
        self.model = make_model(settings, self.config, head="forecast")
        self.check_windows()

    def read(self, path: Path | None) -> Series:
        settings = self.settings
        if path is None:
            return seasons()
        series = read_series(path, fill=None if settings.fill == "none" else settings.fill, cut=settings.cut)
        for name in settings.columns:
            if name not in series.names:
                raise InputError(f"{path} has no column {name!r}{nearest(name, series.names)}")
        chosen = [series.names.index(name) for name in settings.columns or series.names]
        names = tuple(series.names[i] for i in chosen)
        return Series(names, series.times, series.values[:, chosen], series.frequency, series.filled, series.cut)

    def config(self) -> TransformerConfig:
        settings = self.settings
        sizes = sizes_of(
            settings,
            tiny={"d_model": 64, "num_layers": 2, "num_heads": 4, "d_ff": 128},
            small={"d_model": 128, "num_layers": 3, "num_heads": 8, "d_ff": 256},
            base={"d_model": 256, "num_layers": 4, "num_heads": 8, "d_ff": 512},
        )
        # Dropout on the branches only, as in PatchTST: before the first block and the head it costs accuracy.
        stack = {"dropout": 0.2, **sizes, "embed_dropout": 0.0}
        return TransformerConfig(
            encoder=StackConfig(**stack, positions="learned", activation="gelu", final_norm=False),
            series=SeriesConfig(
                length=settings.length,
                patch=settings.patch,
                stride=settings.stride,
                horizon=settings.horizon,
                channels=len(self.series.names),
                instance_norm=settings.instance_norm,
            ),
            head="forecast",
            head_dropout=0.0,
        )

    def scaler_of(self, run: Path) -> Scaler:
        """How a run scaled its channels, which must be those of this series."""
        scale = read_scale(run)
        if scale is None:
            raise InputError(f"{run} has no {SCALE}, which says how its series were scaled: is it a forecast run?")
        if scale.names != self.series.names:
            ours, theirs = ", ".join(self.series.names), ", ".join(scale.names)
            raise InputError(f"the channels are {ours}, and {run} was trained on {theirs}")
        return scale.scaler

    def check_windows(self) -> None:
        """A loaded model reads and writes windows of its own length."""
        series = self.model.config.series
        for name, value in (("length", self.settings.length), ("horizon", self.settings.horizon)):
            its = getattr(series, name, None)
            if its != value:
                raise InputError(f"--init {self.settings.init} has {name} {its}: give --{name} {its}, not {value}")

    def batches(self, epoch: int) -> list[list[int]]:
        return in_order(len(self.train), self.settings.batch_size, seed=self.settings.seed, epoch=epoch)

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
        """MSE and MAE over every window (or those of these numbers), every value and every channel."""
        squared = absolute = 0.0
        numbers = range(len(chosen)) if numbers is None else numbers
        for start in range(0, len(numbers), JUDGED):
            batch = as_batch(chosen, numbers[start : start + JUDGED])
            apart = self.answer(batch["past_values"]) - batch["labels"]
            squared += float(apart.square().sum(dtype=torch.float64))
            absolute += float(apart.abs().sum(dtype=torch.float64))
        values = len(numbers) * chosen.horizon * chosen.rows.shape[1]
        return {"mse": squared / values, "mae": absolute / values}

    @torch.no_grad()
    def answer(self, past: Tensor) -> Tensor:
        forecast: Tensor = self.model(past_values=past.to(self.model.device)).logits.float().cpu()
        return forecast

    def validate(self) -> dict[str, float]:
        return self.errors(self.valid)

    @property
    def judged(self) -> Windows:
        return self.valid if self.split == "valid" else self.test

    def work(self) -> Work:
        assert self.model.config.series is not None
        return Work(reads=len(self.judged) * self.model.config.series.num_tokens * len(self.series.names))

    def score_some(self, most: int) -> Scores:
        numbers = spread(len(self.judged), most)
        return Scores(metrics=self.errors(self.judged, numbers), count=len(numbers), unit=self.unit)

    def evaluate(self) -> Scores:
        judged = self.judged
        reached = {f"seasonal naive, {self.settings.period}": seasonal_naive(judged, self.settings.period)}
        if self.is_trained_on:
            reached["linear"] = linear_forecast(self.train, judged)
        return Scores(
            metrics=self.errors(judged),
            count=len(judged),
            unit=self.unit,
            notes=[f"every one of the {len(judged):,} windows is scored, on values scaled by the training rows"],
            baselines={name: {"mse": score.mse, "mae": score.mae} for name, score in reached.items()},
            curves=self.curves(),
        )

    def curves(self) -> list[Curve]:
        """Forecasts to look at: channel by channel, at places spread over the test."""
        drawn = []
        for number in range(DRAWN):
            channel, place = number % len(self.series.names), (2 * number + 1) * len(self.judged) // (2 * DRAWN)
            past, future = self.judged[place]
            forecast = self.answer(torch.from_numpy(np.ascontiguousarray(past))[None])[0].numpy()
            shown: list[Any] = [
                self.scaler.unscale(values)[:, channel].tolist()
                for values in (past[-2 * self.settings.horizon :], future, forecast)
            ]
            drawn.append(Curve(name=self.series.names[channel], past=shown[0], truth=shown[1], forecast=shown[2]))
        return drawn

    def describe(self) -> dict[str, str]:
        settings, series = self.settings, self.series
        origin = settings.data or "a simulated town's utilities, hour by hour (no --data was given)"
        used = sum(settings.splits) or len(series)
        unused = f", of which the last {len(series) - used:,} are not used (--splits)" if used < len(series) else ""
        cut = f"; {series.cut:,} values outside the common span cut off (--cut)" if series.cut else ""
        filled = f"{cut}; {series.filled:,} missing values filled (--fill {settings.fill})" if series.filled else cut
        return {
            "data": f"{origin}: {len(series):,} rows of {len(series.names)} channels, every "
            f"{series.frequency}{unused}{filled}",
            "windows": f"{settings.length} values back, {settings.horizon} ahead: {len(self.train):,} to train on, "
            f"{len(self.valid):,} to validate, {len(self.test):,} to test",
            "model": describe_model(self.model, settings),
        }

    def try_next(self, out: Path) -> list[list[str]]:
        file = str(self.settings.data or "yours.csv")
        return [["glassformer", "predict", str(out), "--file", file, "--picture", "forecast.png"]]

    def write_beside(self, folder: Path) -> None:
        values = {
            "names": list(self.series.names),
            "mean": self.scaler.mean.tolist(),
            "deviation": self.scaler.deviation.tolist(),
            "frequency": {"count": self.series.frequency.count, "unit": self.series.frequency.unit},
        }
        write_json(folder / SCALE, values)


def as_batch(chosen: Windows, examples: Sequence[int]) -> Batch:
    both = torch.from_numpy(chosen.all()[list(examples)].copy())  # (B, L+Z, C)
    return {"past_values": both[:, : chosen.length], "labels": both[:, chosen.length :]}
