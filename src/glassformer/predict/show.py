"""Prints answers for people, and converts inputs and answers to JSON."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from torch import Tensor

from glassformer.predict.answers import Answer, Guess, Label, Labels, TokenLabel
from glassformer.predict.images import Picture

FIRST_NUMBERS = 6  # numbers of a vector to print
MAX_TABLE_INPUTS = 12  # inputs whose similarities fit a terminal; with more, only the nearest of each is printed
LABEL_WIDTH = 40


def as_json(given: Any) -> Any:
    """An input as a JSON value: a text, a pair, numbers, or the name of an image."""
    if isinstance(given, tuple):
        return tuple(as_json(part) for part in given)
    return given.name if isinstance(given, Picture) else given


def as_text(given: Any) -> str:
    """An input as printed next to its answer."""
    if isinstance(given, tuple):
        return " | ".join(as_json(given))
    if isinstance(given, list):
        return ", ".join(f"{value:g}" for value in given)
    return str(as_json(given))


def answer_json(task: str, output: Any) -> dict[str, Any]:
    """One answer as a JSON object."""
    if isinstance(output, Tensor):
        return {"vector": output.tolist()}
    if task == "mlm":
        return {"masks": [[asdict(guess) for guess in guesses] for guesses in output]}
    if task == "tokens":
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


def show_labels(inputs: Sequence[str], outputs: Sequence[Label | Labels]) -> None:
    widest = max((len(output.label) for output in outputs if isinstance(output, Label)), default=0)
    said = [labels_in_words(output, widest) for output in outputs]
    width = max(map(len, said), default=0)
    for text, words in zip(inputs, said, strict=True):
        print(f"{words:{width}}  {short_text(text)}")


def labels_in_words(output: Label | Labels, width: int) -> str:
    if isinstance(output, Label):
        return f"{output.label:{width}}  {output.score:.3f}"
    return ", ".join(f"{name} {score:.3f}" for name, score in output.labels.items()) or "none"


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
    """Prints the first numbers of a single vector, or the similarities of several."""
    if len(inputs) == 1:
        first = " ".join(f"{value:.4f}" for value in vectors[0, :FIRST_NUMBERS].tolist())
        print(f"{first} ... ({vectors.shape[1]} numbers; --json prints all)")
        return
    similar = vectors @ vectors.T  # cosines, because every vector has length 1
    digits = len(str(len(inputs)))
    names = [f"{i:{digits}}  {short_text(text)}" for i, text in enumerate(inputs, start=1)]
    width = max(map(len, names))
    if len(inputs) > MAX_TABLE_INPUTS:
        similar = similar.fill_diagonal_(-2)
        for name, row in zip(names, similar, strict=True):
            print(f"{name:{width}}  nearest {int(row.argmax()) + 1:{digits}}  {row.max():6.3f}")
        return
    print(" " * width, *(f"{i:6}" for i in range(1, len(inputs) + 1)))
    for name, row in zip(names, similar.tolist(), strict=True):
        print(f"{name:{width}}", *(f"{value:6.3f}" for value in row))


def show_matches(inputs: Sequence[str], outputs: Sequence[Label] | Tensor) -> None:
    """Prints the label of each image, or the scores of all labels for a single image. Without labels, vectors."""
    if isinstance(outputs, Tensor):
        show_vectors(inputs, outputs)
    elif len(outputs) > 1:
        show_labels(inputs, outputs)
    else:
        width = max(map(len, outputs[0].scores))
        for label, score in sorted(outputs[0].scores.items(), key=lambda entry: -entry[1]):
            print(f"{label:{width}}  {score:.3f}")


def short_text(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LABEL_WIDTH else text[: LABEL_WIDTH - 3] + "..."


SHOW: dict[str, Callable[[Any, Any], None]] = {
    "translate": show_texts,
    "lm": show_texts,
    "mlm": show_guesses,
    "classify": show_labels,
    "tokens": show_tokens,
    "answer": show_answers,
    "embed": show_vectors,
    "images": show_labels,
    "caption": show_texts,
    "ask": show_texts,
    "match": show_matches,
    "series": show_labels,
}
