"""Series as a model takes them: a table that the page sends, or one of the examples."""

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glassformer.core.model import Transformer
from glassformer.data.series import ASK_FOR_FILL, Series, Values, read_series
from glassformer.errors import InputError
from glassformer.explore.view.inputs import Prepared, example_of
from glassformer.predict.inputs import as_numbers
from glassformer.predict.series import Scale, as_values, of_training, scaler_for

ASK_FOR_CUT = re.compile("Ask for cut=True .*")  # which the page cannot do
LARGEST = 1e15  # its square, which a deviation is made of, is still a number of 32 bits


class SeriesReader:
    """Series for a model that forecasts them, or names their class."""

    kind = "series"

    def __init__(self, model: Transformer, scale: Scale | None, examples: list[Series]) -> None:
        self.model, self.scale, self.examples = model, scale, examples

    def prepare(self, given: Mapping[str, Any]) -> Prepared:
        if ("csv" in given) == ("example" in given):
            raise InputError("expected a csv or the number of an example: give one of the two")
        if "example" in given:
            series = self.examples[example_of(given, len(self.examples))]
            values, names = series.values, series.names
        else:
            values, names = self.table(given["csv"])
        check_sizes(values)
        config = self.model.config.series
        assert config is not None
        if len(values) < config.length:
            raise InputError(f"the series has {len(values)} rows: this model looks back on {config.length}. Give more")
        if config.channels not in (None, values.shape[1]):
            raise InputError(f"the series has {values.shape[1]} channels: expected {config.channels}")
        channel = given.get("channel", 0)
        if type(channel) is not int or not 0 <= channel < values.shape[1]:
            raise InputError(f"channel {channel!r:.20} is not there: expected a number from 0 to {values.shape[1] - 1}")
        scaler = scaler_for(values, names if self.scale and names == self.scale.names else (), self.scale, self.model)
        window = values[-config.length :]
        past = torch.tensor(np.ascontiguousarray(window if scaler is None else scaler.scale(window)))[None]  # (1, L, C)
        first = (config.length - config.patch) % config.stride
        patches = [
            [start, start + config.patch] for start in range(first, config.length - config.patch + 1, config.stride)
        ]
        tokens = [{"text": f"{a}–{b - 1}", "id": i, "special": False} for i, (a, b) in enumerate(patches)]
        shown = list(names) or [f"channel {c}" for c in range(values.shape[1])]
        curve = {
            "names": shown,
            "channel": channel,
            "past": [float(f"{value:.6g}") for value in window[:, channel]],
            "future": None,
            "patches": patches,
        }
        line = {"tokens": tokens, "writes": None, "prompt": len(tokens)}
        unscale = None if scaler is None else scaler.unscale
        return Prepared({"past_values": past}, {"encoder": line}, row=channel, curve=curve, unscale=unscale)

    def table(self, text: Any) -> tuple[Values, tuple[str, ...]]:
        """A table with dates as `predict` reads it, or rows of numbers alone."""
        if not isinstance(text, str) or not text.strip():
            raise InputError("the table is empty: expected lines of numbers, or a CSV with a date first")
        lines = [line for line in text.strip().splitlines() if line.strip()]
        try:
            rows = [as_numbers(line, f"line {i}") for i, line in enumerate(lines, start=1)]
        except InputError:
            if "," in lines[0] and any(letter.isalpha() for letter in lines[0]):
                return self.dated(text)
            raise
        if len({len(row) for row in rows}) > 1:
            raise InputError("the lines have different numbers of values: expected one for each channel in every line")
        with np.errstate(over="ignore"):  # see `check_sizes`
            values = as_values(rows[0] if len(rows) == 1 else rows)
        names = self.scale.names if self.scale and len(self.scale.names) == values.shape[1] else ()
        return values, names

    def dated(self, text: str) -> tuple[Values, tuple[str, ...]]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "table.csv"
            file.write_text(text, encoding="utf-8")
            try:
                with np.errstate(over="ignore"):  # see `check_sizes`
                    series = of_training(read_series(file), self.scale)
            except InputError as error:
                sentence = str(error).replace(str(file), "the table").replace(ASK_FOR_FILL, "Complete the table")
                raise InputError(ASK_FOR_CUT.sub("Give all series the same span", sentence)) from None
        return series.values, series.names


def check_sizes(values: Values) -> None:
    """Numbers that the model can compute with."""
    wrong = np.argwhere(~(np.abs(values) <= LARGEST))
    if len(wrong):
        row, channel = wrong[0].tolist()
        raise InputError(
            f"row {row + 1} of channel {channel} is {values[row, channel]:g}, which is too large to compute with: "
            f"expected numbers between -{LARGEST:g} and {LARGEST:g}. Bring the series to another unit"
        )
