"""Chat templates: a conversation as the one text a model was trained to continue.

    [{"role": "user", "content": "Hi"}]  ->  "<|user|>Hi<|end|><|assistant|>"

The template is a Jinja program from the model's folder, so it runs in a sandbox (`sandbox.py`), where it can read what
it is given and nothing else, and comes to an end.
"""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from glassformer.errors import InputError

ROLES = "a list of messages like {'role': 'user', 'content': '...'}"


def render(
    template: str,
    messages: Sequence[Mapping[str, Any]],
    *,
    add_generation_prompt: bool,
    variables: Mapping[str, Any],
) -> str:
    """The text of a conversation; with `add_generation_prompt` it ends where the assistant's answer begins."""
    # Jinja comes with torch; it is imported here because few calls need it.
    from glassformer.text.sandbox import BoundedEnvironment, ExhaustedError

    check_messages(messages)
    environment = BoundedEnvironment()
    environment.filters["tojson"] = environment.bounded(to_json)
    environment.globals |= {"raise_exception": refuse, "strftime_now": strftime_now}
    try:
        given = {"tools": None, "documents": None, "add_generation_prompt": add_generation_prompt, **variables}
        return environment.from_string(template).render(messages=messages, **given)
    except InputError:
        raise
    except MemoryError:
        raise ExhaustedError("the chat template takes more memory than there is") from None
    except Exception as error:  # a program of a stranger may fail in any way
        raise InputError(f"the chat template cannot write these messages: {error or type(error).__name__}") from None


def check_messages(messages: Sequence[Mapping[str, Any]]) -> None:
    if isinstance(messages, (str, Mapping)) or not messages:
        raise InputError(f"messages {messages!r}: expected {ROLES}")
    for message in messages:
        if not isinstance(message, Mapping) or "role" not in message:
            raise InputError(f"message {message!r} has no role: expected {ROLES}")


def refuse(reason: str) -> None:
    """What a template calls when a conversation is not one it was made for."""
    raise InputError(f"the chat template refuses these messages: {reason}")


def to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **more: Any) -> str:
    """Jinja's own filter would escape signs of HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **more)


def strftime_now(form: str) -> str:
    if re.search(r"\d{3}", form):  # a width, for the library of C: %9999999d fills the memory
        raise InputError(f"the chat template asks for the time as {form!r:.60}, which is no format of a date")
    return datetime.now().strftime(form)
