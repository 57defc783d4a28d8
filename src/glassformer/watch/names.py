"""The name of a step or a module, taken apart: decoder.blocks.2.cross.q is step cross.q of layer 2 of the decoder.

What stands outside the stacks (head.pooled, logits) has no stack, and what stands outside the layers no layer.
"""

from typing import NamedTuple, Self

from glassformer.errors import InputError

STACKS = ("encoder", "decoder")


class StepName(NamedTuple):
    """stack.blocks.layer.step, or stack.step; as a string again by `str`."""

    stack: str
    layer: int | None
    step: str

    @classmethod
    def parse(cls, name: str) -> Self:
        stack, layer, step = split_name(name)
        if layer and not layer.isdecimal():
            raise InputError(f"{name} names layer {layer!r}: expected its number, counted from 0")
        return cls(stack, int(layer) if layer else None, step)

    def __str__(self) -> str:
        return join_name(self.stack, "" if self.layer is None else str(self.layer), self.step)

    @property
    def words(self) -> list[str]:
        return self.step.split(".")

    @property
    def site(self) -> str:
        """attn of attn.q: which part of a block it is of, or the step itself."""
        return self.words[0]

    @property
    def part(self) -> str:
        """q of attn.q; empty where the step has no parts."""
        return ".".join(self.words[1:])


def split_name(name: str) -> tuple[str, str, str]:
    """Stack, layer and step, as they are written: a folded ledger has layers 0-11. What there is none of is empty."""
    words = name.split(".")
    if "blocks" in words[:-1]:
        i = words.index("blocks")
        return ".".join(words[:i]), words[i + 1], ".".join(words[i + 2 :])
    begin = next((i + 1 for i, word in enumerate(words) if word in STACKS), 0)
    return ".".join(words[:begin]), "", ".".join(words[begin:])


def split_head(name: str) -> tuple[str, str]:
    """decoder.blocks.0.cross.3 -> its attention decoder.blocks.0.cross, and head 3 as it is written."""
    attention, _, head = name.rpartition(".")
    return attention, head


def join_name(stack: str, layer: str, step: str) -> str:
    return ".".join(part for part in (stack, f"blocks.{layer}" if layer else "", step) if part)
