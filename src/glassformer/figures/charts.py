"""SVG line charts for an HTML page: axes, ticks, lines, and a tooltip on each point.

Colours are CSS classes from the page's style sheet (`style.py`), so a chart follows the light and dark themes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from math import ceil, floor, isfinite, log10

from glassformer.figures.korean import bilingual, with_korean

Point = tuple[float, float]

WIDTH, HEIGHT = 360, 216  # about as wide as a phone, so text keeps its size
LEFT, RIGHT, TOP, BOTTOM = 48, 10, 8, 34
MAX_POINTS = 400  # per line; longer lines are averaged over neighbouring points
MAX_HOVERS = 60  # tooltips per line
DECADES = 2  # a positive quantity that spans more decades gets a logarithmic axis


@dataclass(frozen=True, kw_only=True)
class ChartLine:
    """One curve: its name in the legend, its CSS class and its points."""

    name: str
    paint: str
    points: Sequence[Point]


@dataclass(frozen=True)
class Axis:
    """Maps values to pixels: the smallest to `start`, the largest to `end`."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def place(self, value: float) -> float:
        low, high, value = (log10(v) if self.logarithmic else v for v in (self.low, self.high, value))
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """About five round values."""
        if self.logarithmic:
            powers = range(ceil(log10(self.low) - 1e-9), floor(log10(self.high) + 1e-9) + 1)
            return [10.0**power for power in powers[:: ceil(len(powers) / 6)]]
        step = round_step((self.high - self.low) / 5)
        return [i * step for i in range(ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9) + 1)]


def round_step(about: float) -> float:
    """The smallest step of the form 1, 2 or 5 times a power of ten that is at least `about`."""
    power = 10.0 ** floor(log10(about))
    return next(power * times for times in (1, 2, 5, 10) if power * times >= about * (1 - 1e-9))


def draw_lines(title: str, lines: Sequence[ChartLine], *, across: str, whole: bool = True) -> str:
    """HTML of a figure: title, chart, and a legend if there are several lines.

    `across` labels the horizontal axis; `whole` allows only integer ticks on it. Values that are not finite leave a gap
    in the line, and the caption gives their number.
    """
    holes = sum(not isfinite(y) for line in lines for _, y in line.points)
    lines = [replace(line, points=thin(line.points)) for line in lines]
    drawn = [point for line in lines for point in line.points if isfinite(point[1])]
    if not drawn:
        chart, logarithmic = f'<p class="aside">{bilingual("no finite value to draw")}</p>', False
    else:
        x, y = make_axes(drawn)
        logarithmic = y.logarithmic
        body = "".join([*grid(x, y, across, whole), *(part for line in lines for part in stroke(line, x, y, across))])
        label = escape(f"{with_korean(title)}, {with_korean(across)}")
        chart = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{body}</svg>'
    asides = ["logarithmic"] * logarithmic + [f"{holes:,} values are not finite and not drawn"] * (holes > 0)
    aside = f' <span class="aside">{"; ".join(map(bilingual, asides))}</span>' if asides else ""
    legend = ""
    if len(lines) > 1:
        legend = " ".join(f'<span class="key {line.paint}">{bilingual(line.name)}</span>' for line in lines)
        legend = f' <span class="legend">{legend}</span>'
    return f"<figure><figcaption>{bilingual(title)}{aside}{legend}</figcaption>{chart}</figure>"


def thin(points: Sequence[Point]) -> list[Point]:
    """At most MAX_POINTS points; longer lines are averaged over neighbouring points."""
    size = ceil(len(points) / MAX_POINTS)
    if size <= 1:
        return list(points)
    groups = [points[i : i + size] for i in range(0, len(points), size)]
    return [(sum(x for x, _ in group) / len(group), sum(y for _, y in group) / len(group)) for group in groups]


def make_axes(points: Sequence[Point]) -> tuple[Axis, Axis]:
    left, right = widen([x for x, _ in points])
    values = [y for _, y in points]
    logarithmic = min(values) > 0 and log10(max(values)) - log10(min(values)) > DECADES
    bottom, top = (min(values), max(values)) if logarithmic else widen(values)
    return Axis(left, right, LEFT, WIDTH - RIGHT), Axis(bottom, top, HEIGHT - BOTTOM, TOP, logarithmic)


def widen(values: Sequence[float]) -> tuple[float, float]:
    """The range of the values, widened if they are all equal."""
    low, high = min(values), max(values)
    room = max(abs(low), abs(high), 1e-12) / 2 if high - low <= 1e-9 * max(abs(low), abs(high)) else 0.0
    return low - room, high + room


def grid(x: Axis, y: Axis, across: str, whole: bool) -> Iterator[str]:
    floor_at = HEIGHT - BOTTOM
    for value in y.ticks():
        at = y.place(value)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
        yield f'<text class="tick" x="{LEFT - 6}" y="{at + 3.5:.1f}" text-anchor="end">{axis_number(value)}</text>'
    yield f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{floor_at}" y2="{floor_at}"/>'
    for value in x.ticks():
        if whole and value != round(value):
            continue
        at = x.place(value)
        yield f'<line class="axis" x1="{at:.1f}" x2="{at:.1f}" y1="{floor_at}" y2="{floor_at + 4}"/>'
        anchor = "end" if at > WIDTH - RIGHT - 12 else "middle"
        yield f'<text class="tick" x="{at:.1f}" y="{floor_at + 15}" text-anchor="{anchor}">{axis_number(value)}</text>'
    middle, said = (LEFT + WIDTH - RIGHT) / 2, bilingual(across, tag="tspan")
    yield f'<text class="tick" x="{middle:.0f}" y="{HEIGHT - 4}" text-anchor="middle">{said}</text>'


def stroke(line: ChartLine, x: Axis, y: Axis, across: str) -> Iterator[str]:
    """The line, with gaps where values are not finite, and invisible circles with tooltips."""
    piece: list[str] = []
    pieces = [piece]
    for at, value in line.points:
        if isfinite(value):
            piece.append(f"{x.place(at):.1f},{y.place(value):.1f}")
        elif piece:
            piece = []
            pieces.append(piece)
    for piece in pieces:
        if len(piece) == 1:
            across_at, down = piece[0].split(",")
            yield f'<circle class="dot {line.paint}" cx="{across_at}" cy="{down}" r="2.5"/>'
        elif piece:
            yield f'<polyline class="line {line.paint}" points="{" ".join(piece)}"/>'
    every = ceil(len(line.points) / MAX_HOVERS)
    for at, value in line.points[::every]:
        if isfinite(value):
            said = f"{with_korean(line.name)}, {with_korean(across)} {axis_number(at)}: {value:.4g}"
            yield (
                f'<circle class="hover {line.paint}" cx="{x.place(at):.1f}" cy="{y.place(value):.1f}" r="5">'
                f"<title>{escape(said)}</title></circle>"
            )


def axis_number(value: float) -> str:
    """A number formatted for an axis."""
    if value == 0:
        return "0"
    if abs(value) >= 1e6 or abs(value) < 1e-3:
        digits, power = f"{value:.2e}".split("e")
        return f"{float(digits):g}e{int(power)}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"
