"""Models on disk."""

from glassformer.checkpoints.files import load, save

__all__ = ["load", "save"]
