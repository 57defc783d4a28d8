"""The looks that draw a picture: its folder and its name."""

import json
from pathlib import Path

import pytest
from helpers.command import printed
from PIL import Image

TEXT = "May 1st, 2031"


@pytest.mark.parametrize(
    ("look", "flags", "name"),
    [
        ("attention", [TEXT], "attention-cross.png"),
        ("attention", [TEXT, "--average"], "attention-cross-average.png"),
        ("attention", [TEXT, "--part", "encoder", "--layer", 0], "attention-encoder-layer0.png"),
        ("attention", [TEXT, "--part", "decoder", "--head", 1], "attention-decoder-head1.png"),
        ("rollout", [TEXT], "attention-encoder-rollout.png"),
        ("rollout", [TEXT, "--part", "decoder"], "attention-decoder-rollout.png"),
        ("lens", [TEXT], "lens.png"),
        ("positions", ["--part", "decoder"], "positions.png"),
    ],
)
def test_pictures_are_named_by_what_was_chosen(
    translator: Path, look: str, flags: list[str], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert json.loads(printed(capsys, "inspect", look, translator, *flags, "--json")) == {look: str(translator / name)}
    colours = Image.open(translator / name).convert("RGB").getcolors(maxcolors=1 << 20)
    assert colours is not None
    assert len(colours) > 30, "a picture that is not blank"


def test_a_picture_goes_where_it_is_told(translator: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["positions", translator], ["lens", translator, TEXT], ["attention", translator, TEXT]):
        assert str(tmp_path / "a.png") in printed(capsys, "inspect", *words, "--picture", tmp_path / "a.png")
        (tmp_path / "a.png").unlink()
