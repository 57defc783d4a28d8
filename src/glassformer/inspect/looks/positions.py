"""The positional encoding of a model, as numbers and as a figure, for every scheme.

For each stack, and for each kind of layer with its own angles: a heat map, some of its rows as curves, and the decay
with distance. What they show depends on the scheme (`core/positions.py`):

                     heat map and curves                 by distance
sinusoidal, learned  the vectors added to x              cosine similarity of two positions, and its mean
rotary               cos(angle) of each pair             score of two equal vectors, 1 at distance 0
relative, alibi      the bias that each head adds        attention weight if all other scores are equal

The positions of an image are two-dimensional: each patch gets a map of its cosine similarity to all others (ViT:
Dosovitskiy et al., 2021, figure 7).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.core.model import Transformer
from glassformer.core.positions import Alibi, Learned, RelativeBias, Rotary, Sinusoidal, rotate
from glassformer.core.stack import Stack
from glassformer.errors import InputError
from glassformer.inspect.looks.position_pictures import draw_positions

DEFAULT_POSITIONS = 128  # most positions to show
DRAWN_CURVES = 5

StackName = Literal["encoder", "decoder"]


@dataclass(frozen=True)
class PositionView:
    """The data of one figure. Rows are dimensions, pairs or heads; columns are positions or distances."""

    part: str
    scheme: str
    heat: Tensor  # (rows, columns)
    rows: str  # label of the rows
    columns: str
    value: str
    start: int  # position or distance of the first column
    curves: Mapping[str, Tensor]  # (columns), some of the rows by name
    distances: Tensor  # (distances)
    falls: Mapping[str, Tensor]  # (distances), by name
    fall: str  # label of the values in `falls`
    similarity: Tensor | None = None  # (positions, positions): cosine similarity
    maps: Tensor | None = None  # (height, width, height, width): cosine similarity of each patch's position to all

    @property
    def title(self) -> str:
        return f"{self.part}: {self.scheme}"


@torch.no_grad()
def view_positions(model: Transformer, part: StackName | None = None) -> list[PositionView]:
    """The views of the model's stacks, or of one of them. Two identical stacks give one view."""
    stacks = {name: stack for name, stack in (("encoder", model.encoder), ("decoder", model.decoder)) if stack}
    if part is not None and part not in stacks:
        raise InputError(f"this model has no {part}, only {'an' if part == 'decoder' else 'a'} {next(iter(stacks))}")
    chosen = stacks if part is None else {part: stacks[part]}
    views = [view for name, stack in chosen.items() for view in view_stack(name, stack, model)]
    if not views:
        raise InputError(
            f"nothing to draw: positions = 'none' in the {' and the '.join(chosen)} of this model. Only a causal mask "
            "can tell it the order of the tokens"
        )
    if len(views) == 2 and views[0].scheme == views[1].scheme and torch.equal(views[0].heat, views[1].heat):
        return [replace(views[0], part="encoder and decoder")]
    return views


def picture_positions(model: Transformer, path: Path, *, part: StackName | None = None) -> None:
    """Draws the views of `view_positions` to `path`."""
    draw_positions(view_positions(model, part), path)


def view_stack(name: str, stack: Stack, model: Transformer) -> list[PositionView]:
    """One view per stack; for rotary positions, one per set of angles; none without positions."""
    scheme = stack.embed.positions
    if isinstance(scheme, Sinusoidal | Learned):
        return [view_added(name, scheme, stack, model)]
    if isinstance(stack.position_bias, RelativeBias | Alibi):
        return [view_bias(name, stack.position_bias, stack)]
    turns: dict[object, tuple[nn.Module, list[int]]] = {}  # kinds that differ only in their window share angles
    for kind, rotary in zip(stack.kinds, stack.rotaries, strict=False):
        layers = [i for i in range(stack.config.num_layers) if position_kind(stack, i) == kind]
        turns.setdefault((kind.rotary_base, kind.rotary_scaling), (rotary, []))[1].extend(layers)
    return [
        view_rotary(f"{name} layers {number_ranges(sorted(layers))}" if len(turns) > 1 else name, rotary, stack)
        for rotary, layers in turns.values()
    ]


def view_added(name: str, scheme: Sinusoidal | Learned, stack: Stack, model: Transformer) -> PositionView:
    """The position table and the cosine similarity of its rows."""
    image, series = model.config.image, model.config.series
    patches = (image or series) if name == "encoder" else None
    rows = stack.config.max_len if patches is None else patches.num_tokens
    length = rows if image and name == "encoder" else min(rows, DEFAULT_POSITIONS)
    table = scheme(torch.arange(length), length).float()  # (T, E)
    similarity = cosines(table)  # (T, T)
    maps, distance = None, distances_of(length)  # None, (T, T)
    if image and name == "encoder":
        side = image.patches_per_side
        similarity = similarity[-(side**2) :, -(side**2) :]  # (N, N), without the tokens before the patches
        maps = similarity.unflatten(1, (side, side)).unflatten(0, (side, side))
        place = torch.cartesian_prod(torch.arange(side), torch.arange(side)).double()  # (N, 2)
        distance = torch.cdist(place, place)  # (N, N)
    far, mean = by_distance(similarity, distance)
    # Even dimensions are sines. Beyond 0.6 of the width, a wave is longer than the figure.
    dimensions = sorted({int(i) // 2 * 2 for i in torch.linspace(0, 0.6 * table.shape[1], DRAWN_CURVES)})
    return PositionView(
        part=name,
        scheme=f"{stack.config.positions} positions",
        heat=table.T,
        rows="dimension",
        columns="position" if patches is None else "token" if image else "patch",
        value="value",
        start=0,
        curves={f"dimension {i}": table[:, i] for i in dimensions},
        distances=far,
        falls={"mean": mean},
        fall="cosine similarity",
        similarity=similarity if maps is None else None,
        maps=maps,
    )


def view_rotary(name: str, rotary: nn.Module, stack: Stack) -> PositionView:
    """The cosines of the angles, and the score of two vectors of ones, each rotated by its position."""
    assert isinstance(rotary, Rotary)
    positions = torch.arange(DEFAULT_POSITIONS)
    rotation = rotary(positions[None], DEFAULT_POSITIONS)
    pairs = rotary.dim // 2
    cosine = rotation[0][0, 0, :, :pairs].T  # (pairs, T)
    ones = rotate(torch.ones(1, 1, DEFAULT_POSITIONS, stack.config.head_dim), rotation)[0, 0]  # (T, K)
    score = ones @ ones[0] / (ones[0] @ ones[0])  # (T)
    chosen = sorted({int(i) for i in torch.linspace(0, 0.6 * pairs, DRAWN_CURVES).clamp(max=pairs - 1)})
    return PositionView(
        part=name,
        scheme=f"rotary positions, base {rotary.base:,.0f}",
        heat=cosine,
        rows="pair",
        columns="position",
        value="cos(angle)",
        start=0,
        curves={f"pair {i}": cosine[i] for i in chosen},
        distances=positions,
        falls={"score": score},
        fall="score of two equal vectors",
    )


def view_bias(name: str, bias: RelativeBias | Alibi, stack: Stack) -> PositionView:
    """The bias that each head adds to a score, by distance; a causal stack has no keys ahead."""
    ahead = 0 if stack.causal else DEFAULT_POSITIONS - 1
    query, keys = torch.tensor([[DEFAULT_POSITIONS - 1]]), torch.arange(DEFAULT_POSITIONS + ahead)[None]
    added = bias(query, keys)[0, :, 0].float()  # (H, S)
    distances = keys[0] - query[0]  # (S), from query to key; negative before the query
    heads = range(len(added))
    return PositionView(
        part=name,
        scheme=f"{stack.config.positions} positions",
        heat=added,
        rows="head",
        columns="distance of the key",
        value="bias",
        start=int(distances[0]),
        curves={f"head {h}": added[h] for h in heads},
        distances=distances,
        falls={f"head {h}": added[h].softmax(dim=0) for h in heads},
        fall="weight if all other scores are equal",
    )


def cosines(table: Tensor) -> Tensor:
    """The cosine similarity of every two rows; 0 for a row of zeros."""
    rows = F.normalize(table, dim=1)
    return rows @ rows.T


def distances_of(length: int) -> Tensor:
    place = torch.arange(length).double()
    return (place[:, None] - place).abs()


def by_distance(similarity: Tensor, distance: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct distances, and the mean similarity at each."""
    known, place = distance.flatten().unique(return_inverse=True)
    total = torch.zeros(len(known)).index_add(0, place, similarity.flatten())
    return known, total / place.bincount()


def position_kind(stack: Stack, layer: int) -> object:
    return stack.config.every_kind[layer]


def number_ranges(layers: list[int]) -> str:
    """0, 1, 2, 4 -> 0-2, 4"""
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
