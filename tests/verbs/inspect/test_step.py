"""`inspect step`: the numbers of one head."""

import json
from pathlib import Path

import pytest
from helpers.command import printed


def test_a_step_names_its_lines(translator: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed(
        capsys, "inspect", "step", translator, "May 1st, 2031", "--part", "encoder", "--layer", 1, "--head", 1
    )
    assert "core/attention.py:" in shown
    assert "softmax" in shown
    assert json.loads(printed(capsys, "inspect", "step", translator, "May 1st, 2031", "--json"))
