"""Charts of the report: any values can be drawn, long lines are thinned, ticks are round numbers."""

import re
from xml.etree import ElementTree

import pytest

from glassformer.figures.charts import MAX_POINTS, Axis, ChartLine, axis_number, draw_lines


@pytest.mark.parametrize(
    "values", [[1.0], [0.0, 0.0], [-3.0, 5.0], [1e-8, 2e-8], [1.0, 1e7], [float("nan")], [1e30] * 3]
)
def test_any_values_can_be_drawn(values: list[float]) -> None:
    chart = draw_lines("any", [ChartLine(name="a", paint="first", points=list(enumerate(values)))], across="step")
    page = ElementTree.fromstring(f"<div>{chart}</div>")
    assert len(list(page.iter("svg"))) == (values[0] == values[0])
    assert "nan" not in chart.replace("name", "")
    assert "inf" not in chart
    assert ("logarithmic" in chart) == (values == [1.0, 1e7])


def test_a_long_line_is_thinned_and_keeps_its_mean() -> None:
    points = [(float(i), float(i % 2)) for i in range(10 * MAX_POINTS)]
    chart = draw_lines("long", [ChartLine(name="a", paint="first", points=points)], across="step")
    drawn = re.findall(r'points="([^"]+)"', chart)[0].split()
    assert len(drawn) == MAX_POINTS
    assert len({point.split(",")[1] for point in drawn}) == 1


def test_ticks_are_round() -> None:
    assert Axis(0, 100, 0, 1).ticks() == [0, 20, 40, 60, 80, 100]
    assert Axis(0.31, 0.94, 0, 1).ticks() == pytest.approx([0.4, 0.6, 0.8])
    assert Axis(0.5, 3000, 0, 1, logarithmic=True).ticks() == [1, 10, 100, 1000]
    assert [axis_number(value) for value in (0, 1e-5, 0.25, 1500, 2e6, -1500)] == [
        "0",
        "1e-5",
        "0.25",
        "1,500",
        "2e6",
        "-1,500",
    ]
