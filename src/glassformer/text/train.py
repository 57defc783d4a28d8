"""A new tokenizer: byte-pair encoding (Sennrich et al., 2016) starts from characters and merges what is frequent."""

from collections.abc import Iterable

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

from glassformer.text.tokenizer import SPACE, Tokenizer

TOKENS = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
# A word, a number or a punctuation mark is a piece of its own; a space belongs to the word that follows it.
PIECE = r" ?[^\s\d\p{P}]+| ?\d+|\p{P}|\s+"


def train_tokenizer(lines: Iterable[str], vocab_size: int) -> Tokenizer:
    """Learned from these lines: at most `vocab_size` tokens, fewer if the text has fewer."""
    backend = tokenizers.Tokenizer(models.BPE(unk_token=TOKENS["unk_token"]))
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
        limit_alphabet=vocab_size - len(TOKENS),
        special_tokens=list(TOKENS.values()),
        show_progress=False,
        min_frequency=2,
    )
    backend.train_from_iterator(lines, trainer)
    end = TOKENS["eos_token"]
    backend.post_processor = processors.TemplateProcessing(
        single=f"$A {end}", special_tokens=[(end, backend.token_to_id(end))]
    )
    return Tokenizer(backend, TOKENS)
