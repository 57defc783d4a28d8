"""The values of any step: the row of one token, and of one head if the step has heads.

q, k, v, scores and weights come from the view's record. For any other step the model runs again on the same input with
`gf.record`. The step is then kept, so that the next token needs no new pass.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from glassformer.core.context import watched_by
from glassformer.errors import InputError, did_you_mean
from glassformer.explore.view.answers import six, sixes
from glassformer.explore.view.bounds import check_time, slot
from glassformer.explore.view.query import Query, number_of, text_of
from glassformer.explore.view.session import Session, View
from glassformer.explore.view.slices import AttentionInputs
from glassformer.inspect.looks.lens import check_head, lens_places
from glassformer.inspect.steps.step import step_of
from glassformer.predict.captions import CaptionPreparer
from glassformer.predict.texts import TextPreparer
from glassformer.watch.names import StepName
from glassformer.watch.record import record

MAX_SENT_VALUES = 64  # per request
LENS = 32  # tokens per request of the logit lens
MAX_STEP_BYTES = 2**24  # of the steps kept in a view


def values_of(session: Session, view: View, query: Query) -> dict[str, Any]:
    """Values of a row from `first` on, the size of the row, and its norm.

    A step without a row per token is a single row: `token` is then None.
    """
    name = text_of(query, "name")
    if name not in view.seen.shapes:
        raise InputError(f"this model has no step {name[:60]!r}{did_you_mean(name, view.seen.shapes)}")
    axes = step_of(name, session.model.config).axes
    walked = token_axis(axes)
    token = None if walked is None else number_of(query, "token", view.seen.shapes[name][walked])
    step = StepName.parse(name)
    layer = view.seen.layers.get(str(step._replace(step=step.site)))
    if layer is not None and token is not None and axes[1] in ("H", "G"):
        row = row_of_head(session, view, step, layer, number_of(query, "head", layer.num_heads, default=0), token)
        left = axes[-1]
    else:
        row = shown_row(session, view, name, token)
        left = "Z" if "Z" in axes else axes[-1]
    first = number_of(query, "first", len(row), default=0)
    return {
        "name": name,
        "token": token,
        "axes": [left],
        "values": sixes(row[first : first + MAX_SENT_VALUES]),
        "first": first,
        "size": len(row),
        "length": six(float(row[row.isfinite()].norm())),  # masked scores are -inf
    }


def token_axis(axes: Sequence[str]) -> int | None:
    """The axis of the tokens; None if the step has no row per token."""
    return next((axes.index(letter) for letter in ("T", "N", "S") if letter in axes[:-1]), None)


def row_of_head(session: Session, view: View, step: StepName, layer: AttentionInputs, head: int, token: int) -> Tensor:
    """A row of an attention step; for keys and values, of the kv head that the head uses."""
    if step.part == "":
        return layer.weights(slice(token, token + 1), head)[0, 0]
    if step.part == "scores":
        return layer.scores(slice(token, token + 1), head)[0]
    if step.part == "q":
        return layer.q[0, head, token]
    if step.part in ("k", "v"):
        return (layer.k if step.part == "k" else layer.v)[0, layer.kv_head(head), token]
    return recorded_step(session, view, str(step))[head, token]


def shown_row(session: Session, view: View, name: str, token: int | None) -> Tensor:
    """A row of a step without heads. A forecast has one column per channel: the row is the channel shown."""
    value = recorded_step(session, view, name)
    if token is not None:
        return value[token]
    return value if value.ndim == 1 else value[:, view.row]


def lens_length(view: View) -> int:
    """The number of tokens for the lens: those of the stack with the head, without a prefix."""
    lines = view.shown["lines"]
    line = lines.get("decoder", lines.get("encoder", {"tokens": [], "before": 0}))
    return len(line["tokens"]) - line["before"]


def lens_of(session: Session, view: View, first: int) -> dict[str, Any]:
    """The most probable token before the first layer and after each layer, for at most 32 tokens."""
    if first not in view.lens:
        view.lens[first] = read_off(session, view, slice(first, first + LENS))
    return view.lens[first]


@torch.no_grad()
def read_off(session: Session, view: View, rows: slice) -> dict[str, Any]:
    model, reader = session.model, session.preparer
    head, stack = check_head(model), model.decoder or model.encoder
    assert stack is not None
    assert isinstance(reader, TextPreparer | CaptionPreparer)
    name = "decoder" if model.decoder is not None else "encoder"
    layers, before = [], view.shown["lines"][name]["before"]
    with slot(session.calls), watched_by(check_time), session.silenced(view.without):
        with record(model, attention=False, activations=lens_places(stack, name)) as seen:
            view.prepared.run(model)
        for place in lens_places(stack, name):
            logits = head(stack.norm(seen[place][:1, before:][:, rows]))[0]  # (rows, V)
            best = logits.float().softmax(dim=-1).max(dim=-1)
            found = zip(best.indices.tolist(), best.values.tolist(), strict=True)
            layers.append([{**reader.words.target_texts.describe(i), "score": six(score)} for i, score in found])
    return {"stack": name, "first": before + rows.start, "layers": layers}


def recorded_step(session: Session, view: View, name: str) -> Tensor:
    """A step of the batch row that is shown: from memory, or from a new pass."""
    known = view.steps.get(name)
    if known is not None:
        return known
    with slot(session.calls), torch.no_grad(), watched_by(check_time), session.silenced(view.without):
        with record(session.model, attention=False, activations=[name]) as seen:
            view.prepared.run(session.model)
        found = seen[name]
    found = found[view.row if len(found) > 1 else 0].clone()
    size = found.numel() * found.element_size()
    if size <= MAX_STEP_BYTES:
        while view.steps and size + view.bytes_of_steps > MAX_STEP_BYTES:
            view.steps.pop(next(iter(view.steps)), None)  # the oldest
        view.steps[name] = found
    return found
