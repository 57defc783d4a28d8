"""What the page is told of a model and of a view, as plain lists and dictionaries."""

from typing import Any

from glassformer.config import StackConfig, TransformerConfig
from glassformer.explore.view.answers import sixes
from glassformer.explore.view.seen import Seen


def kind_of(config: TransformerConfig) -> str:
    """The shape of a model, which decides what the page looks like."""
    if config.patches is not None:
        return "image" if config.image is not None else "series"
    if config.encoder is not None and config.decoder is not None:
        return "encoder-decoder"
    return "encoder" if config.decoder is None else "decoder"


def describe_sizes(config: TransformerConfig) -> dict[str, Any]:
    """The stacks, and what is cut into patches, if anything is."""
    image, series = config.image, config.series
    pictures: dict[str, Any] | None = None
    curves: dict[str, Any] | None = None
    if image is not None:
        side = image.size // image.patch
        pictures = {"size": image.size, "patch": image.patch, "channels": image.channels}
        pictures |= {"prefix": image.num_tokens - side**2, "grid": [side, side]}
    if series is not None:
        curves = {key: getattr(series, key) for key in ("length", "patch", "stride", "horizon")}
    stacks = {
        name: describe_stack(stack, name, config.encoder is not None)
        for name, stack in (("encoder", config.encoder), ("decoder", config.decoder))
        if stack is not None
    }
    return {"stacks": stacks, "vocab_size": config.vocab_size, "image": pictures, "series": curves}


def describe_stack(stack: StackConfig, name: str, has_encoder: bool) -> dict[str, Any]:
    fields = (
        "num_layers", "num_heads", "num_kv_heads", "d_model", "head_dim", "d_ff", "positions", "score_cap",
        "norm", "norm_order", "activation", "gated",
    )  # fmt: skip
    is_decoder = name == "decoder"
    return {**{key: getattr(stack, key) for key in fields}, "causal": is_decoder, "cross": is_decoder and has_encoder}


def maps_of(seen: Seen) -> list[dict[str, Any]]:
    maps = []
    for name, layer in seen.layers.items():
        stack, _, number, part = name.split(".")
        maps.append(
            {
                "name": name,
                "stack": stack,
                "layer": int(number),
                "kind": "cross" if part == "cross" else "self",
                "heads": layer.num_heads,
                "shape": list(seen.shapes[name]),  # of the whole batch: of a series one channel is shown
                "rows": stack,
                "columns": "encoder" if part == "cross" else stack,
            }
        )
    return maps


def stream_of(seen: Seen) -> dict[str, Any]:
    streams: dict[str, Any] = {}
    for name, norms in seen.norms.items():
        stream = streams.setdefault(name.split(".")[0], {"names": [], "norms": []})
        stream["names"].append(name)
        stream["norms"].append(sixes(norms))
    return streams


def finished(lines: dict[str, dict[str, Any]], answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The decoder's last row writes the likeliest token, where nothing was written behind it yet."""
    decoder = lines.get("decoder")
    if decoder is None or decoder["writes"] is None or len(decoder["writes"]) == len(decoder["tokens"]):
        return lines
    best = answer["candidates"][-1][0]
    likeliest = {key: value for key, value in best.items() if key != "score"}
    return {**lines, "decoder": {**decoder, "writes": [*decoder["writes"], likeliest]}}
