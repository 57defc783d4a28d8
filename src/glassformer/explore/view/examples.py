"""Example inputs: held-out examples for a run on built-in data, otherwise sentences for the task.

If the vocabulary covers Hangul, some examples are Korean. They come first if Hangul takes fewer tokens.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.checkpoints.run import RUN, is_run, read_record
from glassformer.config import TransformerConfig
from glassformer.data.arrivals import arrival_examples
from glassformer.data.columns.calendar import Frequency
from glassformer.data.dates import date_pairs
from glassformer.data.digits import digit_images
from glassformer.data.documentation import documentation_examples, documentation_split, sentences, split_paragraphs
from glassformer.data.scenes.make import make_scenes
from glassformer.data.scenes.questions import questions_of
from glassformer.data.scenes.scene import Scene
from glassformer.data.scenes.words import Language, caption_of
from glassformer.data.seasons import seasons
from glassformer.data.series import Series
from glassformer.errors import InputError
from glassformer.io import read_json
from glassformer.predict.series import Scale
from glassformer.tasks.registry import TASKS
from glassformer.text import Tokenizer

COUNT = 6
ENGLISH_EXAMPLES = {
    "translate": ("The weather is lovely today.", "Where is the nearest station?", "She reads a book to her children."),
    "lm": ("Once upon a time", "The capital of France is", "To be or not to be, that is"),
    "mlm": ("The capital of France is {mask}.", "She opened the {mask} and went in.", "Water {mask} at 100 degrees."),
    "classify": ("A wonderful film from start to finish.", "The plot made no sense at all.", "It was fine, I suppose."),
    "tokens": ("Marie Curie worked in Paris.", "Apple opened an office in Seoul last May."),
    "answer": ("Where did she work?\nMarie Curie was born in Warsaw and worked in Paris.",),
    "embed": ("A cat sleeps on the sofa.", "A kitten is napping on the couch.", "The stock market fell on Monday."),
}
KOREAN_EXAMPLES = {
    "translate": ("오늘은 날씨가 참 좋네요.",),
    "lm": ("옛날 옛적에",),
    "mlm": ("대한민국의 수도는 {mask}이다.",),
    "classify": ("처음부터 끝까지 훌륭한 영화였다.",),
    "tokens": ("세종대왕은 서울에서 태어났다.",),
    "answer": ("그는 어디에서 태어났나요?\n세종대왕은 서울에서 태어났다.",),
    "embed": ("고양이가 소파에서 잔다.",),
}


def built_in_data(folder: Path) -> str | None:
    """The built-in data set that a run was trained on, by its name in the task registry; None for other data."""
    if not is_run(folder):
        return None
    run = read_record(folder)
    settings, task = run["settings"], TASKS.get(run["task"])
    is_own = not isinstance(settings, Mapping) or settings.get("data") or settings.get("init")
    return None if is_own or task is None else settings.get("examples", task.example)


def text_examples(task: str, folder: Path, tokenizer: Tokenizer) -> list[str]:
    mask = tokenizer.special.get("mask_token") or ""
    if data := built_in_data(folder):
        return built_in_texts(data, task, mask)
    known = list(ENGLISH_EXAMPLES.get(task, ()))
    if knows_hangul(tokenizer) and (korean := KOREAN_EXAMPLES.get(task, ())):
        speaks_korean = letters(tokenizer, korean[0]) > letters(tokenizer, known[0])
        known = [*korean, *known] if speaks_korean else [*known, *korean]
    texts = [text.replace("{mask}", mask) for text in known]
    return [text for text in texts if is_in_vocabulary(tokenizer, text)] or [own_words(tokenizer, mask)]


def letters(tokenizer: Tokenizer, text: str) -> float:
    """Average letters per token: low if the vocabulary was trained on another language."""
    return len(text) / max(1, len(tokenizer.ids(text, add_special=False)))


def is_in_vocabulary(tokenizer: Tokenizer, text: str) -> bool:
    """Whether the vocabulary covers most of a text; it may be for chemistry or another language."""
    ids = tokenizer.ids(text, add_special=False)
    return 2 * ids.count(-1 if tokenizer.unk_token_id is None else tokenizer.unk_token_id) < len(ids)


def own_words(tokenizer: Tokenizer, mask: str) -> str:
    """A few tokens from the vocabulary, for when it covers none of our sentences."""
    special = set(tokenizer.backend.get_added_tokens_decoder())
    plain = [i for i in range(len(tokenizer)) if i not in special and tokenizer.readable(i).isalnum()]
    words = [tokenizer.readable(i) for i in plain[:4]]
    return " ".join([*words, mask]).strip() or tokenizer.readable(0)


def built_in_texts(data: str, task: str, mask: str) -> list[str]:
    if data == "dates":
        return ["Sun, Nov 15 2026", *(pair.source for pair in date_pairs(COUNT - 1, seed=1, held_out=True))]
    if task == "classify":
        make = arrival_examples if data == "arrivals" else documentation_examples
        return [text for text, _ in make(held_out=True)[:COUNT]]
    passages = split_paragraphs(documentation_split()[1])
    prose = [sentence for passage in passages for sentence in sentences(passage) if len(sentence.split()) < 16]
    prose = prose[:: max(1, len(prose) // COUNT)][:COUNT]
    if task == "lm":
        return [" ".join(sentence.split()[:6]) for sentence in prose]
    hidden = []
    for sentence in prose:  # masks the last long word
        words = sentence.split()
        place = max(range(len(words)), key=lambda at: (words[at].isalpha() and len(words[at]) > 3, at))
        hidden.append(" ".join([*words[:place], mask, *words[place + 1 :]]))
    return hidden


def knows_hangul(tokenizer: Tokenizer) -> bool:
    """Whether Korean is tokenised into syllables, not into unknown tokens or single bytes."""
    text = "안녕하세요 서울"
    ids = tokenizer.ids(text, add_special=False)
    return bool(ids) and tokenizer.unk_token_id not in ids and len(ids) <= len(text)


def picture_examples(folder: Path, config: TransformerConfig) -> list[tuple[str, NDArray[np.uint8]]]:
    """One image of each digit, or drawn shapes of the model's image size."""
    image = config.image
    assert image is not None
    if (config.decoder is not None or config.head == "pool") and image.channels == 3:
        language: Language = "ko" if speaks_korean(folder) else "en"
        return [(caption_of(scene, language), pixels) for pixels, scene in held_out_scenes()]
    if built_in_data(folder) == "digits" and (image.size, image.channels) == (8, 1):
        try:
            pixels, labels = digit_images(held_out=True)
        except InputError:  # scikit-learn is not installed
            return image_examples(image.size, image.channels)
        whole = np.rint(pixels[:, 0] * 255).astype(np.uint8)  # (N, 8, 8)
        return [(f"a {digit}", whole[np.flatnonzero(labels == digit)[2]]) for digit in range(10)]
    return image_examples(image.size, image.channels)


def asked_examples(folder: Path, config: TransformerConfig) -> list[tuple[str, NDArray[np.uint8]]]:
    """Questions about scenes, each with its image: one for every kind of question."""
    korean = speaks_korean(folder)
    found, topics = [], set[str]()
    for number, (pixels, scene) in enumerate(held_out_scenes()):
        questions = questions_of(scene, "ko" if korean else "en")
        chosen = next((one for one in questions if one.topic not in topics), questions[number % len(questions)])
        topics.add(chosen.topic)
        found.append((chosen.text, pixels))
    return found


def speaks_korean(folder: Path) -> bool:
    """Whether a run was trained on the Korean captions of its scenes."""
    settings = read_json(folder / RUN).get("settings") if is_run(folder) else None
    return isinstance(settings, Mapping) and settings.get("language") == "ko"


def held_out_scenes() -> list[tuple[NDArray[np.uint8], Scene]]:
    """Images that are never used for training."""
    pixels, scenes = make_scenes(range(COUNT), seed=0, part="test")
    return list(zip(pixels.transpose(0, 2, 3, 1), scenes, strict=True))  # (N, Y, X, 3)


def image_examples(size: int, channels: int) -> list[tuple[str, NDArray[np.uint8]]]:
    y, x = np.mgrid[0:size, 0:size] / max(1, size - 1) - 0.5
    shapes = {
        "a disc": np.where(x**2 + y**2 < 0.1, 230, 40),
        "stripes": np.where(np.floor((x + 0.5) * 8) % 2 == 0, 210, 50),
        "a gradient": (x + 0.5) * 255,
    }
    found = []
    for name, values in shapes.items():
        grey = values.astype(np.uint8)
        found.append((name, grey if channels == 1 else np.stack([grey, grey // 2 + 60, 255 - grey], axis=2)))
    return found


def series_examples(folder: Path, config: TransformerConfig, scale: Scale | None) -> list[tuple[str, Series]]:
    """Held-out windows of the simulated town, or waves at the scale of the training data."""
    series = config.series
    assert series is not None
    if built_in_data(folder) == "seasons":
        whole = seasons()
        ends = [len(whole) - series.horizon - day * 24 * 17 for day in range(4)]
        return [
            (
                str(np.datetime_as_string(whole.times[end - 1], unit="h")).replace("T", " ") + "h",
                example_part(whole, end, series.length),
            )
            for end in ends
        ]
    channels = series.channels or (len(scale.names) if scale else 1)
    time = np.arange(series.length, dtype=np.float32)[:, None]
    phases = np.arange(channels, dtype=np.float32)[None]
    shapes = {
        "waves": np.sin(time * 2 * np.pi / 24 + phases),
        "a step": np.where(time < series.length / 2, -1.0, 1.0) + 0 * phases,
        "a rising line": np.linspace(-1, 1, series.length)[:, None] + 0 * phases,
    }
    names = scale.names if scale else tuple(f"channel {c}" for c in range(channels))
    hours = np.datetime64("2024-01-01T00:00:00") + np.arange(series.length) * np.timedelta64(3600, "s")
    found = []
    for name, values in shapes.items():
        rows = values.astype(np.float32)
        rows = rows if scale is None else scale.scaler.unscale(rows)
        found.append((name, Series(names, hours, rows, Frequency(3600, "second"))))
    return found


def example_part(series: Series, end: int, length: int) -> Series:
    rows = slice(end - length, end)
    return Series(series.names, series.times[rows], series.values[rows], series.frequency)


def as_listed(label: str, given: dict[str, Any], picture: str | None = None) -> dict[str, Any]:
    """An example in the form that the page lists."""
    return {"label": label, "input": given} | ({"picture": picture} if picture else {})
