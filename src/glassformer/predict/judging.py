"""Models that judge: the class of a text or of each token, the masked word, the answer to a question."""

from collections.abc import Sequence

from glassformer.checkpoints.labels import class_names
from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.predict.answers import Answer, Guess, Label, Labels, TokenLabel, as_labels, best_span
from glassformer.predict.calls import BATCH, answer_of, encode, in_batches
from glassformer.text import Tokenizer
from glassformer.text.tokenizer import SPACE


def fill_masks(
    model: Transformer, tokenizer: Tokenizer, texts: Sequence[str], *, guesses: int = 5, batch_size: int = BATCH
) -> list[list[list[Guess]]]:
    """For each mask of each text the likeliest tokens, the best first."""
    mask = tokenizer.special.get("mask_token")
    if mask is None:
        raise InputError("this tokenizer has no mask token: its folder names none in tokenizer_config.json")
    if guesses < 1:
        raise InputError(f"guesses is {guesses}: expected at least 1")
    for text in texts:
        if mask not in text:
            raise InputError(f"the text {text[:60]!r} has no {mask}: write it where the model is to guess")

    def run(batch: Sequence[str]) -> list[list[list[Guess]]]:
        encoded = encode(tokenizer, batch)
        logits = answer_of(model, encoded)["logits"]  # (B, T, V)
        found = []
        for row, ids in zip(logits, encoded.input_ids, strict=True):
            probabilities = row[ids == tokenizer.mask_token_id].softmax(dim=1)[:, : len(tokenizer)]  # (masks, V)
            best = probabilities.topk(min(guesses, probabilities.shape[1]), dim=1)
            # As transformers writes them: a part of a character is �.
            tokens = [[tokenizer.readable(int(i)).strip() or SPACE for i in row] for row in best.indices]
            pairs = zip(tokens, best.values.tolist(), strict=True)
            found.append([list(map(Guess, *pair)) for pair in pairs])
        return found

    return in_batches(texts, run, batch_size)


def classify(
    model: Transformer,
    tokenizer: Tokenizer,
    texts: Sequence[str | tuple[str, str]],
    *,
    batch_size: int = BATCH,
) -> list[Label | Labels]:
    """The class of each text, or of each pair of texts; or its classes, where several may apply at once."""
    odd = next((i for i, text in enumerate(texts) if isinstance(text, str) != isinstance(texts[0], str)), None)
    if odd is not None:
        raise InputError(
            f"input {odd} is {texts[odd]!r:.60}, and the first is {texts[0]!r:.60}: expected pairs or texts"
        )

    def run(batch: Sequence[str | tuple[str, str]]) -> list[Label | Labels]:
        if all(isinstance(text, str) for text in batch):
            encoded = encode(tokenizer, [str(text) for text in batch])
        else:
            encoded = encode(tokenizer, [pair[0] for pair in batch], [pair[1] for pair in batch])
        return as_labels(model, answer_of(model, encoded)["logits"])

    return in_batches(texts, run, batch_size)


def label_tokens(
    model: Transformer, tokenizer: Tokenizer, texts: Sequence[str], *, batch_size: int = BATCH
) -> list[list[TokenLabel]]:
    """The class of each token of each text, with where it stands; tokens that are not of the text have none."""
    names = class_names(model)

    def run(batch: Sequence[str]) -> list[list[TokenLabel]]:
        encoded = encode(tokenizer, batch)
        best = answer_of(model, encoded)["logits"].softmax(dim=2).max(dim=2)
        found = []
        for i, text in enumerate(batch):
            places = (encoded.sequence_ids[i] == 0).nonzero().flatten().tolist()
            row = []
            for t in places:
                start, end = encoded.offsets[i, t].tolist()
                label, score = names[int(best.indices[i, t])], float(best.values[i, t])
                row.append(TokenLabel(text[start:end], label, score, start, end))
            found.append(row)
        return found

    return in_batches(texts, run, batch_size)


def find_answers(
    model: Transformer, tokenizer: Tokenizer, texts: Sequence[str], *, question: str | None = None, batch_size: int = 8
) -> list[Answer]:
    """The part of each text that answers the question."""
    if not (question or "").strip():
        raise InputError("this model finds the answer to a question in a text: give the question (--question)")

    def run(batch: Sequence[str]) -> list[Answer]:
        encoded = encode(tokenizer, [str(question)] * len(batch), batch)
        answer = answer_of(model, encoded)
        outside = encoded.sequence_ids != 1  # (B, T): an answer stands in the text, not in the question
        score, place, _, _ = best_span(answer["start_logits"], answer["end_logits"], outside)
        found = []
        for i, text in enumerate(batch):
            if outside[i].all():
                raise InputError("an empty text: expected one that may hold the answer")
            first, last = divmod(int(place[i]), outside.shape[1])
            begin, stop = int(encoded.offsets[i, first, 0]), int(encoded.offsets[i, last, 1])
            found.append(Answer(text[begin:stop].strip(), float(score[i]), begin, stop))
        return found

    return in_batches(texts, run, batch_size)
