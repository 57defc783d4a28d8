"""Turns an input from the page into a model call: a text, an image, a series, or one of the examples.

    {"text": "Nov 15 2026"}                        any text model
    {"text": "Once upon", "continued": [12, 7]}    a decoder, continued with these tokens
    {"text": "Nov 15 2026", "target": "2026년"}     a given translation instead of the model's own
    {"image": "data:image/png;base64,..."}         an image model
    {"example": 3, "text": "What colour ...?"}     visual question answering
    {"example": 3, "target": "a red circle"}       a given caption instead of the model's own
    {"tower": "image", "example": 2}               a pair of models: see `pair.py`
    {"csv": "date,load\\n...", "channel": 0}        a series model
    {"example": 3}                                 any model
    {..., "without": ["decoder.blocks.0.attn.2"]}  any of these, with heads left out (`watch/ablate.py`)

`predict/` prepares the call, as it does for every other command.
"""

from collections.abc import Mapping, Sequence
from glob import escape
from typing import Any

from glassformer.checkpoints.preparation import Preparation
from glassformer.core.model import Transformer
from glassformer.errors import InputError, did_you_mean
from glassformer.explore.view.uploads import open_data_url, read_uploaded_table
from glassformer.predict.captions import CaptionPreparer
from glassformer.predict.images import ImagePreparer, Picture
from glassformer.predict.prepare import Preparer
from glassformer.predict.prepared import Prepared
from glassformer.predict.texts import TextPreparer
from glassformer.watch.ablate import choose_heads

MAX_CHARACTERS = 100_000  # a loose bound: MAX_PAGE_TOKENS is the real limit
MAX_PAGE_TOKENS = 4096  # on the page
INPUT_KEYS = {
    "text": ("text", "continued", "target", "without"),
    "image": ("image", "example", "without"),
    "caption": ("image", "example", "continued", "target", "without"),
    "match": ("tower", "example", "text", "image", "without"),
    "ask": ("image", "example", "text", "continued", "target", "without"),
    "series": ("csv", "example", "channel", "without"),
}


def prepare_request(preparer: Preparer, given: Mapping[str, Any], examples: Sequence[Any] = ()) -> Prepared:
    """The call for an input from the page; images and series may come from `examples`."""
    if isinstance(preparer, TextPreparer | CaptionPreparer):
        texts = {key: text_in(given, key) for key in ("text", "target") if key in given}
        continued = continued_in(given) if "continued" in given else None
        written: Any = {"target": texts.get("target"), "continued": continued}
        if isinstance(preparer, TextPreparer):
            return preparer.prepare(texts.get("text", ""), **written)
        return preparer.prepare(picture_in(given, preparer.preparation, examples), texts.get("text"), **written)
    if isinstance(preparer, ImagePreparer):
        return preparer.prepare(picture_in(given, preparer.preparation, examples))
    if ("csv" in given) == ("example" in given):
        raise InputError("expected a csv or the number of an example, not both")
    if "example" in given:
        return preparer.prepare(examples[example_in(given, len(examples))])
    return preparer.prepare(read_uploaded_table(given["csv"], preparer.scale))


def picture_in(given: Mapping[str, Any], preparation: Preparation, examples: Sequence[Any]) -> Picture:
    if "image" in given and "example" in given:
        raise InputError("an image and an example were both given: choose one")
    if "example" in given:
        return Picture("the image", examples[example_in(given, len(examples))])
    if "image" not in given:
        raise InputError("no image given: choose an image or an example")
    return Picture("the image", open_data_url(given["image"], preparation))


def text_in(given: Mapping[str, Any], key: str) -> str:
    text = given[key]
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"the {key} is empty: write at least one word")
    if len(text) > MAX_CHARACTERS:
        raise InputError(f"the {key} has {len(text):,} characters: expected at most {MAX_CHARACTERS:,}. Shorten it")
    return text


def continued_in(given: Mapping[str, Any]) -> list[int]:
    ids = given["continued"]
    if not isinstance(ids, list) or not all(type(i) is int for i in ids):
        raise InputError(f"continued is {ids!r:.60}: expected a list of token ids")
    return ids


def channel_in(given: Mapping[str, Any], prepared: Prepared) -> int:
    """The channel of a series to show: a row of the batch."""
    count = 1 if prepared.window is None else prepared.window.values.shape[1]
    channel = given.get("channel", 0)
    if type(channel) is not int or not 0 <= channel < count:
        raise InputError(f"channel is {channel!r:.20}: expected a number from 0 to {count - 1}")
    return channel


def check_keys(given: Any, kind: str) -> dict[str, Any]:
    """Checks that the input has only keys that this kind of model reads."""
    if not isinstance(given, Mapping) or not given:
        raise InputError(f'the input is {given!r:.60}: expected an object such as {{"{INPUT_KEYS[kind][0]}": ...}}')
    for key in given:
        if key not in INPUT_KEYS[kind]:
            raise InputError(
                f"the input has {key!r:.40}, but this is a model of {kind}{did_you_mean(str(key), INPUT_KEYS[kind])}"
            )
    for key, value in given.items():
        if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise InputError(f"{key} contains half a character (a lone surrogate): type that character again")
    return dict(given)


def without_in(given: Mapping[str, Any], model: Transformer) -> list[str]:
    """The names of the heads to leave out."""
    names = given.get("without", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"without is {names!r:.60}: expected a list of heads, such as decoder.blocks.0.attn.2")
    return choose_heads(model, [escape(name) for name in names]) if names else []


def example_in(given: Mapping[str, Any], count: int) -> int:
    number = given["example"]
    if type(number) is not int or not 0 <= number < count:
        raise InputError(f"example is {number!r:.20}: expected a number from 0 to {count - 1}")
    return number
