"""The output of a model's head, as the page shows it: one function per kind of answer.

The task registry assigns an answer to each ability; abilities without a task are listed here.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glassformer.checkpoints.labels import class_names
from glassformer.core.model import Output, Transformer
from glassformer.generation.loop import filtered, next_logits
from glassformer.generation.plan import make_plan, resolve_options
from glassformer.predict.answers import as_labels, best_span
from glassformer.predict.captions import CaptionPreparer
from glassformer.predict.embed import pool
from glassformer.predict.prepare import Preparer
from glassformer.predict.prepared import Prepared
from glassformer.predict.texts import TextPreparer
from glassformer.tasks.registry import TASKS

CANDIDATES, MORE_CANDIDATES = 10, 20
LOGITS_AT_ONCE = 64  # of logits processed at a time


def six(value: float) -> float | None:
    """Rounds to six significant digits; None for values that are not finite, which JSON cannot hold."""
    return float(f"{value:.6g}") if abs(value) < torch.inf else None


def sixes(values: Tensor) -> list[float | None]:
    return [six(value) for value in values.tolist()]


class AnsweredInput(NamedTuple):
    """A prepared input, its preparer, and the model's output."""

    preparer: Preparer
    prepared: Prepared
    output: Output

    @property
    def logits(self) -> Tensor:
        assert self.output.logits is not None
        return self.output.logits

    @property
    def reader(self) -> TextPreparer:
        assert isinstance(self.preparer, TextPreparer | CaptionPreparer)
        return self.preparer.words


def classes_of(asked: AnsweredInput) -> dict[str, Any]:
    """The classes with their scores, highest first."""
    (found,) = as_labels(asked.preparer.model, asked.logits)
    ranked = sorted(found.scores.items(), key=lambda item: -item[1])
    answer: dict[str, Any] = {"classes": [{"label": k, "score": six(v)} for k, v in ranked]}
    if asked.output.pooled is not None:
        answer["pooled"] = {"name": "head.pooled", "values": sixes(asked.output.pooled[0])}
    return answer


def top_tokens(reader: TextPreparer, probabilities: Tensor, count: int = CANDIDATES) -> list[dict[str, Any]]:
    """The most probable tokens of (V) probabilities."""
    best = probabilities.topk(min(count, len(probabilities)))
    return [
        {**reader.target_texts.describe(i), "score": six(score)}
        for i, score in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]


def masks_of(asked: AnsweredInput) -> dict[str, Any]:
    reader, logits = asked.reader, asked.logits
    mask = -1 if reader.tokenizer.mask_token_id is None else reader.tokenizer.mask_token_id
    places = (asked.prepared.arguments["input_ids"][0] == mask).nonzero().flatten().tolist()
    known = len(reader.tokenizer)
    likely = [top_tokens(reader, logits[0, at].softmax(dim=0)[:known]) for at in places]
    return {"masks": [{"position": at, "candidates": best} for at, best in zip(places, likely, strict=True)]}


def next_of(asked: AnsweredInput) -> dict[str, Any]:
    """The most probable next tokens for every row of a decoder."""
    rows = []
    for part in asked.logits[0].split(LOGITS_AT_ONCE):  # in parts: all probabilities at once would double the memory
        rows += [top_tokens(asked.reader, row) for row in part.float().softmax(dim=1)]
    return {"candidates": rows}


def labels_of(asked: AnsweredInput) -> dict[str, Any]:
    names, best = class_names(asked.preparer.model), asked.logits[0].softmax(dim=1).max(dim=1)
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return {"labels": [{"label": names[i], "score": six(score)} for i, score in pairs]}


def span_of(asked: AnsweredInput) -> dict[str, Any]:
    """The most probable answer, as tokens `start` to `end`, and each token's probability to be the start or end."""
    encoded, output = asked.prepared.encoded, asked.output
    assert encoded is not None
    assert output.start_logits is not None
    assert output.end_logits is not None
    outside = encoded.sequence_ids != 1  # (1, T)
    score, place, starts, ends = (x[0] for x in best_span(output.start_logits, output.end_logits, outside))
    first, last = divmod(int(place), len(starts))
    likely = {"starts": sixes(starts), "ends": sixes(ends)}
    return {"start": first, "end": last, "score": six(float(score)), **likely}


def vector_of(asked: AnsweredInput) -> dict[str, Any]:
    hidden = asked.output.last_hidden_state
    assert hidden is not None
    pooled = pool(hidden, torch.ones(hidden.shape[:2], dtype=torch.bool), asked.reader.recipe.ways)
    return {"values": sixes(torch.nn.functional.normalize(pooled, dim=1)[0])}


def match_of(asked: AnsweredInput) -> dict[str, Any]:
    """The unit vector used to compare an image with a text."""
    pooled = asked.output.pooled
    assert pooled is not None
    return {"values": sixes(torch.nn.functional.normalize(pooled, dim=1)[0])}


def forecast_of(asked: AnsweredInput) -> dict[str, Any]:
    """Empty: the forecast is part of the curve."""
    return {}


VIEWS: dict[str, Callable[[AnsweredInput], dict[str, Any]]] = {
    "classes": classes_of,
    "forecast": forecast_of,
    "labels": labels_of,
    "masks": masks_of,
    "match": match_of,
    "next": next_of,
    "span": span_of,
    "vector": vector_of,
}
VIEW_OF = {"tokens": "labels", "answer": "span", "embed": "vector"} | {
    ability: row.view for row in TASKS.values() for ability in row.abilities
}


def view_answer(ability: str, asked: AnsweredInput) -> dict[str, Any]:
    view = VIEW_OF[ability]
    return {"kind": view, **VIEWS[view](asked)}


def sampled(
    model: Transformer, reader: TextPreparer, history: Tensor, hidden: Tensor, choices: dict[str, Any], seed: int
) -> dict[str, Any]:
    """The next-token candidates of a row, before and after filtering, and the token sampled with this seed."""
    raw = next_logits(model, hidden)  # (1, V)
    settings = resolve_options(model.config, {**choices, "do_sample": True, "num_beams": 1, "max_new_tokens": 1})
    plan = make_plan(model.config, settings, history, None, None)
    before, after = raw.softmax(dim=1)[0], filtered(raw, history, plan).softmax(dim=1)[0]
    drawn = int(torch.multinomial(after, 1, generator=torch.Generator().manual_seed(seed)))
    best = before.topk(min(MORE_CANDIDATES, len(before))).indices.tolist()
    listed = [
        {
            **reader.target_texts.describe(i),
            "score": six(float(after[i])),
            "raw": six(float(before[i])),
            "kept": bool(after[i] > 0),
        }
        for i in best
    ]
    return {
        "candidates": listed,
        "kept": int((after > 0).sum()),
        "drawn": reader.target_texts.describe(drawn),
        "end": drawn in plan.eos.tolist(),
    }
