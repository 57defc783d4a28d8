"""A verb's settings from what was typed: the defaults, then the run that `--resume` goes on with, then the TOML file of
`--config`, then the flags.
"""

import tomllib
from dataclasses import fields
from itertools import pairwise
from os import PathLike, fspath
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import tyro

from glassformer.checkpoints.run import RUN, is_run, read_record
from glassformer.errors import InputError, nearest
from glassformer.settings import Settings
from glassformer.tasks.settings import TaskSettings


def read_settings(takes: type[Settings], verb: str, args: list[str]) -> Settings:
    """The settings of this kind that the arguments of `glassformer VERB` say; `--help` is answered, and ends here."""
    for flag, value in pairwise([*args, "--"]):
        if flag in ("--data", "--valid", "--test") and value.startswith("--"):
            raise InputError(f"{flag} needs a file behind it; leave it out for none")
    given = given_elsewhere(takes, args)
    return tyro.cli(
        takes,
        prog=f"glassformer {verb}",
        args=args,
        default=tyro.MISSING_NONPROP if given is None else given,
        config=(tyro.conf.FlagCreatePairsOff,),
    )


def given_elsewhere(takes: type[Settings], args: list[str]) -> Settings | None:
    """The settings of the run that `--resume` goes on with and of `--config FILE`, which is taken out of the arguments;
    a flag goes before the file, and the file before the run."""
    path = value_of(args, "--config", take=True)
    told = {} if path is None else read_toml(takes, Path(path))
    if "--resume" not in args or not issubclass(takes, TaskSettings):
        return made_from(takes, told, path) if told else None
    out = Path(value_of(args, "--out") or told.get("out") or takes.out)
    if not is_run(out):
        return made_from(takes, told, path) if told else None
    return made_from(takes, {**settings_of_run(takes, out), **told, "out": str(out)}, str(path or out / RUN))


def settings_of_run(takes: type[TaskSettings], out: Path) -> dict[str, Any]:
    """Those that the run in this folder was begun with."""
    record = read_record(out)
    if record["task"] != takes.task:
        raise InputError(f"--resume: {out} was trained for {record['task']}, not {takes.task}")
    settings: dict[str, Any] = record["settings"]
    return settings


def settings_in_python(takes: type[TaskSettings], given: dict[str, Any]) -> TaskSettings:
    """The settings that the keywords of a function say, which are the flags with underscores: `minutes=5`. `config` is
    a TOML file, as for the command line."""
    values, kinds = dict(given), get_type_hints(takes)
    config = values.pop("config", None)
    for name in values:
        if name not in kinds or name not in takes.__dataclass_fields__:
            known = nearest(name, [*takes.__dataclass_fields__, "config"])
            raise InputError(f"gf.train: there is no setting {name!r} for {takes.task}{known}")
    told = {} if config is None else read_toml(takes, Path(config))
    told |= {name: as_written(value, kinds[name]) for name, value in values.items()}
    out = Path(told.get("out") or takes.out)
    if told.get("resume") and is_run(out):
        told = {**settings_of_run(takes, out), **told, "out": str(out)}
    return takes.from_dict(told)


def as_written(value: Any, kind: Any) -> Any:
    """A value as a TOML file has it: where several may stand, one alone is a list of one."""
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
    known = {entry.name for entry in fields(takes)}
    for key in values:
        if key not in known:
            line = next((i for i, row in enumerate(text.splitlines(), start=1) if row.strip().startswith(key)), 1)
            raise InputError(f"--config {path}, line {line}: there is no field {key!r}{nearest(key, known)}")
    return values


def made_from(takes: type[Settings], values: dict[str, Any], path: str | None) -> Settings:
    try:
        return takes.from_dict(values)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def value_of(args: list[str], flag: str, *, take: bool = False) -> str | None:
    """What follows a flag, or stands behind its equals sign; `take` removes both from the arguments."""
    at = next((i for i, arg in enumerate(args) if arg == flag or arg.startswith(f"{flag}=")), None)
    if at is None:
        return None
    _, inline, value = args[at].partition("=")
    if not inline:
        if at + 1 == len(args):
            raise InputError(f"{flag} needs a value behind it")
        value = args[at + 1]
    if take:
        del args[at : at + (1 if inline else 2)]
    return value
