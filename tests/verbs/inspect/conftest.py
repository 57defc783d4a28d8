"""A small model to look at."""

from pathlib import Path

import pytest
import torch

import glassformer as gf
from glassformer.data.dates import date_pairs


@pytest.fixture(scope="session")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved encoder-decoder with a tokenizer, untrained."""
    folder = tmp_path_factory.mktemp("translator")
    pairs = date_pairs(200, seed=0)
    tokenizer = gf.train_tokenizer([text for pair in pairs for text in (pair.source, pair.target)], vocab_size=300)
    torch.manual_seed(0)
    stack = gf.StackConfig(d_model=16, num_layers=2, num_heads=2)
    ids = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": 0}
    config = gf.TransformerConfig(
        encoder=stack, decoder=stack, vocab_size=len(tokenizer), decoder_start_token_id=ids["bos_token_id"], **ids
    )
    gf.save(gf.Transformer(config), folder, tokenizer=tokenizer)
    return folder
