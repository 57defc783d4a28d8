"""The command line: a table from verb to function. Flags come from the dataclasses of `settings.py`.

Nothing heavy is imported before a verb runs. Bad input ends with one sentence and exit code 2; `--debug` shows where
it arose.
"""

import importlib
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import tyro

from glassformer import __version__, settings
from glassformer.errors import InputError, nearest


class Verb(NamedTuple):
    """What a verb takes, what it runs, and what the overview says of it."""

    takes: type[settings.Settings]
    runs: str
    help: str


VERBS = {
    "demo": Verb(
        settings.DemoSettings, "glassformer.tasks.demo:demo", "train a date translator in about a minute and look at it"
    ),
    "train translate": Verb(
        settings.TranslateSettings, "glassformer.tasks.command:train_translate", "train on pairs of texts"
    ),
    "predict": Verb(
        settings.PredictSettings, "glassformer.tasks.predict:predict", "run a model on your texts or images"
    ),
    "inspect": Verb(
        settings.InspectSettings,
        "glassformer.inspect.command:inspect",
        "parameters, positions and attention of a model",
    ),
    "verify": Verb(
        settings.VerifySettings,
        "glassformer.checkpoints.command:verify_command",
        "check that a model computes what it should, and certify it",
    ),
    "convert": Verb(
        settings.ConvertSettings,
        "glassformer.checkpoints.command:convert_command",
        "write a model anew: safetensors, another dtype, shards",
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
    if not args or args[0] in ("--help", "-h", "help"):
        width = max(map(len, VERBS)) + 2
        print(USAGE.format(version=__version__, verbs="\n".join(f"  {n:{width}}{v.help}" for n, v in VERBS.items())))
        return
    name, rest = _split_verb(args)
    verb = VERBS[name]
    given = _from_file(verb.takes, rest)
    chosen = tyro.cli(
        verb.takes,
        prog=f"glassformer {name}",
        args=rest,
        default=tyro.MISSING_NONPROP if given is None else given,
        config=(tyro.conf.FlagCreatePairsOff,),
    )
    module, function = verb.runs.split(":")
    getattr(importlib.import_module(module), function)(chosen)


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


def _from_file(takes: type[settings.Settings], args: list[str]) -> settings.Settings | None:
    """The settings of `--config FILE`, which is taken out of the arguments."""
    at = next((i for i, arg in enumerate(args) if arg == "--config" or arg.startswith("--config=")), None)
    if at is None:
        return None
    _, inline, value = args.pop(at).partition("=")
    if not inline:
        if at == len(args):
            raise InputError("--config needs the path of a TOML file")
        value = args.pop(at)
    path = Path(value)
    try:
        return takes.from_dict(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(f"--config {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"--config {path}: the file is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"--config {path}: not valid TOML, {error}") from None
    except InputError as error:
        raise InputError(f"--config {path}: {error}") from None


def _take_flag(args: list[str], flag: str) -> bool:
    if flag in args:
        args.remove(flag)
        return True
    return False
