"""Tries untrusted tokenizer rules and chat templates once before use, in a separate process with limited time and
memory.

A `tokenizer.json` may hold any regular expression, and a `chat_template` any Jinja program. Neither can be interrupted
while it runs, and either may take unlimited time or memory. So unknown ones are tried when a folder is loaded
(`trial_child.py`), which takes a fifth of a second; those of the usual families are known and not tried.

The trial uses short texts that make such rules slow. It does not find a pattern that is slow only with other texts, or
one whose time grows with the square of the text's length, as that of some usual patterns does. A template is also
limited wherever it runs (`sandbox.py`).
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from glassformer.errors import InputError
from glassformer.schema import shown

CPU_SECONDS, PATIENCE = 2, 20  # seconds of computing; seconds of waiting on a busy machine
STARVED = 1.0  # seconds of computing: with less, the process was not scheduled, and the trial is inconclusive
MEMORY = 1 << 30  # bytes, including Python and its libraries
MAX_TEMPLATE = 1 << 18  # characters
MAX_STEPS, MOST_PIECES = 64, 64  # of the rules; tokens and texts added to a text
CHILD = Path(__file__).with_name("trial_child.py")

# The steps of a tokenizer that a file can make slow; its vocabulary cannot.
STEPS = ("normalizer", "pre_tokenizer", "decoder")
CONTRACTIONS = r"'s|'t|'re|'ve|'m|'ll|'d"
LETTERS_PATTERN = r"[^\r\n\p{L}\p{N}]?\p{L}+"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
OPTIONAL_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
# The patterns of the usual families: sentencepiece's spaces, GPT-2, GPT-4, GPT-4o, Llama 3, Qwen, DeepSeek, Falcon,
# BLOOM, Mistral NeMo, CLIP.
KNOWN_PATTERNS = {
    *(
        " {2,}",
        "^ +| +$",
        r" {2,}|\s+$",
        r"\s+",
        r"\s+$",
        "▁",
        " ",
        r"\p{N}{1,3}",
        r"\p{N}",
        "[0-9][0-9][0-9]",
        "[0-9]",
    ),
    *(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[一-龥ࠀ-一가-퟿]+", r"[一-龥぀-ゟ゠-ヿ]+", r"[^\n]+|[\n]+"),
    rf"{CONTRACTIONS}| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+",
    rf"(?i:{CONTRACTIONS})|{LETTERS_PATTERN}|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{SPACES}",
    rf"(?i:{CONTRACTIONS})|{LETTERS_PATTERN}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{SPACES}",
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{OPTIONAL_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{OPTIONAL_CONTRACTION}|\p{{N}}{{1,3}}|"
    rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{SPACES}",
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+"
    rf"[\r\n/]*|{SPACES}",
    r" ?[^(\s|[.,!?…。，、।۔،])]+",
    rf"<\|startoftext\|>|<\|endoftext\|>|{CONTRACTIONS}|[\p{{L}}]+|[\p{{N}}]|[^\s\p{{L}}\p{{N}}]+",
}
# Constructs that can make a template slow with a short conversation; most templates have none.
RISKY = re.compile(r"\*|range|recursive|macro|lipsum|center|format|indent|batch|just|zfill|wrap|expandtabs|\d{5}")
MAX_LOOPS = 8


def check_rules(file: Path, content: bytes) -> None:
    """Tries the rules of a `tokenizer.json`, unless all of them are known."""
    sections = sections_of(file, content)
    for rule in sections.get("post_processor", ()):
        count = sum(len(pairs) for pairs in nested_values(rule) if is_piece(pairs))
        if count > MOST_PIECES:
            raise InputError(
                f"{file}: its post_processor adds {count:,} tokens and texts to a text: expected at most "
                f"{MOST_PIECES}. Download the tokenizer from a source you trust"
            )
    unknown = {
        name: sections[name][-1] for name in STEPS if any(not is_known_step(rule) for rule in sections.get(name, ()))
    }
    if unknown:
        rules = {name: json_value(rule) for name, rule in unknown.items()}
        failed = run_trial(json.dumps({"rules": rules}))
        if failed:
            raise InputError(f"{file}: its {failed}. Download the tokenizer from a source you trust")


def check_template(place: str, template: str) -> None:
    """Tries a chat template, unless nothing in it could be slow."""
    if len(template) > MAX_TEMPLATE:
        raise InputError(
            f"{place} has {len(template):,} characters: expected at most {MAX_TEMPLATE:,}. Is it a chat template?"
        )
    loops = len(re.findall(r"\bfor\b", template))
    if loops > MAX_LOOPS or RISKY.search(template):
        failed = run_trial(json.dumps({"template": template}))
        if failed:
            raise InputError(f"{place}: {failed}. Download the template from a source you trust, or remove it")


@cache
def run_trial(request: str) -> str:
    """What is wrong with rules or with a template, in words; empty if nothing is."""
    limits = {"seconds": CPU_SECONDS, "bytes": MEMORY, "path": sys.path, "package": str(CHILD.parent.parent)}
    command = [sys.executable, "-I", "-S", "-B", str(CHILD)]
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false"}
    before = computed()
    try:
        child = subprocess.run(
            command, input=json.dumps({**json.loads(request), **limits}).encode(), capture_output=True,
            timeout=PATIENCE, check=False, env=environment,
        )  # fmt: skip
        said, code, errors = (
            child.stdout.decode().split("\n"),
            child.returncode,
            child.stderr.decode("utf-8", "replace"),
        )
    except subprocess.TimeoutExpired as error:
        if computed() - before < STARVED:
            return ""
        said, code, errors = (error.stdout or b"").decode().split("\n"), None, ""
    except OSError:  # no process can be started here
        return ""
    tried, *rest = [line for line in said if line][::-1] or [""]
    if tried == "done" or not tried:  # or it could not start, which says nothing about the rules
        return ""
    if tried.startswith(("grows", "exhausts")):
        how = tried.partition(" ")[2]
        return f"{rest[0]} turns 1,000 characters into {how}" if tried.startswith("grows") else how
    short = "with a text of 1,000 characters" if "rules" in request[:10] else "with a short conversation"
    if code is None or -(code or 0) in (9, 24):  # killed, or out of time
        return f"{tried} takes more than {CPU_SECONDS} seconds {short}"
    if "MemoryError" in errors or "memory allocation" in errors or code in (-6, -11):
        return f"{tried} takes more than {MEMORY / 1e9:.0f} GB of memory {short}"
    lines = errors.strip().splitlines()
    return f"{tried} cannot be used ({shown(lines[-1] if lines else code)[:200]})"


def computed() -> float:
    """CPU seconds of finished child processes; infinite if unknown."""
    try:
        import resource
    except ImportError:
        return time.monotonic()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class KeyValuePairs(list[tuple[str, Any]]):
    """A JSON object with all its keys, including duplicates."""


def sections_of(file: Path, content: bytes) -> dict[str, list[Any]]:
    """The steps of a `tokenizer.json` by name, without its vocabulary, which is nearly all of the file.

    The vocabulary comes last in files that the library wrote. If it does not, or if a name could be hidden by escapes,
    the whole file is read.
    """
    decoder = json.JSONDecoder(object_pairs_hook=KeyValuePairs)
    try:
        text = content.decode("utf-8")
        found, end = top_level(text, decoder)
        if end is not None and may_hide_steps(text, end):
            found = decoder.decode(text)
    except RecursionError:
        raise InputError(f"{file} is nested too deeply to be a tokenizer. Fetch it again") from None
    except (ValueError, IndexError, StopIteration) as error:
        raise InputError(f"{file}: its tokenizer cannot be read ({shown(str(error))}). Is the file complete?") from None
    sections: dict[str, list[Any]] = {}
    for name, value in found if isinstance(found, list) else ():
        sections.setdefault(name, []).append(value)
    return sections


def top_level(text: str, decoder: json.JSONDecoder) -> tuple[KeyValuePairs, int | None]:
    """The entries before the model, and where that begins; None if there is none."""
    found, at = KeyValuePairs(), skip_blank(text, 0)
    if text[at] != "{":
        raise ValueError("expected an object")
    at = skip_blank(text, at + 1)
    while text[at] != "}":
        name, at = decoder.raw_decode(text, at)
        at = skip_blank(text, at)
        if not isinstance(name, str) or text[at] != ":":
            raise ValueError(f"expected a name and a colon at {at}")
        at = skip_blank(text, at + 1)
        if name == "model":
            return found, at
        value, at = decoder.raw_decode(text, at)
        found.append((name, value))
        at = skip_blank(text, at)
        at = skip_blank(text, at + 1) if text[at] == "," else at
    return found, None


def skip_blank(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


def may_hide_steps(text: str, at: int) -> bool:
    """Whether the name of a step follows this place, as a key whose value is not a number."""
    for name in (*STEPS, "post_processor"):
        place = text.find(f'"{name}"', at)
        while place >= 0:
            behind = text[place + len(name) + 2 : place + len(name) + 50].lstrip()
            if behind.startswith(":") and not behind[1:].lstrip().startswith(tuple("-0123456789")):
                return True
            place = text.find(f'"{name}"', place + 1)
    place = text.find("\\u00", at)
    while place >= 0:
        if text[place + 4] in "234567":  # an ASCII letter, which nobody escapes
            return True
        place = text.find("\\u00", place + 1)
    return False


def nested_values(rule: Any) -> Iterator[Any]:
    """A JSON value and everything inside it."""
    waiting = [rule]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, KeyValuePairs):
            waiting += [value for _, value in part]
        elif isinstance(part, list):
            waiting += part


def is_piece(part: Any) -> bool:
    """Whether this is a list of tokens and texts of a template."""
    kinds = ("SpecialToken", "Sequence")
    return isinstance(part, list) and not isinstance(part, KeyValuePairs) and any(
        isinstance(entry, KeyValuePairs) and any(key in kinds for key, _ in entry) for entry in part
    )  # fmt: skip


def is_known_step(rule: Any) -> bool:
    """Whether a step is fast with any text: only known patterns, and nothing that makes the text longer."""
    objects = [part for part in nested_values(rule) if isinstance(part, KeyValuePairs)]
    if len(objects) > MAX_STEPS:
        return False
    for part in objects:
        entries: Mapping[str, Any] = dict(part)
        if len(entries) < len(part) or any(key == "Regex" and value not in KNOWN_PATTERNS for key, value in part):
            return False
        pattern, content = entries.get("pattern"), entries.get("content", "")
        literal = dict(pattern).get("String") if isinstance(pattern, KeyValuePairs) else None
        room = len(literal) if isinstance(literal, str) else 1
        if pattern is not None and isinstance(content, str) and len(content) > max(1, room):
            return False
        if len(str(entries.get("prepend", ""))) > 1:
            return False
    return True


def json_value(value: Any) -> Any:
    """As plain JSON values."""
    if isinstance(value, KeyValuePairs):
        return {key: json_value(entry) for key, entry in value}
    return [json_value(entry) for entry in value] if isinstance(value, list) else value
