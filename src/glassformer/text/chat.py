"""Chat templates: turn a conversation into the single text that a model was trained to continue.

    [{"role": "user", "content": "Hi"}]  ->  "<|user|>Hi<|end|><|assistant|>"

The template is a Jinja program from the model's folder, so it runs in a sandbox (`sandbox.py`): it can read only its
input, and its time and memory are limited.
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
    environment.globals |= {"raise_exception": raise_template_error, "strftime_now": strftime_now}
    try:
        given = {"tools": None, "documents": None, "add_generation_prompt": add_generation_prompt, **variables}
        return environment.from_string(template).render(messages=messages, **given)
    except InputError:
        raise
    except MemoryError:
        raise ExhaustedError("the chat template needs more memory than there is") from None
    except Exception as error:  # an untrusted program may fail in any way
        raise InputError(f"the chat template cannot render these messages: {error or type(error).__name__}") from None


def check_messages(messages: Sequence[Mapping[str, Any]]) -> None:
    if isinstance(messages, (str, Mapping)) or not messages:
        raise InputError(f"messages {messages!r}: expected {ROLES}")
    for message in messages:
        if not isinstance(message, Mapping) or "role" not in message:
            raise InputError(f"message {message!r} has no role: expected {ROLES}")


def raise_template_error(reason: str) -> None:
    """Called by a template that does not support a conversation."""
    raise InputError(f"the chat template refuses these messages: {reason}")


def to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **more: Any) -> str:
    """Replaces Jinja's own filter, which would escape HTML characters."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **more)


def strftime_now(form: str) -> str:
    if re.search(r"\d{3}", form):  # a width for C's strftime: %9999999d would fill the memory
        raise InputError(f"the chat template asks for the time as {form!r:.60}, which is not a date format")
    return datetime.now().strftime(form)
