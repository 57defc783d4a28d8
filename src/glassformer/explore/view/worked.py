"""Attention worked out in numbers: one query, the keys with the largest weights, and the weighted sum of values."""

from typing import Any

from glassformer.explore.view.answers import six, sixes
from glassformer.explore.view.slices import AttentionInputs

MAX_KEYS = 6


def worked(layer: AttentionInputs, head: int, row: int) -> dict[str, Any]:
    """q . k, score, weight and v of the keys with the largest weights, and the total weight of the other keys."""
    rows, shared = slice(row, row + 1), layer.kv_head(head)
    weights, scores = layer.weights(rows, head)[0, 0], layer.scores(rows, head)[0]  # (S)
    query, keys, values = layer.q[0, head, row], layer.k[0, shared], layer.v[0, shared]  # (K), (S, K)
    best = weights.topk(min(MAX_KEYS, len(weights)))
    chosen = [i for i, weight in zip(best.indices.tolist(), best.values.tolist(), strict=True) if weight > 0]
    return {
        "q": sixes(query),
        "scale": layer.scale,
        "keys": [
            {
                "key": i,
                "k": sixes(keys[i]),
                "v": sixes(values[i]),
                "product": six(float(query @ keys[i])),
                "score": six(float(scores[i])),
                "weight": six(float(weights[i])),
            }
            for i in chosen
        ],
        "others": int((weights > 0).sum()) - len(chosen),
        "rest": six(float(weights.sum() - weights[chosen].sum())),
        "mixed": sixes(weights @ values),
    }
