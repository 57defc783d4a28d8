"""`inspect RUN --shapes` and other old forms: one sentence says what to type now."""

import shlex

import pytest
from helpers.command import run

MOVED = {
    "runs/demo": "params runs/demo",
    "runs/demo --json": "params runs/demo --json",
    "runs/demo --params": "params runs/demo",
    "runs/demo --shapes": "shapes runs/demo",
    "--shapes runs/demo --fold": "shapes runs/demo --fold",
    "runs/demo --diff models/gpt2 --json": "diff runs/demo models/gpt2 --json",
    "runs/demo --attention 'May 1st' --part encoder": "attention runs/demo 'May 1st' --part encoder",
    "runs/demo --layer 0 '--attention=May 1st'": "attention runs/demo 'May 1st' --layer 0",
    "--layer 0 --attention May runs/demo": "attention --layer 0 runs/demo May",
    "runs/demo --attention May --rollout --picture x.png": "rollout runs/demo May --picture x.png",
    "runs/demo --rollout": "rollout runs/demo",
    "runs/lm --lens 'The operator'": "lens runs/lm 'The operator'",
    "runs/demo --align May --target 5월": "align runs/demo May --target '5월'",
    "runs/demo --align-file lines.tsv": "align runs/demo --file lines.tsv",
    "runs/demo --positions": "positions runs/demo",
    "runs/demo --step May --head 2": "step runs/demo May --head 2",
    "runs/demo --ablate '*.cross.*' '*.attn.*' --examples 10": "ablate runs/demo '*.cross.*' '*.attn.*' --examples 10",
}


@pytest.mark.parametrize("typed", MOVED)
def test_an_old_form_is_answered_with_the_new_one(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("inspect", *shlex.split(typed)) == 2
    error = capsys.readouterr().err
    assert error.endswith(f" is now: glassformer inspect {MOVED[typed]}\n")
    assert error.count("\n") == 1


@pytest.mark.parametrize("typed", ["shape", "shape runs/demo", "something runs/demo --json"])
def test_a_look_that_does_not_exist_is_no_old_form(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("inspect", *typed.split()) == 2
    assert f"unknown look {typed.split()[0]!r}. Choose from shapes" in capsys.readouterr().err
