"""What the tasks that read text share: their tokenizer, and texts as ids that fit the model."""

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
from glassformer.text.train import Around
from glassformer.text.unknown import Tally, check_mostly_known, find_unknown

CHUNK = 1000  # texts that are encoded at a time
KNOWN = 0.9  # of a model's table, what its own tokenizer knows at least: tables are rounded up


def make_tokenizer(settings: TokenSettings, texts: Iterable[str], *, around: Around) -> Tokenizer:
    """The tokenizer of `--init` or `--tokenizer-from`, or one learned from these texts, with this `around` each.

    A run that goes on with changed data keeps the one that it began with.
    """
    if settings.resume and (settings.out / TOKENIZER).is_file() and has_changed_data(settings):
        return read_tokenizer(settings.out)
    if settings.init_folder is not None:
        return read_tokenizer(settings.init_folder)
    if settings.tokenizer_from is not None:
        return load_tokenizer(settings.tokenizer_from)
    return train_tokenizer(texts, settings.vocab_size, settings.tokenizer, around=around)


def has_changed_data(settings: TokenSettings) -> bool:
    """Whether a run goes on with other data than it began with, now or before."""
    return settings.accept_changed_data or "changed_data" in read_record(settings.out)


def fit_tokenizer(tokenizer: Tokenizer, model: Transformer) -> None:
    """Refuses a tokenizer of another vocabulary than the model's, and has it say no segments where there are none."""
    rows = model.config.vocab_size or 0
    check_vocabulary(tokenizer, rows)
    if len(tokenizer) < KNOWN * rows:
        raise InputError(
            f"the tokenizer has {len(tokenizer):,} tokens and the model a table of {rows:,}: it belongs to another one"
        )
    names = tokenizer.settings.get("model_input_names")
    if names is not None and model.config.num_segments == 0:
        tokenizer.settings["model_input_names"] = [name for name in names if name != "token_type_ids"]


def describe_tokenizer(tokenizer: Tokenizer, settings: TokenSettings) -> str:
    origin = settings.init or settings.tokenizer_from
    how = f"from {origin}" if origin else f"{settings.tokenizer}, learned from the training text"
    return f"a vocabulary of {len(tokenizer):,}, {how}"


class Cutter:
    """Texts -> ids, never longer than the model takes: longer ones are an error, or cut and counted."""

    def __init__(self, tokenizer: Tokenizer, settings: ExampleSettings, limit: int | None = None) -> None:
        self.tokenizer, self.settings = tokenizer, settings
        self.limit = min(settings.max_len, limit or settings.max_len)
        self.cut = 0  # texts that were shortened

    def rows(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        what: str,
        places: Sequence[str] | None = None,
        target: bool = False,
    ) -> list[list[int]]:
        """`what` the texts are, for the error: "pair" names the eighth of them "pair 8". Or else by their `places`,
        such as a line of a file."""
        rows = self.tokenizer.rows(texts, pairs, target=target)
        long = [i for i, row in enumerate(rows) if len(row) > self.limit]
        if long and not self.settings.truncate:
            first = long[0]
            name = places[first] if places else f"{what} {first + 1}"
            raise InputError(
                f"{name} has {len(rows[first])} tokens, and the model takes {self.limit} (so with "
                f"{len(long):,} of {len(rows):,}): {texts[first][:60]!r}. Cut them with --truncate, or raise --max-len"
            )
        if long:
            chosen = None if pairs is None else [pairs[i] for i in long]
            cut = self.tokenizer.rows([texts[i] for i in long], chosen, max_length=self.limit, target=target)
            for i, row in zip(long, cut, strict=True):
                rows[i] = row
        self.cut += len(long)
        return rows

    def segments(self, texts: Sequence[str], pairs: Sequence[str]) -> list[list[int]]:
        """Which of the two each token of a pair is of, 0 or 1: for each id of `rows`."""
        found = []
        for start in range(0, len(texts), CHUNK):
            some = slice(start, start + CHUNK)
            encoded = self.tokenizer.encode(texts[some], pairs[some], pad_left=False, max_length=self.limit)
            types = torch.zeros_like(encoded.input_ids) if encoded.token_type_ids is None else encoded.token_type_ids
            found += [row[keep].tolist() for row, keep in zip(types, encoded.attention_mask, strict=True)]
        return found

    def sampled(self, text: str, ids: list[int], epoch: int, number: int) -> list[int]:
        """The same text cut differently, a function of (seed, epoch, example); its ids where that is not asked for."""
        if not self.settings.subword_dropout:
            return ids
        rng = random.Random(f"subwords {self.settings.seed} {epoch} {number}")
        sampled = sample_ids(self.tokenizer, text, rate=self.settings.subword_dropout, rng=rng)
        return sampled if len(sampled) <= self.limit else ids


def unknown_note(tokenizer: Tokenizer, texts: Sequence[str], pairs: Sequence[str] | None = None) -> list[str]:
    """How much of scored texts the vocabulary lacks, if anything; texts that it mostly lacks tell a wrong tokenizer."""
    found = find_unknown(tokenizer, texts, pairs)
    check_mostly_known(tokenizer, found, [f"text {number + 1}" for number in range(len(texts))])
    said = Tally(found).sentence()
    return [said] if said else []


def cut_note(cutter: Cutter) -> str:
    return f"; {cutter.cut:,} texts cut to {cutter.limit} tokens (--truncate)" if cutter.cut else ""
