"""One call of a model, and what a person sees of it: the arguments, the tokens of each stack, the picture or the curve.

`prepare.py` chooses who makes it: `texts.py`, `images.py` or `series.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from glassformer.core.model import Output, Transformer
from glassformer.text import Encoded
from glassformer.text.token_texts import name_of

Token = dict[str, Any]  # as `text/token_texts.py` describes one


@dataclass(frozen=True)
class Line:
    """What one stack reads, token by token."""

    tokens: list[Token]
    writes: list[Token] | None = None  # behind each token, of a stack that writes
    prompt: int = 0  # tokens that were given, not written by the model
    begins: int = 0  # the place that writes the first word of an answer: before it stands the question
    before: int = 0  # of these tokens, the vectors of a source that stand before those of the text

    @property
    def names(self) -> list[str]:
        return [name_of(token) for token in self.tokens]

    @property
    def written(self) -> list[str]:
        """The name of what is written at each place; of what is read there, where nothing is written."""
        if self.writes is None:
            return self.names
        return [name_of(token) for token in (*self.tokens[: self.begins], *self.writes[self.begins :])]

    def behind(self, source: "Line") -> "Line":
        """The line as the stack has it where all vectors of a source stand before its tokens: each writes itself."""
        size, writes = len(source.tokens), None if self.writes is None else [*source.tokens, *self.writes]
        return Line([*source.tokens, *self.tokens], writes, self.prompt + size, self.begins + size, before=size)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Window:
    """What a model of series looks back on, as it was given."""

    values: NDArray[np.float32]  # (L, C)
    names: tuple[str, ...]  # of the channels
    times: tuple[str, str]  # of the first value and of the last
    patches: list[tuple[int, int]]  # the values of each token, from and to (not included)
    notes: tuple[str, ...] = ()  # what was decided in reading it


@dataclass(frozen=True)
class Prepared:
    """One call of the model, and what is shown of its input."""

    arguments: dict[str, Tensor]
    lines: dict[str, Line]  # by stack
    name: str = ""  # of a picture or a series
    text: str | None = None  # what the model wrote
    written: list[int] = field(default_factory=list)  # what a decoder that writes reads, as ids
    encoded: Encoded | None = None
    pixels: NDArray[np.uint8] | None = None  # the picture as the model sees it, (Y, X) or (Y, X, 3)
    window: Window | None = None
    unscale: Callable[[Any], Any] | None = None  # from what the model forecasts to the values of the input
    encodes: bool = False  # the answer is the encoder's: a decoder is not asked
    notes: tuple[str, ...] = ()  # what a person must know of how the input was read: cut, or partly unknown

    def run(self, model: Transformer) -> Output:
        if self.encodes:
            return Output(last_hidden_state=model.encode(**self.arguments))
        output: Output = model(**self.arguments)
        return output


def plain(names: Sequence[str], *, special: bool = False) -> list[Token]:
    """Tokens that are no text: patches by their numbers, or marks."""
    return [{"text": name, "id": None if special else i, "special": special} for i, name in enumerate(names)]
