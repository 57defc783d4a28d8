"""Errors for the old form of `inspect`, with the look as a flag (`inspect RUN --shapes`): they name the new form."""

import shlex
import sys
from collections.abc import Collection
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path

OLD_FLAGS = {  # the old flag of each look, and how many words followed it
    **dict.fromkeys(("--shapes", "--params", "--positions", "--rollout"), 0),
    **dict.fromkeys(("--diff", "--attention", "--lens", "--align", "--align-file", "--step"), 1),
    "--ablate": sys.maxsize,  # any number
}


def new_form(args: list[str], looks: Collection[str]) -> str | None:
    """What to type instead of `inspect ARGS`; None if that is not an old form but an unknown look."""
    words = [part for word in args for part in (word.split("=", 1) if word.startswith("--") else [word])]
    old = [word for word in words if word in OLD_FLAGS]
    if not old:
        return f"inspect without a look is now: {command('params', words)}" if begins_with_run(words, looks) else None
    asked = "--rollout" if "--rollout" in old else old[0]
    for flag in ("--rollout", "--attention") if asked == "--rollout" else (asked,):
        words = without_old_flag(words, flag)
    return f"inspect {asked} is now: {command(asked.removeprefix('--').removesuffix('-file'), words)}"


def begins_with_run(words: list[str], looks: Collection[str]) -> bool:
    """Whether only a run precedes the flags, and not a mistyped look."""
    alone = len(list(takewhile(lambda word: not word.startswith("-"), words))) == 1
    return alone and (Path(words[0]).exists() or not get_close_matches(words[0], looks))


def without_old_flag(words: list[str], flag: str) -> list[str]:
    """Removes the flag; its values move right after the run."""
    if flag not in words:
        return words
    at = words.index(flag)
    before, behind = words[:at], words[at + 1 :]
    if flag == "--align-file":
        return [*before, "--file", *behind]
    values = list(takewhile(lambda word: not word.startswith("--"), behind[: OLD_FLAGS[flag]]))
    rest = [*before, *behind[len(values) :]]
    runs = 1 if rest and not rest[0].startswith("-") else len(rest)
    return [*rest[:runs], *values, *rest[runs:]]


def command(look: str, words: list[str]) -> str:
    return shlex.join(["glassformer", "inspect", look, *words])
