"""Malicious tokenizers and chat templates: each is refused with a one-line error, in little time and memory. Usual ones
are loaded without a second process."""

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.command import bounded, refused

import glassformer as gf
from glassformer.errors import InputError
from glassformer.text import trial
from glassformer.text.chat import render
from glassformer.text.sandbox import MAX_OUTPUT, ExhaustedError

VOCABULARY = {sign: i for i, sign in enumerate("abcdefghijklmnopqrstuvwxyz ")}
MODEL = {"type": "BPE", "vocab": VOCABULARY, "merges": []}
BUSY = 40  # seconds: two of computing, next to other tests
HELLO = [{"role": "user", "content": "Hello"}]


def split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def replaced(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def tokenizer(folder: Path, **changes: Any) -> Path:
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], **changes}
    whole.setdefault("model", MODEL)
    (folder / "tokenizer.json").write_text(json.dumps(whole), encoding="utf-8")
    return folder


A = {"String": "a"}
RULES: dict[str, dict[str, Any]] = {
    "nested repeats": {"pre_tokenizer": split("(a+)+$")},
    "two ways to repeat": {"pre_tokenizer": split("(x+x+)+y")},
    "alternatives that are alike": {"pre_tokenizer": split("(z|z)*w")},
    "a repeated word": {"pre_tokenizer": split("(?:foo|foofoo)+bar")},
    "in a normalizer": {"normalizer": replaced({"Regex": r"(\s|\s+)*b"}, "")},
    "hidden in a list": {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split(" "), split("(1+)+2")]}},
    "no pattern": {"pre_tokenizer": split("([")},
    "a text that doubles": {"normalizer": {"type": "Sequence", "normalizers": [replaced(A, "aa")] * 40}},
    "a letter that is a megabyte": {"normalizer": replaced(A, "b" * 10**6)},
    "a prefix of a megabyte": {"normalizer": {"type": "Prepend", "prepend": "b" * 10**6}},
    "a decoder that doubles": {"decoder": {"type": "Sequence", "decoders": [replaced(A, "aa")] * 40}},
    "a decoder of a megabyte": {"decoder": replaced(A, "b" * 10**6)},
    "a million texts": {
        "post_processor": {
            "type": "TemplateProcessing", "pair": [], "special_tokens": {},
            "single": [{"Sequence": {"id": "A", "type_id": 0}}] * 10**4,
        }
    },
}  # fmt: skip


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_rules_without_end(rules: dict[str, Any], tmp_path: Path) -> None:
    said = refused(lambda: gf.load_tokenizer(tokenizer(tmp_path, **rules)), seconds=BUSY)
    assert "tokenizer.json: its " in said
    assert any(name in said for name in rules)


def test_a_rule_behind_the_vocabulary_is_found(tmp_path: Path) -> None:
    """If the vocabulary is not last, if a name is spelled with escapes, or if it occurs twice."""
    good, bad = json.dumps(split(" {2,}")), json.dumps(split("(a+)+$"))
    model = f'"model": {json.dumps(MODEL)}'
    for text in (
        f'{{"added_tokens": [], {model}, "pre_tokenizer": {bad}}}',
        f'{{"added_tokens": [], {model}, "\\u0070re_tokenizer": {bad}}}',
        f'{{"added_tokens": [], "pre_tokenizer": {good}, {model}, "pre_tokenizer": {bad}}}',
        f'{{"added_tokens": [], "pre_tokenizer": {bad.replace("Regex", "Regex")}, "pre_tokenizer": {bad}, {model}}}',
    ):
        (tmp_path / "tokenizer.json").write_text(text, encoding="utf-8")
        refused(lambda: gf.load_tokenizer(tmp_path), seconds=BUSY)


TOKENIZERS: dict[str, bytes] = {
    "empty": b"",
    "zeros": b"\0" * 1000,
    "null": b"null",
    "a list": b"[]",
    "half": b'{"version": "1.0", "model": {"type": "BPE", "vocab": {"a"',
    "no model": b'{"version": "1.0", "added_tokens": []}',
    "nested": b'{"version":' * 10**5 + b"1" + b"}" * 10**5,
    "a nested model": b'{"version": "1.0", "model": ' + b"[" * 10**5 + b"]" * 10**5 + b"}",
    "no UTF-8": b'{"version": "\xff\xfe"}',
    "an unknown model": b'{"version": "1.0", "added_tokens": [], "model": {"type": "Magic"}}',
    "merges of nothing": json.dumps({"added_tokens": [], "model": {**MODEL, "merges": ["q zz"]}}).encode(),
    "ids that are texts": json.dumps({"added_tokens": [], "model": {**MODEL, "vocab": {"a": "x"}}}).encode(),
    "negative ids": json.dumps({"added_tokens": [], "model": {**MODEL, "vocab": {"a": -1}}}).encode(),
    "ids of 10^18": json.dumps({"added_tokens": [], "model": {**MODEL, "vocab": {"a": 10**18}}}).encode(),
    "an unknown step": json.dumps({"added_tokens": [], "normalizer": {"type": "Magic"}, "model": MODEL}).encode(),
    "added tokens of nothing": json.dumps({"added_tokens": [1, 2], "model": MODEL}).encode(),
    "an unknown id without a piece": json.dumps(
        {"added_tokens": [], "model": {"type": "Unigram", "unk_id": 10**6, "vocab": [["a", 0.0]]}}
    ).encode(),
}


@pytest.mark.parametrize("content", TOKENIZERS.values(), ids=TOKENIZERS)
def test_a_tokenizer_that_is_none(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    refused(lambda: gf.load_tokenizer(tmp_path))


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "vocab.txt", "spiece.model", "vocab.json"])
def test_files_of_a_hundred_gigabytes(name: str, tmp_path: Path) -> None:
    """They are sparse and take no disk space."""
    with (tmp_path / name).open("wb") as stream:
        stream.truncate(10**11)
    (tmp_path / "merges.txt").write_text("", encoding="utf-8")
    if name != "tokenizer_config.json":
        settings = {"tokenizer_class": "T5Tokenizer" if name == "spiece.model" else "GPT2Tokenizer"}
        settings = {} if name == "vocab.txt" else settings
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    assert "100,000,000,000 bytes: expected at most" in refused(lambda: gf.load_tokenizer(tmp_path))


@pytest.mark.parametrize(
    "settings",
    [
        {"added_tokens_decoder": {"10000000000000000000000": {"content": "x"}}},
        {"added_tokens_decoder": {"x": {"content": "x"}}},
        {"added_tokens_decoder": [1]},
        {"added_tokens_decoder": {"5": {"content": 7, "lstrip": []}}},
        {"pad_token": {"a": 1}},
        {"pad_token": ["x"]},
        {"additional_special_tokens": 7},
        {"chat_template": 7},
        {"chat_template": [{"name": 1, "template": 2}]},
        {"chat_template": "x" * 10**6},
    ],
    ids=range(10),
)
def test_settings_that_make_no_sense(settings: dict[str, Any], tmp_path: Path) -> None:
    tokenizer(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    refused(lambda: gf.load_tokenizer(tmp_path))


# Templates

SPACE = "{% set ns = namespace(x=['x'], t='xx') %}{% for i in range(60) %}"
TEMPLATES = {
    "loops in loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "a long text": "{{ 'x' * 10000000000 }}",
    "a long list": "{{ ['x'] * 10000000000 }}",
    "a large number": "{{ 10 ** (10 ** 10) }}",
    "joined to itself": SPACE + "{% set ns.t = ns.t ~ ns.t %}{% endfor %}{{ ns.t }}",
    "added to itself": SPACE + "{% set ns.t = ns.t + ns.t %}{% endfor %}{{ ns.t }}",
    "lists of lists": SPACE + "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
    "lists as JSON": SPACE + "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x|tojson }}",
    "many long texts": "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}"
    "{% set ns.x = ns.x + ['x' * 10000000] %}{% endfor %}",
    "slices": "{% set ns = namespace(x=[]) %}{% set a = 'x' * 50000000 %}{% for i in range(99999) %}"
    "{% set ns.x = ns.x + [a[1:]] %}{% endfor %}",
    "a method": "{{ 'x'.center(10000000000) }}",
    "a filter": "{{ 'x'|center(10000000000) }}",
    "tabs": "{{ ('\t' * 100000).expandtabs(100000) }}",
    "a format": "{{ '{:>9999999999}'.format(1) }}",
    "a format in a format": "{{ '{:{}}'.format(1, 9999999999) }}",
    "an old format": "{{ '%9999999999d' % 1 }}",
    "a width as a number": "{{ '%*d' % (9999999999, 1) }}",
    "a filter of formats": "{{ '%9999999999d'|format(1) }}",
    "a text at every letter": "{% set a = 'x' * 1000000 %}{{ a.replace('', a) }}",
    "a long joint": "{{ ('x' * 100000).join('y' * 100000) }}",
    "a deep indent": "{{ messages|tojson(indent=9999999999) }}",
}  # fmt: skip


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
def test_a_template_without_end(template: str, tmp_path: Path) -> None:
    """It is limited when it runs, and tried in another process at load."""
    with bounded(), pytest.raises(ExhaustedError, match="the chat template "):
        render(template, HELLO, add_generation_prompt=True, variables={})


@pytest.mark.slow
@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
def test_a_template_without_end_at_load(template: str, tmp_path: Path) -> None:
    (tokenizer(tmp_path) / "chat_template.jinja").write_text(template, encoding="utf-8")
    assert "chat_template.jinja: " in refused(lambda: gf.load_tokenizer(tmp_path), seconds=BUSY)


def test_a_template_that_cannot_be_interrupted_is_refused_at_load(tmp_path: Path) -> None:
    lists = SPACE + "{% set ns.x = [ns.x, ns.x] %}{% set ns.t = [ns.t, ns.t] %}{% endfor %}{{ ns.x == ns.t }}"
    settings = {"chat_template": lists.replace("['x']", "'xx'")}
    (tokenizer(tmp_path) / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    said = refused(lambda: gf.load_tokenizer(tmp_path), seconds=BUSY)
    assert f"chat_template of {tmp_path / 'tokenizer_config.json'}: it takes more than 2 seconds" in said


@pytest.mark.parametrize(
    "template",
    [
        "{% macro f(x) %}{{ f(x) }}{{ f(x) }}{% endmacro %}{{ f(1) }}",
        "{% for m in messages recursive %}{{ loop(messages) }}{% endfor %}",
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{{ lipsum(n=100000) }}",
        "{{ strftime_now('%9999999999d') }}",
        "{% if %}",
        "{{ 1 / 0 }}",
        "{{ messages[7].content.x }}",
    ],
    ids=range(13),
)
def test_a_template_that_fails(template: str) -> None:
    refused(lambda: render(template, HELLO, add_generation_prompt=True, variables={}))


def test_what_is_slow_with_long_conversations_only_is_stopped_then() -> None:
    """The text doubles with every message: quick with a few, endless with a hundred."""
    grows = "{% set ns = namespace(t='xx') %}{% for m in messages %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}{{ ns.t }}"
    assert render(grows, HELLO, add_generation_prompt=True, variables={}) == "xxxx"
    said = refused(lambda: render(grows, HELLO * 100, add_generation_prompt=True, variables={}))
    assert f"makes more than {MAX_OUTPUT:,} characters" in said


# What is usual

LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+"
)
USUAL_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] | trim }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt and loop is undefined %}<|assistant|>{% endif %}"
)


def test_what_is_usual_is_not_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    monkeypatch.setattr(trial, "run_trial", lambda request: tried.append(request) or "")
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    rules = {
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, replaced({"String": " "}, "▁")]},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split(LLAMA_3), byte_level]},
        "decoder": {"type": "Sequence", "decoders": [replaced({"String": "▁"}, " "), {"type": "Fuse"}]},
    }
    (tokenizer(tmp_path, **rules) / "chat_template.jinja").write_text(USUAL_TEMPLATE, encoding="utf-8")
    loaded = gf.load_tokenizer(tmp_path)
    assert tried == []
    assert loaded.apply_chat(HELLO).startswith("<|user|>Hello")
    trial.check_rules(tmp_path, json.dumps({"pre_tokenizer": split("[xyz]+"), "model": MODEL}).encode())
    assert len(tried) == 1


def test_an_unusual_pattern_that_is_quick_is_read(tmp_path: Path) -> None:
    tokenizer(tmp_path, pre_tokenizer=split(r"[a-m]+|[n-z]+|\s+"))
    assert gf.load_tokenizer(tmp_path).ids("abcxyz") == [VOCABULARY[sign] for sign in "abcxyz"]


def test_where_no_process_can_be_started_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial.sys, "executable", str(tmp_path / "no python"))
    trial.check_rules(tmp_path, json.dumps({"pre_tokenizer": split("[abc]+[def]"), "model": MODEL}).encode())


def test_one_that_is_no_json_says_so(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff\xfe")
    tokenizer(tmp_path)
    with pytest.raises(InputError, match=r"chat_template\.jinja is not UTF-8 text"):
        gf.load_tokenizer(tmp_path)
