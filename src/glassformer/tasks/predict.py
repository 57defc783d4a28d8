"""The verb `predict`: a model on the user's inputs, printed for a person or, with --json, for a program."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from torch import Tensor

from glassformer.data.pairs import decode_lines, read_lines
from glassformer.errors import InputError
from glassformer.settings import PredictSettings
from glassformer.tasks.pipeline import pipeline
from glassformer.tasks.predictors import Answer, Guess, Label, TokenLabel

FIRST_NUMBERS = 6  # of a vector that is shown to a person
WIDEST_TABLE = 12  # inputs whose similarities fit a terminal; of more, each one's nearest is shown
LABEL_WIDTH = 40


def predict(settings: PredictSettings) -> None:
    inputs, options = input_texts(settings), settings.options
    run = pipeline(str(settings.run), device=settings.device, revision=settings.revision)
    outputs = run(inputs, **options)
    if settings.json:
        for given, output in zip(inputs, outputs, strict=True):
            print(json.dumps({"input": given, **as_values(run.task, output)}, ensure_ascii=False))
        return
    if run.note:
        print(run.note, file=sys.stderr)
    SHOW[run.task](inputs, outputs)


def input_texts(settings: PredictSettings) -> Sequence[str]:
    if settings.texts and settings.file:
        raise InputError("texts and --file were both given: choose one")
    if settings.texts:
        return settings.texts
    if settings.file:
        return read_lines(settings.file)
    if sys.stdin.isatty():
        raise InputError('no text was given: write it behind the run, as in glassformer predict RUN "Nov 15 2026"')
    return decode_lines(sys.stdin.buffer.read(), "standard input")


def as_values(task: str, output: Any) -> dict[str, Any]:
    """One answer as JSON has it."""
    if task == "embed":
        return {"vector": output.tolist()}
    if task == "fill":
        return {"masks": [[asdict(guess) for guess in guesses] for guesses in output]}
    if task == "label":
        return {"tokens": [asdict(token) for token in output]}
    return {"output": output} if isinstance(output, str) else asdict(output)


def show_texts(inputs: Sequence[str], outputs: Sequence[str]) -> None:
    for output in outputs:
        print(output)


def show_guesses(inputs: Sequence[str], outputs: Sequence[list[list[Guess]]]) -> None:
    for text, masks in zip(inputs, outputs, strict=True):
        print(text)
        for number, guesses in enumerate(masks, start=1):
            width = max(len(guess.token) for guess in guesses)
            for guess in guesses:
                mask = f"mask {number}  " if len(masks) > 1 else ""
                print(f"  {mask}{guess.token:{width}}  {guess.score:.3f}")


def show_labels(inputs: Sequence[str], outputs: Sequence[Label]) -> None:
    width = max((len(output.label) for output in outputs), default=0)
    for text, output in zip(inputs, outputs, strict=True):
        print(f"{output.label:{width}}  {output.score:.3f}  {shortened(text)}")


def show_tokens(inputs: Sequence[str], outputs: Sequence[list[TokenLabel]]) -> None:
    for text, tokens in zip(inputs, outputs, strict=True):
        print(text)
        widths = [max((len(getattr(token, name)) for token in tokens), default=0) for name in ("text", "label")]
        for token in tokens:
            print(f"  {token.text:{widths[0]}}  {token.label:{widths[1]}}  {token.score:.3f}")


def show_answers(inputs: Sequence[str], outputs: Sequence[Answer]) -> None:
    for output in outputs:
        print(f"{output.answer}  {output.score:.3f}")


def show_vectors(inputs: Sequence[str], vectors: Tensor) -> None:
    """Of one text the first numbers, of several how similar they are, which is what vectors are made for."""
    if len(inputs) == 1:
        first = " ".join(f"{value:.4f}" for value in vectors[0, :FIRST_NUMBERS].tolist())
        print(f"{first} ... ({vectors.shape[1]} numbers; --json gives all)")
        return
    similar = vectors @ vectors.T  # cosines, as every vector has length 1
    digits = len(str(len(inputs)))
    names = [f"{i:{digits}}  {shortened(text)}" for i, text in enumerate(inputs, start=1)]
    width = max(map(len, names))
    if len(inputs) > WIDEST_TABLE:
        similar = similar.fill_diagonal_(-2)
        for name, row in zip(names, similar, strict=True):
            print(f"{name:{width}}  nearest {int(row.argmax()) + 1:{digits}}  {row.max():6.3f}")
        return
    print(" " * width, *(f"{i:6}" for i in range(1, len(inputs) + 1)))
    for name, row in zip(names, similar.tolist(), strict=True):
        print(f"{name:{width}}", *(f"{value:6.3f}" for value in row))


def shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LABEL_WIDTH else text[: LABEL_WIDTH - 3] + "..."


SHOW: dict[str, Callable[[Any, Any], None]] = {
    "translate": show_texts,
    "complete": show_texts,
    "fill": show_guesses,
    "classify": show_labels,
    "label": show_tokens,
    "answer": show_answers,
    "embed": show_vectors,
    "see": show_labels,
}
