"""The palette: no other file names a colour, text is legible, and scales start at the background colour."""

import re
from pathlib import Path

import pytest

import glassformer
from glassformer.figures.palette import (
    DARK,
    DARK_SCALES,
    LEVELS,
    LIGHT,
    LIGHT_SCALES,
    as_style_sheet,
    colour_at,
    text_colour_on,
    weight_class,
)

SOURCE = Path(glassformer.__file__).parent
PLAIN = {"#000000", "#ffffff"}  # text on a colour, and the background in print


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (x / 12.92 if x <= 0.04 else ((x + 0.055) / 1.055) ** 2.4 for x in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_no_other_file_names_a_colour() -> None:
    files = [file for ending in ("py", "js", "css", "html") for file in SOURCE.rglob(f"*.{ending}")]
    for file in files:
        if file.name != "palette.py":
            named = set(re.findall(r"#[0-9a-fA-F]{6}\b", file.read_text(encoding="utf-8")))
            assert named <= PLAIN, file


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_text_is_legible_and_a_colour_has_one_name(colours: dict[str, str]) -> None:
    text = ("ink", "muted", "accent", "other", "mark", "error", "q", "k", "v")
    for name in text:
        for paper in ("page", "surface", "raised"):
            assert contrast(colours[name], colours[paper]) >= 4.5, (name, paper)
    assert contrast(colours["on-accent"], colours["accent"]) >= 4.5
    assert len({colours[name] for name in text}) == len(text)
    assert set(LIGHT) == set(DARK)


@pytest.mark.parametrize("scales", [LIGHT_SCALES, DARK_SCALES], ids=["light", "dark"])
def test_scales_run_one_way_and_carry_legible_ink(scales: dict[str, tuple[str, ...]]) -> None:
    steps = [luminance(stop) for stop in scales["sequential"]]
    assert steps in (sorted(steps), sorted(steps, reverse=True))
    for level in range(LEVELS):
        share = level / (LEVELS - 1)
        colour = "#{:02x}{:02x}{:02x}".format(*colour_at(scales["sequential"], share))
        assert contrast(colour, text_colour_on(scales["sequential"], share)) >= 4.5


def test_a_weight_of_zero_is_paper_and_levels_follow_the_square_root() -> None:
    assert LIGHT_SCALES["sequential"][0] == LIGHT["surface"]
    assert DARK_SCALES["sequential"][0] == DARK["surface"]
    assert [weight_class(weight) for weight in (0.0, 0.25, 1.0, 2.0)] == [0, 8, 15, 15]


def test_the_page_gets_every_colour_in_both_themes() -> None:
    light, dark = as_style_sheet().splitlines()
    used = set(re.findall(r"var\(--([\w-]+)\)", (SOURCE / "explore" / "page" / "style.css").read_text("utf-8")))
    for name in used - {"sans", "mono", "count", "at"}:
        assert f"--{name}: " in light
        assert f"--{name}: " in dark
