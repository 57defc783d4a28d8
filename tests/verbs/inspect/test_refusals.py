"""What the looks refuse, in one sentence."""

import re
from pathlib import Path

import pytest
from helpers.command import run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["shapes", "RUN", "--length", "0"], "length is 0"),
        (["shapes", "RUN", "--html", "nowhere/x.html"], "the folder nowhere does not exist"),
        (["diff", "RUN", "nowhere"], "nowhere"),
        (["align", "RUN", " "], "is empty"),
        (["step", "RUN", ""], "is empty"),
        (["step", "RUN", "May", "--head", "2"], "--head is 2: expected 0 to 1"),
        (["lens", "RUN", " "], "is empty"),
        (["ablate", "RUN", "*"], "has no run.json"),
    ],
)
def test_bad_input_is_one_sentence(
    translator: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("inspect", *(translator if word == "RUN" else word for word in words)) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert "Traceback" not in error
    assert re.search(said, error), error


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["shapes", "RUN", "--picture", "x.png"], "--picture"),
        (["params", "RUN", "--fold"], "--fold"),
        (["rollout", "RUN", "May", "--layer", "0"], "--layer"),
        (["positions", "RUN", "--part", "cross"], "encoder"),
        (["attention", "RUN"], "TEXT"),
        (["align", "RUN"], "no text given. Put it after the run: glassformer inspect align RUN"),
        (["align", "RUN", "May", "--file", "x.txt"], "a text was given as well. Choose one"),
        (["align", "RUN", "--file", "x.txt", "--target", "x"], "--target is 'x': it only works with a text"),
        (["ablate", "RUN"], "no head given. Name one after the run"),
    ],
)
def test_flags_that_do_not_fit_are_named(
    translator: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("inspect", *(translator if word == "RUN" else word for word in words)) == 2
    assert said in " ".join(capsys.readouterr().err.replace("│", " ").split())
