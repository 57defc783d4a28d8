"""Which word of a translation comes from which word of its source, read from the cross-attention.

    alignment = align(model, tokenizer, "May 1st, 2031")
    alignment.pharaoh()  # 2-0 0-1 1-2: source word - target word

Some heads align and others do something else, so they are chosen first, without anything labelled, by the texts that
are given: `align` by its one text, `align_corpus` once for all. To use the same heads for other texts, hand on those
of an alignment as `heads`. What a target word comes from is also seen by hiding each source word from the decoder in
turn: where its probability falls the most, it came from (Li et al., 2019). That takes a pass for every word, so it is
done for a few texts only, and tells which heads look at the right words by themselves. A head may look while it writes
a word, or one step later, while it reads it (Chen et al., 2020): both are tried.
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
from glassformer.predict.calls import BATCH, arguments_of_rows, check_length
from glassformer.predict.writing import translate
from glassformer.text import Tokenizer
from glassformer.text.padding import pad
from glassformer.text.words import word_spans
from glassformer.watch.record import record

SAMPLE = 24  # texts that the heads are chosen by
NEARLY = 0.9  # heads with this part of the best one's score are chosen beside it

Method = Literal["chosen", "last_layer"]
Link = tuple[int, int]


@dataclass(frozen=True)
class AlignmentHead:
    """A head, in which row it looks at the source of a word, and how much of its weight is on the right words."""

    layer: int
    head: int
    row: Literal["writes", "reads"]
    score: float


@dataclass(frozen=True)
class Alignment:
    """Links (source word, target word), both counted from 0, and the weights (target words, source words) behind."""

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
        """For JSON."""
        parts = {name: getattr(self, name) for name in ("source", "target", "source_words", "target_words")}
        weights = [[round(weight, 4) for weight in row] for row in self.weights.tolist()]
        return {**parts, "pairs": self.pairs, "weights": weights, "heads": [asdict(head) for head in self.heads]}


@dataclass(frozen=True)
class Passage:
    """A text and its translation as the model reads them, and which words their tokens belong to."""

    source: str
    target: str
    input_ids: Tensor  # (1, S)
    labels: Tensor  # (1, T), the special tokens at its end included
    source_member: Tensor  # (S, source words), True where the token is of the word
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
    """The alignment of one text with its translation: the model's own, or one that is given."""
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
    """The alignments of many texts, by `heads` or by those that these texts choose.

    Each target word is linked to the source word that one of the heads looked at hardest, at any of its tokens. The
    method `last_layer` averages all heads of the last layer instead: what to compare with.
    """
    check_texts(model, sources, targets)
    check_heads(model, heads, method)
    assert model.encoder is not None
    assert model.decoder is not None
    for ids in tokenizer.ids_batch(sources):
        check_length(len(ids), model.encoder.config.room)
    if targets is None:
        targets = translate(model, tokenizer, sources)
    passages = [make_passage(tokenizer, *pair) for pair in zip(sources, targets, strict=True)]
    for passage in passages:
        read = passage.labels.shape[1] + 1  # all of them, behind the start
        check_length(read, model.decoder.config.room, "translation")
    if method == "last_layer":
        decoder = model.decoder.config
        heads = [AlignmentHead(decoder.num_layers - 1, head, "writes", 0.0) for head in range(decoder.num_heads)]
    elif heads is None:
        heads = choose_heads(model, passages)
        if not heads:
            raise InputError("no translation has a word to align: give other texts, or their translations")
    found = []
    for passage, looks in zip(passages, look(model, passages), strict=True):
        chosen = torch.stack([looks[head.layer, head.head, int(head.row == "reads")] for head in heads])
        average = method == "last_layer"
        combined = chosen.mean(dim=0) if average else chosen.amax(dim=0)  # (T, source words)
        weights = merge_words(combined, passage.target_member, average=average)
        found.append(make_alignment(passage, weights, list(heads)))
    return found


def choose_heads(model: Transformer, passages: Sequence[Passage]) -> list[AlignmentHead]:
    """The heads that put the most weight on the words whose hiding hurts the most, the best first."""
    told = [passage for passage in passages if passage.source_member.numel() and passage.target_member.numel()]
    sample = told[:: max(1, len(told) // SAMPLE)][:SAMPLE]
    total, words = torch.zeros(()), 0
    for passage, looks in zip(sample, look(model, sample), strict=True):
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


def look(model: Transformer, passages: Sequence[Passage]) -> Iterator[Tensor]:
    """What every head looks at, (L, H, 2, T, source words): for each target token, as it is written and as it is read.

    The weight of special tokens is left out, so a head that rests on them says little about that token.
    """
    decoder = model.config.decoder
    assert decoder is not None
    for first in range(0, len(passages), BATCH):
        some = passages[first : first + BATCH]
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
    """How much the log-probability of each target word falls when a source word is hidden from the decoder.

    (target words, source words)
    """
    nothing = torch.ones(1, len(passage.source_member), dtype=torch.bool)
    keep = torch.cat([nothing, ~passage.source_member.T])  # (1 + source words, S)
    shifted = model.shift_right(passage.labels)  # (1, T)
    assert model.head is not None
    rows = []
    with evaluating(model):
        memory = model.encode(passage.input_ids)  # (1, S, D)
        for some in keep.split(BATCH):
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
    """Which word each token is of: the one it shares the most characters with, or if it is a space, the next one.

    Special tokens are of none. (tokens, words)
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
    """(..., T, source words) -> (..., target words, source words): the strongest look of a word's tokens, or the mean.

    A word that the tokenizer left no token of looks at nothing.
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

    The sure links count as possible, whether `possible` has them or not.
    """
    if not len(predicted) == len(sure) == len(possible):
        raise InputError(
            f"{len(predicted)} alignments, {len(sure)} with sure links and {len(possible)} with possible ones: "
            f"expected as many of each, one for a text"
        )
    right = links = 0
    for found, certain, allowed in zip(map(set, predicted), map(set, sure), map(set, possible), strict=True):
        right += len(found & certain) + len(found & (allowed | certain))
        links += len(found) + len(certain)
    return 1 - right / links if links else 0.0


def check_texts(model: Transformer, sources: Sequence[str], targets: Sequence[str] | None) -> None:
    if model.encoder is None or model.decoder is None or not isinstance(model.head, LanguageHead):
        raise InputError("words are aligned by cross-attention: give a model that translates, encoder and decoder")
    if not sources:
        raise InputError("there is no text to align: give at least one")
    if targets is not None and len(targets) != len(sources):
        raise InputError(f"{len(sources)} texts and {len(targets)} translations: expected one for each text")
    for name, texts in (("text", sources), ("translation", targets or [])):
        for number, text in enumerate(texts, start=1):
            if not text.strip():
                raise InputError(f"{name} {number} of {len(texts)} is empty: give some words to align")


def check_heads(model: Transformer, heads: Sequence[AlignmentHead] | None, method: Method) -> None:
    if method not in get_args(Method):
        raise InputError(f"the method is {method!r}: expected 'chosen' or 'last_layer'")
    if heads is None:
        return
    if method == "last_layer":
        raise InputError("heads were given to the method 'last_layer', which has its own: leave one of the two out")
    if not heads:
        raise InputError("the list of heads is empty: give at least one, or leave it out and they are chosen")
    assert model.decoder is not None
    layers, number = model.decoder.config.num_layers, model.decoder.config.num_heads
    for head in heads:
        if not (0 <= head.layer < layers and 0 <= head.head < number):
            raise InputError(
                f"head {head.head} of layer {head.layer} does not exist: this decoder has {layers} layers of {number} "
                "heads, both counted from 0"
            )
        if head.row not in ("writes", "reads"):
            raise InputError(f"a head's row is {head.row!r}: expected 'writes' or 'reads'")
