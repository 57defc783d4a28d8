"""The shared code of the text tasks: the tokenizer, and texts as ids that fit the model."""

import random
from collections.abc import Iterable, Sequence

import torch

from glassformer.checkpoints.run import read_record
from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.tasks.settings import ExampleSettings, TokenSettings
from glassformer.text import Tokenizer, check_vocabulary, load_tokenizer, read_tokenizer, train_tokenizer
from glassformer.text.regularise import sample_ids
from glassformer.text.tokenizer import TOKENIZER
from glassformer.text.train import SpecialTokenPlacement
from glassformer.text.unknown import UnknownTally, check_mostly_known, find_unknown

TOKENISE_CHUNK = 1000  # texts encoded at a time
MIN_VOCABULARY_SHARE = (
    0.9  # a tokenizer fills at least this fraction of its model's embedding table, whose size may be rounded up
)


def make_tokenizer(settings: TokenSettings, texts: Iterable[str], *, around: SpecialTokenPlacement) -> Tokenizer:
    """The tokenizer of `--init` or `--tokenizer-from`, or one trained on these texts. `around`: its special tokens.

    A run resumed with changed data keeps its first tokenizer.
    """
    if settings.resume and (settings.out / TOKENIZER).is_file() and has_changed_data(settings):
        return read_tokenizer(settings.out)
    if settings.init_folder is not None:
        return read_tokenizer(settings.init_folder)
    if settings.tokenizer_from is not None:
        return load_tokenizer(settings.tokenizer_from)
    return train_tokenizer(texts, settings.vocab_size, settings.tokenizer, around=around)


def has_changed_data(settings: TokenSettings) -> bool:
    """Whether a run's data has changed since it started, at this or an earlier resume."""
    return settings.accept_changed_data or "changed_data" in read_record(settings.out)


def fit_tokenizer(tokenizer: Tokenizer, model: Transformer) -> None:
    """Refuses a tokenizer with another vocabulary than the model's, and drops its segment ids if the model has none."""
    rows = model.config.vocab_size or 0
    check_vocabulary(tokenizer, rows)
    if len(tokenizer) < MIN_VOCABULARY_SHARE * rows:
        raise InputError(
            f"the tokenizer has {len(tokenizer):,} tokens, but the model's embedding table has {rows:,}: the tokenizer "
            "belongs to another model"
        )
    names = tokenizer.settings.get("model_input_names")
    if names is not None and model.config.num_segments == 0:
        tokenizer.settings["model_input_names"] = [name for name in names if name != "token_type_ids"]


def describe_tokenizer(tokenizer: Tokenizer, settings: TokenSettings) -> str:
    origin = settings.init or settings.tokenizer_from
    how = f"from {origin}" if origin else f"{settings.tokenizer}, learned from the training text"
    return f"a vocabulary of {len(tokenizer):,}, {how}"


class TextEncoder:
    """Texts -> ids that fit the model. Longer texts are an error, or truncated and counted with --truncate."""

    def __init__(self, tokenizer: Tokenizer, settings: ExampleSettings, limit: int | None = None) -> None:
        self.tokenizer, self.settings = tokenizer, settings
        self.limit = min(settings.max_len, limit or settings.max_len)
        self.cut = 0  # number of truncated texts

    def rows(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        what: str,
        places: Sequence[str] | None = None,
        target: bool = False,
    ) -> list[list[int]]:
        """The ids of these texts. An error names a text by its place, such as a line of a file, or by `what` and its
        number: "pair 8"."""
        rows = self.tokenizer.rows(texts, pairs, target=target)
        long = [i for i, row in enumerate(rows) if len(row) > self.limit]
        if long and not self.settings.truncate:
            first = long[0]
            name = places[first] if places else f"{what} {first + 1}"
            raise InputError(
                f"{name} has {len(rows[first])} tokens, but the model takes at most {self.limit} ({len(long):,} of "
                f"{len(rows):,} are too long): {texts[first][:60]!r}. Use --truncate, or raise --max-len"
            )
        if long:
            chosen = None if pairs is None else [pairs[i] for i in long]
            cut = self.tokenizer.rows([texts[i] for i in long], chosen, max_length=self.limit, target=target)
            for i, row in zip(long, cut, strict=True):
                rows[i] = row
        self.cut += len(long)
        return rows

    def segments(self, texts: Sequence[str], pairs: Sequence[str]) -> list[list[int]]:
        """The segment of each token of a pair, 0 or 1, for the ids of `rows`."""
        found = []
        for start in range(0, len(texts), TOKENISE_CHUNK):
            some = slice(start, start + TOKENISE_CHUNK)
            encoded = self.tokenizer.encode(texts[some], pairs[some], pad_left=False, max_length=self.limit)
            types = torch.zeros_like(encoded.input_ids) if encoded.token_type_ids is None else encoded.token_type_ids
            found += [row[keep].tolist() for row, keep in zip(types, encoded.attention_mask, strict=True)]
        return found

    def sampled(self, text: str, ids: list[int], epoch: int, number: int) -> list[int]:
        """The text tokenised at random, a function of (seed, epoch, example); `ids` without --subword-dropout."""
        if not self.settings.subword_dropout:
            return ids
        rng = random.Random(f"subwords {self.settings.seed} {epoch} {number}")
        sampled = sample_ids(self.tokenizer, text, rate=self.settings.subword_dropout, rng=rng)
        return sampled if len(sampled) <= self.limit else ids


def unknown_note(tokenizer: Tokenizer, texts: Sequence[str], pairs: Sequence[str] | None = None) -> list[str]:
    """A note on unknown tokens in scored texts, if any. Refuses texts that are mostly unknown: wrong tokenizer."""
    found = find_unknown(tokenizer, texts, pairs)
    check_mostly_known(tokenizer, found, [f"text {number + 1}" for number in range(len(texts))])
    said = UnknownTally(found).sentence()
    return [said] if said else []


def truncation_note(count: int, limit: int) -> str:
    return f"; {count:,} text{'s' * (count > 1)} truncated to {limit} tokens (--truncate)" if count else ""
