"""Every answer of the explorer: a path below /api/ and its query -> JSON or bytes.

The page uses only GET, so an exported file can hold the same answers under the same paths.
"""

from collections.abc import Callable
from functools import lru_cache
from threading import Semaphore
from typing import Any, Literal

import torch
from torch import Tensor

from glassformer.errors import InputError, did_you_mean
from glassformer.explore.view.answers import sampled, six, sixes
from glassformer.explore.view.bounds import GoneError, slot, time_limit
from glassformer.explore.view.pair import PairSession
from glassformer.explore.view.query import Query, number_of, real_of, text_of
from glassformer.explore.view.session import Session, View
from glassformer.explore.view.slices import AttentionInputs, heads_bytes, map_bytes, whole_map
from glassformer.explore.view.values import lens_length, lens_of, values_of
from glassformer.explore.view.worked import worked
from glassformer.inspect.looks.rollout import traced_back
from glassformer.predict.captions import CaptionPreparer
from glassformer.predict.texts import TextPreparer
from glassformer.version import PACKAGE

ANSWERS_AT_ONCE = 4  # answers computed at a time


class Routes:
    """The answers of one session."""

    def __init__(self, session: Session | PairSession) -> None:
        self.session = session
        self.places = Semaphore(ANSWERS_AT_ONCE)
        self.slices = lru_cache(maxsize=32)(self.slice)

    def get(self, path: str, query: Query) -> dict[str, Any] | bytes:
        with torch.no_grad(), slot(self.places), time_limit(self.session.seconds):
            return self.answer(path, query)

    def answer(self, path: str, query: Query) -> dict[str, Any] | bytes:
        parts = path.split("/")
        if path == "model":
            return self.session.describe(**({"tower": query["tower"]} if "tower" in query else {}))
        if path == "source":
            return source(self.session, query)
        if parts[0] == "view" and len(parts) == 3:
            ways: dict[str, Callable[[View, Query], dict[str, Any] | bytes]] = {
                "map": self.map,
                "heads": self.heads,
                "row": self.row,
                "vectors": self.vectors,
                "values": self.values,
                "worked": self.worked,
                "lens": self.lens,
                "next": self.next,
                "rollout": self.rollout,
            }
            if parts[2] in ways:
                return ways[parts[2]](self.session.find(parts[1]), query)
        if parts[0] == "view" and len(parts) == 2:
            return self.session.find(parts[1]).shown
        raise GoneError(f"unknown path {path[:60]!r}: the page and the server may have different versions. Reload it")

    def map(self, view: View, query: Query) -> bytes:
        name = text_of(query, "name")
        return self.slices(view.id, name, head_of(query, layer_number(view, name)))

    def heads(self, view: View, query: Query) -> bytes:
        name = text_of(query, "name")
        layer_number(view, name)
        return self.slices(view.id, name, "all")

    def slice(self, view: str, name: str, head: int | Literal["all"] | None) -> bytes:
        """One head, the mean of all heads (None), or all heads as small maps."""
        layer = layer_number(self.session.find(view), name)
        return heads_bytes(layer) if head == "all" else map_bytes(layer, head)

    def row(self, view: View, query: Query) -> dict[str, Any]:
        layer = layer_number(view, text_of(query, "name"))
        head = head_of(query, layer)
        row = number_of(query, "row", layer.size[0])
        rows = slice(row, row + 1)
        if head is None:
            return {"weights": sixes(layer.weights(rows, None).mean(dim=0)[0]), "scores": None, "scale": layer.scale}
        weights, scores = layer.weights(rows, head)[0, 0], layer.scores(rows, head)[0]
        return {"weights": sixes(weights), "scores": sixes(scores), "scale": layer.scale}

    def vectors(self, view: View, query: Query) -> dict[str, Any]:
        """The vectors of one query and one key: q and the head output of the query, k and v of the key."""
        block, layer = attention_of(view, query)
        head = number_of(query, "head", layer.num_heads, default=0)
        row, key = number_of(query, "row", layer.size[0]), number_of(query, "key", layer.size[1])
        shared, name = layer.kv_head(head), f"{block}.ffn.hidden"
        hidden, width = view.seen.hidden[name], view.seen.shapes[name][-1]
        return {
            "q": sixes(layer.q[0, head, row]),
            "k": sixes(layer.k[0, shared, key]),
            "v": sixes(layer.v[0, shared, key]),
            "mixed": sixes(mixed_row(layer, head, row)),
            "ffn": {
                "hidden": sixes(hidden[row]),
                "pooled": hidden.shape[1] < width,  # each group is shown by its largest number in absolute value
                "of": width,
                "active": six(float(view.seen.active[name][row])),
            },
        }

    def values(self, view: View, query: Query) -> dict[str, Any]:
        """The values of any step (`values.py`)."""
        return values_of(self.session.of(view), view, query)

    def worked(self, view: View, query: Query) -> dict[str, Any]:
        _, layer = attention_of(view, query)
        head = number_of(query, "head", layer.num_heads, default=0)
        return worked(layer, head, number_of(query, "row", layer.size[0]))

    def lens(self, view: View, query: Query) -> dict[str, Any]:
        """The head's prediction after each layer, for tokens from `first` on (`inspect/looks/lens.py`)."""
        return lens_of(self.session.of(view), view, number_of(query, "first", lens_length(view), default=0))

    def next(self, view: View, query: Query) -> dict[str, Any]:
        session = self.session.of(view)
        reader = session.preparer
        if view.hidden is None or not isinstance(reader, TextPreparer | CaptionPreparer):
            raise InputError("this model does not predict a next token: it has no decoder with a language head")
        before = view.shown["lines"]["decoder"]["before"]
        row = number_of(query, "row", before + view.hidden.shape[1]) - before
        if row < 0:
            raise InputError(
                f"row {row + before} is a patch of the image, which predicts no token: expected at least {before}"
            )
        choices = {
            "temperature": real_of(query, "temperature", 0.01, 100.0, default=1.0),
            "top_k": number_of(query, "top_k", 10**9, default=0),
            "top_p": real_of(query, "top_p", 0.0, 1.0, default=1.0),
        }
        seed = number_of(query, "seed", 2**63, default=0)
        history = torch.tensor([view.prepared.written[: row + 1]])
        return sampled(session.model, reader.words, history, view.hidden[:, row], choices, seed)

    def rollout(self, view: View, query: Query) -> dict[str, Any]:
        """How much of each input token reaches the chosen token (rollout: Abnar and Zuidema, 2020)."""
        stack = text_of(query, "stack")
        names = [entry["name"] for entry in view.shown["maps"] if (entry["stack"], entry["kind"]) == (stack, "self")]
        layers = [view.seen.layers[name] for name in names]
        if not layers:
            raise InputError(f"this model has no {stack!r:.40}: expected one of {', '.join(view.shown['lines'])}")
        row = number_of(query, "row", layers[0].size[0], default=layers[0].size[0] - 1 if stack == "decoder" else 0)
        return {"weights": sixes(rollout_row(layers, row)), "row": row}


def rollout_row(layers: list[AttentionInputs], row: int) -> Tensor:
    """One row of the rollout: (T). Holds the weights of only one layer in memory."""
    one = torch.zeros(1, layers[0].size[0])
    one[0, row] = 1.0
    return traced_back(one, (whole_map(layer, None) for layer in reversed(layers)))[0]


def mixed_row(layer: AttentionInputs, head: int, token: int) -> Tensor:
    weights = layer.weights(slice(token, token + 1), head)[0, 0]  # (S)
    return weights @ layer.v[0, layer.kv_head(head)]  # (K)


def attention_of(view: View, query: Query) -> tuple[str, AttentionInputs]:
    """The requested attention: the name of its block, and its layer."""
    block = f"{text_of(query, 'stack')}.blocks.{text_of(query, 'layer')}"
    return block, layer_number(view, f"{block}.{query.get('site', 'attn')}")


def layer_number(view: View, name: str) -> AttentionInputs:
    if name not in view.seen.layers:
        raise InputError(f"this model has no attention {name[:60]!r}{did_you_mean(name, view.seen.layers)}")
    return view.seen.layers[name]


def head_of(query: Query, layer: AttentionInputs) -> int | None:
    """The requested head; None for the mean of all heads."""
    return None if query.get("head") == "mean" else number_of(query, "head", layer.num_heads)


def source(session: Session | PairSession, query: Query) -> dict[str, Any]:
    """A source file of the package: only files that compute a step."""
    file, known = text_of(query, "file"), {step["file"] for step in session.steps.values()}
    if file not in known:
        raise GoneError(f"{file[:60]!r} does not compute a step: expected one of {', '.join(sorted(known))}")
    return {"file": file, "text": (PACKAGE / file).read_text(encoding="utf-8")}
