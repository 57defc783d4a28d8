"""`inspect shapes`: as a table, as JSON, as an HTML page."""

import json
from pathlib import Path

import pytest
from helpers.command import printed

import glassformer as gf


def test_shapes_as_table_json_and_page(translator: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    real = sum(parameter.numel() for parameter in gf.load(translator).parameters())
    found = json.loads(printed(capsys, "inspect", "shapes", translator, "--json", "--batch", 2, "--length", 7))
    assert found["parameters"] == real == sum(line["parameters"] for line in found["lines"])
    shapes = {line["name"]: line["shape"] for line in found["lines"]}
    assert shapes["encoder.blocks.1.attn.q"] == [2, 2, 7, 8]
    assert shapes["loss"] == []
    whole, folded = (printed(capsys, "inspect", "shapes", translator, *more) for more in ([], ["--fold"]))
    assert f"{real:,}" in whole
    assert f"{real:,}" in folded
    assert len(folded.splitlines()) < len(whole.splitlines())
    page = tmp_path / "shapes.html"
    assert str(page) in printed(capsys, "inspect", "shapes", translator, "--html", page)
    text = page.read_text(encoding="utf-8")
    assert "cross.scores" in text
    assert f"{real:,}" in text
