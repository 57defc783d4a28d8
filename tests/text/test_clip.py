"""CLIP's tokenizer: lower case, byte-level subwords with a mark at the end of words, start and end tokens."""

from pathlib import Path

import pytest
import transformers

import glassformer as gf
from glassformer.errors import InputError

LETTERS = "abcdefgilnoqrstuv,'"
MERGES = ["r e", "re d</w>", "c i", "ci r", "cir c", "l e</w>", "circ le</w>"]
TEXTS = ["a Red  circle", "RED circle of a circle", "a red circle, it's red", "", "circles"]


@pytest.fixture
def theirs(tmp_path: Path) -> transformers.CLIPTokenizer:
    pieces = [*LETTERS, *(f"{letter}</w>" for letter in LETTERS), *(merge.replace(" ", "") for merge in MERGES)]
    vocabulary = {piece: i for i, piece in enumerate([*pieces, "<|startoftext|>", "<|endoftext|>"])}
    merges = [(first, second) for first, second in map(str.split, MERGES)]
    tokenizer = transformers.CLIPTokenizer(vocab=vocabulary, merges=merges)
    tokenizer.save_pretrained(tmp_path / "theirs")
    return tokenizer


def test_texts_are_cut_and_put_together_as_transformers_does(
    theirs: transformers.CLIPTokenizer, tmp_path: Path
) -> None:
    ours = gf.load_tokenizer(tmp_path / "theirs")
    for text in TEXTS:
        assert ours.ids(text) == theirs(text)["input_ids"]
        assert ours.decode(ours.ids(text)) == theirs.decode(theirs(text)["input_ids"], skip_special_tokens=True).strip()
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        assert getattr(ours, name) == getattr(theirs, name)


def test_what_we_save_cuts_alike(theirs: transformers.CLIPTokenizer, tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    gf.load_tokenizer(tmp_path / "theirs").save(tmp_path / "again")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    assert all(again(text)["input_ids"] == theirs(text)["input_ids"] for text in TEXTS)


def test_older_files_need_a_tokenizer_json(tmp_path: Path) -> None:
    (tmp_path / "vocab.json").write_text('{"a": 0}')
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "CLIPTokenizer"}')
    with pytest.raises(InputError, match=r"a CLIP tokenizer is read from its tokenizer.json: add that file"):
        gf.load_tokenizer(tmp_path)


@pytest.mark.parametrize("kind", ["bpe", "bytes", "characters", "unigram", "wordpiece"])
def test_a_tokenizer_that_is_learned_marks_both_ends(kind: str) -> None:
    tokenizer = gf.train_tokenizer(["a red circle", "a blue square"] * 5, 300, kind, around="both")
    ids = tokenizer.ids("a red circle")
    assert (ids[0], ids[-1]) == (tokenizer.bos_token_id, tokenizer.eos_token_id)
    assert tokenizer.bos_token_id != tokenizer.eos_token_id
    assert tokenizer.eos_token_id != 2, "in CLIP's config.json, this id selects another way to find the end"
    assert tokenizer.decode(ids) == "a red circle"
