"""The figure of an alignment: two lines of words with ribbons between them, and a heat map of all weights below."""

from pathlib import Path
from typing import Any

from glassformer.errors import InputError
from glassformer.figures.palette import CURVE_COLOURMAP, ink_on_weight, scale_of
from glassformer.figures.plots import canvas
from glassformer.inspect.looks.align import Alignment

INCHES = 0.105  # width of a character
WIDE = 1.75  # width of a Hangul or Han character, in characters
WORD_GAP = 2.2  # between two words, in characters
MAX_WORDS = 60  # most words of one text


def draw_alignment(alignment: Alignment, path: Path) -> None:
    """Draws ribbons in the colours of the source words, more opaque for larger weights, and the heat map."""
    source, target = alignment.source_words, alignment.target_words
    if not source or not target:
        raise InputError("nothing to draw: the source or the target has no words. Align another text")
    if max(len(source), len(target)) > MAX_WORDS:
        raise InputError(
            f"a figure of {len(source)} x {len(target)} words would be unreadable. Give a text of at most "
            f"{MAX_WORDS} words"
        )
    across = max(line_width(source), line_width(target))
    width, down = max(6.5, INCHES * across + 0.6), max(2.2, 0.36 * len(target) + 1.4)
    with canvas(width, 2.9 + down, path) as picture:
        above, below = picture.subfigures(2, 1, height_ratios=(2.6, down))
        draw_ribbons(above.subplots(), alignment, across)
        draw_map(below, alignment)


def draw_ribbons(axis: Any, alignment: Alignment, across: float) -> None:
    import matplotlib
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Outline

    lines = [places_of(words, across) for words in (alignment.source_words, alignment.target_words)]
    scale = matplotlib.colormaps[CURVE_COLOURMAP]
    colours = [scale(0.92 * i / max(1, len(lines[0]) - 1)) for i in range(len(lines[0]))]
    linked = {source for source, _ in alignment.pairs}
    for source, word in enumerate(alignment.source_words):
        colour = colours[source] if source in linked else "0.6"
        draw_word(axis, lines[0][source], 1.0, word, colour, "bottom")
    origin = {target: source for source, target in alignment.pairs}
    for target, word in enumerate(alignment.target_words):
        draw_word(axis, lines[1][target], 0.0, word, colours[origin[target]] if target in origin else "0.6", "top")
    curve = [Outline.MOVETO, *[Outline.CURVE4] * 3, Outline.LINETO, *[Outline.CURVE4] * 3, Outline.CLOSEPOLY]
    for source, target in alignment.pairs:
        (left, right), (first, last) = share_of(lines[0][source], source, target, alignment), lines[1][target]
        corners = [(left, 1), (left, 0.5), (first, 0.5), (first, 0)]
        corners += [(last, 0), (last, 0.5), (right, 0.5), (right, 1), (left, 1)]
        strength = min(1.0, float(alignment.weights[target, source]))
        ribbon = PathPatch(Outline(corners, curve), facecolor=colours[source], alpha=0.12 + 0.5 * strength, linewidth=0)
        axis.add_patch(ribbon)
    axis.set(xlim=(-0.5, across + 0.5), ylim=(-0.32, 1.32))
    axis.set_axis_off()


def share_of(place: tuple[float, float], source: int, target: int, alignment: Alignment) -> tuple[float, float]:
    """The part of a source word where its ribbon to `target` starts; ribbons are in the order of the targets."""
    targets = [other for word, other in alignment.pairs if word == source]
    step = (place[1] - place[0]) / len(targets)
    return place[0] + step * targets.index(target), place[0] + step * (targets.index(target) + 1)


def draw_word(axis: Any, place: tuple[float, float], height: float, word: str, colour: Any, side: str) -> None:
    """Draws a word on its line, with a bar in its colour where the ribbons start."""
    axis.plot(place, (height, height), color=colour, linewidth=2.5, solid_capstyle="butt")
    shift = 0.05 if side == "bottom" else -0.05
    axis.text(sum(place) / 2, height + shift, word, ha="center", va=side, fontsize=11)


def draw_map(part: Any, alignment: Alignment) -> None:
    axis = part.subplots()
    weights = alignment.weights.numpy()
    image = axis.imshow(weights, cmap=scale_of("sequential"), vmin=0, vmax=1, aspect="auto")
    axis.set_xticks(range(len(alignment.source_words)), alignment.source_words, rotation=45, ha="right", fontsize=9)
    axis.set_yticks(range(len(alignment.target_words)), alignment.target_words, fontsize=9)
    for source, target in alignment.pairs:
        ink = ink_on_weight(float(weights[target, source]))
        axis.plot(source, target, "o", markersize=5, markerfacecolor="none", markeredgecolor=ink)
    part.colorbar(image, ax=axis, fraction=0.03, pad=0.01, label="largest weight")
    names = ", ".join(f"{head.layer}.{head.head}" for head in alignment.heads)
    axis.set_title(f"cross-attention of heads {names} (layer.head); rings are links", fontsize=9)


def places_of(words: list[str], across: float) -> list[tuple[float, float]]:
    """Start and end of each word on its line, in characters. Lines are centred."""
    start = (across - line_width(words)) / 2
    places = []
    for word in words:
        places.append((start, start + width_of(word)))
        start += width_of(word) + WORD_GAP
    return places


def line_width(words: list[str]) -> float:
    return sum(map(width_of, words)) + WORD_GAP * (len(words) - 1)


def width_of(word: str) -> float:
    return max(1.5, sum(WIDE if ord(character) >= 0x1100 else 1.0 for character in word))
