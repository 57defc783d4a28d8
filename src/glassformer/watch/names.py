"""Parses the name of a step or module: decoder.blocks.2.cross.q is step cross.q of layer 2 of the decoder.

Steps outside the stacks (head.pooled, logits) have no stack, and steps outside the blocks have no layer.
"""

from typing import NamedTuple, Self

from glassformer.errors import InputError

STACKS = ("encoder", "decoder")


class StepName(NamedTuple):
    """stack.blocks.layer.step, or stack.step. `str` is the inverse of `parse`."""

    stack: str
    layer: int | None
    step: str

    @classmethod
    def parse(cls, name: str) -> Self:
        stack, layer, step = split_name(name)
        if layer and not layer.isdecimal():
            raise InputError(f"{name} has layer {layer!r}: expected a number, counted from 0")
        return cls(stack, int(layer) if layer else None, step)

    def __str__(self) -> str:
        return join_name(self.stack, "" if self.layer is None else str(self.layer), self.step)

    @property
    def words(self) -> list[str]:
        return self.step.split(".")

    @property
    def site(self) -> str:
        """The part of the block, as attn of attn.q; or the step itself."""
        return self.words[0]

    @property
    def part(self) -> str:
        """The rest of the step, as q of attn.q; empty if there is none."""
        return ".".join(self.words[1:])


def split_name(name: str) -> tuple[str, str, str]:
    """Stack, layer and step as strings, "" if absent. The layer may be a range: a folded ledger has layers 0-11."""
    words = name.split(".")
    if "blocks" in words[:-1]:
        i = words.index("blocks")
        return ".".join(words[:i]), words[i + 1], ".".join(words[i + 2 :])
    begin = next((i + 1 for i, word in enumerate(words) if word in STACKS), 0)
    return ".".join(words[:begin]), "", ".".join(words[begin:])


def split_head(name: str) -> tuple[str, str]:
    """decoder.blocks.0.cross.3 -> the attention decoder.blocks.0.cross and the head "3"."""
    attention, _, head = name.rpartition(".")
    return attention, head


def join_name(stack: str, layer: str, step: str) -> str:
    return ".".join(part for part in (stack, f"blocks.{layer}" if layer else "", step) if part)
