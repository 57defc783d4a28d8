"""The positional encoding of a model, as a picture."""

from pathlib import Path

import torch

from glassformer.core.model import Transformer
from glassformer.core.positions import Learned, Sinusoidal
from glassformer.errors import InputError
from glassformer.inspect.plots import draw_positions

SHOWN = 128  # positions, if the model has as many


def picture_positions(model: Transformer, path: Path) -> None:
    """The encoding that is added to the model's input: the encoder's, if there is one."""
    stack = model.encoder or model.decoder
    assert stack is not None  # a model has at least one
    scheme = stack.embed.positions
    if not isinstance(scheme, Sinusoidal | Learned):
        raise InputError(
            f"this model's positions are {stack.config.positions!r}: nothing is added to its input that can be drawn. "
            f"Schemes that are: sinusoidal, learned"
        )
    length = min(len(scheme.table if isinstance(scheme, Sinusoidal) else scheme.weight), SHOWN)
    with torch.no_grad():
        table = scheme(torch.arange(length), length)  # (T, E)
    draw_positions(table, f"{stack.config.positions} encoding, {length} positions x {table.shape[1]} dimensions", path)
