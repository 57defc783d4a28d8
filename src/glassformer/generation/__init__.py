"""Running a model forward in time: prefill once, then step."""

from glassformer.generation.loop import generate

__all__ = ["generate"]
