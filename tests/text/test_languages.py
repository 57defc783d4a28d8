"""Translation between languages by name: mBART, mBART-50, M2M100, NLLB and Marian, against transformers."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import sentencepiece
from helpers import vocabularies
from helpers.vocabularies import TEXTS, saved, theirs_of

from glassformer.errors import InputError
from glassformer.text import load_tokenizer

Make = Callable[..., Path]
NAMES = {
    "MBartTokenizer": ["en_XX", "ko_KR", "ro_RO"],
    "MBart50Tokenizer": ["en_XX", "ko_KR", "sl_SI"],
    "M2M100Tokenizer": ["en", "ko", "zu"],
}
NLLB = ["eng_Latn", "kor_Hang", "zul_Latn"]
PLAIN = [text for text in TEXTS if "ﬁ" not in text]  # transformers 5.22 does not normalise for mBART


@pytest.mark.parametrize("family", NAMES)
def test_languages_by_name(family: str, make: Make, tmp_path: Path) -> None:
    folder = make(family)
    ours, theirs = load_tokenizer(folder), theirs_of(folder, family)
    again, _ = saved(ours, tmp_path / "saved")
    for source in NAMES[family]:
        theirs.src_lang = source
        for target in NAMES[family]:
            theirs.tgt_lang = target
            expected = theirs(PLAIN, text_target=PLAIN)
            for tokenizer in (ours, again):
                rows = tokenizer.encode(PLAIN, source_language=source, target_language=target)
                targets = tokenizer.encode(PLAIN, target=True, source_language=source, target_language=target)
                for encoded, name in ((rows, "input_ids"), (targets, "labels")):
                    kept = zip(encoded.input_ids, encoded.attention_mask, strict=True)
                    assert [ids[mask].tolist() for ids, mask in kept] == expected[name]
                assert tokenizer.language_id(target) == (
                    theirs.get_lang_id(target) if family[0:2] == "M2" else theirs.convert_tokens_to_ids(target)
                )
    assert ours.ids("Hello") == ours.encode(["Hello"], source_language=NAMES[family][0]).input_ids[0].tolist()


def test_the_language_of_the_settings_stands_where_none_is_asked_for(make: Make, tmp_path: Path) -> None:
    for family, name in [("MBartTokenizer", "ko_KR"), ("M2M100Tokenizer", "ko"), ("NllbTokenizer", "kor_Hang")]:
        ours = load_tokenizer(make(family, src_lang=name))
        again, auto = saved(ours, tmp_path / family)
        assert ours.language_id(name) in ours.ids("Hello")
        assert ours.ids("Hello") == again.ids("Hello") == auto("Hello")["input_ids"]


@pytest.mark.parametrize("legacy", [False, True])
def test_nllb(legacy: bool, make: Make, tmp_path: Path) -> None:
    """transformers only knows the languages from the tokenizer.json that we write."""
    folder = make("NllbTokenizer", legacy_behaviour=legacy)
    ours = load_tokenizer(folder)
    again, theirs = saved(ours, tmp_path / "saved")
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.bpe.model"))
    # as in the published vocabulary: the pieces, shifted by one, then the languages and the mask
    assert ours.language_id("ace_Arab") == len(model) + 1
    assert ours.mask_token_id == len(ours) - 1 == len(model) + 1 + 202
    for name in NLLB:
        theirs.src_lang = name
        for text in TEXTS:
            ids = ours.encode([text], source_language=name).input_ids[0].tolist()
            assert ids == theirs(text)["input_ids"] == again.encode([text], source_language=name).input_ids[0].tolist()
            assert ids[-1 if legacy else 0] == theirs.convert_tokens_to_ids(name) == ours.language_id(name)


def test_languages_that_a_file_has_among_its_pieces(make: Make, tmp_path: Path) -> None:
    folder = make("MBartTokenizer")
    expected = load_tokenizer(folder).encode(["Hello"], source_language="ko_KR").input_ids.tolist()
    saved(load_tokenizer(folder), tmp_path / "saved")
    file = tmp_path / "saved" / "tokenizer.json"
    values = json.loads(file.read_text(encoding="utf-8"))
    values["added_tokens"] = [token for token in values["added_tokens"] if "_" not in token["content"]]
    file.write_text(json.dumps(values), encoding="utf-8")
    assert load_tokenizer(tmp_path / "saved").encode(["Hello"], source_language="ko_KR").input_ids.tolist() == expected


def test_a_file_shows_where_the_language_stands(make: Make, tmp_path: Path) -> None:
    for family in [*NAMES, "NllbTokenizer"]:
        ours = load_tokenizer(make(family))
        saved(ours, tmp_path / family)
        (tmp_path / family / "tokenizer_config.json").write_text('{"eos_token": "</s>"}', encoding="utf-8")
        again = load_tokenizer(tmp_path / family)
        for name in NAMES.get(family, NLLB):
            rows = [tokenizer.encode(["Hello"], source_language=name).input_ids.tolist() for tokenizer in (ours, again)]
            assert rows[0] == rows[1]


def test_nllb_shares_its_model_type_with_m2m100(make: Make) -> None:
    folder = make("NllbTokenizer", {"model_type": "m2m_100"})
    (folder / "tokenizer_config.json").unlink()
    assert "eng_Latn" in load_tokenizer(folder).languages
    folder = make("M2M100Tokenizer", {"model_type": "m2m_100"})
    (folder / "tokenizer_config.json").unlink()
    assert "en" in load_tokenizer(folder).languages


def test_an_unknown_language_is_named(make: Make) -> None:
    ours = load_tokenizer(make("MBartTokenizer"))
    with pytest.raises(InputError, match=r"unknown language 'ko_KO': did you mean 'ko_KR'\?"):
        ours.language_id("ko_KO")
    for given in ({"source_language": "xx"}, {"target_language": "xx"}):
        with pytest.raises(InputError, match="unknown language 'xx'; choose from ar_AR, "):
            ours.encode(["a"], **given)  # type: ignore[arg-type]
    with pytest.raises(
        InputError, match=r"src_lang of tokenizer_config\.json is 'kor', which is not a language of this tokenizer"
    ):
        load_tokenizer(make("MBartTokenizer", src_lang="kor"))


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_marian_cuts_its_two_sides_in_two_ways(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "marian"
    folder.mkdir()
    vocabularies.marian(folder, model_type=kind)
    vocabularies.write_json(folder, "config.json", {"model_type": "marian"})
    ours, theirs = load_tokenizer(folder), theirs_of(folder, "MarianTokenizer")
    again, auto = saved(ours, tmp_path / "saved")
    texts = [*TEXTS, "2031년 5월", "Monday, 1 May", "2031년 5월 1일 월요일"]
    differ = 0
    for text in texts:
        expected = theirs(text, text_target=text)
        differ += expected["input_ids"] != expected["labels"]
        for tokenizer in (ours, again):
            assert tokenizer.encode([text]).input_ids.tolist() == [expected["input_ids"]], text
            assert tokenizer.encode([text], target=True).input_ids.tolist() == [expected["labels"]], text
            assert tokenizer.decode(expected["labels"]).strip() == theirs.decode(
                expected["labels"], skip_special_tokens=True
            )
        assert auto(text)["input_ids"] == expected["input_ids"]
    assert differ
    assert ours.padding_id == theirs.pad_token_id


def test_marian_into_one_of_many_languages(make: Make) -> None:
    folder = make("MarianTokenizer")
    ours, theirs = load_tokenizer(folder), theirs_of(folder, "MarianTokenizer")
    encoded = ours.encode(["Hello world"], target_language="kor")
    assert encoded.input_ids.tolist() == [theirs(">>kor<< Hello world")["input_ids"]]
    with pytest.raises(InputError, match="--source-language kor: this model does not use it"):
        ours.encode(["Hello"], source_language="kor")
    assert ours.language_id("kor") == theirs.convert_tokens_to_ids(">>kor<<")
