"""`--help`: defaults in words, and flags under headings with the most important first."""

import re
from dataclasses import fields
from pathlib import Path

import pytest
from helpers.command import printed

from glassformer.cli import VERBS
from glassformer.verbs.help import HEADINGS, MAX_PLAIN_FLAGS, MORE, START, entries_of, grouped


@pytest.mark.parametrize("verb", VERBS)
def test_every_flag_is_there_with_its_text_and_without_pythons_words(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    page = printed(capsys, *verb.split(), "--help")
    takes = VERBS[verb].settings
    assert page.startswith(f"usage: glassformer {verb}")
    assert not re.search(r"\bNone\b|\bMISSING\b|default: (True|False|\)|$)|\(default: *\)", page)
    assert page == printed(capsys, *verb.split(), "-h")
    entries = entries_of(takes, None)
    assert sorted(entry.name for entry in entries) == sorted(field.name for field in fields(takes))
    for entry in entries:
        assert f"  {entry.typed}" in page
        assert len(entry.text.split()) > 1, f"{takes.__name__}.{entry.name} needs a string under it"
        assert entry.text.count("(default:") <= 1


@pytest.mark.parametrize("verb", [verb for verb in VERBS if len(fields(VERBS[verb].settings)) > MAX_PLAIN_FLAGS])
def test_a_long_page_begins_with_what_a_beginner_needs(verb: str) -> None:
    groups = grouped(entries_of(VERBS[verb].settings, None))
    assert next(iter(groups)) == START
    first = {entry.name for entry in groups[START]}
    assert len(first) <= 12
    if verb.startswith("train"):
        assert {"data", "out", "minutes", "preset", "init"} <= first
        assert {"model", "training", "machine"} <= groups.keys()
    for heading, group in groups.items():
        assert len(group) <= 26, heading


def test_no_flag_is_under_two_headings() -> None:
    names = [name for flags in HEADINGS.values() for name in flags.split()]
    assert len(names) == len(set(names))
    assert MORE not in HEADINGS


def test_the_defaults_of_a_file_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.toml").write_text("warmup = 77\nout = 'runs/mine'\n", encoding="utf-8")
    page = " ".join(printed(capsys, "train", "lm", "--config", tmp_path / "run.toml", "--help").split())
    assert "(default: 77)" in page
    assert "(default: runs/mine)" in page


def test_a_page_fits_the_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for columns, widest in ((80, 80), (400, 100)):
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = printed(capsys, "train", "translate", "--help").splitlines()
        assert max(map(len, lines)) <= widest
