"""The looks that need no weights: shapes, params, diff."""

import json
from pathlib import Path

import pytest
from helpers.command import printed

import glassformer as gf


def test_a_config_without_weights_is_enough(
    translator: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text((translator / "config.json").read_text())
    with_weights = printed(capsys, "inspect", "shapes", translator, "--json")
    assert json.loads(printed(capsys, "inspect", "shapes", tmp_path, "--json")) == json.loads(with_weights)
    assert "100.0" in printed(capsys, "inspect", "params", tmp_path)
    changes = json.loads(printed(capsys, "inspect", "diff", "base", "big", "--json"))
    assert {"encoder.d_model", "decoder.num_heads"} <= {change["path"] for change in changes}
    assert "no difference" in printed(capsys, "inspect", "diff", tmp_path, translator)


def test_params_counts_parameters(translator: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = json.loads(printed(capsys, "inspect", "params", translator, "--json"))
    real = sum(p.numel() for p in gf.load(translator).parameters())
    assert shown["parameters"] == real == sum(shown["parts"].values())
    table = printed(capsys, "inspect", "params", translator)
    assert f"{real:,}" in table
    assert "the 2 decoder blocks" in table
    assert "cross-attention" in table
