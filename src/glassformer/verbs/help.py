"""The page that `--help` prints: the flags of a verb under headings, the most important first.

The text of a flag is the string under its field. A plain default value is added to it. A default that depends on the
data, the model or the machine is described in the string itself.
"""

import ast
import inspect
import shutil
import textwrap
from dataclasses import MISSING, Field, fields
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from tyro.conf import Positional

from glassformer.settings import Settings

MAX_PLAIN_FLAGS = 12  # a verb with at most this many flags needs no headings
COLUMN = 28  # where the descriptions start
MAX_WIDTH = 100  # maximum width of the page

START, MORE = "start here", "more"
HEADINGS = {
    START: "data file valid test out resume minutes steps preset init task split json",
    "data": "source_column target_column text_column text_columns label_column image_column caption_column "
    "question_column answer_column id_column columns label_separator reads documents valid_fraction splits examples "
    "questions language header delimiter quotes encoding sheet max_line_mb fill date_format decimal calendar cut size "
    "mode grey augment erase truncate skip_empty skip_corrupt max_len context accept_changed_data overwrite",
    "tokenizer": "tokenizer tokenizer_from vocab_size subword_dropout",
    "model": "head d_model num_layers num_heads d_ff norm_order qk_norm dropout drop_path pooling patch stride length "
    "horizon instance_norm revision",
    "batches": "batch_size batch_tokens accumulate",
    "training": "optimizer rate schedule warmup final_rate weight_decay beta1 beta2 clip loss label_smoothing "
    "class_weights mask_fraction whole_words r_drop ema average",
    "evaluation and checkpoints": "eval_every metric patience checkpoint_every keep tensorboard bleu_tokenize "
    "lowercase sample overlap period",
    "prediction": "chat question labels source_language target_language guesses picture",
    "generation": "max_new_tokens num_beams length_penalty do_sample greedy temperature top_k top_p",
    "machine": "device engine precision compile shard threads seed",
}
VALUES = {int: "N", float: "NUMBER", str: "TEXT", Path: "PATH"}
FIELD_VALUES = {"init": "MODEL", "tokenizer_from": "MODEL"}  # clearer than TEXT
CONFIG = "Settings can also come from a TOML file: --config FILE.toml. Flags override it."


class Entry(NamedTuple):
    """An argument or a flag: how to type it, and what it does."""

    name: str
    typed: str
    text: str
    is_flag: bool


def help_page(takes: type[Settings], verb: str, given: Settings | None = None) -> str:
    """The help of `glassformer VERB`. If settings of a file or a run are `given`, they are shown as the defaults."""
    entries = entries_of(takes, given)
    arguments = "".join(f" {entry.typed}" for entry in entries if not entry.is_flag)
    about = [" ".join(paragraph.split()) for paragraph in inspect.cleandoc(takes.__doc__ or "").split("\n\n")]
    lines = [f"usage: glassformer {verb}{arguments} [flags]"]
    for paragraph in about:
        lines += ["", *wrapped(paragraph, width())]
    for heading, group in grouped(entries).items():
        lines += ["", f"{heading}:"]
        lines += [line for entry in group for line in written(entry)]
    return "\n".join([*lines, "", *wrapped(CONFIG, width()), ""])


def grouped(entries: list[Entry]) -> dict[str, list[Entry]]:
    """The entries by heading, arguments first."""
    if len(entries) <= MAX_PLAIN_FLAGS:
        return {"flags" if all(entry.is_flag for entry in entries) else "arguments and flags": entries}
    groups = {START: [entry for entry in entries if not entry.is_flag]}
    flags = {entry.name: entry for entry in entries if entry.is_flag}
    for heading, names in HEADINGS.items():
        groups[heading] = [*groups.get(heading, []), *(flags.pop(name) for name in names.split() if name in flags)]
    groups[MORE] = list(flags.values())
    return {heading: group for heading, group in groups.items() if group}


def entries_of(takes: type[Settings], given: Settings | None) -> list[Entry]:
    """One entry per field of these settings: first the arguments, then the flags."""
    texts, hints = texts_under_fields(takes), get_type_hints(takes, include_extras=True)
    entries = []
    for field in fields(takes):
        kind, notes = hints[field.name], list[Any]()
        if get_origin(kind) is Annotated:
            kind, *notes = get_args(kind)
        default = field.default if given is None or field.name in given.left_open else getattr(given, field.name)
        is_flag = Positional not in notes
        typed = flag_of(field, kind, default, notes) if is_flag else argument_of(field, kind)
        text = texts.get(field.name, "")
        said = "" if "(default:" in text else default_in_words(default)
        entries.append(Entry(field.name, typed, f"{text.removesuffix('.')} {said}." if said else text, is_flag))
    return sorted(entries, key=lambda entry: entry.is_flag)


def texts_under_fields(takes: type[Settings]) -> dict[str, str]:
    """The string under each field, including those of base classes."""
    texts = {}
    for kind in reversed([base for base in takes.__mro__ if issubclass(base, Settings)]):
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        assert isinstance(tree, ast.ClassDef)
        for field, below in pairwise(tree.body):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    texts[name] = " ".join(text.split())
    return texts


def flag_of(field: Field[Any], kind: Any, default: Any, notes: list[Any]) -> str:
    """`--steps N`, `--json`, `--header, --no-header`, `--data PATH [PATH ...]`."""
    name = next((note.name for note in notes if getattr(note, "name", None)), field.name).replace("_", "-")
    if kind == bool | None:
        return f"--{name}, --no-{name}"
    if kind is bool:
        return f"--no-{name}" if default is True else f"--{name}"
    value = FIELD_VALUES.get(field.name) or value_of_kind(kind)
    return f"--{name} {value} [{value} ...]" if get_origin(kind) is tuple else f"--{name} {value}"


def argument_of(field: Field[Any], kind: Any) -> str:
    """`RUN`, `[NAME]`, `[TEXT ...]`."""
    name = field.name.upper()
    if get_origin(kind) is tuple:
        return f"[{name.removesuffix('S')} ...]"
    return name if field.default is MISSING else f"[{name}]"


def value_of_kind(kind: Any) -> str:
    """The placeholder for a value of this type: `N`, `{a,b}`; an optional type has that of its value."""
    if get_origin(kind) is tuple:
        return value_of_kind(get_args(kind)[0])
    if get_origin(kind) is Literal:
        return "{" + ",".join(map(str, get_args(kind))) + "}"
    if kind in VALUES:
        return VALUES[kind]
    (rest,) = (part for part in get_args(kind) if part is not type(None))
    return value_of_kind(rest)


def default_in_words(default: Any) -> str:
    """`(default: 64)`; empty for a switch and for a setting without a default."""
    if default is MISSING or default is None or isinstance(default, bool) or default in ((), ""):
        return ""
    values = default if isinstance(default, tuple) else (default,)
    return f"(default: {' '.join(f'{one:g}' if isinstance(one, float) else str(one) for one in values)})"


def written(entry: Entry) -> list[str]:
    """The lines of an entry, with its text beside it, or below if the entry is long."""
    left = f"  {entry.typed}"
    text = wrapped(entry.text, width() - COLUMN)
    first = [f"{left:{COLUMN}}{text.pop(0)}"] if len(left) < COLUMN - 1 and text else [left]
    return first + [" " * COLUMN + line for line in text]


def wrapped(text: str, columns: int) -> list[str]:
    return textwrap.wrap(text, columns, break_on_hyphens=False)


def width() -> int:
    return max(COLUMN + 30, min(MAX_WIDTH, shutil.get_terminal_size().columns))
