"""The command line: a table from verb to file. Flags come from the settings in that file (`verbs/`).

Nothing heavy is imported before a verb runs. Bad input ends with one sentence and exit code 2; `--debug` shows where
it arose.
"""

import sys
import tomllib
from dataclasses import fields
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import tyro

from glassformer.errors import InputError, Stopped, nearest
from glassformer.io import parse_json
from glassformer.settings import Settings
from glassformer.tasks.settings import TaskSettings
from glassformer.version import __version__


class Verb(NamedTuple):
    """Where a verb is, what it takes, what it runs, and what the overview says of it."""

    module: str
    takes: str
    runs: str
    help: str

    def settings(self) -> type[Settings]:
        kind: type[Settings] = getattr(import_module(self.module), self.takes)
        return kind

    def run(self, settings: Settings) -> None:
        getattr(import_module(self.module), self.runs)(settings)


def _verb(module: str, takes: str, runs: str, help: str) -> Verb:
    return Verb(f"glassformer.verbs.{module}", takes, runs, help)


VERBS = {
    "demo": _verb("demo", "DemoSettings", "demo", "train a date translator in about a minute and look at it"),
    "data": _verb("data", "DataSettings", "data", "list public data sets, or bring one here, checked"),
    "train translate": _verb("train", "TranslateSettings", "train", "train on pairs of texts: translations, summaries"),
    "train classify": _verb("train", "ClassifySettings", "train", "train to name the class of a text or a series"),
    "train lm": _verb("train", "LmSettings", "train", "train to continue text"),
    "train mlm": _verb("train", "MlmSettings", "train", "train to fill in masked words"),
    "train images": _verb("train", "ImagesSettings", "train", "train to name the class of an image"),
    "train forecast": _verb("train", "ForecastSettings", "train", "train to say how a series goes on"),
    "eval": _verb("eval", "EvalSettings", "evaluate_run", "score a run on what it held out, or on your files"),
    "predict": _verb("predict", "PredictSettings", "predict", "run a model on your texts or images"),
    "inspect": _verb(
        "inspect", "InspectSettings", "inspect", "shapes, parameters, attention, alignment, positions, every number"
    ),
    "explore": _verb("explore", "ExploreSettings", "explore", "see through a model in the browser, on any input"),
    "study norms": _verb(
        "study_norms",
        "StudyNormsSettings",
        "study",
        "pre against post norm over depth and learning rate, in one picture",
    ),
    "verify": _verb(
        "verify", "VerifySettings", "verify_model", "check that a model computes what it should, and certify it"
    ),
    "convert": _verb(
        "convert", "ConvertSettings", "convert_model", "write a model anew: safetensors, another dtype, shards"
    ),
}

USAGE = """glassformer {version}: the whole Transformer, to read, train, run and see through

usage: glassformer VERB [flags]

{verbs}

  glassformer VERB --help    the flags of a verb
  --config FILE.toml         settings from a file; flags override it
  --debug                    a traceback with every error
  --version                  print the version
"""


def main(args: list[str] | None = None) -> None:
    args = list(sys.argv[1:] if args is None else args)
    debug = _take_flag(args, "--debug")
    try:
        _run(args)
    except InputError as error:
        if debug:
            raise
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        sys.exit(128 + stopped.number)
    except KeyboardInterrupt:
        if debug:
            raise
        print("stopped: what was not finished is not written", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # whoever read our output has seen enough
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:  # a full disk, a folder that may not be written
        if debug:
            raise
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def _run(args: list[str]) -> None:
    if args[:1] == ["--version"]:
        print(__version__)
        return
    if not args or args[0] in ("--help", "-h", "help") or (args[0] not in VERBS and args[1:2] in (["--help"], ["-h"])):
        width = max(map(len, VERBS)) + 2
        print(USAGE.format(version=__version__, verbs="\n".join(f"  {n:{width}}{v.help}" for n, v in VERBS.items())))
        return
    name, rest = _split_verb(args)
    verb = VERBS[name]
    for flag, value in pairwise([*rest, "--"]):
        if flag in ("--data", "--valid", "--test") and value.startswith("--"):
            raise InputError(f"{flag} needs a file behind it; leave it out for none")
    takes = verb.settings()
    given = _given(takes, rest)
    chosen = tyro.cli(
        takes,
        prog=f"glassformer {name}",
        args=rest,
        default=tyro.MISSING_NONPROP if given is None else given,
        config=(tyro.conf.FlagCreatePairsOff,),
    )
    verb.run(chosen)


def _split_verb(args: list[str]) -> tuple[str, list[str]]:
    for words in (2, 1):
        name = " ".join(args[:words])
        if name in VERBS:
            return name, args[words:]
    kinds = [name.split()[1] for name in VERBS if name.split()[0] == args[0] and " " in name]
    if kinds:
        asked = f"{args[1]!r} is none of them" if args[1:] and not args[1].startswith("-") else "none was given"
        raise InputError(f"glassformer {args[0]} needs a task, and {asked}; known are {', '.join(kinds)}")
    raise InputError(f"there is no verb {args[0]!r}{nearest(args[0], {name.split()[0] for name in VERBS})}")


def _given(takes: type[Settings], args: list[str]) -> Settings | None:
    """The settings of the run that `--resume` goes on with and of `--config FILE`, which is taken out of the arguments;
    a flag goes before the file, and the file before the run."""
    path = _value_of(args, "--config", take=True)
    told = {} if path is None else _read_toml(takes, Path(path))
    if "--resume" not in args or not issubclass(takes, TaskSettings):
        return _made(takes, told, path) if told else None
    out = Path(_value_of(args, "--out") or told.get("out") or takes.out)
    if not (out / "run.json").is_file():
        return _made(takes, told, path) if told else None
    record = parse_json(out / "run.json")
    if record.get("task") != takes.task:
        raise InputError(f"--resume: {out} was trained for {record.get('task')}, not {takes.task}")
    return _made(takes, {**record.get("settings", {}), **told, "out": str(out)}, str(path or out / "run.json"))


def _read_toml(takes: type[Settings], path: Path) -> dict[str, Any]:
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


def _made(takes: type[Settings], values: dict[str, Any], path: str | None) -> Settings:
    try:
        return takes.from_dict(values)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _value_of(args: list[str], flag: str, *, take: bool = False) -> str | None:
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


def _take_flag(args: list[str], flag: str) -> bool:
    if flag in args:
        args.remove(flag)
        return True
    return False
