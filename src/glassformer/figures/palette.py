"""The colours of all pages and figures: explorer, reports and matplotlib. Each colour has one meaning.

    page surface raised      backgrounds: of the page, of a panel, of a control on a panel
    ink muted                text and secondary text
    line line-strong         rules and borders; ribbon and fill are neutral bars
    accent                   selected or clickable; the first curve of a chart
    other                    the curve that the first one is compared with
    mark                     model output: a generated word, an answer, a forecast
    error                    wrong or unknown
    q k v                    queries, keys and values

Weights in [0, 1] use the `sequential` scale, from the background colour to the dark end of cividis (Nunez et al.,
2018), which looks the same to colour-blind readers. Over an image they use `glow`, the whole of cividis. Signed values
use the `diverging` scale, centred at 0.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

LIGHT = {
    "page": "#f4f4f0", "surface": "#fefefc", "raised": "#ffffff", "ink": "#1c2127", "muted": "#5b636d",
    "line": "#e3e3dc", "line-strong": "#b9bab3", "ribbon": "#8a93a0", "fill": "#6b7f9e",
    "accent": "#24437a", "accent-soft": "#e8edf5", "on-accent": "#ffffff", "other": "#8a6500", "mark": "#7a3e9d",
    "error": "#a3341f", "q": "#b34a00", "k": "#0068a3", "k-soft": "#e0eef7", "v": "#00734f",
}  # fmt: skip
DARK = {
    "page": "#101318", "surface": "#171b21", "raised": "#1e232a", "ink": "#e4e7ea", "muted": "#98a1ac",
    "line": "#2a3038", "line-strong": "#4b545f", "ribbon": "#6c7683", "fill": "#7f9cc9",
    "accent": "#8fb4ea", "accent-soft": "#22304a", "on-accent": "#101318", "other": "#d8b04a", "mark": "#c79be8",
    "error": "#ff9a80", "q": "#ff8f45", "k": "#5bb8f0", "k-soft": "#1b2f3d", "v": "#3ccf9e",
}  # fmt: skip

GLOW = ("#171b21", "#12305f", "#33507a", "#5a6a7c", "#84857a", "#aea371", "#d8c35e", "#ffea46")
LIGHT_SCALES = {
    "sequential": (
        "#fefefc", "#ebeff4", "#d3ddea", "#b3c5db", "#8aa5c8", "#5f81b0", "#3a5d94", "#1a3c74", "#00204d",
    ),
    "diverging": ("#00564c", "#3f9b90", "#a5d8d0", "#f7f6f1", "#e9cf99", "#bb8334", "#7a4706"),
    "glow": GLOW,
}  # fmt: skip
DARK_SCALES = {
    "sequential": GLOW,
    "diverging": ("#8fe3d6", "#3f9b90", "#1d524d", "#20252c", "#5e4526", "#b3803a", "#f2cf96"),
    "glow": GLOW,
}

# Figures have a white background. CURVE_COLOURMAP names matplotlib's colour map for many curves.
FIRST, SECOND, FORECAST, MUTED = (LIGHT[name] for name in ("accent", "other", "mark", "muted"))
CURVE_COLOURMAP = "viridis"
LEVELS = 16  # number of colours for weights in a table


def css_properties(colours: Mapping[str, str], scales: Mapping[str, Sequence[str]]) -> str:
    """Colours and scales as CSS custom properties."""
    values = {**colours, **{name: " ".join(stops) for name, stops in scales.items()}}
    return " ".join(f"--{name}: {value};" for name, value in values.items())


def as_style_sheet() -> str:
    """The explorer's style sheet of colours, with a light and a dark theme."""
    light, dark = css_properties(LIGHT, LIGHT_SCALES), css_properties(DARK, DARK_SCALES)
    return f':root {{ {light} }}\n:root[data-theme="dark"] {{ {dark} }}\n'


def colour_at(stops: Sequence[str], share: float) -> tuple[int, int, int]:
    """Red, green and blue at position `share`, in [0, 1], of a scale."""
    place = share * (len(stops) - 1)
    low = min(int(place), len(stops) - 2)
    first, second = ([int(stop[at : at + 2], 16) for at in (1, 3, 5)] for stop in stops[low : low + 2])
    red, green, blue = (round(a + (b - a) * (place - low)) for a, b in zip(first, second, strict=True))
    return red, green, blue


def text_colour_on(stops: Sequence[str], share: float) -> str:
    """Black or white, whichever is readable on the colour at `share`."""
    parts = [value / 255 for value in colour_at(stops, share)]
    red, green, blue = (x / 12.92 if x <= 0.04 else ((x + 0.055) / 1.055) ** 2.4 for x in parts)
    return "#000000" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 else "#ffffff"


def ink_on_weight(weight: float) -> str:
    """The readable text colour on a weight in [0, 1] of a figure."""
    return text_colour_on(LIGHT_SCALES["sequential"], weight)


def weight_class(weight: float) -> int:
    """The colour level of a weight in [0, 1] in a table, on the square-root scale of the explorer's maps."""
    return round(min(1.0, max(0.0, weight)) ** 0.5 * (LEVELS - 1))


def level_rules(stops: Sequence[str]) -> str:
    """A CSS rule for every level."""
    shares = [level / (LEVELS - 1) for level in range(LEVELS)]
    parts = [
        f".w{level} {{ background: {colour}; fill: {colour}; color: {text_colour_on(stops, share)}; }}"
        for level, share in enumerate(shares)
        for colour in [as_rgb(stops, share)]
    ]
    return " ".join(parts)


def as_rgb(stops: Sequence[str], share: float) -> str:
    return f"rgb({' '.join(map(str, colour_at(stops, share)))})"


@cache
def scale_of(name: str) -> Any:
    """A scale as a matplotlib colour map: sequential, diverging or glow."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(name, LIGHT_SCALES[name])
