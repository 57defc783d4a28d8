"""Tokenizers: text to ids and back, files for other tools, errors."""

import copy
import json
import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import transformers

from glassformer.data.dates import date_pairs
from glassformer.errors import InputError
from glassformer.text import Tokenizer, check_vocabulary, load_tokenizer, train_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    pairs = date_pairs(2000, seed=0)
    return train_tokenizer([text for pair in pairs for text in (pair.source, pair.target)], 800)


def test_round_trip(tokenizer: Tokenizer) -> None:
    for pair in date_pairs(200, seed=1):
        for text in (pair.source, pair.target):
            assert tokenizer.decode(tokenizer.ids(text)) == text


def test_a_text_ends_with_the_end_token_and_is_padded(tokenizer: Tokenizer) -> None:
    for left in (False, True):
        encoded = tokenizer.encode(["May 1st, 2031", "2031"], pad_left=left)
        lengths = [len(tokenizer.ids(text)) for text in ("May 1st, 2031", "2031")]
        assert encoded.attention_mask.sum(dim=1).tolist() == lengths
        assert (encoded.input_ids[~encoded.attention_mask] == tokenizer.pad_token_id).all()
        assert encoded.input_ids[1][encoded.attention_mask[1]].tolist()[-1] == tokenizer.eos_token_id
        assert bool(encoded.attention_mask[1, 0]) is not left


def test_tokens_read_as_a_person_writes_them(tokenizer: Tokenizer) -> None:
    assert tokenizer.tokens(tokenizer.ids("2031년 5월 1일")) == ["2031", "년", "5", "월", "1", "일", "</s>"]


def test_transformers_opens_a_saved_one(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    again = load_tokenizer(tmp_path)
    for pair in date_pairs(50, seed=2):
        assert theirs(pair.source)["input_ids"] == tokenizer.ids(pair.source) == again.ids(pair.source)
    assert theirs.pad_token_id == tokenizer.pad_token_id == again.pad_token_id
    assert len(again) == len(tokenizer)


def test_what_cannot_be_read_is_named(tokenizer: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no tokenizer\.json"):
        load_tokenizer(tmp_path)
    tokenizer.save(tmp_path)
    whole = (tmp_path / "tokenizer.json").read_text(encoding="utf-8")
    (tmp_path / "tokenizer.json").write_text(whole[: len(whole) // 2], encoding="utf-8")
    with pytest.raises(InputError, match="its tokenizer cannot be read"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text(whole, encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text('{"pad_token": 3}', encoding="utf-8")
    with pytest.raises(InputError, match=r"tokenizer_config\.json: pad_token 3: expected a token"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"pad_token":', encoding="utf-8")
    with pytest.raises(InputError, match=r"tokenizer_config\.json is not JSON"):
        load_tokenizer(tmp_path)
    with pytest.raises(InputError, match="there is no such folder"):
        load_tokenizer(tmp_path / "nowhere")
    with pytest.raises(InputError, match="the batch is empty"):
        tokenizer.encode([])
    with pytest.raises(InputError, match="a single text 'May 1st' was given: expected a list"):
        tokenizer.encode("May 1st")
    with pytest.raises(InputError, match="2 texts and 1 pairs: expected one pair per text"):
        tokenizer.encode(["a", "b"], ["c"])
    with pytest.raises(InputError, match="None is not a text"):
        tokenizer.encode([None])  # type: ignore[list-item]
    with pytest.raises(InputError, match="max_length 1: expected more than the 1 special tokens"):
        tokenizer.encode(["May"], max_length=1)
    with pytest.raises(InputError, match="this model has no languages to choose from"):
        tokenizer.encode(["May"], source_language="en")


def test_parts_of_a_character_are_written_as_their_bytes() -> None:
    """Joined, they give the text again; a token of a whole character, or of �, is written as it is."""
    tokenizer = train_tokenizer(["hello world 안녕"] * 3, 300, "bytes")
    text = "안녕 🎉 hello � x"
    tokens = tokenizer.tokens(tokenizer.ids(text, add_special=False))
    assert {"<F0>", "<9F>", "<8E>", "<89>", "hello"} <= set(tokens)
    parts = re.split(r"(<[0-9A-F]{2}>)", "".join(tokens))
    whole = b"".join(bytes.fromhex(part[1:3]) if part[:1] == "<" else part.encode() for part in parts)
    assert whole.decode().replace("▁", "") == text.replace(" ", "")


def test_stored_padding_does_not_count_as_tokens(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    backend = load_tokenizer(tmp_path).backend
    backend.enable_padding(length=30)
    backend.enable_truncation(max_length=3)
    backend.save(str(tmp_path / "tokenizer.json"))
    assert load_tokenizer(tmp_path).ids("May 1st, 2031") == tokenizer.ids("May 1st, 2031")


def test_a_vocabulary_is_no_larger_than_asked_for() -> None:
    assert len(train_tokenizer(["".join(chr(0xAC00 + i) for i in range(500))] * 2, 64)) == 64


def test_a_vocabulary_the_model_has_no_rows_for_is_refused(tokenizer: Tokenizer) -> None:
    check_vocabulary(tokenizer, len(tokenizer))
    check_vocabulary(tokenizer, len(tokenizer) + 100)  # a padded table
    size = len(tokenizer) - 1
    with pytest.raises(InputError, match=rf"vocab_size is {size}, and the tokenizer has ids up to {size} .* Use the"):
        check_vocabulary(tokenizer, size)


def test_the_token_for_images_of_gemma_3_needs_no_row_in_a_model_of_text() -> None:
    tokenizer = train_tokenizer(["one two three"] * 3, 100)
    size = len(tokenizer)
    tokenizer.backend.add_special_tokens(["<image_soft_token>"])
    check_vocabulary(tokenizer, size)


def test_offsets_point_into_the_text(tokenizer: Tokenizer) -> None:
    texts, pairs = ["May 1st, 2031", "2031"], ["2031년 5월 1일", "5월"]
    for left in (False, True):
        encoded = tokenizer.encode(texts, pairs, pad_left=left)
        assert encoded.offsets.shape == (*encoded.input_ids.shape, 2)
        for row, both in enumerate(zip(texts, pairs, strict=True)):
            for i, part, (start, end) in zip(
                encoded.input_ids[row].tolist(),
                encoded.sequence_ids[row].tolist(),
                encoded.offsets[row].tolist(),
                strict=True,
            ):
                written = "" if part == -1 else both[part][start:end].strip()
                assert written == ("" if part == -1 else tokenizer.tokens([i])[0])


def test_what_is_too_long_is_cut(tokenizer: Tokenizer) -> None:
    text = "May 1st, 2031 and May 2nd, 2032"
    whole, cut = tokenizer.ids(text), tokenizer.encode([text], max_length=4)
    assert cut.input_ids.tolist() == [[*whole[:3], tokenizer.eos_token_id]]
    assert tokenizer.ids(text) == whole  # truncation does not carry over to the next call
    assert tokenizer.encode([text], add_special=False).input_ids.tolist() == [whole[:-1]]


def test_threads_do_not_disturb_each_other(tokenizer: Tokenizer) -> None:
    text = "May 1st, 2031 and May 2nd, 2032"
    with ThreadPoolExecutor(4) as pool:
        lengths = [3 + i % 5 for i in range(60)]
        rows = pool.map(lambda n: tokenizer.encode([text], max_length=n).input_ids.shape[1], lengths)
        assert list(rows) == lengths


def test_a_tokenizer_can_be_sent_to_another_process(tokenizer: Tokenizer) -> None:
    for again in (pickle.loads(pickle.dumps(tokenizer)), copy.deepcopy(tokenizer)):
        assert again.encode(["May 1st, 2031"]).input_ids.tolist() == [tokenizer.ids("May 1st, 2031")]


def test_a_file_that_adds_nothing_around_a_text(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    values = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    (tmp_path / "tokenizer.json").write_text(json.dumps({**values, "post_processor": None}), encoding="utf-8")
    (tmp_path / "tokenizer_config.json").unlink()
    plain = load_tokenizer(tmp_path)
    assert plain.encode(["May 1st"], max_length=2).input_ids.tolist() == [tokenizer.ids("May 1st")[:2]]
    encoded = plain.encode(["May 1st", ""])
    assert encoded.input_ids[1].tolist() == [0] * encoded.input_ids.shape[1]
    assert not encoded.attention_mask[1].any()
    assert plain.encode([""]).input_ids.shape == (1, 0)


def test_tokens_and_ids_that_do_not_exist(tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match="the vocabulary has no token '<nothing>'"):
        tokenizer.id_of("<nothing>")
    assert tokenizer.readable(10**6) == "<1000000>", "a table may have rows that no token uses"
