"""A model and a view as plain lists and dictionaries, for the page."""

from typing import Any

from glassformer.config import StackConfig, TransformerConfig
from glassformer.explore.view.answers import sixes
from glassformer.explore.view.seen import RecordedPage
from glassformer.figures.png import as_data_url
from glassformer.predict.prepared import Prepared, Window
from glassformer.watch.names import StepName


def page_kind(config: TransformerConfig) -> str:
    """The kind of a model, which decides the layout of the page."""
    if config.image is not None and config.decoder is not None:
        return "image-text"
    if config.patches is not None:
        return "image" if config.image is not None else "series"
    if config.encoder is not None and config.decoder is not None:
        return "encoder-decoder"
    return "encoder" if config.decoder is None else "decoder"


def describe_sizes(config: TransformerConfig) -> dict[str, Any]:
    """The sizes of the stacks, and of the patches, if any."""
    image, series = config.image, config.series
    pictures: dict[str, Any] | None = None
    curves: dict[str, Any] | None = None
    if image is not None:
        side = image.patches_per_side
        pictures = {"size": image.size, "patch": image.patch, "channels": image.channels}
        pictures |= {"prefix": image.prefix_tokens, "grid": [side, side]}
    if series is not None:
        curves = {key: getattr(series, key) for key in ("length", "patch", "stride", "horizon")}
    stacks = {
        name: describe_stack(stack, name, config.cross)
        for name, stack in (("encoder", config.encoder), ("decoder", config.decoder))
        if stack is not None
    }
    return {"stacks": stacks, "vocab_size": config.vocab_size, "image": pictures, "series": curves}


def describe_stack(stack: StackConfig, name: str, cross: bool) -> dict[str, Any]:
    fields = (
        "num_layers", "num_heads", "num_kv_heads", "d_model", "head_dim", "d_ff", "positions", "score_cap",
        "norm", "norm_order", "activation", "gated",
    )  # fmt: skip
    is_decoder = name == "decoder"
    return {**{key: getattr(stack, key) for key in fields}, "causal": is_decoder, "cross": is_decoder and cross}


def describe_name(name: str) -> dict[str, Any]:
    """A step's name with its stack, layer and step (or None), so that the page does not parse names."""
    stack, layer, step = StepName.parse(name)
    return {"name": name, "stack": stack or None, "layer": layer, "step": step}


def maps_of(seen: RecordedPage) -> list[dict[str, Any]]:
    maps = []
    for name, layer in seen.layers.items():
        place = describe_name(name)
        is_cross = place["step"] == "cross"
        maps.append(
            {
                **place,
                "kind": "cross" if is_cross else "self",
                "heads": layer.num_heads,
                "shape": list(seen.shapes[name]),  # of the whole batch; the page shows one channel of a series
                "rows": place["stack"],
                "columns": "encoder" if is_cross else place["stack"],
            }
        )
    return maps


def stream_of(seen: RecordedPage) -> dict[str, Any]:
    """The norm of each stack's residual stream at every recorded step, and which steps surround a block.

    Two parallel branches have one step, after both.
    """
    streams: dict[str, Any] = {}
    for name, norms in seen.norms.items():
        place = describe_name(name)
        stream = streams.setdefault(place["stack"], {"steps": [], "blocks": []})
        blocks, at = stream["blocks"], len(stream["steps"])
        stream["steps"].append({**place, "norms": sixes(norms)})
        if place["layer"] is None:
            continue
        if place["layer"] == len(blocks):
            blocks.append({"before": at - 1 if at else None, "after_attn": None, "after_cross": None, "after": None})
        key = {"attn_residual": "after_attn", "cross_residual": "after_cross"}.get(place["step"])
        blocks[-1] |= {"after": at} | ({key: at} if key else {})
    return streams


def stack_rows(prepared: Prepared, config: TransformerConfig) -> dict[str, dict[str, Any]]:
    """The input tokens of each stack, row by row; an image prefix has rows in the decoder too."""
    lines = dict(prepared.lines)
    if config.prefix:
        lines["decoder"] = lines["decoder"].behind(lines["encoder"])
    return {stack: line.to_dict() for stack, line in lines.items()}


def words_after(lines: dict[str, dict[str, Any]], answer: dict[str, Any]) -> dict[str, Any]:
    """The answer, aligned with the rows of its line: the rows of an image prefix predict no token."""
    before = lines["decoder"]["before"] if answer["kind"] == "next" else 0
    return {**answer, "candidates": [*([] for _ in range(before)), *answer["candidates"]]} if before else answer


def finished(lines: dict[str, dict[str, Any]], answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The decoder's last row predicts the most probable token if no token follows it yet."""
    decoder = lines.get("decoder")
    if decoder is None or decoder["writes"] is None or len(decoder["writes"]) == len(decoder["tokens"]):
        return lines
    best = answer["candidates"][-1][0]
    best = {key: value for key, value in best.items() if key != "score"}
    return {**lines, "decoder": {**decoder, "writes": [*decoder["writes"], best]}}


def changed_since(shown: dict[str, Any], maps: dict[str, list[float]] | None) -> dict[str, Any]:
    """The full model's result for the same input, for comparison: a short answer, and the change of each map."""
    answer = shown["answer"]
    if answer["kind"] == "next":
        answer = {**answer, "candidates": [row[:1] for row in answer["candidates"]]}
    future = shown["curve"] and shown["curve"]["future"]
    return {"text": shown["text"], "answer": answer, "future": future, "maps": maps}


def shown_image(prepared: Prepared, config: TransformerConfig) -> dict[str, Any] | None:
    """The image as the model sees it, and the grid of its patches."""
    image = config.image
    if image is None or prepared.pixels is None:
        return None
    side = image.patches_per_side
    return {"png": as_data_url(prepared.pixels), "grid": [side, side], "prefix": image.prefix_tokens}


def curve_of(window: Window, channel: int, future: list[float | None] | None) -> dict[str, Any]:
    """One channel of a series, the names of all channels, and the values that each patch covers."""
    return {
        "names": list(window.names),
        "channel": channel,
        "past": [float(f"{value:.6g}") for value in window.values[:, channel]],
        "future": future,
        "patches": [list(patch) for patch in window.patches],
        "notes": list(window.notes),
    }
