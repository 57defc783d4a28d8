"""Generation: prefill once, then one step per token. Start with `loop.py`."""

from glassformer.generation.loop import generate

__all__ = ["generate"]
