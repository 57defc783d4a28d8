"""A model folder: which files belong to a model, and which are deleted when another model replaces it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from glassformer.checkpoints.card import CARD, is_ours
from glassformer.checkpoints.golden import CERTIFICATE, GOLDEN
from glassformer.errors import InputError
from glassformer.io import atomic_folder, read_json, replaced_place
from glassformer.text.tokenizer import TOKENIZER_FILES as TOKENIZER_FILES

CONFIG, WEIGHTS, GENERATION = "config.json", "model.safetensors", "generation_config.json"
PREPARATION = "preprocessor_config.json"
PROCESSOR = "processor_config.json"  # for images and texts together
# Files of other libraries beside the weights: how vectors are pooled, how images are prepared.
BESIDE = (
    *("modules.json", "1_Pooling", "2_Normalize", "sentence_bert_config.json", "config_sentence_transformers.json"),
    PREPARATION,
    PROCESSOR,
)
OLD_TOKENIZERS = (
    *("special_tokens_map.json", "added_tokens.json", "vocab.txt", "vocab.json", "merges.txt", "spiece.model"),
    *("sentencepiece.bpe.model", "source.spm", "target.spm", "tokenizer.model"),
)
# The files of a model, deleted when another model replaces it.
MODEL_FILES = (CONFIG, WEIGHTS, GENERATION, GOLDEN, CERTIFICATE, *TOKENIZER_FILES, *OLD_TOKENIZERS, *BESIDE)
# Weight files of any library.
WEIGHT_FILES = re.compile(r"(model|pytorch_model)(-\d+-of-\d+)?\.(safetensors|bin)(\.index\.json)?")


def read_settings_file(file: Path) -> dict[str, Any]:
    """Reads a settings file that every model folder must have."""
    if not file.is_file():
        old = replaced_place(file.parent)
        kept = f". The model it was replacing is in {old}" if old.is_dir() else ""
        raise InputError(f"{file.parent} has no {file.name}: it is incomplete, or not a model folder{kept}")
    return read_json(file, "the config of a model, an object with a model_type")


@contextmanager
def atomic_model_folder(path: Path, *, replaces: tuple[str, ...] = ()) -> Iterator[Path]:
    """A temporary folder to write a model to, which replaces `path` once everything is written.

    The files of the old model and those in `replaces` are deleted. Everything else in the folder is kept, including a
    model card that somebody else wrote.
    """
    folder = path.resolve()
    if folder.is_file():
        raise InputError(f"{path} is a file: expected a folder to write to")

    def stays(entry: Path, new: Path) -> bool:
        is_old = entry.name in {*MODEL_FILES, *replaces} or WEIGHT_FILES.fullmatch(entry.name)
        is_free = not (new / entry.name).exists() or entry.name == CARD
        return is_free and not is_old and not is_ours(entry)

    with atomic_folder(path, stays=stays) as written:
        yield written
