"""PyTorch's own layers, without random initialisation on the meta device.

A checkpoint is loaded into a model built there. Initialising meta tensors would take seconds for nothing, because
PyTorch imports its tracing machinery for it.
"""

from torch import nn


class Linear(nn.Linear):
    """y = x W^T + b."""

    def reset_parameters(self) -> None:
        if not self.weight.is_meta:
            super().reset_parameters()


class Lookup(nn.Embedding):
    """y = W[i]: row i of a table."""

    def reset_parameters(self) -> None:
        if not self.weight.is_meta:
            super().reset_parameters()


class Convolution(nn.Conv2d):
    """y = W * x + b, over the two axes of an image."""

    def reset_parameters(self) -> None:
        if not self.weight.is_meta:
            super().reset_parameters()
