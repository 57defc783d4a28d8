"""`stop_strings` end a text where Hugging Face's `generate` ends it, within and across tokens, never in a prompt."""

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from helpers.oracle import Dropping, Oracle, seeded, translator, writer
from tokenizers import decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import glassformer as gf
from glassformer.errors import InputError
from glassformer.generation.loop import ModelReader, run, stream

PAD = 39
# Letters, subwords, and the two bytes of é, neither of which is a character.
SPECIAL = ["<pad>", "<s>", "</s>"]
PIECES = [
    *"abcdefgh", "ab", "cde", "Ġ", "Ġa", "Ċ", "#", "Ã", "©", *"EDN", "END", "ĠE", "ND", "hg", "Ċa", *"ijklmnopqrs", "ĊÃ"
]  # fmt: skip
MARKS = "#ijklmn"  # the last tokens of prompts; no stop string contains one, so none begins in a prompt
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sampled": {"do_sample": True, "num_return_sequences": 2, "top_k": 0},
    "beams": {"num_beams": 4, "num_return_sequences": 3},
    "beams, early": {"num_beams": 3, "early_stopping": True},
    "beams, never": {"num_beams": 3, "early_stopping": "never"},
}


def backend() -> tokenizers.Tokenizer:
    names = [*SPECIAL, *PIECES, "<stop>"]
    assert len(names) == 40
    made = tokenizers.Tokenizer(models.BPE({name: i for i, name in enumerate(names)}, []))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    made.add_special_tokens([*SPECIAL, "<stop>"])
    return made


def ours() -> gf.Tokenizer:
    return gf.Tokenizer(backend(), {})


def marked(rows: int) -> torch.Tensor:
    torch.manual_seed(4)
    ids = torch.randint(3, 39, (rows, 5))
    ids[:, -1] = torch.tensor([backend().token_to_id(MARKS[row % len(MARKS)]) for row in range(rows)])
    return ids


def texts(tokenizer: gf.Tokenizer, ids: torch.Tensor) -> list[str]:
    return [tokenizer.decode(row, skip_special=False) for row in ids]


@pytest.mark.parametrize("make", [writer, translator])
@pytest.mark.parametrize("way", WAYS)
def test_a_text_ends_where_that_of_hugging_face_does(make: Any, way: str) -> None:
    model, tokenizer = make(pad_token_id=PAD), ours()
    theirs = PreTrainedTokenizerFast(tokenizer_object=backend())
    choices = {"max_new_tokens": 14, "eos_token_id": 2, "pad_token_id": PAD, **WAYS[way]}
    ids, oracle, stopped = marked(6), Oracle(model), 0
    torch.manual_seed(11)
    free = gf.generate(model, ids, **choices)
    written = texts(tokenizer, gf.generate(model, ids, max_new_tokens=14)[:, 1 if model.encoder is not None else 5 :])
    found = [text[start : start + size] for text in written for start in (2, 5) for size in (1, 2, 3)]
    found = [string for string in sorted(set(found)) if not set(string) & {*MARKS, "�"}]
    for strings in [*([string] for string in found), ["zz", *found[::3]], ["<stop>"]]:
        torch.manual_seed(11)
        expected = oracle.generate(ids, stop_strings=strings, tokenizer=theirs, **choices)
        torch.manual_seed(11)
        assert (
            gf.generate(model, ids, stop_strings=strings, tokenizer=tokenizer, **choices).tolist() == expected.tolist()
        )
        stopped += expected.tolist() != free.tolist()
    assert stopped > 5


class Scripted(ModelReader):
    """A model that writes these tokens, whatever it reads."""

    def __init__(self, rows: list[list[str]]) -> None:
        super().__init__(writer(pad_token_id=PAD))
        names = [*SPECIAL, *PIECES, "<stop>"]
        self.script = [[names.index(piece) for piece in row] for row in rows]

    def prefill(self, *_: Any) -> torch.Tensor:
        self.at = -1
        return self.step(torch.zeros(len(self.script)))

    def step(self, token: torch.Tensor) -> torch.Tensor:
        self.at += 1
        return torch.nn.functional.one_hot(torch.tensor([row[self.at] for row in self.script]), 40).float()


def lengths(rows: list[list[str]], strings: str | list[str], prompt: str = "#") -> list[int]:
    """The number of new tokens of each row."""
    ids = torch.tensor([[3, backend().token_to_id(prompt)]]).expand(len(rows), 2)
    keywords = {"stop_strings": strings, "tokenizer": ours(), "max_new_tokens": len(rows[0]), "pad_token_id": 0}
    found = run(Scripted(rows), ids, **keywords)[:, 2:]
    assert found.shape[1] == (found != 0).sum(dim=1).max(), "nothing is written after the last row has ended"
    return (found != 0).sum(dim=1).tolist()


@pytest.mark.parametrize(
    ("row", "strings", "length"),
    [
        (["a", "END", "b", "c"], "END", 2),
        (["a", "E", "N", "D", "b"], "END", 4),
        (["a", "E", "ND", "b", "c"], ["x", "EN"], 3),  # ends inside a token
        (["cde", "hg", "a", "b"], "eh", 2),  # begins inside one, ends inside another
        (["Ċ", "a", "b", "c"], "\n", 1),
        (["a", "Ċa", "b", "c"], "\n", 2),
        (["Ġ", "ĠE", "ND", "a"], "  END", 3),  # spaces at the beginning
        (["a", "Ã", "©", "b", "c"], "é", 3),  # a character of two tokens
        (["Ã", "Ã", "©", "b", "c"], "é", 3),
        (["a", "<stop>", "b", "c"], "<stop>", 2),  # a special token is text
        (["a", "b", "c", "d"], ["END", "cb", "abd"], 4),  # never matched
        (["a", "ab", "a", "b", "ab"], "bab", 4),
        (["E", "END", "a", "b"], "EEND", 2),
    ],
)
def test_a_string_may_begin_and_end_anywhere(row: list[str], strings: str | list[str], length: int) -> None:
    assert lengths([row], strings) == [length]


def test_what_the_prompt_has_is_not_counted() -> None:
    assert lengths([["a", "b", "c"]], "#") == [3]
    assert lengths([["ND", "b", "c"]], "END", prompt="E") == [3], "not even a part of it"
    assert lengths([["©", "b", "c"]], "\n", prompt="ĊÃ") == [3], "nor if its last character is completed"
    assert lengths([["©", "b", "c"]], "é", prompt="ĊÃ") == [1]
    assert lengths([["b", "c", "#"]], "#") == [3]


def test_each_row_ends_by_itself() -> None:
    rows = [["a", "b", "c", "d", "e"], ["a", "END", "c", "d", "e"], ["Ċ", "b", "c", "END", "e"]]
    assert lengths(rows, ["END", "\n"]) == [5, 2, 1]
    assert lengths(rows, ("END",)) == [5, 2, 4]


@pytest.mark.parametrize("choices", [{}, {"do_sample": True, "top_k": 0}, {"num_beams": 3, "early_stopping": True}])
def test_whoever_reads(choices: dict[str, Any]) -> None:
    """Rows that matched a string are dropped like others, and streamed up to there."""
    model, tokenizer, ids = writer(pad_token_id=PAD), ours(), marked(8)
    keywords = {"stop_strings": ["a", "hg", "E"], "tokenizer": tokenizer, "max_new_tokens": 16, **choices}
    expected = gf.generate(model, ids, generator=seeded(), **keywords)
    assert (expected[:, 5:] == PAD).any()
    reader = Dropping(model)
    assert torch.equal(run(reader, ids, generator=seeded(), **keywords), expected)
    assert reader.rows[-1] < reader.rows[1]
    if "num_beams" not in choices:
        columns = list(stream(ModelReader(model), ids, generator=seeded(), **keywords))
        assert torch.equal(torch.stack(columns, dim=1), expected[:, 5:])


def test_a_search_is_over_when_every_beam_has_met_a_string() -> None:
    """Even if longer texts are preferred so much that a finished one could win by continuing."""
    reader, every = Dropping(writer(pad_token_id=PAD)), [*"abcdefghijklmnopqrs#ENDÃ\n <�"]
    choices = {"num_beams": 3, "early_stopping": "never", "length_penalty": 20.0, "max_new_tokens": 14}
    assert run(reader, marked(4), stop_strings=every, tokenizer=ours(), **choices).shape == (4, 6)
    assert reader.rows == [4], "only the prompt was read"


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"stop_strings": ["END"]}, r"stop_strings is \('END',\): finding them needs .* Give it with tokenizer="),
        ({"stop_strings": "", "tokenizer": ours()}, "stop_strings is '': expected at least one character per string"),
        ({"stop_strings": ["a", ""], "tokenizer": ours()}, r"stop_strings is \('a', ''\): expected at least one"),
        ({"stop_strings": [3], "tokenizer": ours()}, r"stop_strings is \(3,\): expected a string or a tuple"),
        ({"stop_strings": 3, "tokenizer": ours()}, "stop_strings is 3: expected a string or a tuple"),
    ],
)
def test_refused(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        gf.generate(writer(), marked(1), **keywords)


def test_a_model_may_have_its_own(tmp_path: Path) -> None:
    """From `generation_config.json` and back; a pipeline has the tokenizer already."""
    stack = gf.StackConfig(
        d_model=16, num_layers=1, num_heads=2, d_ff=24, positions="rotary", norm="rms", qkv_bias=False, out_bias=False,
        ffn_bias=False, activation="silu", gated=True,
    )  # fmt: skip
    torch.manual_seed(0)
    model = gf.Transformer(gf.TransformerConfig(decoder=stack, vocab_size=40, tie_embeddings=False, eos_token_id=2))
    gf.save(model, tmp_path, tokenizer=ours())
    file = tmp_path / "generation_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "stop_strings": ["a", "b", "c", "d", "e"]}))
    model, tokenizer = gf.load(tmp_path), gf.load_tokenizer(tmp_path)
    assert model.config.generation.stop_strings == ("a", "b", "c", "d", "e")
    with pytest.raises(InputError, match="finding them needs the model's tokenizer"):
        gf.generate(model, marked(1))
    assert gf.generate(model, marked(1), stop_strings=(), max_new_tokens=3, eos_token_id=39).shape == (1, 8)
    gf.generate(model, marked(1), tokenizer=tokenizer)
    assert isinstance(gf.pipeline(tmp_path)(["hg"], max_new_tokens=5, stop_strings="i")[0], str)
    gf.save(model, tmp_path / "again", tokenizer=tokenizer)
    assert json.loads((tmp_path / "again" / file.name).read_text())["stop_strings"] == ["a", "b", "c", "d", "e"]
