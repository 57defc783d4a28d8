"""Word alignment: which source word each target word comes from, read from the cross-attention.

    alignment = align(model, tokenizer, "May 1st, 2031")
    alignment.pharaoh()  # 2-0 0-1 1-2: source word - target word

Only some heads align, so these are chosen first, without labels, on the given texts: `align` uses its one text,
`align_corpus` chooses once for all texts. To reuse the heads for other texts, pass those of an alignment as `heads`.
To choose them, each source word is hidden from the decoder in turn: a target word comes from the source word whose
absence lowers its probability the most (Li et al., 2019). That takes one pass per source word, so it runs on a sample
of the texts and only ranks the heads by how much weight they put on those words. A head may look at the source word
while the target word is written, or one step later, while it is read (Chen et al., 2020): both are tried.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from glassformer.core.heads import LanguageHead
from glassformer.core.model import IGNORE, Transformer
from glassformer.errors import InputError
from glassformer.generation.loop import evaluating
from glassformer.predict.calls import TEXTS_AT_ONCE, arguments_of_rows, check_length
from glassformer.predict.writing import translate
from glassformer.text import Tokenizer
from glassformer.text.padding import pad
from glassformer.text.words import word_spans
from glassformer.watch.record import record

SAMPLE_TEXTS = 24  # number of texts used to choose the heads
NEARLY = 0.9  # heads with at least this fraction of the best score are chosen too

Method = Literal["chosen", "last_layer"]
Link = tuple[int, int]


@dataclass(frozen=True)
class AlignmentHead:
    """A head, the row in which it looks at a word's source, and its mean weight on the right source words."""

    layer: int
    head: int
    row: Literal["writes", "reads"]
    score: float


@dataclass(frozen=True)
class Alignment:
    """Links (source word, target word), counted from 0, and the weights (target words, source words) they come from."""

    source: str
    target: str
    source_words: list[str]
    target_words: list[str]
    pairs: list[Link]
    weights: Tensor
    heads: list[AlignmentHead]

    def pharaoh(self) -> str:
        return " ".join(f"{source}-{target}" for source, target in self.pairs)

    def to_dict(self) -> dict[str, Any]:
        """The alignment in a form that JSON can hold."""
        parts = {name: getattr(self, name) for name in ("source", "target", "source_words", "target_words")}
        weights = [[round(weight, 4) for weight in row] for row in self.weights.tolist()]
        return {**parts, "pairs": self.pairs, "weights": weights, "heads": [asdict(head) for head in self.heads]}


@dataclass(frozen=True)
class Passage:
    """A text and its translation as token ids, and the word of each token."""

    source: str
    target: str
    input_ids: Tensor  # (1, S)
    labels: Tensor  # (1, T), including the special tokens at the end
    source_member: Tensor  # (S, source words), True where the token belongs to the word
    target_member: Tensor  # (T, target words)


def align(
    model: Transformer,
    tokenizer: Tokenizer,
    source: str,
    target: str | None = None,
    *,
    heads: Sequence[AlignmentHead] | None = None,
    method: Method = "chosen",
) -> Alignment:
    """Aligns one text with its translation, by default the model's own."""
    targets = None if target is None else [target]
    return align_corpus(model, tokenizer, [source], targets, heads=heads, method=method)[0]


def align_corpus(
    model: Transformer,
    tokenizer: Tokenizer,
    sources: Sequence[str],
    targets: Sequence[str] | None = None,
    *,
    heads: Sequence[AlignmentHead] | None = None,
    method: Method = "chosen",
) -> list[Alignment]:
    """Aligns many texts, with `heads` or with heads chosen on these texts.

    Each target word is linked to the source word with the largest weight, over all heads and all tokens of the target
    word. The method `last_layer`, a baseline, averages all heads of the last layer instead.
    """
    check_passages(model, sources, targets)
    check_head_names(model, heads, method)
    assert model.encoder is not None
    assert model.decoder is not None
    for ids in tokenizer.ids_batch(sources):
        check_length(len(ids), model.encoder.config.room)
    if targets is None:
        targets = translate(model, tokenizer, sources)
    passages = [make_passage(tokenizer, *pair) for pair in zip(sources, targets, strict=True)]
    for passage in passages:
        read = passage.labels.shape[1] + 1  # all of them, after the start token
        check_length(read, model.decoder.config.room, "translation")
    if method == "last_layer":
        decoder = model.decoder.config
        heads = [AlignmentHead(decoder.num_layers - 1, head, "writes", 0.0) for head in range(decoder.num_heads)]
    elif heads is None:
        heads = best_heads(model, passages)
        if not heads:
            raise InputError("no word to align in any translation. Give other texts, or give their translations")
    found = []
    for passage, looks in zip(passages, source_weights(model, passages), strict=True):
        chosen = torch.stack([looks[head.layer, head.head, int(head.row == "reads")] for head in heads])
        average = method == "last_layer"
        combined = chosen.mean(dim=0) if average else chosen.amax(dim=0)  # (T, source words)
        weights = merge_words(combined, passage.target_member, average=average)
        found.append(make_alignment(passage, weights, list(heads)))
    return found


def best_heads(model: Transformer, passages: Sequence[Passage]) -> list[AlignmentHead]:
    """The heads that put the most weight on the source words that matter most when hidden, best first."""
    told = [passage for passage in passages if passage.source_member.numel() and passage.target_member.numel()]
    sample = told[:: max(1, len(told) // SAMPLE_TEXTS)][:SAMPLE_TEXTS]
    total, words = torch.zeros(()), 0
    for passage, looks in zip(sample, source_weights(model, sample), strict=True):
        origin = hide_words(model, passage).argmax(dim=1)  # (target words)
        weights = merge_words(looks, passage.target_member)  # (L, H, 2, target words, source words)
        total = total + weights[..., torch.arange(len(origin)), origin].sum(dim=-1)  # (L, H, 2)
        words += len(origin)
    if not words:
        return []
    scores = total / words
    ranked = scores.flatten().sort(descending=True, stable=True)
    return [
        AlignmentHead(layer, head, "reads" if row else "writes", round(score, 4))
        for score, place in zip(ranked.values.tolist(), ranked.indices, strict=True)
        if score >= NEARLY * float(scores.max())
        for layer, head, row in [[int(i) for i in torch.unravel_index(place, scores.shape)]]
    ]


def source_weights(model: Transformer, passages: Sequence[Passage]) -> Iterator[Tensor]:
    """The attention of every head to source words, (L, H, 2, T, source words), as a target token is written and read.

    Weight on special tokens is left out, so a head that rests on them counts little for that token.
    """
    decoder = model.config.decoder
    assert decoder is not None
    for first in range(0, len(passages), TEXTS_AT_ONCE):
        some = passages[first : first + TEXTS_AT_ONCE]
        sources = arguments_of_rows([p.input_ids[0].tolist() for p in some], 0)  # (B, S)
        targets = pad([[*p.labels[0].tolist(), IGNORE] for p in some], IGNORE)  # (B, T+1): a row to read the last token
        with torch.no_grad(), evaluating(model), record(model) as seen:
            model(**sources, decoder_input_ids=model.shift_right(targets))
        weights = torch.stack([seen[f"decoder.blocks.{i}.cross"] for i in range(decoder.num_layers)], dim=1)
        for passage, layers in zip(some, weights.float(), strict=True):
            length, keys = passage.labels.shape[1], passage.input_ids.shape[1]
            rows = torch.stack([layers[:, :, :length], layers[:, :, 1 : length + 1]], dim=2)[..., :keys]
            yield rows @ passage.source_member.float()


@torch.no_grad()
def hide_words(model: Transformer, passage: Passage) -> Tensor:
    """The drop in log-probability of each target word when a source word is hidden: (target words, source words)."""
    nothing = torch.ones(1, len(passage.source_member), dtype=torch.bool)
    keep = torch.cat([nothing, ~passage.source_member.T])  # (1 + source words, S)
    shifted = model.shift_right(passage.labels)  # (1, T)
    assert model.head is not None
    rows = []
    with evaluating(model):
        memory = model.encode(passage.input_ids)  # (1, S, D)
        for some in keep.split(TEXTS_AT_ONCE):
            hidden = model.decode(
                shifted.expand(len(some), -1),
                encoder_last_hidden_state=memory.expand(len(some), -1, -1),
                attention_mask=some,
            )  # (B, T, D)
            told = model.head(hidden).float().log_softmax(dim=-1)  # (B, T, V)
            rows.append(told.gather(2, passage.labels.expand(len(some), -1)[..., None]).squeeze(2))  # (B, T)
    likely = torch.cat(rows)
    return ((likely[:1] - likely[1:]) @ passage.target_member.float()).T


def make_passage(tokenizer: Tokenizer, source: str, target: str) -> Passage:
    read, written = tokenizer.encode([source]), tokenizer.encode([target], target=True)
    members = [
        members_of(encoded.offsets[0], encoded.sequence_ids[0], word_spans(text))
        for encoded, text in ((read, source), (written, target))
    ]
    return Passage(source, target, read.input_ids, written.input_ids, *members)


def members_of(offsets: Tensor, sequence_ids: Tensor, spans: Sequence[Link]) -> Tensor:
    """The word of each token, as a mask (tokens, words): the one it shares most characters with; for a space, the next.

    Special tokens belong to no word.
    """
    member = torch.zeros(len(offsets), len(spans), dtype=torch.bool)
    for token, (start, end) in enumerate(offsets.tolist()):
        shared = [min(end, span[1]) - max(start, span[0]) for span in spans]
        if int(sequence_ids[token]) != 0 or not spans:
            continue
        if max(shared) > 0:
            member[token, shared.index(max(shared))] = True
        elif following := [word for word, span in enumerate(spans) if span[0] >= start]:
            member[token, following[0]] = True
    return member


def merge_words(looks: Tensor, member: Tensor, *, average: bool = False) -> Tensor:
    """(..., T, source words) -> (..., target words, source words): the maximum over a word's tokens, or the mean.

    A word without tokens gets zeros.
    """
    merged = looks.new_zeros(*looks.shape[:-2], member.shape[1], looks.shape[-1])
    for word, tokens in enumerate(member.T):
        if tokens.any():
            rows = looks[..., tokens, :]
            merged[..., word, :] = rows.mean(dim=-2) if average else rows.amax(dim=-2)
    return merged


def make_alignment(passage: Passage, weights: Tensor, heads: list[AlignmentHead]) -> Alignment:
    source_words, target_words = (
        [text[start:end] for start, end in word_spans(text)] for text in (passage.source, passage.target)
    )
    best = weights.max(dim=1) if weights.numel() else None
    linked = [] if best is None else zip(best.indices.tolist(), range(len(weights)), best.values.tolist(), strict=True)
    pairs = sorted((source, target) for source, target, weight in linked if weight > 0)
    return Alignment(passage.source, passage.target, source_words, target_words, pairs, weights, heads)


def alignment_error(
    predicted: Sequence[Collection[Link]], sure: Sequence[Collection[Link]], possible: Sequence[Collection[Link]]
) -> float:
    """The alignment error rate over texts, 0 at best: 1 - (|A and S| + |A and P|) / (|A| + |S|) (Och and Ney, 2003).

    Sure links always count as possible too.
    """
    if not len(predicted) == len(sure) == len(possible):
        raise InputError(
            f"the lists of predicted, sure and possible links have lengths {len(predicted)}, {len(sure)} and "
            f"{len(possible)}: expected the same length, one entry per text"
        )
    right = links = 0
    for found, certain, allowed in zip(map(set, predicted), map(set, sure), map(set, possible), strict=True):
        right += len(found & certain) + len(found & (allowed | certain))
        links += len(found) + len(certain)
    return 1 - right / links if links else 0.0


def check_passages(model: Transformer, sources: Sequence[str], targets: Sequence[str] | None) -> None:
    if model.encoder is None or model.decoder is None or not isinstance(model.head, LanguageHead):
        raise InputError("alignment needs cross-attention. Give a translation model with an encoder and a decoder")
    if not sources:
        raise InputError("no text to align. Give at least one")
    if targets is not None and len(targets) != len(sources):
        raise InputError(f"{len(sources)} texts but {len(targets)} translations: expected one translation per text")
    for name, texts in (("text", sources), ("translation", targets or [])):
        for number, text in enumerate(texts, start=1):
            if not text.strip():
                raise InputError(f"{name} {number} of {len(texts)} is empty. Give some words to align")


def check_head_names(model: Transformer, heads: Sequence[AlignmentHead] | None, method: Method) -> None:
    if method not in get_args(Method):
        raise InputError(f"the method is {method!r}: expected 'chosen' or 'last_layer'")
    if heads is None:
        return
    if method == "last_layer":
        raise InputError("heads and the method 'last_layer' were both given. Leave one of the two out")
    if not heads:
        raise InputError("the list of heads is empty. Give at least one, or leave it out to have them chosen")
    assert model.decoder is not None
    layers, number = model.decoder.config.num_layers, model.decoder.config.num_heads
    for head in heads:
        if not (0 <= head.layer < layers and 0 <= head.head < number):
            raise InputError(
                f"head {head.head} of layer {head.layer} does not exist: this decoder has layers 0 to {layers - 1}, "
                f"each with heads 0 to {number - 1}"
            )
        if head.row not in ("writes", "reads"):
            raise InputError(f"the row of a head is {head.row!r}: expected 'writes' or 'reads'")
