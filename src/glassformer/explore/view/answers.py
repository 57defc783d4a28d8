"""What a model's head says to an input, in the words of the page: classes, masked words, the next token, a vector."""

from typing import Any

import torch
from torch import Tensor

from glassformer.checkpoints.labels import class_names
from glassformer.core.model import Output, Transformer
from glassformer.generation.loop import filtered, next_logits
from glassformer.generation.plan import make_plan, settled
from glassformer.predict.answers import Label, Labels, as_labels, best_span
from glassformer.predict.embed import Recipe, pool
from glassformer.predict.prepared import Prepared
from glassformer.predict.texts import TextPreparer
from glassformer.tasks.registry import TASKS

# The kind of answer, by what a model does: for a task as its row says, then for models that no task here trains.
VIEWS = {ability: task.view for task in TASKS.values() for ability in task.abilities} | {
    "tokens": "labels",
    "answer": "span",
    "embed": "vector",
}
CANDIDATES, MORE_CANDIDATES = 10, 20
ROWS = 64  # of logits that are judged at a time


def six(value: float) -> float | None:
    """Six significant digits; None for what is not finite, which JSON cannot say."""
    return float(f"{value:.6g}") if abs(value) < torch.inf else None


def sixes(values: Tensor) -> list[float | None]:
    return [six(value) for value in values.tolist()]


def classes_of(model: Transformer, logits: Tensor, pooled: Tensor | None) -> dict[str, Any]:
    """The classes with their scores, the likeliest first."""
    found = as_labels(model, logits)[0]
    assert isinstance(found, Label | Labels)
    ranked = sorted(found.scores.items(), key=lambda item: -item[1])
    answer: dict[str, Any] = {"kind": "classes", "classes": [{"label": k, "score": six(v)} for k, v in ranked]}
    if pooled is not None:
        answer["pooled"] = {"name": "head.pooled", "values": sixes(pooled[0])}
    return answer


def candidates(reader: TextPreparer, probabilities: Tensor, count: int = CANDIDATES) -> list[dict[str, Any]]:
    """The likeliest tokens of (V) probabilities."""
    best = probabilities.topk(min(count, len(probabilities)))
    return [
        {**reader.target_texts.describe(i), "score": six(score)}
        for i, score in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]


def masks_of(reader: TextPreparer, prepared: Prepared, logits: Tensor) -> dict[str, Any]:
    ids = prepared.arguments["input_ids"][0]
    mask = reader.tokenizer.mask_token_id
    places = (ids == (-1 if mask is None else mask)).nonzero().flatten().tolist()
    known = len(reader.tokenizer)
    masks = [{"position": at, "candidates": candidates(reader, logits[0, at].softmax(dim=0)[:known])} for at in places]
    return {"kind": "masks", "masks": masks}


def next_of(reader: TextPreparer, logits: Tensor) -> dict[str, Any]:
    """For every row of a decoder, what it takes for the likeliest next token."""
    rows = []
    for part in logits[0].split(ROWS):  # probabilities of all rows together would be as large again as the logits
        rows += [candidates(reader, row) for row in part.float().softmax(dim=1)]
    return {"kind": "next", "candidates": rows}


def labels_of(model: Transformer, logits: Tensor) -> dict[str, Any]:
    names, best = class_names(model), logits[0].softmax(dim=1).max(dim=1)
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return {"kind": "labels", "labels": [{"label": names[i], "score": six(score)} for i, score in pairs]}


def span_of(prepared: Prepared, output: Output) -> dict[str, Any]:
    """The likeliest answer, as the tokens from `start` to `end`, and how likely each token is to be either."""
    assert prepared.encoded is not None
    assert output.start_logits is not None
    assert output.end_logits is not None
    outside = prepared.encoded.sequence_ids != 1  # (1, T)
    score, place, starts, ends = (x[0] for x in best_span(output.start_logits, output.end_logits, outside))
    first, last = divmod(int(place), len(starts))
    likely = {"starts": sixes(starts), "ends": sixes(ends)}
    return {"kind": "span", "start": first, "end": last, "score": six(float(score)), **likely}


def vector_of(hidden: Tensor, recipe: Recipe) -> dict[str, Any]:
    pooled = pool(hidden, torch.ones(hidden.shape[:2], dtype=torch.bool), recipe.ways)
    return {"kind": "vector", "values": sixes(torch.nn.functional.normalize(pooled, dim=1)[0])}


def sampled(
    model: Transformer, reader: TextPreparer, history: Tensor, hidden: Tensor, choices: dict[str, Any], seed: int
) -> dict[str, Any]:
    """What may follow a row: before and after the filters, and the token that this seed draws."""
    raw = next_logits(model, hidden)  # (1, V)
    settings = settled(model.config, {**choices, "do_sample": True, "num_beams": 1, "max_new_tokens": 1})
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
