"""A Jinja sandbox for untrusted templates: they read only their input, within limits of time and memory.

Jinja's own sandbox keeps a template away from Python. `BoundedEnvironment` also counts what a template produces, stops
it after some seconds, and refuses an operation by the sizes of its operands before it runs:

    loops       every iteration and every call checks the clock
    + * ** % ~  joined, repeated or formatted values and slices count by their length
    calls       methods, macros and filters: by the sizes of their arguments, and by their result
    output      the whole text, and nested lists that share parts

A single Python operation on values of bounded size cannot be interrupted, such as comparing two lists that share parts:
a malicious template can still take long. `trial.py` finds it if it does so for any conversation.
"""

import functools
import operator
import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from glassformer.errors import InputError

TEMPLATE_TIMEOUT = 5.0  # time limit for one conversation; usual templates take milliseconds
MAX_OUTPUT = 1 << 27  # characters and items that a template may produce in total
MAX_ITEMS = 1 << 20  # of nested lists that are written as text
MAX_BITS = 1 << 14  # of a whole number
WIDTH = re.compile(r"\d{6}")  # width of a field in a format


class ExhaustedError(InputError):
    """A template that exceeded its limits."""


class Generation(Extension):
    """`{% generation %}` marks the assistant's words for training; it adds nothing to the text."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """The environment of one rendering; its clock starts when it is created."""

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols], finalize=check_nested
        )
        self.until, self.made, self.turns = time.monotonic() + TEMPLATE_TIMEOUT, 0, 0
        self.filters = {name: self.bounded(function) for name, function in self.filters.items()}
        self.concat = self.joined_parts  # type: ignore[method-assign]
        del self.globals["lipsum"]

    # What compiled templates call

    def turn(self) -> None:
        """Checks the clock now and then."""
        self.turns += 1
        if self.turns % 64 == 0 and time.monotonic() > self.until:
            raise ExhaustedError(f"the chat template takes longer than {TEMPLATE_TIMEOUT:g} seconds")

    def count(self, size: int) -> None:
        """Counts what was produced or is about to be."""
        self.made += size
        if self.made > MAX_OUTPUT:
            raise ExhaustedError(f"the chat template makes more than {MAX_OUTPUT:,} characters")

    def joined(self, *parts: Any) -> str:
        """The operator ~."""
        return self.joined_parts([str(check_nested(part)) for part in parts])

    def joined_parts(self, parts: Iterable[str]) -> str:
        found = []
        for part in parts:
            self.turn()
            self.count(len(part))
            found.append(part)
        return "".join(found)

    def sliced(self, value: Any, *ends: Any) -> Any:
        part = value[slice(*ends)]
        self.count(value_size(part))
        return part

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        self.turn()
        if operator == "%" and isinstance(left, str):
            self.check_format(left, [left, right])
        elif isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length() * (abs(right) if operator == "**" else 1) + right.bit_length()
            if bits > MAX_BITS:
                raise ExhaustedError(f"the chat template makes a number of more than {MAX_BITS:,} bits")
        elif operator == "*":
            self.count(times(left, right))
        elif operator == "+":
            self.count(value_size(left) + value_size(right))
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """Every call of a template, including methods."""
        __self.turn()
        method = getattr(__obj, "__wrapped__", __obj)  # Jinja's replacement of str.format
        owner, given = getattr(method, "__self__", None), [*args, *kwargs.values()]
        if isinstance(owner, str):
            if getattr(method, "__name__", "") in ("format", "format_map"):
                __self.check_format(owner, [owner, *given])
            __self.check_sizes(owner, given)
        result = super().call(__context, __obj, *args, **kwargs)
        __self.count(value_size(result))
        return result

    def bounded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps a filter: checks its arguments and counts its result."""

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            self.turn()
            given = [value for value in (*args, *kwargs.values()) if isinstance(value, COUNTABLE)]
            for value in given:
                check_nested(value)
            if given:
                self.check_sizes(given[0], given[1:])
                if isinstance(given[0], str) and "%" in given[0]:
                    self.check_format(given[0], given)
            result = function(*args, **kwargs)
            self.count(value_size(result))
            return result

        return checked

    def check_sizes(self, value: Any, given: Sequence[Any]) -> None:
        """Refuses calls whose result could be far larger than their arguments, such as replacing every letter by a
        text."""
        largest = max((amount_of(other) for other in given), default=0)
        if times(value, largest) > MAX_OUTPUT:
            raise ExhaustedError(f"the chat template makes more than {MAX_OUTPUT:,} characters")

    def check_format(self, form: str, given: Sequence[Any]) -> None:
        """Refuses fields of a hundred thousand characters and more."""
        variable = "*" in form or ":{" in form
        texts = [form, *(str(value) for value in given if variable and isinstance(value, str | int))]
        several = [item for value in given if isinstance(value, tuple | list) for item in value]
        texts += [str(item) for item in several if variable and isinstance(item, str | int)]
        if any(map(WIDTH.search, texts)):
            raise ExhaustedError("the chat template formats a field of more than 99,999 characters")

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        return Bounds(self).visit(super()._parse(source, name, filename))


COUNTABLE = (str, list, tuple, dict, int)


class Bounds(NodeTransformer):
    """Adds a clock check to every loop, and replaces ~ and slices by our functions."""

    def __init__(self, environment: BoundedEnvironment) -> None:
        self.environment = environment

    def call(self, name: str, given: list[nodes.Expr], line: int) -> nodes.Call:
        made = nodes.Call(nodes.EnvironmentAttribute(name), given, [], None, None)
        made.set_lineno(line, override=False)
        made.set_environment(self.environment)
        return made

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        turn = nodes.ExprStmt(self.call("turn", [], node.lineno), lineno=node.lineno)
        turn.set_environment(self.environment)
        node.body.insert(0, turn)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return self.call("joined", list(node.nodes), node.lineno)

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if not isinstance(node.arg, nodes.Slice):
            return node
        ends = [end or nodes.Const(None) for end in (node.arg.start, node.arg.stop, node.arg.step)]
        return self.call("sliced", [node.node, *ends], node.lineno)


def value_size(value: Any) -> int:
    """The size of a value; a number counts little."""
    return len(value) if isinstance(value, str | list | tuple | dict) else 1


def amount_of(value: Any) -> int:
    """The size that a value may lead to: a number counts as itself."""
    return abs(value) if isinstance(value, int) else value_size(value)


def times(left: Any, right: Any) -> int:
    return operator.mul(1 + amount_of(left), 1 + amount_of(right))


def check_nested(value: Any) -> Any:
    """Checks a value that will be written as text; a list counts every time it occurs."""
    waiting, seen = [value], 0
    while waiting:
        some = waiting.pop()
        if isinstance(some, dict):
            waiting += some.values()
            seen += len(some)
        elif isinstance(some, list | tuple):
            waiting += some
            seen += len(some)
        if seen > MAX_ITEMS:
            raise ExhaustedError(f"the chat template writes a list of more than {MAX_ITEMS:,} items")
    return value
