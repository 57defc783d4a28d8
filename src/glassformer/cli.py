"""The command line: a table from verb to file (`verbs/`). A file's `main` takes the settings that its flags fill.

Nothing heavy is imported before a verb runs. Bad input ends with one sentence and exit code 2; `--debug` shows where
it arose.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple, get_type_hints

from glassformer.errors import InputError, Stopped, nearest
from glassformer.settings import Settings
from glassformer.tasks.registry import TASKS
from glassformer.verbs.elsewhere import SEE_NOT_HERE, verb_elsewhere
from glassformer.verbs.flags import read_settings
from glassformer.verbs.inspect.old_forms import new_form
from glassformer.version import __version__


class Verb(NamedTuple):
    """A file of `verbs/`, which has a function `main(settings)`, and its line of help."""

    file: str
    help: str
    takes: type[Settings] | None = None  # None: what its `main` is declared to take

    @property
    def main(self) -> Callable[[Any], None]:
        main: Callable[[Any], None] = import_module(f"glassformer.verbs.{self.file}").main
        return main

    @property
    def settings(self) -> type[Settings]:
        kind: type[Settings] = self.takes or get_type_hints(self.main)["settings"]
        return kind


VERBS = {
    "demo": Verb("demo", "train a date translator in about a minute and look at it"),
    "data": Verb("data", "list public data sets, or bring one here, checked"),
    **{f"train {row.name}": Verb("train", row.help, row.settings) for row in TASKS.values()},
    "eval": Verb("eval", "score a run on what it held out, or on your files"),
    "predict": Verb("predict", "run a model on your texts or images"),
    "inspect shapes": Verb("inspect.shapes", "every tensor from the input to the loss: axes, sizes, FLOPs, bytes"),
    "inspect params": Verb("inspect.params", "where the parameters are, by kind and by layer"),
    "inspect diff": Verb("inspect.diff", "the fields of the config that turn one model into another"),
    "inspect attention": Verb("inspect.attention", "draw what a model attends to, head by head"),
    "inspect rollout": Verb("inspect.rollout", "draw the attention through all layers at once"),
    "inspect lens": Verb("inspect.lens", "draw what a model would say after each of its layers"),
    "inspect align": Verb("inspect.align", "which word of a translation comes from which word of the text"),
    "inspect positions": Verb("inspect.positions", "draw how a model knows the order of its input"),
    "inspect step": Verb("inspect.step", "one head by hand: every equation with the numbers of your text"),
    "inspect ablate": Verb("inspect.ablate", "what each head is worth: score a run without it"),
    "explore": Verb("explore", "see through a model in the browser, on any input"),
    "study norms": Verb("study_norms", "pre against post norm over depth and learning rate, in one picture"),
    "verify": Verb("verify", "check that a model computes what it should, and certify it"),
    "bench": Verb("bench", "measure how fast a model runs here, plain and through the engine"),
    "convert": Verb("convert", "write a model anew: safetensors, another dtype, shards"),
}
SECOND = {"train": "task", "inspect": "look", "study": "topic"}  # what the second word of a verb is

USAGE = """glassformer {version}: the whole Transformer, to read, train, run and see through

usage: glassformer VERB [flags]

{verbs}

  glassformer VERB --help    the flags of a verb; of train and inspect, what they offer
  --config FILE.toml         settings from a file; flags override it
  --debug                    a traceback with every error
  --version                  print the version
"""
HELP = ("--help", "-h")


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
    elif not args or args[0] in (*HELP, "help"):
        print(_overview())
    elif args[0] not in VERBS and len(args) > 1 and args[1] in HELP:
        print(_choices(args[0]) if args[0] in SECOND else _overview())
    else:
        name, rest = _split_verb(args)
        VERBS[name].main(read_settings(VERBS[name].settings, name, rest))


def _split_verb(args: list[str]) -> tuple[str, list[str]]:
    for words in (2, 1):
        name = " ".join(args[:words])
        if name in VERBS:
            return name, args[words:]
    if args[0] not in SECOND:
        if said := verb_elsewhere(args[0]):
            raise InputError(said)
        known = nearest(args[0], {name.split()[0] for name in VERBS})
        raise InputError(f"there is no verb {args[0]!r}{known}{'' if known.endswith('?') else '.'} {SEE_NOT_HERE}")
    if args[0] == "inspect" and (now := new_form(args[1:], _behind("inspect"))):
        raise InputError(now)
    needs = f"glassformer {args[0]} needs a {SECOND[args[0]]}, and"
    if args[1:] and not args[1].startswith("-"):
        if args[0] == "train" and (said := verb_elsewhere(args[1], what="task")):
            raise InputError(said)
        raise InputError(
            f"{needs} {args[1]!r} is none of them; known are {', '.join(_behind(args[0]))}. {SEE_NOT_HERE}"
        )
    raise InputError(f"{needs} none was given; known are\n\n{_listed(_behind(args[0]))}")


def _behind(first: str) -> dict[str, str]:
    """The verbs that begin with this word: their second words, and what they do."""
    return {name.split()[1]: verb.help for name, verb in VERBS.items() if name.startswith(f"{first} ")}


def _overview() -> str:
    """A line for each verb; for all that begin with the same word, one together."""
    lines = {}
    for name, verb in VERBS.items():
        first = name.split()[0]
        if len(_behind(first)) > 1:
            lines[f"{first} {SECOND[first].upper()}"] = ", ".join(_behind(first))
        else:
            lines[name] = verb.help
    return USAGE.format(version=__version__, verbs=_listed(lines))


def _choices(first: str) -> str:
    second = SECOND[first]
    usage = f"glassformer {first} {second.upper()}"
    return f"usage: {usage} [flags]\n\n{_listed(_behind(first))}\n\n  {usage} --help    the flags of a {second}\n"


def _listed(lines: Mapping[str, str]) -> str:
    width = max(map(len, lines)) + 3
    return "\n".join(f"  {name:{width}}{text}" for name, text in lines.items())


def _take_flag(args: list[str], flag: str) -> bool:
    if flag in args:
        args.remove(flag)
        return True
    return False
