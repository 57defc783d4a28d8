"""One call of a model, and what to show of it: the arguments, the tokens of each stack, the image or the series.

Made by `texts.py`, `images.py`, `captions.py` or `series.py`; `prepare.py` chooses which.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from glassformer.core.model import Output, Transformer
from glassformer.text import Encoded
from glassformer.text.token_texts import short_name

Token = dict[str, Any]  # as `text/token_texts.py` describes one


@dataclass(frozen=True)
class StackTokens:
    """The tokens that one stack reads."""

    tokens: list[Token]
    writes: list[Token] | None = None  # the next token at each position, for a stack that generates
    prompt: int = 0  # number of tokens that were given, not generated
    begins: int = 0  # position that generates the first token of the answer, after the question
    before: int = 0  # number of source vectors at the start of these tokens

    @property
    def names(self) -> list[str]:
        return [short_name(token) for token in self.tokens]

    @property
    def written(self) -> list[str]:
        """The name of the token generated at each position, or read there if none is generated."""
        if self.writes is None:
            return self.names
        return [short_name(token) for token in (*self.tokens[: self.begins], *self.writes[self.begins :])]

    def behind(self, source: "StackTokens") -> "StackTokens":
        """The line with all vectors of a source before its tokens; a source vector counts as its own next token."""
        size, writes = len(source.tokens), None if self.writes is None else [*source.tokens, *self.writes]
        return StackTokens([*source.tokens, *self.tokens], writes, self.prompt + size, self.begins + size, before=size)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Window:
    """The last values of a series, which the model reads, before scaling."""

    values: NDArray[np.float32]  # (L, C)
    names: tuple[str, ...]  # of the channels
    times: tuple[str, str]  # of the first and the last value
    patches: list[tuple[int, int]]  # the values of each token: start, and end (exclusive)
    notes: tuple[str, ...] = ()  # remarks on how the file was read


@dataclass(frozen=True)
class Prepared:
    """One call of the model, and what to show of its input."""

    arguments: dict[str, Tensor]
    lines: dict[str, StackTokens]  # by stack
    name: str = ""  # of an image or a series
    text: str | None = None  # the generated text
    written: list[int] = field(default_factory=list)  # ids that a generating decoder reads
    encoded: Encoded | None = None
    pixels: NDArray[np.uint8] | None = None  # the image as the model sees it, (Y, X) or (Y, X, 3)
    window: Window | None = None
    unscale: Callable[[Any], Any] | None = None  # from the model's forecast to the scale of the input
    encodes: bool = False  # run only the encoder
    notes: tuple[str, ...] = ()  # remarks on how the input was read: truncated, or partly unknown

    def run(self, model: Transformer) -> Output:
        if self.encodes:
            return Output(last_hidden_state=model.encode(**self.arguments))
        output: Output = model(**self.arguments)
        return output


def plain_tokens(names: Sequence[str], *, special: bool = False) -> list[Token]:
    """Tokens that are not text: patches by their numbers, or special tokens."""
    return [{"text": name, "id": None if special else i, "special": special} for i, name in enumerate(names)]
