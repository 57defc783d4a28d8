"""Runs a tokenizer's rules or a chat template on a few short texts, in a separate process for `trial.py`.

Run by its path, without torch and site packages, so that it starts in a fifth of a second. Reads one request as JSON
from standard input. Prints the name of each trial before it starts, and `done` at the end, so that the last line
says what the process did not survive.
"""

import json
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TEXT_LENGTH = 1000  # characters of a text
GROWTH = 64  # all tokens together may be this many times as long as the text
TEXT_CHARACTERS = "aZ 1\n\t.-'_é가!"
EMPTY_MODEL = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}
CONVERSATIONS = (
    [{"role": "user", "content": "Hi"}],
    [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is 1 + 1?"},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": "And 2 + 2?"},
    ],
)


def main() -> None:
    request = json.load(sys.stdin)
    limit(request["seconds"], request["bytes"])
    sys.path[:] = request["path"]
    if "template" in request:
        say("it")
        try_template(request["template"], request["package"])
    else:
        for name, rule in request["rules"].items():
            say(name)
            try_rule(name, rule)
    say("done")


def say(text: str) -> None:
    print(text, flush=True)


def limit(seconds: int, size: int) -> None:
    """Limits the time and memory of this process; where the system cannot, the caller watches the clock."""
    try:
        import resource
    except ImportError:
        return
    for kind, most in ((resource.RLIMIT_AS, size), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_CORE, 0)):
        try:
            resource.setrlimit(kind, (most, most))
        except (ValueError, OSError):
            continue


def try_rule(name: str, rule: Any) -> None:
    """Tries one step of a tokenizer alone, without its vocabulary."""
    import tokenizers

    whole = {"version": "1.0", "added_tokens": [], "model": EMPTY_MODEL, name: rule}
    backend = tokenizers.Tokenizer.from_str(json.dumps(whole))
    step: Any = getattr(backend, name)
    for text in texts_for(json.dumps(rule, ensure_ascii=False)):
        if name == "normalizer":
            made = len(step.normalize_str(text))
        elif name == "pre_tokenizer":
            made = sum(len(part) for part, _ in step.pre_tokenize_str(text))
        else:
            made = len(step.decode(list(text)))
        if made > GROWTH * TEXT_LENGTH:
            say(f"grows {made}")
            sys.exit(1)


def texts_for(rule: str) -> Iterator[str]:
    """Long runs of one character or word, common ones and those in the rule, on which a backtracking pattern takes
    forever. After a run comes a character that does not match, then all characters of the rule, because a pattern
    may skip a text that lacks one it needs."""
    signs = dict.fromkeys([*TEXT_CHARACTERS, *(sign for sign in rule if sign.isprintable())])
    words = dict.fromkeys("".join(sign if sign.isalnum() else " " for sign in rule).split())
    tail = f"\x00!{''.join(signs)[:80]}{' '.join(words)[:80]}"
    for part in [*list(signs)[:60], *[word for word in words if 1 < len(word) < 20][:20]]:
        run = part * (TEXT_LENGTH // len(part))
        yield run
        yield f"{run}{tail}"


def try_template(template: str, package: str) -> None:
    """Tries a chat template on short conversations. It may refuse them."""
    # The package on disk, without the imports of its __init__.
    stub = types.ModuleType("glassformer.text")
    stub.__path__ = [str(Path(package) / "text")]
    sys.modules[stub.__name__] = stub
    from glassformer.text.chat import render
    from glassformer.text.sandbox import ExhaustedError

    for messages in CONVERSATIONS:
        for prompt in (True, False):
            variables = {name: f"<{name}>" for name in ("bos_token", "eos_token", "pad_token", "unk_token")}
            try:
                render(template, messages, add_generation_prompt=prompt, variables=variables)
            except ExhaustedError as error:
                say(f"exhausts {error}")
                sys.exit(1)
            except Exception:  # reported when it is used
                continue


if __name__ == "__main__":
    main()
