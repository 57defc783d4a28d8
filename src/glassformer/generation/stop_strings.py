"""Stop strings: generation ends as soon as the new text contains one of them.

A string may begin inside one token and end inside another, so the last tokens are decoded together and searched, as
far back as the longest string can reach. Special tokens count as text: `<|im_end|>` may be a stop string.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Decoder(Protocol):
    """The tokenizer method that is needed here."""

    def decode(self, ids: Sequence[int], *, skip_special: bool = True) -> str: ...


@dataclass(frozen=True)
class StopStrings:
    """The stop strings of one call, and the tokenizer that decodes."""

    strings: tuple[str, ...]
    tokenizer: Decoder

    def met(self, texts: Tensor, prompt_length: int) -> Tensor:
        """Which of these texts (B, T) contain a stop string after the prompt that ends in their last token."""
        most = max(len(string.encode()) for string in self.strings)  # tokens: each has at least one byte
        start = max(prompt_length, texts.shape[1] - most)
        found = [self.are_in(row) for row in texts[:, start - 1 :].tolist()]
        return torch.tensor(found, device=texts.device)  # (B)

    def are_in(self, ids: list[int]) -> bool:
        """Whether one of the strings is in the text after the first token.

        That token is decoded with the others because many tokenizers drop a space at the beginning of a text. If it
        ends in part of a character, that part is written as U+FFFD.
        """
        before, text = (self.tokenizer.decode(part, skip_special=False) for part in (ids[:1], ids))
        text = text.removeprefix(before.rstrip("\ufffd"))
        return any(string in text for string in self.strings)
