"""Answers as extra columns next to those of the input: their names and their cells."""

from collections.abc import Collection
from typing import Any

from glassformer.checkpoints.labels import problem_of
from glassformer.core.model import Transformer
from glassformer.predict.answers import Label, Labels
from glassformer.predict.bulk.formats import Kind
from glassformer.predict.show import as_values

WRITTEN: dict[str, Kind] = {"output": "text"}
JUDGED: dict[str, Kind] = {"label": "text", "score": "number"}
SEVERAL: dict[str, Kind] = {"labels": "texts", "scores": "numbers"}
COLUMNS: dict[str, dict[str, Kind]] = {
    "translate": WRITTEN,
    "lm": WRITTEN,
    "mlm": {"masks": "json"},
    "classify": JUDGED,
    "tokens": {"tokens": "json"},
    "answer": {"answer": "text", "score": "number"},
    "embed": {"vector": "vector"},
    "images": JUDGED,
    "caption": WRITTEN,
    "ask": WRITTEN,
    "match": JUDGED,
    "series": JUDGED,
}


def answer_columns(task: str, model: Transformer, taken: Collection[str]) -> dict[str, Kind]:
    """The columns of this model's answers, renamed if the input has columns of the same name."""
    judges = COLUMNS[task] is JUDGED and task != "match"
    several = judges and problem_of(model) == "multi_label_classification"
    return {free_name(name, taken): kind for name, kind in (SEVERAL if several else COLUMNS[task]).items()}


def free_name(name: str, taken: Collection[str]) -> str:
    """label, or if that is taken predicted_label, predicted_label_2, ..."""
    number, free = 1, name
    while free in taken:
        free = f"predicted_{name}" if number == 1 else f"predicted_{name}_{number}"
        number += 1
    return free


def answer_cells(task: str, output: Any) -> list[Any]:
    """One answer as the cells of its columns. Numbers have six significant digits: further ones are rounding noise."""
    if isinstance(output, str):
        return [output]
    if isinstance(output, Label):
        return [output.label, rounded(output.score)]
    if isinstance(output, Labels):
        return [list(output.labels), [rounded(score) for score in output.labels.values()]]
    if task == "embed":
        return [output.double().round(decimals=6).tolist()]
    values = as_values(task, output)
    return [rounded(values[name]) for name in COLUMNS[task]]


def rounded(value: Any) -> Any:
    """Rounds every float to six significant digits, also inside lists and objects."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return {name: rounded(part) for name, part in value.items()} if isinstance(value, dict) else value
