"""Running a model forward in time: prefill once, then step."""

from glassformer.generation.greedy import generate

__all__ = ["generate"]
