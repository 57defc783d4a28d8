"""`inspect align`: pairs for other tools, a picture for people."""

import json
from pathlib import Path

import pytest
from helpers.command import printed, run


def test_pairs_go_to_standard_output_alone(
    translator: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = ("May 1st, 2031", "--target", "2031년 5월 1일")
    assert run("inspect", "align", translator, *text) == 0
    shown = capsys.readouterr()
    pairs = [tuple(map(int, pair.split("-"))) for pair in shown.out.split()]
    assert {j for _, j in pairs} == {0, 1, 2}
    assert (translator / "alignment.png").is_file()
    lines = tmp_path / "lines.tsv"
    lines.write_text("May 1st, 2031\t2031년 5월 1일\nMay 2, 2031\t2031년 5월 2일\n", encoding="utf-8")
    assert len(printed(capsys, "inspect", "align", translator, "--file", lines).splitlines()) == 2
    found = json.loads(printed(capsys, "inspect", "align", translator, *text, "--json"))
    assert found["target_words"] == ["2031년", "5월", "1일"]
