"""Running text for the tasks `lm` and `mlm`: one long token sequence each for training, validation and test, and its
windows.

The tokens of text files are written into the run folder and memory-mapped, so they may be larger than memory; they
are reused if nothing has changed. The built-in documentation is small and stays in memory.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from glassformer.core.model import Transformer
from glassformer.data.corpus import Corpus, corpus_from_texts, shared_documents, write_corpus
from glassformer.data.documentation import documentation_split
from glassformer.data.documents import BLANK_LINES, document_format, stream_documents, text_files
from glassformer.data.formats.encoding import UTF8
from glassformer.data.formats.table import describe_together
from glassformer.errors import InputError
from glassformer.tasks.settings import LanguageSettings
from glassformer.text import Tokenizer
from glassformer.training.folder import TOKENS

Int64Array = np.ndarray[Any, np.dtype[np.int64]]

SEPARATORS = {"file": None, "line": "\n", "blank-line": BLANK_LINES}
MAX_TOKENIZER_CHARACTERS = 100_000_000  # maximum characters to train a tokenizer on; more make little difference


@dataclass(frozen=True)
class Corpora:
    """Training, validation and test text; only test text when scoring files."""

    train: Corpus | None
    valid: Corpus | None
    test: Corpus | None
    left_out: int = 0  # number of empty documents
    shared: str = ""  # a note on documents shared between parts
    forms: Mapping[str, str] = field(default_factory=dict)  # format of each file
    others: Sequence[Path] = ()  # other files in the folders, which are not text

    def scored(self, split: str) -> Corpus:
        found = (self.test if split == "test" else None) or self.valid
        assert found is not None
        return found

    @property
    def trained(self) -> Corpus:
        assert self.train is not None
        return self.train


def load_corpora(
    settings: LanguageSettings, tokenizer: Tokenizer, files: Sequence[Path], *, counts_bytes: bool
) -> Corpora:
    """The texts of the settings, or these files to score. With `counts_bytes` the size of the held-out text in bytes
    must be known: a lossy tokenizer does not allow a split at every token."""
    if files:
        with TemporaryDirectory(prefix="glassformer-tokens-") as folder:  # memory-mapped files outlive their name
            corpus = write_files(files, tokenizer, Path(folder), settings)
        return Corpora(None, None, corpus, forms=formats_of(files, settings), others=text_files(files)[1])
    if not settings.data:
        train, test = (corpus_from_texts([text], tokenizer) for text in documentation_split())
        return Corpora(*hold_out(train, settings, tokenizer, counts_bytes=counts_bytes), test)
    given = {"train": settings.data, "valid": settings.valid, "test": settings.test}
    made = {
        name: write_files(some, tokenizer, settings.out / TOKENS / name, settings)
        for name, some in given.items()
        if some
    }
    left_out = sum(corpus.counts.empty_documents for corpus in made.values())
    shared = documents_shared_by(made)
    every = [file for some in given.values() for file in some]
    if "valid" not in made:
        made["train"], made["valid"] = hold_out(made["train"], settings, tokenizer, counts_bytes=counts_bytes)
    return Corpora(
        made["train"],
        made["valid"],
        made.get("test"),
        left_out,
        shared,
        formats_of(every, settings),
        others=text_files(every)[1],
    )


def documents_shared_by(made: Mapping[str, Corpus]) -> str:
    """A note on the documents that corpora share."""
    said = []
    for part, other in (("valid", "train"), ("test", "train"), ("test", "valid")):
        found = shared_documents(made[part], made[other]) if part in made and other in made else None
        if found and found[0]:
            names = {"train": "training", "valid": "validation", "test": "test"}
            said.append(f"{found[0]:,} of the {found[1]:,} {names[part]} documents are also in the {names[other]} text")
    return "; ".join(said)


def formats_of(files: Sequence[Path], settings: LanguageSettings) -> dict[str, str]:
    """The format of each file."""
    return {
        file.name: document_format(file, text_column=settings.text_column, options=settings.tables)
        for file in text_files(files)[0]
    }


def check_context(settings: LanguageSettings, model: Transformer) -> None:
    """Refuses a context longer than the position table of a loaded model."""
    room = model.config.room
    if room is not None and room < settings.context:
        raise InputError(
            f"--context {settings.context}: --init {settings.init} has only {room} positions. Lower --context"
        )


def hold_out(
    corpus: Corpus, settings: LanguageSettings, tokenizer: Tokenizer, *, counts_bytes: bool
) -> tuple[Corpus, Corpus]:
    try:
        return corpus.split(settings.valid_fraction, tokenizer)
    except InputError:
        border = round((1 - settings.valid_fraction) * len(corpus))
        if counts_bytes or not 0 < border < len(corpus):
            raise
    size = (border * corpus.num_bytes // len(corpus), 0)
    return corpus.part(0, border, (0, 0), size), corpus.part(border, len(corpus), size, (corpus.num_bytes, 0))


def write_files(files: Sequence[Path], tokenizer: Tokenizer, folder: Path, settings: LanguageSettings) -> Corpus:
    return write_corpus(
        text_files(files)[0],
        tokenizer,
        folder,
        text_column=settings.text_column,
        document_separator=SEPARATORS[settings.documents],
        options=settings.tables,
    )


def training_texts(settings: LanguageSettings) -> Iterator[str]:
    """The text that a tokenizer is trained on: the training text without held-out text; only its beginning if it is
    long."""
    if not settings.data:
        yield documentation_split()[0]
        return
    share = 1.0 if settings.valid else 1 - settings.valid_fraction
    left = min(MAX_TOKENIZER_CHARACTERS, int(share * sum(map(len, pieces_of(settings)))))
    for text in pieces_of(settings):
        yield text[:left]
        left -= len(text)
        if left <= 0:
            return


def pieces_of(settings: LanguageSettings) -> Iterator[str]:
    for file in text_files(settings.data)[0]:
        separator = SEPARATORS[settings.documents]
        if file.is_file() and not file.stat().st_size:
            raise InputError(f"{file} is empty: expected text")
        for piece in stream_documents(
            file, text_column=settings.text_column, separator=separator, options=settings.tables
        ):
            yield piece.text


def window_starts(corpus: Corpus, length: int, *, seed: int, epoch: int) -> range:
    """The starts of an epoch's windows. Each epoch cuts the text at other positions, so that every token is used."""
    if len(corpus) < length:
        raise InputError(
            f"the training text has {len(corpus):,} tokens, fewer than a window of {length:,}. Lower --context, or "
            "give more text"
        )
    most = min(length, len(corpus) - length + 1)
    first = random.Random(f"windows {seed} {epoch}").randrange(most)
    return range(first, len(corpus) - length + 1, length)


def sliding_windows(corpus: Corpus, length: int, stride: int) -> Int64Array:
    """Windows over a whole text, (N, 2): the start of each, and the position of its first new token. Each token is new
    once.

    Each window starts `stride` tokens after the previous one, so that a new token has at least length - stride tokens
    of context, except at the beginning. The last window ends with the text.
    """
    last = max(0, len(corpus) - length)
    starts = np.append(np.arange(0, last, stride), last)
    return np.stack([starts, np.append(0, starts[:-1] + length)], axis=1)


def take_windows(corpus: Corpus, starts: Int64Array, length: int) -> tuple[Int64Array, Int64Array]:
    """Windows as ids (B, T), and the document of each of their tokens (B, T).

    A window may begin at -1: the first token then appears twice.
    """
    positions = np.maximum(starts[:, None] + np.arange(length), 0)  # (B, T)
    documents = np.searchsorted(corpus.starts, (corpus.first + positions).astype(np.uint64), side="right")  # (B, T)
    return corpus.tokens[positions].astype(np.int64), documents.astype(np.int64)


def unknown_tokens_note(tokenizer: Tokenizer, corpus: Corpus) -> list[str]:
    """A note on the number of unknown tokens, if any."""
    count = 0 if tokenizer.unknown_id is None else int(np.count_nonzero(corpus.tokens == tokenizer.unknown_id))
    return [f"{count:,} of {len(corpus):,} tokens are unknown to the vocabulary"] if count else []


def describe_corpora(corpora: Corpora, settings: LanguageSettings) -> str:
    """A line about the text: its origin, the sizes of its parts, and what was left out."""
    origin = ", ".join(map(str, settings.data)) or "Python's documentation (no --data was given)"
    named = {"to train on": corpora.train, "held out": corpora.valid, "to test": corpora.test}
    parts = [f"{len(corpus):,} tokens {use}" for use, corpus in named.items() if corpus is not None]
    left_out, other = corpora.left_out, len(corpora.others)
    empty = f"; {left_out:,} empty document{'s' * (left_out > 1)} left out" if left_out else ""
    others = f"; {other:,} other file{'s' * (other > 1)} in the folder not read" if other else ""
    shared = f"; {corpora.shared}" if corpora.shared else ""
    return f"{origin}: {', '.join(parts)}{empty}{others}{shared}"


def notes_of(corpora: Corpora) -> list[str]:
    """Notes on the scores: documents that are in several files, and the format of scored files unless plain UTF-8."""
    shared = [corpora.shared] if corpora.shared else []
    if corpora.train is None and set(corpora.forms.values()) - {f"{UTF8} text"}:
        return [*shared, f"read as {describe_together(corpora.forms)}"]
    return shared


def describe_forms(corpora: Corpora) -> dict[str, str]:
    """A line about the format of the files, if there are any."""
    return {"format": describe_together(corpora.forms)} if corpora.forms else {}
