"""What a model is shown when somebody looks inside it: a text, a picture or a series, as the model's arguments, with
the names and the pixels or values that belong to them.

A text is read to its end: a model that writes goes on with it first, so that its own words are looked at too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.checkpoints.preparation import Preparation
from glassformer.checkpoints.run import RUN
from glassformer.core.model import Transformer
from glassformer.core.stack import Stack
from glassformer.data.digits import digits
from glassformer.data.seasons import seasons
from glassformer.data.series import Series, Values, read_series
from glassformer.errors import InputError
from glassformer.generation import generate
from glassformer.predict.pictures import Picture, read_pixels
from glassformer.predict.predictors import begin_in, on_device
from glassformer.predict.series import Scale, last_window, of_training, scaler_for
from glassformer.tasks.classify import Classify
from glassformer.tasks.evaluate import task_to_score
from glassformer.tasks.forecast import Forecast
from glassformer.tasks.images import ImageClasses
from glassformer.text import Tokenizer

EXAMPLE = "example"  # the word for an input that need not be brought
TRANSLATED, CONTINUED = 128, 24  # tokens that are written, at the most


@dataclass(frozen=True)
class TextReading:
    """The model's arguments for one text, and its tokens: what each stack reads, and what is written at each place."""

    inputs: dict[str, Tensor]
    source: list[str]  # of the encoder
    target: list[str]  # of the decoder
    written: list[str]  # behind each token of the target; its own names where nothing is written


@dataclass(frozen=True)
class ImageReading:
    """The model's arguments for one picture, and the picture as the model sees it."""

    inputs: dict[str, Tensor]
    pixels: NDArray[np.float32]  # (Y, X, channels), 0 to 1
    name: str


@dataclass(frozen=True)
class SeriesReading:
    """The model's arguments for the last window of a series, and that window as it was given."""

    inputs: dict[str, Tensor]
    values: Values  # (L, C)
    channels: tuple[str, ...]
    times: list[str]  # of the first value and the last
    name: str


def read_text(model: Transformer, tokenizer: Tokenizer, text: str) -> TextReading:
    """The text, and behind it (in a decoder beside it) what the model writes for it, always the likeliest."""
    if not text.strip():
        raise InputError("the text is empty: give some words to look at")
    encoded = tokenizer.encode([text])
    reads, inputs = model.encoder or model.decoder, on_device(model, encoded)
    assert reads is not None  # a model has at least one
    check_length(reads, encoded.input_ids.shape[1])
    source = tokenizer.tokens(encoded.input_ids[0], source=True)
    if model.decoder is None:
        return TextReading(inputs, source, [], [])
    if model.config.head != "language":
        if model.encoder is None:
            return TextReading(inputs, [], source, source)
        shifted = model.shift_right(inputs["input_ids"])  # (1, T)
        target = tokenizer.tokens(shifted[0])
        return TextReading({**inputs, "decoder_input_ids": shifted}, source, target, target)
    ids = write(model, tokenizer, inputs)  # (1, T+1)
    target, written = tokenizer.tokens(ids[0, :-1]), tokenizer.tokens(ids[0, 1:])
    if model.encoder is None:
        return TextReading({"input_ids": ids[:, :-1]}, [], target, written)
    return TextReading({**inputs, "decoder_input_ids": ids[:, :-1]}, source, target, written)


def write(model: Transformer, tokenizer: Tokenizer, inputs: dict[str, Tensor]) -> Tensor:
    """What the decoder reads and writes: the target from its start token, or the text and how it goes on."""
    assert model.decoder is not None
    ids, mask, room = inputs["input_ids"], inputs["attention_mask"], model.config.last_stack.room
    if model.encoder is not None:
        most = TRANSLATED if room is None else max(1, min(TRANSLATED, room - 1))
        choices: dict[str, Any] = begin_in(model, tokenizer, None)
    else:
        most = CONTINUED if room is None else min(CONTINUED, room - ids.shape[1])
        choices = {"num_beams": 1}
        if most < 1:
            return ids
    choices |= {"max_new_tokens": most, "min_new_tokens": 0, "do_sample": False, "num_return_sequences": 1}
    return generate(model, ids, attention_mask=mask, **choices)


def check_length(stack: Stack, length: int) -> None:
    most = stack.config.room
    if most is not None and length > most:
        raise InputError(f"the text has {length} tokens, and this model reads {most} at the most: give a shorter one")


def read_image(model: Transformer, preparation: Preparation, file: str | Path | Picture) -> ImageReading:
    """A picture, prepared as the model expects it; what is drawn is what the model sees."""
    pixels = read_pixels(file, preparation)  # (C, Y, X)
    mean, deviation = (torch.tensor(x)[:, None, None] for x in (preparation.mean, preparation.deviation))
    seen = ((pixels * deviation + mean) / (255 * preparation.scale)).clamp(0, 1).permute(1, 2, 0)  # (Y, X, C)
    name = file.name if isinstance(file, Picture) else Path(file).name
    return ImageReading({"pixel_values": pixels[None].to(model.device, model.dtype)}, seen.numpy(), name)


def read_window(model: Transformer, scale: Scale | None, given: Series | str | Path, name: str = "") -> SeriesReading:
    """The last window of a series, of a CSV file or at hand."""
    series = given if isinstance(given, Series) else read_series(Path(given))
    series = of_training(series, scale)
    scaler = scaler_for(series.values, series.names, scale, model)
    past = last_window(model, series.values, scaler)  # (1, L, C)
    length = past.shape[1]
    times = [str(time).replace("T", " ") for time in series.times[[-length, -1]]]
    return SeriesReading(
        {"past_values": past}, series.values[-length:], series.names, times, name or Path(str(given)).name
    )


def read_numbers(model: Transformer, scale: Scale | None, given: Sequence[float], name: str) -> SeriesReading:
    """One series of a model that classifies them: as many numbers as it reads."""
    assert model.config.series is not None
    values, length = np.array(given, dtype=np.float32)[:, None], model.config.series.length  # (L, 1)
    if len(values) != length:
        raise InputError(f"the series has {len(values)} values: this model reads {length} numbers, and no label")
    past = last_window(model, values, None if scale is None else scale.scaler)  # (1, L, 1)
    return SeriesReading({"past_values": past}, values, ("",), ["0", str(length - 1)], name)


def example_image(folder: Path) -> Picture:
    """One that the run held out, or a built-in digit where there is no run."""
    if not (folder / RUN).is_file():
        pixels = np.rint(digits(held_out=True)[0][0, 0] * 255).astype(np.uint8)  # (8, 8)
        return Picture("a built-in digit", pixels)
    task = task_to_score(folder)
    assert isinstance(task, ImageClasses)
    taken = task.judged.take([0])[0].transpose(1, 2, 0)  # (Y, X, C)
    name = f"held out: {task.names[int(task.judged.labels[0])]}"
    return Picture(name, taken[:, :, 0] if taken.shape[2] == 1 else taken)


def example_window(model: Transformer, scale: Scale | None, folder: Path) -> SeriesReading:
    """The end of the run's own series, which it held out, or of the built-in one where there is no run."""
    if not (folder / RUN).is_file():
        return read_window(model, scale, built_in_for(model, scale), "built-in, simulated")
    task = task_to_score(folder)
    if isinstance(task, Forecast):
        return read_window(model, scale, task.series, str(task.settings.data or "built-in, simulated"))
    assert isinstance(task, Classify)
    example = task.judged[0]
    return read_numbers(model, scale, example.values, f"held out: {', '.join(example.labels)}")


def built_in_for(model: Transformer, scale: Scale | None) -> Series:
    """As many channels of the built-in series as the model reads; of a model that reads any number, all of them."""
    assert model.config.series is not None
    series, wanted = of_training(seasons(), scale), model.config.series.channels
    if wanted is not None and wanted > len(series.names):
        raise InputError(
            f"this model reads {wanted} channels, and the built-in series has {len(series.names)}: give a CSV file"
        )
    return replace(series, names=series.names[:wanted], values=series.values[:, :wanted])
