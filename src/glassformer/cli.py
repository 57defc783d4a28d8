"""The command line: a table from verb to file (`verbs/`), whose `main` takes the settings read from the flags.

Nothing heavy is imported before a verb runs. Exit codes: 0 success; 1 the reader of the output closed the pipe (a
training continues and exits with 0); 2 an error such as bad input or a full disk, in one sentence (`--debug` adds the
traceback); 130 Ctrl-C; 128 + N a training run stopped by signal N, with its progress saved.
"""

import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from importlib import import_module
from typing import Any, NamedTuple, NoReturn, get_type_hints

from glassformer.errors import InputError, OtherProcessFailed, Stopped, did_you_mean
from glassformer.settings import Settings
from glassformer.tasks.registry import TASKS
from glassformer.terminal import open_streams, silence
from glassformer.verbs.elsewhere import SEE_NOT_HERE, verb_elsewhere
from glassformer.verbs.flags import read_settings
from glassformer.verbs.inspect.old_forms import new_form
from glassformer.version import __version__


class Verb(NamedTuple):
    """A file of `verbs/` with a function `main(settings)`, and its line of help."""

    file: str
    help: str
    takes: type[Settings] | None = None  # None: the type that `main` declares

    @property
    def main(self) -> Callable[[Any], None]:
        main: Callable[[Any], None] = import_module(f"glassformer.verbs.{self.file}").main
        return main

    @property
    def settings(self) -> type[Settings]:
        kind: type[Settings] = self.takes or get_type_hints(self.main)["settings"]
        return kind


VERBS = {
    "demo": Verb("demo", "train a date translator in about a minute and look inside it"),
    "data": Verb("data", "list public data sets, or download one"),
    **{f"train {row.name}": Verb("train", row.help, row.settings) for row in TASKS.values()},
    "eval": Verb("eval", "score a run on its held-out data or on your files"),
    "predict": Verb("predict", "run a model on your texts, images or series"),
    "inspect shapes": Verb("inspect.shapes", "every tensor from the input to the loss: axes, sizes, FLOPs, bytes"),
    "inspect params": Verb("inspect.params", "count the parameters by kind and by layer"),
    "inspect diff": Verb("inspect.diff", "compare the configs of two models"),
    "inspect attention": Verb("inspect.attention", "draw the attention of each head"),
    "inspect rollout": Verb("inspect.rollout", "draw the attention rolled out through all layers"),
    "inspect lens": Verb("inspect.lens", "draw what the model would predict after each layer (logit lens)"),
    "inspect align": Verb("inspect.align", "align the words of a translation with the words of the text"),
    "inspect positions": Verb("inspect.positions", "draw how the model encodes positions"),
    "inspect step": Verb("inspect.step", "one attention head, equation by equation, with the numbers of your text"),
    "inspect ablate": Verb("inspect.ablate", "how much each head matters: the score without it"),
    "explore": Verb("explore", "look inside a model in the browser, on any input"),
    "study norms": Verb("study_norms", "compare pre-norm and post-norm over depth and learning rate, in one figure"),
    "verify": Verb("verify", "check that a model computes the right results, and certify it"),
    "bench": Verb("bench", "measure how fast a model runs, plain and through the engine"),
    "convert": Verb("convert", "rewrite a model: safetensors, another dtype, shards"),
}
SECOND = {"train": "task", "inspect": "look", "study": "topic"}  # what the second word of a verb names

USAGE = """glassformer {version}: the whole Transformer, to read, train, run and see through

usage: glassformer VERB [flags]

{verbs}

  glassformer VERB --help    the flags of a verb; for train and inspect, the list of tasks and looks
  --config FILE.toml         settings from a file; flags override it
  --debug                    print a traceback with errors
  --version                  print the version
"""
HELP = ("--help", "-h")
TORCHRUN_GRACE = 5.0  # seconds for torchrun to stop this process after another failed


def main(args: list[str] | None = None) -> None:
    open_streams()
    args = list(sys.argv[1:] if args is None else args)
    debug = _take_flag(args, "--debug")
    try:
        _check_encoding(args)
        _run(args)
        sys.stdout.flush()
    except InputError as error:
        if debug:
            raise
        _fail(f"error: {error}")
    except OtherProcessFailed:
        time.sleep(TORCHRUN_GRACE)  # for torchrun to see first which process failed
        sys.exit(2)
    except Stopped as stopped:
        if _is_first():
            _fail(str(stopped), 128 + stopped.number)
        sys.exit(128 + stopped.number)
    except KeyboardInterrupt:
        if debug:
            raise
        _fail("stopped: unfinished work is not saved", 130)
    except BrokenPipeError:  # the reader of the output has closed it
        silence(sys.stdout)
        silence(sys.stderr)
        sys.exit(1)
    except OSError as error:  # a full disk, a folder that is not writable
        if debug:
            raise
        try:
            sys.stdout.flush()
        except OSError:
            silence(sys.stdout)
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"error: {where}{error.strerror or error}")
    except UnicodeEncodeError as error:
        if debug:
            raise
        letter = error.object[error.start : error.start + 1]
        _fail(f"error: standard output is {error.encoding} and cannot show {letter!a}. Set PYTHONIOENCODING=utf-8")
    except RuntimeError as error:
        if debug or not _is_of_lost_process(error):
            raise
        _fail("error: another process of this run has ended, and this one cannot continue without it", wait=True)


def _is_first() -> bool:
    """Whether this is the first of the processes that torchrun started."""
    return os.environ.get("RANK", "0") == "0"


def _check_encoding(args: list[str]) -> None:
    for arg in args:
        try:
            arg.encode("utf-8")
        except UnicodeEncodeError:
            raise InputError(
                f"the argument {os.fsencode(arg)!r} is not UTF-8 text. Rename the file, or convert the text with iconv"
            ) from None


def _fail(message: str, code: int = 2, *, wait: bool = False) -> NoReturn:
    """Exits with a message. If several processes fail with the same error, the first prints it. The others wait for
    torchrun to stop them, and print it too if that does not happen."""
    if wait or not _is_first():
        time.sleep(TORCHRUN_GRACE)
    try:
        print(message, file=sys.stderr, flush=True)
    except OSError:
        silence(sys.stderr)
    _tell_torchrun(message)
    sys.exit(code)


@contextmanager
def _only_first_prints() -> Iterator[None]:
    """If several processes refuse the same flags, the first prints the error."""
    if _is_first():
        yield
        return
    said = io.StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(said):
            yield
    except SystemExit:
        time.sleep(TORCHRUN_GRACE)
        print(said.getvalue(), end="", file=sys.stderr)
        raise


def _tell_torchrun(message: str) -> None:
    """Writes the message to the file that torchrun reads for its table of failures, if there is one."""
    if file := os.environ.get("TORCHELASTIC_ERROR_FILE"):
        more = {"py_callstack": message, "timestamp": str(int(time.time()))}
        with suppress(OSError), open(file, "w", encoding="utf-8") as opened:
            json.dump({"message": {"message": message, "extraInfo": more}}, opened)


def _is_of_lost_process(error: RuntimeError) -> bool:
    """Whether communication with another process of the training run failed."""
    if os.environ.get("WORLD_SIZE", "1") == "1":
        return False
    return type(error).__name__.startswith("Dist") or any(word in str(error) for word in ("gloo", "NCCL"))


def _run(args: list[str]) -> None:
    if args[:1] == ["--version"]:
        print(__version__)
    elif not args or args[0] in (*HELP, "help"):
        print(_overview())
    elif args[0] not in VERBS and len(args) > 1 and args[1] in HELP:
        print(_choices(args[0]) if args[0] in SECOND else _overview())
    else:
        name, rest = _split_verb(args)
        with _only_first_prints():
            settings = read_settings(VERBS[name].settings, name, rest)
        VERBS[name].main(settings)


def _split_verb(args: list[str]) -> tuple[str, list[str]]:
    for words in (2, 1):
        name = " ".join(args[:words])
        if name in VERBS:
            return name, args[words:]
    if args[0] not in SECOND:
        if said := verb_elsewhere(args[0]):
            raise InputError(said)
        known = did_you_mean(args[0], {name.split()[0] for name in VERBS})
        raise InputError(f"unknown verb {args[0]!r}{known}{'' if known.endswith('?') else '.'} {SEE_NOT_HERE}")
    if args[0] == "inspect" and (now := new_form(args[1:], _second_words("inspect"))):
        raise InputError(now)
    if args[1:] and not args[1].startswith("-"):
        if args[0] == "train" and (said := verb_elsewhere(args[1], what="task")):
            raise InputError(said)
        raise InputError(
            f"unknown {SECOND[args[0]]} {args[1]!r}. Choose from {', '.join(_second_words(args[0]))}. {SEE_NOT_HERE}"
        )
    raise InputError(
        f"glassformer {args[0]} needs a {SECOND[args[0]]}. Choose from\n\n{_listed(_second_words(args[0]))}"
    )


def _second_words(first: str) -> dict[str, str]:
    """The second words of the verbs that begin with this word, with their help."""
    return {name.split()[1]: verb.help for name, verb in VERBS.items() if name.startswith(f"{first} ")}


def _overview() -> str:
    """The overview of all verbs, one line each; verbs with the same first word share a line."""
    lines = {}
    for name, verb in VERBS.items():
        first = name.split()[0]
        if len(_second_words(first)) > 1:
            lines[f"{first} {SECOND[first].upper()}"] = ", ".join(_second_words(first))
        else:
            lines[name] = verb.help
    return USAGE.format(version=__version__, verbs=_listed(lines))


def _choices(first: str) -> str:
    second = SECOND[first]
    usage = f"glassformer {first} {second.upper()}"
    return f"usage: {usage} [flags]\n\n{_listed(_second_words(first))}\n\n  {usage} --help    the flags of a {second}\n"


def _listed(lines: Mapping[str, str]) -> str:
    width = max(map(len, lines)) + 3
    return "\n".join(f"  {name:{width}}{text}" for name, text in lines.items())


def _take_flag(args: list[str], flag: str) -> bool:
    if flag in args:
        args.remove(flag)
        return True
    return False
