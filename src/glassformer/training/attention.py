"""The attention in the report of a run: where the sharpest head of the last layer looks, in one scored example.

A text becomes a table of tokens; an image or a series is drawn with the weight of each patch. The colours and their
square-root scale are those of the explorer's maps.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape

import numpy as np
import torch
from torch import Tensor

from glassformer.config import ImageConfig, SeriesConfig
from glassformer.core.model import Transformer
from glassformer.core.pair import Pair
from glassformer.figures.korean import bilingual
from glassformer.figures.palette import LEVELS, weight_class
from glassformer.figures.png import as_data_url
from glassformer.text import Tokenizer
from glassformer.text.token_texts import TokenTexts, short_name
from glassformer.training.task import Batch, Task
from glassformer.watch.record import record

MAX_SHOWN_TOKENS = 40  # of a text whose attention is shown
WIDE, HIGH, LANE = 640, 150, 14  # of a drawn series, and of the lane below it


def attention_of_example(task: Task, examples: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """HTML for the first example that can be shown; nothing if there is none."""
    seen = task.seen_example()
    if seen is not None and "decoder_input_ids" in seen and task.tokenizer is not None:
        yield from caption_attention(task.model, task.tokenizer, seen)
    elif seen is not None:
        yield from patch_attention(task.model.image if isinstance(task.model, Pair) else task.model, seen)
    elif task.tokenizer is not None:
        yield from text_attention(task.model, task.tokenizer, examples)


def text_attention(model: Transformer, tokenizer: Tokenizer, examples: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """A table whose rows sum to 1. For a translation model, the rows are the tokens it wrote."""
    maps = (weights_of_text(model, tokenizer, *row.values()) for row in examples if len(row) > 1)
    found = next((one for one in maps if one is not None), None)
    if found is None:
        return
    weights, rows, columns = found
    head = sharpest_head(weights)
    yield caption(
        model,
        head,
        "each row shows where one token looks. Hover a cell for its weight.",
        "각 행은 토큰 하나가 어디를 보는지 나타냅니다. 칸에 마우스를 올리면 가중치가 보입니다.",
    )
    titles = "".join(f'<th scope="col"><span>{escape(column)}</span></th>' for column in columns)
    body = []
    for row, values in zip(rows, weights[head].tolist(), strict=True):
        hints = [escape(f"{row} → {column}: {x:.3f}") for column, x in zip(columns, values, strict=True)]
        cells = [f'<td class="w{weight_class(x)}" title="{hint}"></td>' for x, hint in zip(values, hints, strict=True)]
        body.append(f'<tr><th scope="row">{escape(row)}</th>{"".join(cells)}</tr>')
    yield (
        f'<div class="wide" tabindex="0"><table class="confusion weights"><thead><tr><td></td>{titles}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )
    yield scale_bar(1.0)


def patch_attention(model: Transformer, seen: Batch) -> Iterator[str]:
    """The weight of each patch: from the class token if the answer is read from it, else the mean over all tokens."""
    weights = last_layer_weights(model, {name: seen[name] for name in seen if name != "labels"})  # (H, N, N)
    head, config = sharpest_head(weights), model.config
    first = config.reads_class_token
    shares = weights[head][0] if first else weights[head].mean(dim=0)  # (N)
    who = ("the class token", "클래스 토큰이") if first else ("all patches on average", "모든 패치가 평균적으로")
    yield caption(
        model,
        head,
        f"the weight that {who[0]} gives to each patch, at most {float(shares.max()):.3f}. Hover a patch for its "
        "weight.",
        f"{who[1]} 각 패치에 주는 가중치이며, 최댓값은 {float(shares.max()):.3f}입니다. 패치에 마우스를 올리면 값이 "
        "보입니다.",
    )
    if config.image is not None:
        yield over_image(seen["pixel_values"][0], shares[config.image.prefix_tokens :].tolist(), config.image)
    elif config.series is not None:
        yield over_series(seen["past_values"][0, :, 0], shares.tolist(), config.series)
    yield scale_bar(float(shares.max()))


def caption_attention(model: Transformer, tokenizer: Tokenizer, seen: Batch) -> Iterator[str]:
    """Where the decoder looks in the image after each token."""
    image = model.config.image
    if image is None:
        return
    weights = last_layer_weights(model, seen)  # (H, T, N)
    head, prefix = sharpest_head(weights), image.prefix_tokens
    shares = weights[head][:, prefix:]  # (T, N)
    tokens = TokenTexts(tokenizer.target or tokenizer.backend).describe_all(seen["decoder_input_ids"][0].tolist())
    most = float(shares.max())
    yield caption(
        model,
        head,
        f"where the model looks after each token to write the next, at most {most:.3f}. Hover a patch for its weight.",
        f"각 토큰 다음에 올 토큰을 예측할 때 보는 곳이며, 최댓값은 {most:.3f}입니다. 패치에 마우스를 올리면 가중치가 "
        "보입니다.",
    )
    frame = f'viewBox="0 0 {image.size} {image.size}" role="img"'
    parts = [
        f'<figure><svg {frame} aria-label="image">{image_from_pixels(seen["pixel_values"][0], image)}</svg></figure>'
    ]
    for token, row in list(zip(tokens, shares.tolist(), strict=True))[:MAX_SHOWN_TOKENS]:
        name = escape(short_name(token))
        drawn = f'<svg {frame} aria-label="attention">{coloured_patches(row, image, most)}</svg>'
        parts.append(f"<figure>{drawn}<figcaption>{name}</figcaption></figure>")
    yield f'<div class="looked words">{"".join(parts)}</div>'
    yield scale_bar(most)


def over_image(pixels: Tensor, shares: Sequence[float], image: ImageConfig) -> str:
    """The image beside its patches, which are coloured by weight."""
    frame = f'viewBox="0 0 {image.size} {image.size}" role="img"'
    patches = coloured_patches(shares, image, max(shares, default=0.0) or 1.0)
    return (
        f'<div class="looked"><svg {frame} aria-label="image">{image_from_pixels(pixels, image)}</svg>'
        f'<svg {frame} aria-label="attention">{patches}</svg></div>'
    )


def image_from_pixels(pixels: Tensor, image: ImageConfig) -> str:
    """An SVG image of pixels (C, Y, X), scaled from their own range."""
    low, high = float(pixels.min()), float(pixels.max())
    scaled = (255 * (pixels - low) / max(1e-6, high - low)).round().byte().permute(1, 2, 0).numpy()  # (Y, X, C)
    grey_or_colour = np.ascontiguousarray(scaled[:, :, 0] if scaled.shape[2] != 3 else scaled)
    return f'<image href="{as_data_url(grey_or_colour)}" width="{image.size}" height="{image.size}"/>'


def coloured_patches(shares: Sequence[float], image: ImageConfig, most: float) -> str:
    """The patches coloured by weight; `most` is the largest weight."""
    side, patch = image.patches_per_side, image.patch
    return "".join(
        f'<rect class="w{weight_class(x / most)}" x="{i % side * patch}" y="{i // side * patch}" width="{patch}" '
        f'height="{patch}"><title>({i // side}, {i % side}): {x:.3f}</title></rect>'
        for i, x in enumerate(shares)
    )


def over_series(values: Tensor, shares: Sequence[float], series: SeriesConfig) -> str:
    """The first channel as a curve. Below it, each stride has the colour of the patch that begins there."""
    low, high = float(values.min()), float(values.max())
    across = WIDE / len(values)
    points = " ".join(
        f"{(i + 0.5) * across:.1f},{8 + (HIGH - 16) * (1 - (x - low) / max(1e-6, high - low)):.1f}"
        for i, x in enumerate(values.tolist())
    )
    most = max(shares, default=0.0) or 1.0
    lane = []
    for i, x in enumerate(shares):
        begin, end = i * series.stride, min(i * series.stride + series.patch, len(values))
        until = min(begin + series.stride, len(values)) if i + 1 < len(shares) else end
        lane.append(
            f'<rect class="w{weight_class(x / most)}" x="{begin * across:.1f}" y="{HIGH}" height="{LANE}" '
            f'width="{max(0, until - begin) * across:.1f}"><title>{begin}–{end - 1}: {x:.3f}</title></rect>'
        )
    return (
        f'<div class="looked"><svg class="curve" viewBox="0 0 {WIDE} {HIGH + LANE}" role="img" aria-label="attention">'
        f'<polyline class="line first" points="{points}"/>{"".join(lane)}</svg></div>'
    )


def caption(model: Transformer, head: int, english: str, korean: str) -> str:
    layer = model.config.last_stack.num_layers - 1
    kind = ("Cross-attention", "크로스 어텐션") if is_translator(model) else ("Self-attention", "셀프 어텐션")
    said = bilingual(
        f"{kind[0]}, layer {layer}, head {head}: {english}", f"{kind[1]}, 층 {layer}, 헤드 {head}: {korean}"
    )
    return f'<p class="aside">{said}</p>'


def scale_bar(most: float) -> str:
    cells = "".join(f'<i class="w{level}"></i>' for level in range(LEVELS))
    said = bilingual("weight, square-root scale", "가중치, 제곱근 눈금")
    return f'<p class="scale">{said} <span>0 {cells} {most:.3g}</span></p>'


def sharpest_head(weights: Tensor) -> int:
    """The head (of H, T, S) whose rows have the largest weights on average."""
    return int(weights.max(dim=-1).values.mean(dim=-1).argmax())


def is_translator(model: Transformer) -> bool:
    return model.encoder is not None and model.decoder is not None


@torch.no_grad()
def last_layer_weights(model: Transformer, arguments: Mapping[str, Tensor]) -> Tensor:
    """The last layer's attention weights (H, T, S) for the first example: cross-attention if the model has it."""
    stack = "decoder" if model.decoder is not None else "encoder"
    path = f"{stack}.blocks.{model.config.last_stack.num_layers - 1}.{'cross' if is_translator(model) else 'attn'}"
    was_training = model.training
    model.eval()
    with record(model, attention=path) as seen:
        model(**{name: value.to(model.device) for name, value in arguments.items()})
    model.train(was_training)
    rows = model.config.series.fold if model.config.series else 1  # those of the first channel
    return seen[path][:rows].mean(dim=0).float().cpu()


def weights_of_text(
    model: Transformer, tokenizer: Tokenizer, text: str, *answers: str
) -> tuple[Tensor, list[str], list[str]] | None:
    """The weights (H, T, S) and the names of rows and columns; None if the text is too long."""
    ids = tokenizer.encode([text]).input_ids
    written = tokenizer.encode([answers[-1]], target=True).input_ids if is_translator(model) else None
    sizes = [part.shape[1] for part in (ids, written) if part is not None]
    if not 1 < max(sizes) <= MAX_SHOWN_TOKENS or min(sizes) == 0:
        return None
    columns = [short_name(token) for token in TokenTexts(tokenizer.backend).describe_all(ids[0].tolist())]
    if written is None:
        return last_layer_weights(model, {"input_ids": ids}), columns, columns
    texts = TokenTexts(tokenizer.target or tokenizer.backend)
    rows = [short_name(token) for token in texts.describe_all(written[0].tolist())]
    return last_layer_weights(model, {"input_ids": ids, "decoder_input_ids": model.shift_right(written)}), rows, columns
