"""Ranks the heads of a view by how clear their pattern is, and measures how ablated heads change the others."""

from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from glassformer.explore.view.bounds import check_time
from glassformer.explore.view.seen import RecordedPage
from glassformer.explore.view.slices import AttentionInputs
from glassformer.inspect.looks.telling import Telling, rank_heads

PARTS, PART = 8, 8  # a long map is sampled: 8 stretches of 8 rows


def telling_of(
    seen: RecordedPage, maps: list[dict[str, Any]], lines: dict[str, Any], meant: list[int]
) -> dict[str, Any]:
    """The ranked heads of every map, and the map and head that the page opens with."""
    ranked = {entry["name"]: telling_heads(seen.layers[entry["name"]], entry, lines, meant) for entry in maps}
    kind = "cross" if any(entry["kind"] == "cross" for entry in maps) else "self"
    first = [entry["name"] for entry in maps if (entry["stack"], entry["kind"]) == (maps[-1]["stack"], kind)]
    places = [(name, head) for name in first for head in range(len(ranked[name]))]
    best = max(places, key=lambda place: ranked[place[0]][place[1]].score, default=None)
    return {
        "best": None if best is None else {"name": best[0], "head": best[1]},
        "maps": {name: [rounded_score(head) for head in heads] for name, heads in ranked.items()},
    }


def telling_heads(
    layer: AttentionInputs, entry: dict[str, Any], lines: dict[str, Any], meant: list[int]
) -> list[Telling]:
    queries, keys = lines[entry["rows"]], lines[entry["columns"]]["tokens"]
    is_self = entry["kind"] == "self"
    named = queries["writes"] if not is_self and queries["writes"] else queries["tokens"]
    first = queries["begins"] if len(queries["tokens"]) > queries["begins"] else 0  # skips the rows of a question
    plain = [at for at, token in enumerate(named) if at >= first and (not token["special"] or at in meant)] or [first]
    sinks = torch.tensor([bool(token["special"]) for token in keys])
    if entry["stack"] == "decoder" and is_self and len(keys) > 1:
        sinks[queries["before"]] = True
    weights, rows = some_rows(layer)
    look = torch.cat([may_look(layer, row) for row in rows], dim=1)  # (H or 1, R, S)
    kept = [at for at, row in enumerate(rows) if row in set(plain)] or list(range(len(rows)))
    numbers = [rows[at] for at in kept]
    copies = None if is_self else torch.tensor([[named[row]["text"] == key["text"] for key in keys] for row in numbers])
    return rank_heads(
        weights[:, kept], numbers, sinks, visible=look[:, kept], meant=meant, is_self=is_self, copies=copies
    )


def may_look(layer: AttentionInputs, row: int) -> Tensor:
    """The keys that a row may attend to: (H or 1, 1, S)."""
    tile = layer.mask_of(slice(row, row + 1))
    if tile is None:
        return torch.ones(1, 1, layer.size[1], dtype=torch.bool)
    return tile[0] if tile.dtype == torch.bool else tile[0].isfinite() & (tile[0] > torch.finfo(tile.dtype).min)


def some_rows(layer: AttentionInputs) -> tuple[Tensor, list[int]]:
    """Weights (H, R, S) and indices of all rows, or of stretches of a long map that include its last row."""
    count = layer.size[0]
    starts = [0] if count <= PARTS * PART else [round(i * (count - PART) / (PARTS - 1)) for i in range(PARTS)]
    size = count if len(starts) == 1 else PART
    parts, rows = [], list[int]()
    for start in starts:
        check_time()
        parts.append(layer.weights(slice(start, start + size), None))  # (H, size, S)
        rows += range(start, start + size)
    return torch.cat(parts, dim=1), rows


def rounded_score(head: Telling) -> dict[str, Any]:
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in asdict(head).items()}


def meant_rows(answer: dict[str, Any], lines: dict[str, Any], prefix: int) -> list[int]:
    """The rows that the answer is computed from: masks, class tokens, the last row of a lone decoder."""
    if answer["kind"] == "masks":
        return [mask["position"] for mask in answer["masks"]]
    if prefix and "decoder" not in lines:
        return list(range(prefix))
    return [len(lines["decoder"]["tokens"]) - 1] if answer["kind"] == "next" and "encoder" not in lines else []


def changes_of(seen: RecordedPage, before: RecordedPage) -> dict[str, list[float]] | None:
    """How much each head's weights changed: half the sum of absolute differences, from 0 to 1, averaged over rows.
    None if the tokens differ, for example in a different translation."""
    if any(layer.size != before.layers[name].size for name, layer in seen.layers.items()):
        return None
    found = {}
    for name, layer in seen.layers.items():
        now, then = some_rows(layer)[0], some_rows(before.layers[name])[0]  # (H, R, S)
        found[name] = [round(float(x), 4) for x in (now - then).abs().sum(dim=-1).mean(dim=-1) / 2]
    return found
