"""A model folder: which files are a model's, its settings as JSON, and how a folder appears whole or not at all."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from glassformer.checkpoints.card import CARD, is_ours
from glassformer.checkpoints.golden import CERTIFICATE, GOLDEN
from glassformer.errors import InputError
from glassformer.io import parse_json
from glassformer.text.tokenizer import FILES as TOKENIZER_FILES

CONFIG, WEIGHTS, GENERATION = "config.json", "model.safetensors", "generation_config.json"
PREPARATION = "preprocessor_config.json"
# What other libraries keep beside the weights: how vectors are pooled, how images are prepared.
BESIDE = (
    *("modules.json", "1_Pooling", "2_Normalize", "sentence_bert_config.json", "config_sentence_transformers.json"),
    PREPARATION,
)
OLD_TOKENIZERS = (
    *("special_tokens_map.json", "added_tokens.json", "vocab.txt", "vocab.json", "merges.txt", "spiece.model"),
    *("sentencepiece.bpe.model", "source.spm", "target.spm", "tokenizer.model"),
)
# What belongs to a model and goes with it when another takes its place.
FILES = (CONFIG, WEIGHTS, GENERATION, GOLDEN, CERTIFICATE, *TOKENIZER_FILES, *OLD_TOKENIZERS, *BESIDE)
# What a model's weights may be in, whoever wrote them.
WEIGHT_FILES = re.compile(r"(model|pytorch_model)(-\d+-of-\d+)?\.(safetensors|bin)(\.index\.json)?")


def read_json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise InputError(f"{file.parent} has no {file.name}: it is half-written, or not a model folder")
    values = parse_json(file)
    if not isinstance(values, dict):
        raise InputError(f"{file}: expected the config of a model, an object with a model_type")
    return values


def write_json(file: Path, values: dict[str, Any]) -> None:
    file.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


@contextmanager
def whole_folder(path: Path, *, replaces: tuple[str, ...] = ()) -> Iterator[Path]:
    """A folder to write to, which takes its place when everything in it is written; the old one stays until then.

    Of the old one, a model's files and those named in `replaces` go; whatever else was in it stays, and so does a
    model card that somebody wrote.
    """
    folder = path.resolve()
    if folder.is_file():
        raise InputError(f"{path} is a file: expected a folder to write")
    partial, old = (folder.with_name(f".{folder.name}.{os.getpid()}.{end}") for end in ("partial", "old"))
    try:
        shutil.rmtree(partial, ignore_errors=True)  # of a process that had this number before
        partial.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
    try:
        yield partial
        if folder.exists():
            folder.rename(old)
        partial.rename(folder)
    except BaseException:
        if old.exists() and not folder.exists():
            old.rename(folder)
        shutil.rmtree(partial, ignore_errors=True)
        raise
    if old.exists():
        for entry in old.iterdir():
            is_old = entry.name in {*FILES, *replaces} or WEIGHT_FILES.fullmatch(entry.name)
            is_free = not (folder / entry.name).exists() or entry.name == CARD
            if is_free and not is_old and not is_ours(entry):
                entry.replace(folder / entry.name)
        shutil.rmtree(old, ignore_errors=True)
