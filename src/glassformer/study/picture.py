"""The figure of the norm study: gradients per layer, training curves, and final losses.

Each row is a depth. Pre-norm and post-norm have different colours; lines without warm-up are dashed.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.figures.palette import FIRST, MUTED, SECOND, scale_of
from glassformer.figures.plots import canvas
from glassformer.study.trials import ORDERS, Study, TrialResult

HUES = {"pre": FIRST, "post": SECOND}
STROKES: dict[str, Any] = {"warm-up": "solid", "no warm-up": (0, (3.5, 1.8))}
SMOOTHED = 30  # points of a curve, each the mean of the steps around it


def draw_norms(study: Study, path: Path) -> None:
    """Draws all results of the study so far."""
    depths = sorted({start.depth for start in study.starts})
    rates = sorted({result.trial.rate for result in study.results})
    columns = 2 + len(rates) if rates else 1
    with canvas(3.1 * columns + 0.6, 2.3 * len(depths) + (3.2 if rates else 0.8), path) as picture:
        parts = picture.subfigures(2, 1, height_ratios=(2.3 * len(depths) + 0.6, 2.4), hspace=0.04) if rates else None
        above = picture if parts is None else parts[0]
        picture.suptitle("Where the norm is: before each branch (pre) or after each sum (post)", fontsize=13)
        grid = above.subplots(len(depths), columns, squeeze=False)
        for row, depth in zip(grid, depths, strict=True):
            row[0].set_ylabel(f"{depth} layers", fontsize=12)
            draw_starts(row[0], study, depth)
            for axis, rate in zip(row[1:], rates, strict=False):
                draw_curves(axis, study, depth, rate)
            if rates:
                draw_ends(row[-1], study, depth, rates[-1])
        titles = [
            "gradient of each layer,\nbefore the first step",
            *(f"training loss,\nlearning rate {rate:g}" for rate in rates),
        ]
        titles += [f"gradient of each layer after\ntraining, learning rate {rate:g}" for rate in rates[-1:]]
        for axis, title in zip(grid[0], titles, strict=True):
            axis.set_title(title, fontsize=10)
        finish_axes(grid, rates)
        for axis in grid[:, 1:-1].flat:  # all curves start alike and separate further down
            axis.set_ylim(top=min(axis.get_ylim()[1], study.frequencies + 1.0))
        legend = [*legend_lines(), *([frequency_line()] if rates else [])]
        above.legend(handles=legend, loc="outside lower center", ncols=6, frameon=False, fontsize=9)
        if parts is not None:
            draw_summary(parts[1], study, depths, rates)


def draw_starts(axis: Any, study: Study, depth: int) -> None:
    for start in study.starts:
        if start.depth == depth:
            layers = range(1, depth + 1)
            axis.plot(layers, start.gradients, color=HUES[start.order], marker="o", markersize=3.5, linewidth=1.6)


def draw_curves(axis: Any, study: Study, depth: int, rate: float) -> None:
    """Draws the smoothed loss at each step, with a cross at the end of runs that learned nothing."""
    axis.axhline(study.frequencies, color=MUTED, linestyle=":", linewidth=1.2, zorder=1)
    for result in of_panel(study, depth, rate):
        steps, losses = smoothed(result.losses)
        axis.plot(steps, losses, **style_of(result))
        if result.loss is None or study.is_stuck(result):
            colour = HUES[result.trial.order]
            axis.plot(steps[-1:], losses[-1:], marker="X", markersize=8, color=colour, markeredgecolor="white")


def draw_ends(axis: Any, study: Study, depth: int, rate: float) -> None:
    for result in of_panel(study, depth, rate):
        if result.gradients:
            axis.plot(range(1, depth + 1), result.gradients, marker="o", markersize=3, **style_of(result))


def of_panel(study: Study, depth: int, rate: float) -> list[TrialResult]:
    return [result for result in study.results if (result.trial.depth, result.trial.rate) == (depth, rate)]


def style_of(result: TrialResult) -> dict[str, Any]:
    stroke = STROKES["warm-up" if result.trial.warmup else "no warm-up"]
    return {"color": HUES[result.trial.order], "linestyle": stroke, "linewidth": 1.6}


def smoothed(losses: Sequence[float]) -> tuple[list[float], list[float]]:
    """Means of neighbouring steps, and the step in the middle of each."""
    groups = np.array_split(np.arange(len(losses)), min(SMOOTHED, len(losses))) if losses else []
    values = np.asarray(losses)
    return [float(group.mean()) + 1 for group in groups], [float(values[group].mean()) for group in groups]


def finish_axes(grid: Any, rates: Sequence[float]) -> None:
    """Gives each column the same scale, and all loss panels too."""
    groups = [grid[:, 0], *([grid[:, 1:-1].flat, grid[:, -1]] if rates else [])]
    for group in groups:
        axes = list(group)
        limits = [axis.get_ylim() for axis in axes]
        for axis in axes:
            axis.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
    for gradients in [grid[:, 0], *([grid[:, -1]] if rates else [])]:
        for axis in gradients:
            axis.xaxis.get_major_locator().set_params(integer=True)
            axis.set_ylim(bottom=0)
    for axis in grid.flat:
        axis.grid(alpha=0.25)
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    for column, axis in enumerate(grid[-1]):
        axis.set_xlabel("step" if 0 < column < len(grid[-1]) - 1 else "layer", fontsize=9)


def legend_lines() -> list[Any]:
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], color=HUES[order], linestyle=stroke, linewidth=1.8, label=f"{order} norm, {warmup}")
        for order in ORDERS
        for warmup, stroke in STROKES.items()
    ]


def frequency_line() -> Any:
    from matplotlib.lines import Line2D

    name = "predicting by character frequency (X: no better)"
    return Line2D([], [], color=MUTED, linestyle=":", linewidth=1.4, label=name)


def draw_summary(part: Any, study: Study, depths: Sequence[int], rates: Sequence[float]) -> None:
    """The final held-out loss for each norm order and warm-up: rows are depths, columns are learning rates."""
    found = {(r.trial.order, r.trial.warmup > 0, r.trial.depth, r.trial.rate): r for r in study.results}
    low = min([study.frequencies - 1.0, *(r.loss for r in study.results if r.loss is not None)])
    axes = part.subplots(1, 4)
    part.suptitle("held-out loss after training", fontsize=10)
    kinds = [(order, warmup) for order in ORDERS for warmup in (True, False)]
    for axis, (order, warmup) in zip(axes, kinds, strict=True):
        rows = [[found.get((order, warmup, depth, rate)) for rate in rates] for depth in depths]
        values = np.array([[shade(study, result) for result in row] for row in rows])
        image = axis.imshow(values, cmap=scale_of("sequential"), vmin=low, vmax=study.frequencies, aspect="auto")
        for y, row in enumerate(rows):
            for x, result in enumerate(row):
                dark = values[y, x] > (low + study.frequencies) / 2
                colour = "white" if dark else "black"
                axis.text(x, y, cell(study, result), ha="center", va="center", fontsize=9, color=colour)
        axis.set_xticks(range(len(rates)), [f"{rate:g}" for rate in rates], fontsize=8)
        axis.set_yticks(range(len(depths)), [str(depth) for depth in depths], fontsize=8)
        axis.set_title(f"{order} norm, {'warm-up' if warmup else 'no warm-up'}", fontsize=10, color=HUES[order])
        axis.set_xlabel("learning rate", fontsize=9)
        axis.tick_params(length=0)
    axes[0].set_ylabel("layers", fontsize=9)
    part.colorbar(image, ax=axes, fraction=0.02, pad=0.01).ax.tick_params(labelsize=8)


def shade(study: Study, result: TrialResult | None) -> float:
    """The colour of a cell: a diverged run is as bad as one that learned nothing; a missing run has no colour."""
    if result is None:
        return float("nan")
    return study.frequencies if result.loss is None else result.loss


def cell(study: Study, result: TrialResult | None) -> str:
    if result is None:
        return "not run"
    if result.loss is None:
        return "diverged"
    return f"{result.loss:.2f}" + ("\nstuck" if study.is_stuck(result) else "")
