"""Vocabulary files of other formats: the ids of transformers and sentencepiece, and folders that both can read."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import transformers
from helpers import vocabularies
from helpers.shared import shared
from helpers.vocabularies import BUILD, TEXTS, saved, theirs_of

from glassformer.errors import InputError
from glassformer.text import check_vocabulary, load_tokenizer
from glassformer.text.tokenizer import SPECIAL
from glassformer.text.vocabulary_files import NoTokenizerError, read_vocabulary

Make = Callable[..., Path]
# Special tokens inside a text.
INSIDE = {
    "BertTokenizer": ["a [MASK] b", "[CLS] x [SEP]"],
    "RobertaTokenizer": ["<s>x</s>"],
    "GPT2Tokenizer": ["a<|endoftext|> b"],
    "T5Tokenizer": ["a <extra_id_0> b </s>"],
    "AlbertTokenizer": ["a [MASK] b"],
    "XLMRobertaTokenizer": ["a <mask> b"],
    "MBartTokenizer": ["a <mask> b", "x</s> y"],
    "MBart50Tokenizer": ["a <mask> b", "trailing  "],
    "MarianTokenizer": [">>kor<< Hello", "Hello </s> x"],
    "LlamaTokenizer": ["<s>hi</s> yo", "a</s>b"],
    "GemmaTokenizer": ["<bos>hi<eos> yo", "a    b  c", "x\n\n  y\n\n\n", "<start_of_turn>user"],
}
# transformers 5.22 adds no bos token for LLaMA and Gemma unless asked, knows no NLLB languages without a
# tokenizer.json, and drops mBART's normalisation.
SETTINGS: dict[str, dict[str, Any]] = {name: {"add_bos_token": True} for name in ("LlamaTokenizer", "GemmaTokenizer")}
UNLIKE = {"MBartTokenizer": ["ﬁ ligature and Ａ wide"]}


@pytest.mark.parametrize("family", sorted(BUILD.keys() - {"NllbTokenizer"}))
def test_ids_are_those_of_transformers(family: str, make: Make, tmp_path: Path) -> None:
    folder = make(family, **SETTINGS.get(family, {}))
    ours, theirs = load_tokenizer(folder), theirs_of(folder, family)
    again, auto = saved(ours, tmp_path / "saved")
    texts = [text for text in TEXTS + INSIDE.get(family, []) if text not in UNLIKE.get(family, [])]
    for text in texts:
        ids = theirs(text)["input_ids"]
        assert ours.ids(text) == ids, text
        assert again.ids(text) == ids, text
        assert auto(text)["input_ids"] == ids, text
        body = ours.ids(text, add_special=False)
        assert body == theirs(text, add_special_tokens=False)["input_ids"]
        assert ours.decode(body).strip() == theirs.decode(body, skip_special_tokens=True).strip()
    for name in SPECIAL:
        if name in ours.special:
            assert ours.special_id(name) == getattr(theirs, f"{name}_id"), name
            assert ours.special_id(name) == getattr(auto, f"{name}_id"), name
    assert ours.special == again.special
    assert len(again) == len(ours)


@pytest.mark.parametrize("family", ["BertTokenizer", "RobertaTokenizer", "T5Tokenizer", "GPT2Tokenizer"])
@pytest.mark.parametrize("left", [False, True])
def test_pairs_padding_and_offsets(family: str, left: bool, make: Make) -> None:
    folder = make(family, pad_token="</s>" if family == "RobertaTokenizer" else "[PAD]" if family[0] == "B" else None)
    folder = make(family) if family == "T5Tokenizer" else folder
    ours, theirs = load_tokenizer(folder), theirs_of(folder, family)
    if theirs.pad_token is None:
        theirs.pad_token = theirs.eos_token
    theirs.padding_side = "left" if left else "right"
    texts, pairs = ["Hello  world", "안녕 😀", ""], ["The fox", "x", "long long ago, again"]
    for second in (None, pairs):
        for length in (None, 6):
            expected = theirs(
                texts,
                second,
                padding=True,
                truncation=length is not None,
                max_length=length,
                return_offsets_mapping=True,
                return_token_type_ids=True,
                return_tensors="pt",
            )
            encoded = ours.encode(texts, second, pad_left=left, max_length=length)
            assert encoded.input_ids.tolist() == expected["input_ids"].tolist()
            assert encoded.attention_mask.long().tolist() == expected["attention_mask"].tolist()
            assert encoded.offsets.tolist() == expected["offset_mapping"].tolist()
            if family == "BertTokenizer":
                assert encoded.token_type_ids is not None
                assert encoded.token_type_ids.tolist() == expected["token_type_ids"].tolist()
            else:
                assert encoded.token_type_ids is None


def test_token_types_are_given_to_models_that_have_them(make: Make) -> None:
    for config, wanted in [
        (None, True),
        ({"model_type": "bert", "type_vocab_size": 2}, True),
        ({"model_type": "distilbert"}, False),
        ({"model_type": "roberta", "type_vocab_size": 1}, False),
    ]:
        tokenizer = load_tokenizer(make("BertTokenizer", config))
        assert (tokenizer.encode(["a"]).token_type_ids is not None) is wanted
    assert load_tokenizer(make("AlbertTokenizer")).encode(["a"], ["b"]).token_type_ids is not None


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("accents", [None, True, False])
@pytest.mark.parametrize("chinese", [True, False])
def test_wordpiece_settings(lower: bool, accents: bool | None, chinese: bool, make: Make) -> None:
    settings = {"do_lower_case": lower, "strip_accents": accents, "tokenize_chinese_chars": chinese}
    folder = make("BertTokenizer", **settings)
    ours, theirs = load_tokenizer(folder), theirs_of(folder, "BertTokenizer")
    for text in [*TEXTS, "Café 日本", "HELLO World"]:
        assert ours.ids(text) == theirs(text)["input_ids"]


@pytest.mark.parametrize("family", ["GPT2Tokenizer", "RobertaTokenizer"])
def test_a_space_before_the_first_word(family: str, make: Make) -> None:
    folder = make(family, add_prefix_space=True)
    ours, theirs = load_tokenizer(folder), theirs_of(folder, family)
    for text in TEXTS:
        assert ours.ids(text) == theirs(text)["input_ids"]
    assert ours.decode(ours.ids("Hello world")).strip() == "Hello world"


def test_a_mask_takes_the_space_before_it(make: Make) -> None:
    ours = load_tokenizer(make("RobertaTokenizer"))
    assert ours.tokens(ours.ids("Hello <mask>!", add_special=False))[-2:] == ["<mask>", "!"]
    assert ours.ids("Hello <mask>") == ours.ids("Hello<mask>")


@pytest.mark.parametrize(
    ("family", "file", "offset"),
    [
        ("T5Tokenizer", "spiece.model", 0),
        ("XLMRobertaTokenizer", "sentencepiece.bpe.model", 1),
        ("MBartTokenizer", "sentencepiece.bpe.model", 1),
        ("NllbTokenizer", "sentencepiece.bpe.model", 1),
        ("LlamaTokenizer", "tokenizer.model", 0),
        ("GemmaTokenizer", "tokenizer.model", 0),
    ],
)
def test_pieces_are_those_of_sentencepiece(family: str, file: str, offset: int, make: Make) -> None:
    folder = make(family, legacy=True)  # legacy: a space before a text even if it begins with one
    ours = load_tokenizer(folder)
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / file))
    for text in [*TEXTS[:-1], *vocabularies.corpus()]:  # the last is only spaces, of which transformers keeps one
        expected = [ours.unk_token_id if i == model.unk_id() else i + offset for i in model.encode(text)]
        ids = ours.ids(text, add_special=False)
        assert ids == expected, text
        assert ours.decode(ids, skip_special=False) == model.decode(model.encode(text)).replace(" ⁇ ", "<unk>")


def test_a_folder_without_settings_is_known_by_its_model(make: Make, tmp_path: Path) -> None:
    for family, model_type in [
        ("T5Tokenizer", "t5"),
        ("XLMRobertaTokenizer", "xlm-roberta"),
        ("BartTokenizer", "bart"),
    ]:
        folder = make(family, {"model_type": model_type})
        expected = load_tokenizer(folder).ids("Hello world")
        (folder / "tokenizer_config.json").unlink()
        assert load_tokenizer(folder).ids("Hello world") == expected
    folder = make("T5Tokenizer")
    (folder / "tokenizer_config.json").unlink()
    with pytest.raises(InputError, match=r"neither the tokenizer_class .* Set tokenizer_class to one of T5Tokenizer"):
        load_tokenizer(folder)


def test_a_customary_token_that_a_vocabulary_lacks_gets_no_id(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\n", encoding="utf-8")
    vocabularies.write_json(tmp_path, "tokenizer_config.json", {"tokenizer_class": "BertTokenizer"})
    tokenizer = load_tokenizer(tmp_path)
    assert len(tokenizer) == 5
    assert tokenizer.mask_token_id is None
    check_vocabulary(tokenizer, 5)
    named = {"tokenizer_class": "BertTokenizer", "mask_token": "[MASK]"}
    vocabularies.write_json(tmp_path, "tokenizer_config.json", named)
    assert load_tokenizer(tmp_path).mask_token_id == 5  # named, so it is added


def test_the_class_is_kept(make: Make, tmp_path: Path) -> None:
    for family in ("DistilBertTokenizer", "BartTokenizer", "XLMRobertaTokenizerFast"):
        folder = make(family.removesuffix("Fast"))
        vocabularies.write_json(folder, "tokenizer_config.json", {"tokenizer_class": family, "model_max_length": 77})
        ours = load_tokenizer(folder)
        again, auto = saved(ours, tmp_path / family)
        assert ours.settings["tokenizer_class"] == again.settings["tokenizer_class"] == family
        assert auto.model_max_length == again.settings["model_max_length"] == 77


def test_older_files_of_settings(make: Make) -> None:
    folder = make("GPT2Tokenizer")
    size = len(load_tokenizer(folder))
    vocabularies.write_json(folder, "added_tokens.json", {"<pad>": size, "<thing>": size + 1})
    token = {"content": "<pad>", "lstrip": False, "rstrip": False, "normalized": False, "single_word": False}
    vocabularies.write_json(folder, "special_tokens_map.json", {"pad_token": token, "eos_token": "<|endoftext|>"})
    ours, theirs = load_tokenizer(folder), theirs_of(folder, "GPT2Tokenizer")
    assert (ours.pad_token_id, ours.id_of("<thing>")) == (size, size + 1)
    assert ours.pad_token_id == theirs.pad_token_id
    for text in ["a <thing> b", "a<pad>b"]:
        assert ours.ids(text) == theirs(text)["input_ids"]
        assert ours.decode(ours.ids(text)) == theirs.decode(ours.ids(text), skip_special_tokens=True)
    vocabularies.write_json(folder, "added_tokens.json", {"<pad>": size + 7})
    with pytest.raises(
        InputError, match=rf"'<pad>' has the id {size + 7} in the settings and {size} in the vocabulary"
    ):
        load_tokenizer(folder)


def test_tokens_with_their_ids_in_the_settings(make: Make) -> None:
    folder = make("LlamaTokenizer", add_bos_token=True)
    size = len(load_tokenizer(folder))
    flags = {"lstrip": False, "rstrip": False, "normalized": False, "single_word": False, "special": True}
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    settings |= {"added_tokens_decoder": {str(size): {"content": "<|im_end|>", **flags}}, "eos_token": "<|im_end|>"}
    vocabularies.write_json(folder, "tokenizer_config.json", settings)
    ours = load_tokenizer(folder)
    assert ours.eos_token_id == size
    assert ours.ids("hi<|im_end|>")[-1] == size
    check_vocabulary(ours, size + 1)
    with pytest.raises(InputError, match=rf"vocab_size is {size}, and the tokenizer has ids up to {size}"):
        check_vocabulary(ours, size)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "has no vocab.json, the table of token ids. Download it as well"),
        (b"{", "is not JSON"),
        (b"[1, 2]", 'expected a table of tokens and their ids, as in {"the": 12}'),
        (b'{"the": "12"}', "expected a table of tokens and their ids"),
        (b"\xff\xfe", "is not UTF-8 text"),
    ],
)
def test_a_broken_table_of_ids_is_named(content: bytes | None, expected: str, make: Make) -> None:
    folder = make("GPT2Tokenizer")
    (folder / "vocab.json").unlink()
    if content is not None:
        (folder / "vocab.json").write_bytes(content)
    with pytest.raises(InputError, match=re.escape(expected)):
        read_vocabulary(folder / "vocab.json")


def test_broken_files_are_named(make: Make, tmp_path: Path) -> None:
    whole = (make("T5Tokenizer") / "spiece.model").read_bytes()
    table = whole.index(b"nmt_nfkc") + 14  # after the name: the table of characters, to be corrupted
    for name, content, expected in [
        ("spiece.model", whole[: len(whole) // 2], "is not a sentencepiece model"),
        ("spiece.model", whole[:table] + b"\xff\xff\xff" + whole[table + 3 :], "its tokenizer cannot be read"),
        ("spiece.model", b"", "it has no pieces"),
        ("spiece.model", b"<html>not found</html>", "is not a sentencepiece model"),
        ("vocab.txt", b"a\nb\n", r"has no token '\[UNK\]', the unk_token"),
        ("vocab.txt", b"\xff\xfe\x00", "is not UTF-8 text"),
    ]:
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        (folder / name).write_bytes(content)
        family = "T5Tokenizer" if name == "spiece.model" else "BertTokenizer"
        vocabularies.write_json(folder, "tokenizer_config.json", {"tokenizer_class": family})
        with pytest.raises(InputError, match=expected):
            load_tokenizer(folder)
    for name, value, expected in [
        ("added_tokens_decoder", {"x": "<pad>"}, "the added tokens of its settings cannot be read"),
        ("added_tokens_decoder", {"9": {"contents": "<pad>"}}, "the added tokens of its settings cannot be read"),
        ("chat_template", [{"name": "default"}], "chat_template of .* expected a template, or a list"),
        ("bos_token", {"contents": "<s>"}, "bos_token {'contents': '<s>'}: expected a token"),
        ("eos_token", "<end>", None),
    ]:
        folder = make("T5Tokenizer", **{name: value})
        with pytest.raises(InputError, match=expected or r"no token '<end>', which every text needs\. Name another"):
            load_tokenizer(folder)
    folder = make("GPT2Tokenizer")
    (folder / "merges.txt").unlink()
    for content, expected in [
        ("a b c\n", "the line 'a b c': expected two pieces"),
        ("한 국\n", "does not match vocab.json"),
    ]:
        (folder / "merges.txt").write_text(content, encoding="utf-8")
        with pytest.raises(InputError, match=expected):
            load_tokenizer(folder)
    folder = make("T5Tokenizer")
    vocabularies.write_json(folder, "tokenizer_config.json", {"tokenizer_class": "XLNetTokenizer"})
    with pytest.raises(InputError, match=r"tokenizer_class 'XLNetTokenizer' is not known"):
        load_tokenizer(folder)


def test_stories() -> None:
    folder = shared("checkpoints/stories260K")
    tokenizer = load_tokenizer(folder)
    reference = json.loads((folder / "reference.json").read_text(encoding="utf-8"))
    assert tokenizer.ids(reference["prompt"]) == reference["input_ids"]
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    for text in TEXTS:
        assert tokenizer.ids(text) == theirs(text)["input_ids"]
        assert tokenizer.decode(tokenizer.ids(text)) == text
    assert tokenizer.pad_token_id is None


def test_stories_from_sentencepiece(tmp_path: Path) -> None:
    file = shared("checkpoints/stories260K") / "tok512.model"
    (tmp_path / "tokenizer.model").symlink_to(file)
    tokenizer = load_tokenizer(tmp_path)
    model = sentencepiece.SentencePieceProcessor(model_file=str(file))
    for text in [*TEXTS, *vocabularies.corpus(), "Once upon a time, there was a little girl named Lily. "]:
        assert tokenizer.ids(text) == [model.bos_id(), *model.encode(text)]
        assert tokenizer.decode(tokenizer.ids(text)) == model.decode(model.encode(text))


def test_a_vocabulary_of_chemistry_is_not_taken_for_words() -> None:
    """A plain list of SMILES tokens: read as WordPiece, it would give confident nonsense."""
    folder = shared("checkpoints/rxnmapper-albert")
    message = r"vocab\.txt does not say how to split text into its 591 tokens .* Add the model's tokenizer\.json"
    with pytest.raises(NoTokenizerError, match=message):
        load_tokenizer(folder)


SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def bare(folder: Path, pieces: list[str], **settings: Any) -> Path:
    """A folder with only a vocab.txt and these settings."""
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, *pieces]) + "\n", encoding="utf-8")
    vocabularies.write_json(folder, "config.json", {"model_type": "bert"})
    if settings:
        vocabularies.write_json(folder, "tokenizer_config.json", settings)
    return folder


@pytest.mark.parametrize(
    ("pieces", "settings", "ids", "said"),
    [
        pytest.param(["the", "fox", "##es"], {}, [5, 6, 7], "they are, because its pieces have no capital", id="lower"),
        pytest.param(["The", "fox", "##es"], {}, [5, 6, 7], "they are not, because its pieces have", id="cased"),
        pytest.param(["Thé", "fox", "##es"], {}, [1, 6, 7], "they are not, because its pieces have", id="accents"),
        pytest.param(["the", "fox", "##es"], {"do_lower_case": False}, [1, 6, 7], "", id="told"),
        pytest.param(["the", "fox", "es"], {"tokenizer_class": "BertTokenizer"}, [5, 1], "", id="class"),
        pytest.param(
            ["The", "fox", "##es"], {"tokenizer_class": "BertTokenizer"}, [5, 6, 7], "they are not", id="class-cased"
        ),
    ],
)
def test_what_no_file_says_is_read_from_the_vocabulary_and_said(
    pieces: list[str], settings: dict[str, Any], ids: list[int], said: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    tokenizer = load_tokenizer(bare(tmp_path, pieces, **settings))
    assert tokenizer.ids("The foxes", add_special=False) == ids
    assert said in capsys.readouterr().err
    assert bool(tokenizer.assumed) == bool(said)
    (tmp_path / "again").mkdir()
    tokenizer.save(tmp_path / "again")
    assert load_tokenizer(tmp_path / "again").ids("The foxes", add_special=False) == ids
    assert not capsys.readouterr().err  # a tokenizer.json says it


def test_hangul_is_not_taken_apart(tmp_path: Path) -> None:
    """Lower-casing strips accents and would decompose syllables: a vocabulary of syllables is not lower-cased."""
    tokenizer = load_tokenizer(bare(tmp_path, ["안녕", "##하세요"]))
    assert tokenizer.ids("안녕하세요", add_special=False) == [5, 6]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({}, "no token begins with ## as in WordPiece", id="nothing"),
        pytest.param({"tokenizer_class": "PreTrainedTokenizerFast"}, "no token begins with ##", id="generic"),
        pytest.param(
            {"tokenizer_class": "AlbertTokenizer"}, "'AlbertTokenizer' is not known for this file", id="other"
        ),
        pytest.param({"tokenizer_class": "EsmTokenizer"}, "'EsmTokenizer' is not known for this file", id="unknown"),
    ],
)
def test_a_list_of_tokens_that_nobody_explains_is_refused(
    settings: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    with pytest.raises(NoTokenizerError, match=expected):
        load_tokenizer(bare(tmp_path, ["C", "c1", "(=O)"], **settings))


def test_windows_line_ends(tmp_path: Path) -> None:
    bare(tmp_path, ["the", "fox", "##es"])
    (tmp_path / "vocab.txt").write_bytes((tmp_path / "vocab.txt").read_bytes().replace(b"\n", b"\r\n"))
    assert load_tokenizer(tmp_path).ids("the foxes", add_special=False) == [5, 6, 7]


def test_pairs_of_pieces_that_nobody_explains(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make("GPT2Tokenizer")
    (folder / "tokenizer_config.json").unlink()
    assert "no file names the tokenizer's class, so it is read as GPT2Tokenizer" in load_tokenizer(folder).assumed
    assert "read as GPT2Tokenizer" in capsys.readouterr().err
    vocabulary = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    (folder / "vocab.json").unlink()
    vocabularies.write_json(folder, "vocab.json", {token: i for token, i in vocabulary.items() if token != "Ġ"})
    with pytest.raises(NoTokenizerError, match="is not a byte-level vocabulary"):
        load_tokenizer(folder)
