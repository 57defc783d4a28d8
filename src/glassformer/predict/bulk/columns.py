"""Answers as extra columns next to those of the input: their names and their cells."""

from collections.abc import Collection
from typing import Any

from glassformer.checkpoints.labels import problem_of
from glassformer.core.model import Transformer
from glassformer.predict.answers import Label, Labels
from glassformer.predict.bulk.formats import ColumnKind
from glassformer.predict.show import answer_json

TEXT_COLUMNS_OUT: dict[str, ColumnKind] = {"output": "text"}
LABEL_COLUMNS: dict[str, ColumnKind] = {"label": "text", "score": "number"}
MULTI_LABEL_COLUMNS: dict[str, ColumnKind] = {"labels": "texts", "scores": "numbers"}
ANSWER_COLUMNS: dict[str, dict[str, ColumnKind]] = {
    "translate": TEXT_COLUMNS_OUT,
    "lm": TEXT_COLUMNS_OUT,
    "mlm": {"masks": "json"},
    "classify": LABEL_COLUMNS,
    "tokens": {"tokens": "json"},
    "answer": {"answer": "text", "score": "number"},
    "embed": {"vector": "vector"},
    "images": LABEL_COLUMNS,
    "caption": TEXT_COLUMNS_OUT,
    "ask": TEXT_COLUMNS_OUT,
    "match": LABEL_COLUMNS,
    "series": LABEL_COLUMNS,
}


def answer_columns(task: str, model: Transformer, taken: Collection[str]) -> dict[str, ColumnKind]:
    """The columns of this model's answers, renamed if the input has columns of the same name."""
    judges = ANSWER_COLUMNS[task] is LABEL_COLUMNS and task != "match"
    several = judges and problem_of(model) == "multi_label_classification"
    return {
        free_name(name, taken): kind
        for name, kind in (MULTI_LABEL_COLUMNS if several else ANSWER_COLUMNS[task]).items()
    }


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
        return [output.label, round_floats(output.score)]
    if isinstance(output, Labels):
        return [list(output.labels), [round_floats(score) for score in output.labels.values()]]
    if task == "embed":
        return [output.double().round(decimals=6).tolist()]
    values = answer_json(task, output)
    return [round_floats(values[name]) for name in ANSWER_COLUMNS[task]]


def round_floats(value: Any) -> Any:
    """Rounds every float to six significant digits, also inside lists and objects."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, list):
        return [round_floats(part) for part in value]
    return {name: round_floats(part) for name, part in value.items()} if isinstance(value, dict) else value
