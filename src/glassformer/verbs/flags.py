"""Reads a verb's settings from the command line: defaults < the run that `--resume` continues < the TOML file of
`--config` < flags.
"""

import io
import re
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import fields
from functools import wraps
from itertools import dropwhile, pairwise, takewhile
from os import PathLike, fspath
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import tyro

from glassformer.checkpoints.run import RUN, is_run, read_record
from glassformer.errors import InputError, did_you_mean
from glassformer.settings import Settings
from glassformer.tasks.settings import TaskSettings
from glassformer.verbs.elsewhere import SEE_NOT_HERE, flag_elsewhere, steps_of_an_epoch
from glassformer.verbs.help import entries_of, help_page

RULE = re.compile("[-─]+")  # a horizontal line in a box that tyro prints
TYPE_NAMES = {"INT": "a whole number", "FLOAT": "a number", "PATH": "a path"}  # tyro's name of a type, and ours


def read_settings(takes: type[Settings], verb: str, args: list[str]) -> Settings:
    """The settings given by the arguments of `glassformer VERB`. `--help` prints the page and exits."""
    for flag, value in pairwise([*args, "--"]):
        if flag in ("--data", "--valid", "--test") and value.startswith("--"):
            raise InputError(f"{flag} needs a file. Add one, or leave {flag} out")
    check_words(takes, args)
    args = with_switches(takes, args)
    before = config_and_run_settings(takes, args)
    if {"--help", "-h"} & set(takewhile(lambda arg: arg != "--", args)):
        print(help_page(takes, verb, before))
        sys.exit(0)
    with one_sentence(takes, verb, args), plain_errors(takes):
        settings: Settings = tyro.cli(
            takes,
            prog=f"glassformer {verb}",
            args=args,
            default=tyro.MISSING_NONPROP if before is None else before,
            config=(tyro.conf.FlagCreatePairsOff,),
        )
    given = names_in(args) & names_of(takes)
    if before is not None:  # defaults that the file leaves open depend on the flags
        settings = settings.replace(**{name: None for name in before.left_open if name not in given})
    return settings.as_given(given) if isinstance(settings, TaskSettings) else settings


@contextmanager
def one_sentence(takes: type[Settings], verb: str, args: list[str]) -> Iterator[None]:
    """Turns the box in which tyro prints an error into an InputError of one sentence."""
    box = io.StringIO()
    try:
        with redirect_stderr(box):
            yield
    except SystemExit as end:
        if not end.code:
            raise
        raise InputError(said_in(box.getvalue(), takes, verb, args)) from None
    sys.stderr.write(box.getvalue())


def said_in(box: str, takes: type[Settings], verb: str, args: list[str]) -> str:
    """The error in tyro's box as one sentence: the part above the first rule, without names of classes and types."""
    lines = [line.strip("╭╰│╮╯|+ ") for line in box.splitlines()[1:]]  # without its title
    first = " ".join(takewhile(lambda line: not RULE.fullmatch(line), dropwhile(RULE.fullmatch, filter(None, lines))))
    see = f"See glassformer {verb} --help"
    if wrong := re.match(r"Error parsing (--\S+): ", first):
        kind = next((words for word, words in TYPE_NAMES.items() if re.search(rf"{wrong[1]} .*\b{word}\b", box)), "")
        return f"{wrong[1]} {value_of(args, wrong[1]) or ''}: expected {kind or 'another value'}. {see}"
    if choice := re.match(r"invalid choice '(.*)' for argument '(--\S+)'\. Expected one of \((.*)\)", first):
        choices = sorted(set(re.findall(r"'([^']+)'", choice[3])) - {"None"})
        return f"{choice[2]} {choice[1]}: expected one of {', '.join(choices)}"
    if missing := re.match(rf"Missing from glassformer {verb}: (.*)", first):
        needed = re.findall(r"(\S+) (.*?)\.? \(required\)", missing[1])
        typed = {entry.text.rstrip("."): entry.typed for entry in entries_of(takes, None)}
        said = (f"{typed.get(words, name)} ({words[:1].lower()}{words[1:]})" for name, words in needed)
        return f"glassformer {verb} needs {' and '.join(said)}. {see}"
    if unknown := re.match(r"Unrecognized options: ([^\s,]+)", first):
        return (
            no_flag(unknown[1], verb, takes)
            if unknown[1].startswith("--")
            else f"unexpected argument {unknown[1]}. {see}"
        )
    return re.sub(r"Error parsing \w+: ", "", first) if "Error parsing" in first else f"{first.rstrip('.')}. {see}"


def no_flag(typed: str, verb: str, takes: type[Settings]) -> str:
    """The error for an unknown flag. It names the nearest flag, or the page that lists what is not supported."""
    flag = typed.partition("=")[0]
    near = did_you_mean(flag, {"--" + name.replace("_", "-") for name in names_of(takes)})
    hint = near if near.endswith("?") else f". glassformer {verb} --help lists all flags; {SEE_NOT_HERE}"
    return f"glassformer {verb} has no flag {flag}{hint}"


class SettingsError(Exception):
    """Carries an InputError through tyro, which would draw a box around a ValueError and wrap its lines."""

    def __init__(self, error: InputError) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def plain_errors(takes: type[Settings]) -> Iterator[None]:
    """Lets an InputError from the construction of these settings pass through tyro unchanged."""
    kind: Any = takes
    init = kind.__init__

    @wraps(init)
    def made(self: Settings, *values: Any, **named: Any) -> None:
        try:
            init(self, *values, **named)
        except InputError as error:
            raise SettingsError(error) from error

    kind.__init__ = made
    try:
        yield
    except SettingsError as refused:
        raise refused.error from None
    finally:
        kind.__init__ = init


def check_words(takes: type[Settings], args: list[str]) -> None:
    """Refuses flags of other tools and names ours."""

    def epoch() -> int | None:
        file, size = value_of(args, "--data"), value_of(args, "--batch-size") or str(getattr(takes, "batch_size", ""))
        return steps_of_an_epoch(Path(file), int(size)) if file and size.isdigit() and int(size) else None

    for arg in args:
        if arg == "--":
            return
        if arg.startswith("--") and (said := flag_elsewhere(flag_name(arg), {*names_of(takes), "config"}, epoch)):
            raise InputError(said)


def names_of(takes: type[Settings]) -> set[str]:
    return {entry.name for entry in fields(takes)}


def names_in(args: list[str]) -> set[str]:
    """Names of the settings whose flags occur in the arguments."""
    flags = args[: args.index("--")] if "--" in args else args
    return {flag_name(arg).removeprefix("no_") for arg in flags if arg.startswith("--")}


def flag_name(flag: str) -> str:
    return flag.removeprefix("--").partition("=")[0].replace("-", "_")


def with_switches(takes: type[Settings], args: list[str]) -> list[str]:
    """Rewrites `--header` and `--no-header` to True and False, for settings that may also be None."""
    for name in optional_switches(takes):
        flag = "--" + name.replace("_", "-")
        args = [words for arg, value in pairwise([*args, ""]) for words in switch_value(arg, value, flag)]
    return args


def optional_switches(takes: type[Settings]) -> list[str]:
    """Settings of type `bool | None`."""
    hints = get_type_hints(takes)
    return [entry.name for entry in fields(takes) if hints[entry.name] == bool | None]


def switch_value(arg: str, value: str, flag: str) -> list[str]:
    if arg == f"--no-{flag[2:]}":
        return [flag, "False"]
    return [flag, "True"] if arg == flag and value not in ("True", "False", "None") else [arg]


def config_and_run_settings(takes: type[Settings], args: list[str]) -> Settings | None:
    """The settings of the run that `--resume` continues and of `--config FILE`, which is removed from the arguments.
    Flags override the file, and the file overrides the run."""
    path = value_of(args, "--config", take=True)
    told = {} if path is None else read_toml(takes, Path(path))
    if "--resume" not in args or not issubclass(takes, TaskSettings):
        return made_from(takes, told, path) if told else None
    out = Path(value_of(args, "--out") or told.get("out") or takes.out)
    if not is_run(out):
        return made_from(takes, told, path) if told else None
    before = settings_of_run(takes, out, names_in(args) | told.keys())
    return made_from(takes, {**before, **told, "out": str(out)}, str(path or out / RUN))


def settings_of_run(takes: type[TaskSettings], out: Path, told: set[str]) -> dict[str, Any]:
    """The settings the run was started with, except those that `told` replaces."""
    record = read_record(out)
    if record["task"] != takes.task:
        raise InputError(f"--resume: {out} was trained for {record['task']}, not {takes.task}")
    settings: dict[str, Any] = record["settings"]
    if length := {"steps", "minutes"} & told:  # a new length replaces the old one
        settings = {name: value for name, value in settings.items() if name not in {"steps", "minutes"} - length}
    return settings


def settings_in_python(takes: type[TaskSettings], given: dict[str, Any]) -> TaskSettings:
    """The settings given by keyword arguments, which are the flags with underscores: `minutes=5`. `config` is a TOML
    file, as on the command line."""
    values, kinds = dict(given), get_type_hints(takes)
    config = values.pop("config", None)
    known = {*names_of(takes), "config"}
    for name in values:
        if said := flag_elsewhere(name, known):
            raise InputError(f"gf.train: {said}")
        if name not in known:
            raise InputError(f"gf.train: {takes.task} has no setting {name!r}{did_you_mean(name, known)}")
    told = {} if config is None else read_toml(takes, Path(config))
    told |= {name: as_written(value, kinds[name]) for name, value in values.items()}
    out = Path(told.get("out") or takes.out)
    if told.get("resume") and is_run(out):
        told = {**settings_of_run(takes, out, {*told}), **told, "out": str(out)}
    return takes.from_dict(told).as_given({*values})


def as_written(value: Any, kind: Any) -> Any:
    """A value as in a TOML file: a single value of a list setting becomes a list."""
    if get_origin(kind) is tuple:
        value = [value] if isinstance(value, str | PathLike | int) else list(value)
        return [fspath(part) if isinstance(part, PathLike) else part for part in value]
    return fspath(value) if isinstance(value, PathLike) else value


def read_toml(takes: type[Settings], path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        values = tomllib.loads(text)
    except OSError as error:
        raise InputError(f"--config {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"--config {path}: the file is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"--config {path}: not valid TOML, {error}") from None
    known = names_of(takes)
    for key in values:
        if key not in known:
            said = flag_elsewhere(key, known)
            line = next((i for i, row in enumerate(text.splitlines(), start=1) if row.strip().startswith(key)), 1)
            if said is not None:
                raise InputError(f"--config {path}, line {line}: {said}")
            raise InputError(f"--config {path}, line {line}: unknown setting {key!r}{did_you_mean(key, known)}")
    return values


def made_from(takes: type[Settings], values: dict[str, Any], path: str | None) -> Settings:
    try:
        return takes.from_dict(values)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def value_of(args: list[str], flag: str, *, take: bool = False) -> str | None:
    """The value after a flag or its equals sign; `take` removes both from the arguments."""
    at = next((i for i, arg in enumerate(args) if arg == flag or arg.startswith(f"{flag}=")), None)
    if at is None:
        return None
    _, inline, value = args[at].partition("=")
    if not inline:
        if at + 1 == len(args):
            raise InputError(f"{flag} needs a value")
        value = args[at + 1]
    if take:
        del args[at : at + (1 if inline else 2)]
    return value
