"""PyTorch's own layers, which leave their weights alone when they are made without memory, on the meta device.

A checkpoint is loaded into such a model. Drawing numbers for tensors that have none costs seconds: it is PyTorch's
tracing machinery that is loaded for it.
"""

from torch import nn


class Linear(nn.Linear):
    """y = x W^T + b."""

    def reset_parameters(self) -> None:
        if not self.weight.is_meta:
            super().reset_parameters()


class Lookup(nn.Embedding):
    """y = W[i]: a row of a table for every id."""

    def reset_parameters(self) -> None:
        if not self.weight.is_meta:
            super().reset_parameters()


class Convolution(nn.Conv2d):
    """y = W * x + b, over the two axes of an image."""

    def reset_parameters(self) -> None:
        if not self.weight.is_meta:
            super().reset_parameters()
