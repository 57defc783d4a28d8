"""A tokenizer: splits text into tokens of a vocabulary, and puts them together again.

The work is done by the `tokenizers` library; the file is its `tokenizer.json`, so other tools read it as it is.
A new one is byte-pair encoding (Sennrich et al., 2016): it starts from characters and merges what occurs together.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch import Tensor

from glassformer.data.batches import pad
from glassformer.errors import InputError

SPECIAL = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
# A word, a number or a punctuation mark is a piece of its own; a space belongs to the word that follows it.
PIECE = r" ?[^\s\d\p{P}]+| ?\d+|\p{P}|\s+"
SPACE = "▁"  # how a space is written inside a token


@dataclass(frozen=True)
class Encoded:
    """A batch of token ids with its mask, named as the model takes them."""

    input_ids: Tensor
    attention_mask: Tensor


class Tokenizer:
    """Text to ids and back, with the ids of its special tokens."""

    def __init__(self, backend: tokenizers.Tokenizer, special: dict[str, str]) -> None:
        self.backend, self.special = backend, special
        self.pad_token_id, self.bos_token_id, self.eos_token_id = (
            self.id_of(special[name]) for name in ("pad_token", "bos_token", "eos_token")
        )

    def __len__(self) -> int:
        return int(self.backend.get_vocab_size())

    def id_of(self, token: str) -> int:
        found = self.backend.token_to_id(token)
        if found is None:
            raise InputError(f"the vocabulary has no token {token!r}")
        return int(found)

    def ids(self, text: str) -> list[int]:
        """The ids of one text, closed by the end token."""
        return list(self.backend.encode(text).ids)

    def encode(self, texts: Sequence[str], *, pad_left: bool = False) -> Encoded:
        """A batch of texts, padded to the longest."""
        if isinstance(texts, str):
            raise InputError(f"a single text {texts[:40]!r} was given: expected a list of texts")
        if not texts:
            raise InputError("an empty batch: there is no text to encode")
        rows = [encoding.ids for encoding in self.backend.encode_batch(list(texts))]
        return Encoded(
            input_ids=pad(rows, self.pad_token_id, left=pad_left),
            attention_mask=pad([[1] * len(row) for row in rows], 0, left=pad_left).bool(),
        )

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these ids, without special tokens."""
        return str(self.backend.decode(list(ids), skip_special_tokens=True))

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Each token as a person would write it."""
        return [str(self.backend.id_to_token(i)).replace(SPACE, " ").strip() or SPACE for i in ids]

    def save(self, folder: Path) -> None:
        self.backend.save(str(folder / "tokenizer.json"))
        settings = {"tokenizer_class": "PreTrainedTokenizerFast", **self.special}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def load_tokenizer(path: str | Path) -> Tokenizer:
    """The tokenizer of a run or model folder."""
    folder = Path(path)
    files = [folder / "tokenizer.json", folder / "tokenizer_config.json"]
    for file in files:
        if not file.is_file():
            raise InputError(f"{folder} has no {file.name}: expected a run or model folder with a tokenizer")
    try:
        backend = tokenizers.Tokenizer.from_file(str(files[0]))
        backend.no_padding()  # padding is ours, with a mask that knows of it
        backend.no_truncation()
        settings = json.loads(files[1].read_text(encoding="utf-8"))
    except Exception as error:  # the library raises bare Exceptions for a file it cannot parse
        raise InputError(f"{folder}: its tokenizer cannot be read ({error}). Is the file whole?") from None
    missing = [name for name in SPECIAL if not isinstance(settings.get(name), str)]
    if missing:
        raise InputError(f"{files[1]} does not name its {', '.join(missing)}")
    return Tokenizer(backend, {name: settings[name] for name in SPECIAL})


def train_tokenizer(lines: Iterable[str], vocab_size: int) -> Tokenizer:
    """Byte-pair encoding learned from these lines: at most `vocab_size` tokens, fewer if the text has fewer."""
    backend = tokenizers.Tokenizer(models.BPE(unk_token=SPECIAL["unk_token"]))
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECE), behavior="isolated"),
            pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="first", split=False),
        ]
    )
    backend.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme="first")
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        limit_alphabet=vocab_size - len(SPECIAL),
        special_tokens=list(SPECIAL.values()),
        show_progress=False,
        min_frequency=2,
    )
    backend.train_from_iterator(lines, trainer)
    end = SPECIAL["eos_token"]
    backend.post_processor = processors.TemplateProcessing(
        single=f"$A {end}", special_tokens=[(end, backend.token_to_id(end))]
    )
    return Tokenizer(backend, dict(SPECIAL))
