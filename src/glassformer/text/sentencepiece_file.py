"""Reads a sentencepiece model file (Kudo and Richardson, 2018) and builds an equivalent tokenizer.

The file is a protocol buffer of a few fields, read here without any package. It holds the pieces with their scores, the
algorithm (unigram or byte-pair encoding), and how text is normalised before it is tokenised.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers

from glassformer.errors import InputError
from glassformer.io import read_small

SPACE = "▁"  # how a space is written inside a piece
UNIGRAM, BPE = 1, 2
NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5
MAX_MODEL_BYTES = 1 << 27  # bytes of a file
LONGEST_NUMBER, LONGEST_PIECE = 70, 4096  # bits in ten bytes; characters. Longer ones mean a damaged file

Field = int | bytes | float


@dataclass(frozen=True)
class Piece:
    text: str
    score: float
    kind: int


@dataclass(frozen=True)
class SentencePiece:
    """The content of the file; fields are named as sentencepiece's options."""

    pieces: list[Piece]
    model_type: int
    byte_fallback: bool
    unk_id: int
    charsmap: bytes
    add_dummy_prefix: bool
    remove_extra_whitespaces: bool
    split_by_whitespace: bool


def read_sentencepiece(path: Path) -> SentencePiece:
    try:
        model = fields(read_small(path, MAX_MODEL_BYTES))
        entries = [fields(encode_field(value)) for value in model.get(1, [])]
        pieces = [
            Piece(encode_field(entry[1][0]).decode(), float(entry.get(2, [0.0])[0]), int(entry.get(3, [NORMAL])[0]))
            for entry in entries
        ]
        if any(len(piece.text) > LONGEST_PIECE for piece in pieces):
            raise ValueError(f"a piece of more than {LONGEST_PIECE} characters")
        trainer, normalizer = (fields(encode_field(model.get(number, [b""])[0])) for number in (2, 3))
    except InputError:
        raise
    except (ValueError, KeyError, IndexError, OverflowError, struct.error) as error:
        raise InputError(
            f"{path} is not a sentencepiece model ({error}). Is the file complete? Fetch it again"
        ) from None
    if not pieces:
        raise InputError(f"{path} is not a sentencepiece model: it has no pieces. Is the file complete? Fetch it again")

    def number(message: dict[int, list[Field]], key: int, default: int) -> int:
        return int(message.get(key, [default])[0])

    kind = number(trainer, 3, UNIGRAM)
    if kind not in (UNIGRAM, BPE):
        raise InputError(f"{path}: model_type {kind} (words or characters): expected unigram (1) or bpe (2)")
    if number(trainer, 24, 0):
        raise InputError(f"{path}: treat_whitespace_as_suffix is not supported: expected spaces before words")
    return SentencePiece(
        pieces=pieces,
        model_type=kind,
        byte_fallback=bool(number(trainer, 35, 0)),
        unk_id=number(trainer, 40, 0),
        charsmap=encode_field(normalizer.get(2, [b""])[0]),
        add_dummy_prefix=bool(number(normalizer, 3, 1)),
        remove_extra_whitespaces=bool(number(normalizer, 4, 1)),
        split_by_whitespace=bool(number(trainer, 22, 1)),
    )


def fields(message: bytes) -> dict[int, list[Field]]:
    """Field number -> values, of one protocol-buffer message."""
    found: dict[int, list[Field]] = {}
    for key, value in read_fields(message):
        found.setdefault(key, []).append(value)
    return found


def read_fields(message: bytes) -> Iterator[tuple[int, Field]]:
    position = 0

    def varint() -> int:
        """Seven bits per byte, the lowest first; the highest bit says that more bytes follow."""
        nonlocal position
        value = shift = 0
        while True:
            byte = message[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > LONGEST_NUMBER:
                raise ValueError(f"a number of more than {LONGEST_NUMBER} bits")
            if byte < 0x80:
                return value

    while position < len(message):
        tag = varint()
        key, wire = tag >> 3, tag & 7
        if wire == 0:
            yield key, varint()
        elif wire == 2:
            length = varint()
            if position + length > len(message):
                raise ValueError("it ends inside a field")
            yield key, message[position : position + length]
            position += length
        elif wire == 5:
            yield key, struct.unpack_from("<f", message, position)[0]
            position += 4
        elif wire == 1:
            position += 8  # a double: none of the fields read here is one
        else:
            raise ValueError(f"unknown wire type {wire}")


def encode_field(value: Field) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError(f"a number {value} where bytes belong")
    return value


def backend_of(
    spec: SentencePiece, pieces: Sequence[Piece], unk_id: int, *, prefix_once: bool = False, keep_end: bool = False
) -> tokenizers.Tokenizer:
    """A tokenizer with the file's rules and these pieces, whose order may differ from the file's.

    `prefix_once`: the space before a text is added only at its beginning, not after each special token.
    `keep_end`: a space at the end of a text is kept.
    """
    model: models.Model
    if spec.model_type == UNIGRAM:
        scores = [(piece.text, piece.score) for piece in pieces]
        model = models.Unigram(scores, unk_id=unk_id, byte_fallback=spec.byte_fallback)
    else:
        model = models.BPE(
            {piece.text: i for i, piece in enumerate(pieces)},
            merges(pieces),
            unk_token=pieces[unk_id].text,
            fuse_unk=True,
            byte_fallback=spec.byte_fallback,
        )
    backend = tokenizers.Tokenizer(model)
    set_rules(backend, spec, prefix_once, keep_end)
    backend.decoder = decoder(spec)
    # Both are matched whole and never split; only control tokens are left out of decoded text.
    backend.add_special_tokens([added(piece) for piece in pieces if piece.kind == CONTROL])
    backend.add_tokens([added(piece) for piece in pieces if piece.kind == USER_DEFINED])
    return backend


def added(piece: Piece) -> AddedToken:
    return AddedToken(piece.text, normalized=False, special=piece.kind == CONTROL)


def merges(pieces: Sequence[Piece]) -> list[tuple[str, str]]:
    """Every way to merge two pieces into one, the best piece first: the file has scores instead of merges."""
    merged = (piece for piece in pieces if piece.kind in (NORMAL, USER_DEFINED))
    order = sorted(merged, key=lambda piece: -piece.score)
    usable = {piece.text for piece in order}
    return [
        (piece.text[:cut], piece.text[cut:])
        for piece in order
        for cut in range(1, len(piece.text))
        if piece.text[:cut] in usable and piece.text[cut:] in usable
    ]


def set_rules(backend: tokenizers.Tokenizer, spec: SentencePiece, prefix_once: bool, keep_end: bool) -> None:
    """Sets how a text is normalised, and where a space becomes part of a piece."""

    def spaces(scheme: str, split: bool) -> pre_tokenizers.PreTokenizer:
        return pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme=scheme, split=split)

    steps: list[normalizers.Normalizer] = [normalizers.Precompiled(spec.charsmap)] if spec.charsmap else []
    words = spec.split_by_whitespace and spec.add_dummy_prefix
    if spec.remove_extra_whitespaces and words and not keep_end:
        # Spaces are removed, and each word gets one.
        backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(" ", "removed"), spaces("always", True)])
    elif spec.remove_extra_whitespaces:
        steps += [] if keep_end else [normalizers.Replace(Regex("^ +| +$"), "")]
        steps.append(normalizers.Replace(Regex(" {2,}"), " "))
        backend.pre_tokenizer = spaces("always" if spec.add_dummy_prefix else "never", spec.split_by_whitespace)
    elif spec.add_dummy_prefix and not prefix_once:
        # Spaces stay, and one more is added before a text even if it begins with one.
        steps += [normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)]
    else:
        backend.pre_tokenizer = spaces("first" if spec.add_dummy_prefix else "never", False)
    if steps:
        backend.normalizer = normalizers.Sequence(steps)


def decoder(spec: SentencePiece) -> decoders.Decoder:
    if not spec.byte_fallback:
        return decoders.Metaspace(replacement=SPACE, prepend_scheme="always" if spec.add_dummy_prefix else "never")
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if spec.add_dummy_prefix:
        steps.append(decoders.Strip(" ", 1, 0))
    return decoders.Sequence(steps)
