"""A tokenizer of ours beside that of transformers."""

import warnings
from pathlib import Path
from typing import Any

import transformers

from glassformer.text import Tokenizer, load_tokenizer


def theirs_of(folder: Path, family: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Marian recommends a package
        return getattr(transformers, family).from_pretrained(folder)


def saved(tokenizer: Tokenizer, folder: Path) -> tuple[Tokenizer, Any]:
    """Ours and that of transformers, from what was saved."""
    folder.mkdir()
    tokenizer.save(folder)
    return load_tokenizer(folder), transformers.AutoTokenizer.from_pretrained(folder)
