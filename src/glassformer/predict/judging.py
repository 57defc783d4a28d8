"""Predictions without generation: the class of a text or of each token, masked words, the answer to a question.

Each ability has two functions: `encode` turns texts into ids, `run` turns a batch into answers. `calls.py` calls them.
"""

from collections.abc import Callable, Sequence

from glassformer.checkpoints.labels import class_names
from glassformer.core.heads import LanguageHead
from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.generation.encode import BATCH_TOKENS, TextBatch
from glassformer.predict.answers import Answer, Guess, Label, Labels, TokenLabel, as_labels, best_span
from glassformer.predict.calls import NO_LIMIT, TokenLimit, check_batch, in_batches
from glassformer.text import Encoded, Tokenizer
from glassformer.text.tokenizer import SPACE


def fill_masks(
    model: Transformer,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    guesses: int = 5,
    batch_tokens: int = BATCH_TOKENS,
    batch_size: int | None = None,
) -> list[list[list[Guess]]]:
    """The most probable tokens for each mask of each text, best first."""
    check_batch(texts)
    mask, head = tokenizer.special.get("mask_token"), model.head
    if mask is None:
        raise InputError("this tokenizer has no mask token. Set mask_token in tokenizer_config.json")
    if guesses < 1:
        raise InputError(f"--guesses is {guesses}: expected at least 1")
    for text in texts:
        if mask not in text:
            raise InputError(f"the text {text[:60]!r} has no {mask}: put it in place of the word to guess")
    assert isinstance(head, LanguageHead)

    def run(batch: TextBatch) -> list[list[list[Guess]]]:
        hidden = model.encode(**batch.arguments)  # (B, T, D)
        masked = batch.keep & (batch.arguments["input_ids"] == tokenizer.mask_token_id)  # (B, T)
        logits = head(hidden[masked]).float()  # (masks, V): other tokens need no logits
        probabilities = logits.softmax(dim=1)[:, : len(tokenizer)]
        best = probabilities.topk(min(guesses, probabilities.shape[1]), dim=1)
        # As in transformers, part of a character becomes �.
        tokens = [[tokenizer.readable(i).strip() or SPACE for i in row] for row in best.indices.tolist()]
        found = [list(map(Guess, *pair)) for pair in zip(tokens, best.values.tolist(), strict=True)]
        masks = iter(found)
        return [[next(masks) for _ in range(count)] for count in masked.sum(dim=1).tolist()]

    def encode(some: Sequence[str], most: int | None) -> Encoded:
        return tokenizer.encode(some, max_length=most)

    return in_batches(model, texts, encode, run, batch_tokens, batch_size)


def classify(
    model: Transformer,
    tokenizer: Tokenizer,
    texts: Sequence[str | tuple[str, str]],
    *,
    limit: TokenLimit = NO_LIMIT,
    seen: Callable[[Encoded, Sequence[str | tuple[str, str]], int], object] = lambda encoded, some, start: None,
    batch_tokens: int = BATCH_TOKENS,
    batch_size: int | None = None,
) -> list[Label | Labels]:
    """The class of each text or pair of texts, or its classes in multi-label classification. `seen` is as in
    `in_batches`."""
    odd = next((i for i, text in enumerate(texts) if isinstance(text, str) != isinstance(texts[0], str)), None)
    if odd is not None:
        raise InputError(
            f"input {odd + 1} is {texts[odd]!r:.60}, and the first is {texts[0]!r:.60}: expected only texts, or only "
            "pairs"
        )

    def encode(some: Sequence[str | tuple[str, str]], most: int | None) -> Encoded:
        if all(isinstance(text, str) for text in some):
            return tokenizer.encode([str(text) for text in some], max_length=most, places=False)
        first, second = [pair[0] for pair in some], [pair[1] for pair in some]
        return tokenizer.encode(first, second, max_length=most, places=False)

    def run(batch: TextBatch) -> list[Label | Labels]:
        return as_labels(model, model(**batch.arguments).logits.float().cpu())

    return in_batches(model, texts, encode, run, batch_tokens, batch_size, limit, seen)


def label_tokens(
    model: Transformer,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    batch_tokens: int = BATCH_TOKENS,
    batch_size: int | None = None,
) -> list[list[TokenLabel]]:
    """The class and position of each token of each text; special tokens are left out."""
    names = class_names(model)

    def encode(some: Sequence[str], most: int | None = None) -> Encoded:
        return tokenizer.encode(some, pad_left=False, max_length=most)

    def run(batch: TextBatch) -> list[list[TokenLabel]]:
        best = model(**batch.arguments).logits.float().softmax(dim=2).max(dim=2)
        encoded = encode([texts[number] for number in batch.numbers])  # again, for the token offsets
        found = []
        for i, number in enumerate(batch.numbers):
            row = []
            for t in (encoded.sequence_ids[i] == 0).nonzero().flatten().tolist():
                start, end = encoded.offsets[i, t].tolist()
                label, score = names[int(best.indices[i, t])], float(best.values[i, t])
                row.append(TokenLabel(texts[number][start:end], label, score, start, end))
            found.append(row)
        return found

    return in_batches(model, texts, encode, run, batch_tokens, batch_size)


def find_answers(
    model: Transformer,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    question: str | None = None,
    batch_tokens: int = BATCH_TOKENS,
    batch_size: int | None = None,
) -> list[Answer]:
    """The span of each text that answers the question."""
    if not (question or "").strip():
        raise InputError("this model answers questions from a text. Give the question with --question")

    def encode(some: Sequence[str], most: int | None = None) -> Encoded:
        return tokenizer.encode([str(question)] * len(some), some, pad_left=False, max_length=most)

    def run(batch: TextBatch) -> list[Answer]:
        output = model(**batch.arguments)
        encoded = encode([texts[number] for number in batch.numbers])  # again, for the token offsets
        outside = encoded.sequence_ids != 1  # (B, T): the answer is in the text, not in the question
        start, end = output.start_logits.float().cpu(), output.end_logits.float().cpu()
        score, place, _, _ = best_span(start, end, outside)
        found = []
        for i, number in enumerate(batch.numbers):
            if outside[i].all():
                raise InputError(f"text {number + 1} is empty: expected a text that may contain the answer")
            first, last = divmod(int(place[i]), outside.shape[1])
            begin, stop = int(encoded.offsets[i, first, 0]), int(encoded.offsets[i, last, 1])
            found.append(Answer(texts[number][begin:stop].strip(), float(score[i]), begin, stop))
        return found

    return in_batches(model, texts, encode, run, batch_tokens, batch_size)
