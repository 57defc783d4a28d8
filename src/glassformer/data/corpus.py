"""A corpus for language models: the tokens of many documents in one long sequence on disk, even larger than memory.

    tokens.bin      the ids, two or four bytes each, with an end-of-text id after each document
    documents.bin   the start of each document
    marks.bin       the start of each encoded part: token, byte of text, unknown bytes so far
    index.json      the counts, and the sources of the files

All numbers are little-endian. `write_corpus` writes the files, and rewrites them only if something has changed;
`open_corpus` maps them into memory, so that any window can be read directly.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from glassformer.data.documents import DocumentPart, document_parts, stream_documents
from glassformer.data.files import AS_FOUND, opened
from glassformer.data.formats.table import TableOptions
from glassformer.errors import InputError
from glassformer.io import atomic_file, parse_json, remove_partial, write_json
from glassformer.text.tokenizer import Tokenizer

TOKENS, DOCUMENTS, MARKS, INDEX = "tokens.bin", "documents.bin", "marks.bin", "index.json"
FORMAT = 1
CHARACTERS_AT_ONCE = 1 << 20  # characters encoded at a time
POSITION = np.dtype("<u8")
MIN_COPY_TOKENS = 8  # minimum tokens for equal documents to count as copies, not coincidence
COMPARED = 2_000_000  # maximum number of documents compared, which takes a few seconds
IntArray = np.ndarray[Any, np.dtype[Any]]


@dataclass
class Counts:
    tokens: int = 0
    documents: int = 0
    empty_documents: int = 0  # skipped
    bytes: int = 0  # of text, in UTF-8
    unknown_bytes: int = 0  # bytes that became <unk>


class Corpus:
    """A long token sequence, from which windows are taken and whose text is counted in bytes.

    `starts` (of documents) and `marks` (of parts) are positions in the whole sequence; `tokens` begin at its position
    `first`. `before` are the bytes and the unknown bytes of the text before `first`.
    """

    def __init__(
        self,
        tokens: IntArray,
        starts: IntArray,
        marks: IntArray,
        counts: Counts,
        *,
        first: int = 0,
        before: tuple[int, int] = (0, 0),
    ) -> None:
        self.tokens, self.starts, self.marks, self.counts = tokens, starts, marks, counts
        self.first, self.before = first, before

    @property
    def last(self) -> int:
        return self.first + len(self)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def num_documents(self) -> int:
        return self.counts.documents

    @property
    def num_bytes(self) -> int:
        """Bytes of the text in UTF-8, used for bits per byte."""
        return self.counts.bytes

    @property
    def num_unknown(self) -> int:
        """Bytes of the text that became unknown tokens."""
        return self.counts.unknown_bytes

    def split(self, fraction: float, tokenizer: Tokenizer) -> tuple["Corpus", "Corpus"]:
        """The training part, and the held-out end.

        The split is between two documents if one ends near enough (half to twice the fraction is held out), otherwise
        between two tokens. The corpus's tokenizer is needed to count the bytes on either side.
        """
        if not 0 < fraction < 1:
            raise InputError(f"held out {fraction}: expected a fraction between 0 and 1, such as 0.1")
        wanted = len(self) - max(1, round(fraction * len(self)))
        if wanted < 1:
            raise InputError(f"a corpus of {len(self)} tokens is too short to hold some out")
        border = nearest_number(inner(self.starts, self), self.first + wanted)
        if border is not None and fraction / 2 <= (self.last - border) / len(self) <= 2 * fraction:
            known = self.known_at(border)
        else:
            border, known = self.cut_near(self.first + wanted, tokenizer)
        end = self.known_at(self.last)
        return self.part(self.first, border, self.before, known), self.part(border, self.last, known, end)

    def part(self, begin: int, end: int, before: tuple[int, int], after: tuple[int, int]) -> "Corpus":
        """From one position to another; `before` and `after` are bytes and unknown bytes up to each."""
        documents = int(np.searchsorted(self.starts, end)) - int(np.searchsorted(self.starts, begin, side="right")) + 1
        counts = Counts(end - begin, documents, bytes=after[0] - before[0], unknown_bytes=after[1] - before[1])
        tokens = self.tokens[begin - self.first : end - self.first]
        return Corpus(tokens, self.starts, self.marks, counts, first=begin, before=before)

    def known_at(self, position: int) -> tuple[int, int]:
        """Bytes and unknown bytes of the whole sequence before the start of a part, or before either end."""
        if position == self.first:
            return self.before
        if position == self.last:
            return self.before[0] + self.counts.bytes, self.before[1] + self.counts.unknown_bytes
        _, size, unknown = self.marks[np.searchsorted(self.marks[:, 0], position)]
        return int(size), int(unknown)

    def cut_near(self, position: int, tokenizer: Tokenizer) -> tuple[int, tuple[int, int]]:
        """A split between tokens near here, and the byte counts there.

        Inside a part, bytes are counted by decoding both sides, if they add up to the bytes of the part. They do with
        lossless tokenizers, except between two bytes of one character, so a few positions are tried. Otherwise the
        split is between two parts.
        """
        borders = inner(self.marks[:, 0], self)
        after = int(np.searchsorted(borders, position, side="right"))
        begin = int(borders[after - 1]) if after > 0 else self.first
        end = int(borders[after]) if after < len(borders) else self.last
        known, size = self.known_at(begin), self.known_at(end)[0] - self.known_at(begin)[0]
        for cut in range(position, min(position + 8, end)):
            head, tail = (self.decoded_size(*ends, tokenizer) for ends in ((begin, cut), (cut, end)))
            if head + tail == size:
                return cut, (known[0] + head, known[1])
        border = nearest_number(borders, position)
        if border is None:
            raise InputError(
                f"no part of {len(self)} tokens can be held out, because its size in bytes is unknown: the text is too "
                "short, or the tokenizer is lossy. Give a validation file (--valid), or use --tokenizer bytes"
            )
        return border, self.known_at(border)

    def decoded_size(self, begin: int, end: int, tokenizer: Tokenizer) -> int:
        return len(tokenizer.decode(self.tokens[begin - self.first : end - self.first].tolist()).encode())


def shared_documents(judged: Corpus, trained: Corpus) -> tuple[int, int] | None:
    """The number of documents of one corpus that also occur in the other, and of all; short documents do not count.

    Only documents whose length occurs on both sides are compared; None if these are too many.
    """
    ends, others = (np.append(corpus.starts, len(corpus)).astype(np.int64) for corpus in (judged, trained))
    lengths, their_lengths = np.diff(ends), np.diff(others)
    long = np.flatnonzero(lengths >= MIN_COPY_TOKENS)
    candidates = np.flatnonzero(np.isin(their_lengths, lengths[long]))
    if len(long) + len(candidates) > COMPARED:
        return None
    texts = [judged.tokens[ends[i] : ends[i + 1]].tobytes() for i in long]
    wanted = set(texts)
    found = {text for i in candidates if (text := trained.tokens[others[i] : others[i + 1]].tobytes()) in wanted}
    return sum(text in found for text in texts), len(texts)


def inner(positions: IntArray, corpus: Corpus) -> IntArray:
    """The positions that leave tokens on both sides."""
    low, high = np.searchsorted(positions, [corpus.first + 1, corpus.last])
    return positions[low:high]


def nearest_number(numbers: IntArray, wanted: int) -> int | None:
    """The nearest of these ascending numbers; None if there are none."""
    at = int(np.searchsorted(numbers, wanted))
    return min(
        (int(number) for number in numbers[max(0, at - 1) : at + 1]), key=lambda n: abs(n - wanted), default=None
    )


def write_corpus(
    files: Sequence[Path],
    tokenizer: Tokenizer,
    out: Path,
    *,
    text_column: str = "text",
    document_separator: str | None = None,
    options: TableOptions = AS_FOUND,
) -> Corpus:
    """Writes the corpus of these files to the folder `out`; an existing one is used if nothing has changed.

    A plain text is one document, or several with a `document_separator` ("blank lines", or a text such as
    "<|endoftext|>"); in a table, the `text_column` of each row is a document.
    """
    form = {name: value for name, value in asdict(options).items() if name != "max_line_mb"}  # does not change the text
    if options.trained is not None:
        form["trained"]["kinds"] = sorted(map(str, options.trained.kinds))  # a list, as in JSON
    made_from = {
        "format": FORMAT,
        "tokenizer": hashlib.sha256(tokenizer.backend.to_str().encode()).hexdigest(),
        "end": tokenizer.eos_token_id,
        "text_column": text_column,
        "document_separator": document_separator,
        "sources": [file_facts(Path(file)) for file in files],
        **({"options": form} if any(value is not None for value in form.values()) else {}),
    }
    if (out / INDEX).is_file() and parse_json(out / INDEX).get("made_from") == made_from:
        return open_corpus(out)
    pieces = (
        piece
        for file in files
        for piece in stream_documents(
            Path(file), text_column=text_column, separator=document_separator, options=options
        )
    )
    out.mkdir(parents=True, exist_ok=True)
    remove_partial(out)
    names = (TOKENS, DOCUMENTS, MARKS)
    with ExitStack() as stack:
        streams = [stack.enter_context(atomic_file(out / name)) for name in names]
        counts = write_pieces(pieces, tokenizer, *streams)
        if not counts.documents:
            raise InputError(f"{', '.join(map(str, files))}: no text found. Expected at least one document")
        # The index is deleted first and written last: if it exists, the other files are complete.
        (out / INDEX).unlink(missing_ok=True)
    index = {**vars(counts), "bytes_per_token": id_type(tokenizer).itemsize, "made_from": made_from}
    write_json(out / INDEX, index)
    return open_corpus(out)


def open_corpus(folder: Path) -> Corpus:
    """A corpus written by `write_corpus`, mapped into memory."""
    if not (folder / INDEX).is_file():
        raise InputError(f"{folder} has no {INDEX}: expected a corpus. Make it again")
    index = parse_json(folder / INDEX)
    try:
        counts = Counts(**{name: index[name] for name in vars(Counts())})
        kind = np.dtype(f"<u{index['bytes_per_token']}")
        tokens, starts, marks = (
            np.memmap(folder / name, dtype=dtype, mode="r")
            for name, dtype in ((TOKENS, kind), (DOCUMENTS, POSITION), (MARKS, POSITION))
        )
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise InputError(f"{folder} is not a complete corpus ({error}). Delete it and make it again") from None
    if (len(tokens), len(starts)) != (counts.tokens, counts.documents) or len(marks) % 3:
        raise InputError(
            f"{folder} has {len(tokens)} tokens of {len(starts)} documents, but its {INDEX} says {counts.tokens} of "
            f"{counts.documents}. Delete it and make it again"
        )
    return Corpus(tokens, starts, marks.reshape(-1, 3), counts)


def corpus_from_texts(texts: Iterable[str], tokenizer: Tokenizer) -> Corpus:
    """A corpus in memory: each text is a document."""
    streams = [BytesIO() for _ in range(3)]
    pieces = (piece for text in texts for piece in document_parts(text if text.strip() else ""))
    counts = write_pieces(pieces, tokenizer, *streams)
    if not counts.documents:
        raise InputError("no text given: expected at least one document")
    types = (id_type(tokenizer), POSITION, POSITION)
    tokens, starts, marks = (
        np.frombuffer(stream.getvalue(), dtype=dtype) for stream, dtype in zip(streams, types, strict=True)
    )
    return Corpus(tokens, starts, marks.reshape(-1, 3), counts)


def write_pieces(
    pieces: Iterable[DocumentPart], tokenizer: Tokenizer, tokens: IO[bytes], starts: IO[bytes], marks: IO[bytes]
) -> Counts:
    """Encodes batch by batch and appends to the three files."""
    counts, kind, end = Counts(), id_type(tokenizer), tokenizer.eos_token_id
    for batch in batched(pieces):
        rows = tokenizer.ids_batch([piece.text for piece in batch], add_special=False)
        for piece, ids in zip(batch, rows, strict=True):
            if piece.begins and piece.ends and not piece.text:
                counts.empty_documents += 1
                continue
            if piece.begins:
                starts.write(np.array(counts.tokens, dtype=POSITION).tobytes())
                counts.documents += 1
            marks.write(np.array([counts.tokens, counts.bytes, counts.unknown_bytes], dtype=POSITION).tobytes())
            counts.bytes += len(piece.text.encode())
            counts.unknown_bytes += unknown_bytes(piece.text, ids, tokenizer)
            if piece.ends and end is not None:
                ids.append(end)
            tokens.write(np.array(ids, dtype=kind).tobytes())
            counts.tokens += len(ids)
    return counts


def batched(pieces: Iterable[DocumentPart]) -> Iterator[list[DocumentPart]]:
    batch: list[DocumentPart] = []
    size = 0
    for piece in pieces:
        batch.append(piece)
        size += 1 + len(piece.text)
        if size >= CHARACTERS_AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def unknown_bytes(text: str, ids: Sequence[int], tokenizer: Tokenizer) -> int:
    unknown = tokenizer.unk_token_id
    if unknown is None or unknown not in ids:
        return 0
    (encoded,) = tokenizer.encode([text], add_special=False).offsets[:, torch.tensor(ids) == unknown]
    return sum(len(text[start:end].encode()) for start, end in encoded.tolist())


def id_type(tokenizer: Tokenizer) -> np.dtype[Any]:
    """The smallest type that holds every id."""
    last = max(tokenizer.backend.get_vocab(with_added_tokens=True).values())
    return np.dtype("<u2" if last < 1 << 16 else "<u4")


def file_facts(file: Path) -> dict[str, Any]:
    """The path, size and time of a file, to detect changes."""
    with opened(file):
        state = file.stat()
    return {"path": str(file.resolve()), "size": state.st_size, "mtime": state.st_mtime_ns}
