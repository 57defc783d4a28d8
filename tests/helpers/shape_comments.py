"""Checks shape comments, such as `x = self.embed(ids)  # (B, T, D)`, against the tensors of running code.

`read_claims` finds the comments and their subjects; a `Checker` then follows the code line by line. The rules:

- A comment describes the value of its line: the target of an assignment, a returned value, an argument on its own line,
  or a field of a class. A comment that starts like a shape and describes none of these is an error.
- Every letter is in the legend. A scenario gives its size, or several possible sizes: for a length, or for the batch of
  a series, whose channels become rows. Such a letter is fixed at its first use in a call, until that call returns. Its
  value in `__init__` stays fixed for that object.
- B may be 1 if all rows are the same, such as the positions of a batch without padding. No other letter may be 1.
- None is accepted if the line or the annotation mentions None, or if the comment itself does.
- It is not enough that a comment was never wrong. Each of its shapes must match exactly, with B in full, in some call
  where all known letters are different; otherwise it could say S and mean T. An unreached comment is an error.
"""

import ast
import itertools
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from torch import Tensor

MAY_BE_OPEN = frozenset("TSEW")  # a scenario may leave these open: lengths, and widths that differ between parts

SIZE = r"(?:[A-Z]|\d+)"
AXIS = rf"\.\.\.|{SIZE}(?:[-+*/]{SIZE})*"
SHAPE = r"(?:\([^()]*\)|None)"
SHAPES = rf"{SHAPE}(?:, {SHAPE})*"

MISSING = object()  # a field of an unfinished object

Axes = list[str] | None  # of one tensor; None where the comment says None


@dataclass(eq=False)
class Subject:
    """The value that a comment describes."""

    kind: Literal["line", "return", "argument", "field"]
    owner: str | int  # the class of a field; otherwise the first line of the function
    names: list[str]  # variables to look up; empty for a returned value
    may_be_none: bool
    lines: range = range(0)  # of the statement


@dataclass(eq=False)
class Claim:
    """A comment, and the result of its checks."""

    place: str
    text: str
    shapes: list[list[Axes]]  # the alternatives, each for one or several values
    about: Subject
    reached: bool = False
    unseen: set[int] = field(default_factory=set)  # alternatives that no tensor has matched yet
    lie: str = ""


def read_legend(docstring: str) -> frozenset[str]:
    """The letters of a table such as `B  batch    H  heads`."""
    return frozenset(re.findall(r"(?:^|\s{2,})([A-Z])  (?=\S)", docstring, re.MULTILINE))


def read_claims(path: Path, legend: frozenset[str]) -> tuple[list[Claim], list[str]]:
    """The shape comments of a file, and errors for those that cannot be checked."""
    claims: list[Claim] = []
    faults: list[str] = []
    subjects = find_subjects(path)
    with tokenize.open(path) as file:
        comments = [token for token in tokenize.generate_tokens(file.readline) if token.type == tokenize.COMMENT]
    for comment in comments:
        place = f"{path.name}:{comment.start[0]}"
        subject = subjects.get(comment.start[0])
        for part in map(str.strip, comment.string.split("#")):  # "# (B, T)  # fmt: skip" is one token
            if not re.match(r"(None, ?)*\(", part):
                continue
            text = said[0] if (said := re.match(rf"{SHAPES}(?:,? or {SHAPES})*", part)) else part
            shapes = [[split(shape) for shape in re.findall(SHAPE, one)] for one in re.split(",? or ", text)]
            axes = [axis for shape in itertools.chain(*shapes) for axis in shape or []]
            if not said or not all(re.fullmatch(AXIS, axis) for axis in axes):
                faults.append(f"{place}: {part!r} cannot be read as a shape")
            elif unknown := letters_of(axes) - legend:
                faults.append(f"{place}: {text} has {', '.join(sorted(unknown))}, which the legend does not know")
            elif subject is None:
                faults.append(f"{place}: {text} stands beside nothing that can be checked")
            else:
                claims.append(Claim(place, text, shapes, subject, unseen=set(range(len(shapes)))))
    return claims, faults


def split(shape: str) -> Axes:
    return None if shape == "None" else [axis.strip() for axis in shape[1:-1].split(",") if axis.strip()]


def letters_of(axes: list[str]) -> set[str]:
    return set(re.findall("[A-Z]", "".join(axes)))


def find_subjects(path: Path) -> dict[int, Subject]:
    """Subjects by the line of their comment, which is their last line."""
    subjects: dict[int, Subject] = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef):
            for entry in node.body:
                if isinstance(entry, ast.AnnAssign):
                    names = [ast.unparse(entry.target)]
                    subjects[last_line(entry)] = Subject("field", node.name, names, says_none(entry.annotation))
        elif isinstance(node, ast.FunctionDef):
            # A nested function comes later in the walk and overrides its own lines.
            subjects |= {last_line(part): subject for part in ast.walk(node) if (subject := of_statement(part, node))}
            subjects |= of_arguments(node)
    return subjects


def of_statement(node: ast.AST, function: ast.FunctionDef) -> Subject | None:
    if isinstance(node, ast.Return):
        may_be_none = says_none(node, function.returns)
        return Subject("return", first_line(function), [], may_be_none, range(node.lineno, last_line(node) + 1))
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [ast.unparse(target) for target in targets]
        return Subject("line", first_line(function), names, says_none(node), range(node.lineno, last_line(node) + 1))
    return None


def of_arguments(function: ast.FunctionDef) -> dict[int, Subject]:
    arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    ends = [last_line(arg) for arg in arguments]
    return {
        last_line(arg): Subject("argument", first_line(function), [arg.arg], says_none(arg))
        for arg in arguments
        if arg.lineno > function.lineno and ends.count(last_line(arg)) == 1
    }


def first_line(function: ast.FunctionDef) -> int:
    """The first line as in the code object: that of a decorator."""
    return min(node.lineno for node in (function, *function.decorator_list))


def last_line(node: ast.AST) -> int:
    return node.end_lineno  # type: ignore[attr-defined]


def says_none(*nodes: ast.AST | None) -> bool:
    inside = itertools.chain(*(ast.walk(node) for node in nodes if node is not None))
    return any(isinstance(node, ast.Constant) and node.value is None for node in inside)


class Checker:
    """Traces the code of some files while a scenario runs, and checks their comments."""

    def __init__(self, paths: list[Path], legend: frozenset[str]) -> None:
        self.claims: list[Claim] = []
        self.faults: list[str] = []
        self.files = {str(path) for path in paths}
        self.owned: dict[tuple[str, str | int], list[Claim]] = {}  # by file and owner
        self.fields: dict[type, list[Claim]] = {}  # cache of `fields_of`
        self.sizes: dict[str, set[int]] = {}
        self.settled: dict[int, tuple[object, dict[str, int]]] = {}  # by id, the letters of an object
        for path in paths:
            claims, faults = read_claims(path, legend)
            self.claims += claims
            self.faults += faults
            for claim in claims:
                self.owned.setdefault((str(path), claim.about.owner), []).append(claim)

    @contextmanager
    def watching(self, **sizes: int | set[int]) -> Iterator[None]:
        """Runs one scenario with these sizes of the letters."""
        self.sizes = {letter: size if isinstance(size, set) else {size} for letter, size in sizes.items()}
        for one, other in itertools.combinations(self.sizes, 2):
            # In self-attention, T and S may be equal; `is_apart` makes sure that they are not always.
            both = set() if {one, other} == {"T", "S"} else self.sizes[one] & self.sizes[other]
            assert not both, f"{one} and {other} can both be {both}: sizes must tell all letters apart"
        assert not any(1 in values for values in self.sizes.values()), "1 could be an axis that broadcasts"
        before = sys.gettrace()
        sys.settrace(self.trace)
        try:
            yield
        finally:
            sys.settrace(before)

    def verdict(self) -> list[str]:
        """All errors in the comments, after all scenarios."""
        missing = {False: "no scenario reaches it", True: "no scenario shows it with all letters apart, and B in full"}
        return self.faults + [
            f"{claim.place}: {claim.text}: {claim.lie or missing[claim.reached]}"
            for claim in self.claims
            if claim.lie or claim.unseen
        ]

    def trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        name = frame.f_code.co_filename
        # The __init__ of a dataclass is compiled from a string; fields are first seen there.
        if name in self.files or (name == "<string>" and frame.f_code.co_name == "__init__"):
            return Call(self, frame).trace
        return None

    def check(self, claim: Claim, what: str, value: Any, letters: dict[str, int]) -> None:
        """Checks a value against a claim; open letters are fixed to what fits."""
        claim.reached = True
        if value is None and claim.about.may_be_none:
            return
        for one_row, (number, shapes) in itertools.product((False, True), enumerate(claim.shapes)):
            values = [value] if len(shapes) == 1 else value
            found = self.fit(shapes, values, letters, one_row)
            if found is not None:
                letters.update(found)
                if not one_row and self.is_apart(letters):
                    claim.unseen.discard(number)
                return
        claim.lie = claim.lie or f"{what} was {describe(value)}, {self.describe_letters(claim, letters)}"

    def fit(self, shapes: list[Axes], values: Any, letters: dict[str, int], one_row: bool) -> dict[str, int] | None:
        """The letters if these values have these shapes, else None."""
        if not isinstance(values, tuple | list) or len(values) != len(shapes):
            return None
        found: dict[str, int] | None = letters
        for axes, value in zip(shapes, values, strict=True):
            if axes is None and value is None:
                continue
            if axes is None or not isinstance(value, Tensor):
                return None
            found = self.fit_one(["1" if axis == "B" and one_row else axis for axis in axes], value.shape, found)
            if found is None:
                return None
        return found

    def fit_one(self, axes: list[str], shape: tuple[int, ...], letters: dict[str, int]) -> dict[str, int] | None:
        if "..." in axes:
            start = axes.index("...")
            length = len(shape) - len(axes) + 1
            if length < 0:
                return None
            axes, shape = axes[:start] + axes[start + 1 :], shape[:start] + shape[start + length :]
        if len(axes) != len(shape):
            return None
        unknown = sorted(letters_of(axes) - letters.keys())
        choices = [self.sizes.get(letter, set(shape) if letter in MAY_BE_OPEN else set()) for letter in unknown]
        for choice in itertools.product(*choices):
            guess = letters | dict(zip(unknown, choice, strict=True))
            if all(eval(axis, {}, guess) == size for axis, size in zip(axes, shape, strict=True)):
                return guess
        return None

    def known(self, letters: Mapping[str, int]) -> dict[str, int]:
        """The known letters of a call: those with one size in this scenario, and those already fixed."""
        return {letter: next(iter(size)) for letter, size in self.sizes.items() if len(size) == 1} | dict(letters)

    def is_apart(self, letters: Mapping[str, int]) -> bool:
        sizes = self.known(letters).values()
        return 1 not in sizes and len(set(sizes)) == len(sizes)

    def describe_letters(self, claim: Claim, letters: Mapping[str, int]) -> str:
        choices = {letter: " or ".join(map(str, sorted(size))) for letter, size in self.sizes.items()}
        choices |= {letter: str(size) for letter, size in letters.items()}
        named = re.findall("[A-Z]", claim.text.replace("None", ""))
        return "where " + ", ".join(f"{letter} is {choices.get(letter, 'open')}" for letter in dict.fromkeys(named))

    def check_fields(self, value: object) -> None:
        for claim in self.fields_of(type(value)):
            for name in claim.about.names:
                held = getattr(value, name, MISSING)
                if held is not MISSING:
                    # Each field separately: one object may hold the lengths of source and target.
                    self.check(claim, f"{claim.about.owner}.{name}", held, {})

    def fields_of(self, kind: type) -> list[Claim]:
        if kind not in self.fields:
            places = [(getattr(sys.modules[base.__module__], "__file__", ""), base.__name__) for base in kind.__mro__]
            self.fields[kind] = [claim for place in places for claim in self.owned.get(place, ())]
        return self.fields[kind]


class Call:
    """One call of a function: its fixed letters and its current statement."""

    def __init__(self, checker: Checker, frame: FrameType) -> None:
        self.checker, self.name = checker, frame.f_code.co_name
        self.letters = dict(checker.settled.get(id(frame.f_locals.get("self")), (None, {}))[1])
        # A lambda or a comprehension has its own first line, so it is not mistaken for the statement around it.
        claims = checker.owned.get((frame.f_code.co_filename, frame.f_code.co_firstlineno), [])
        self.lines = {line: claim for claim in claims for line in claim.about.lines}
        self.at: Claim | None = None
        self.returning: Claim | None = None
        for claim in claims:
            if claim.about.kind == "argument":
                self.check_names(claim, frame)

    def trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            here = self.lines.get(frame.f_lineno)
            if here is not self.at:
                self.leave(frame)
                self.at = here
            if here is not None and here.about.kind == "return":
                self.returning = here  # until the call returns: a `with` around it exits first
        elif event == "exception":
            self.at = self.returning = None
        elif event == "return":
            self.leave(frame)
            if self.returning is not None:
                self.checker.check(self.returning, "what is returned", arg, self.letters)
            for value in list(frame.f_locals.values()):
                self.checker.check_fields(value)
            if self.name == "__init__" and self.letters:
                me = frame.f_locals["self"]
                self.checker.settled[id(me)] = (me, self.letters)  # keeps it alive, so that its id is not reused
        return self.trace

    def leave(self, frame: FrameType) -> None:
        """Checks a statement when the next one begins: only then are its variables set."""
        if self.at is not None and self.at.about.kind == "line":
            self.check_names(self.at, frame)
        self.at = None

    def check_names(self, claim: Claim, frame: FrameType) -> None:
        for name in claim.about.names:
            self.checker.check(claim, name, eval(name, frame.f_globals, frame.f_locals), self.letters)


def describe(value: Any) -> str:
    if isinstance(value, tuple | list):
        return ", ".join(map(describe, value))
    return str(tuple(value.shape)) if isinstance(value, Tensor) else f"a {type(value).__name__}"
