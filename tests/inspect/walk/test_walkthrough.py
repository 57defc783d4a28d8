"""Every number of a walkthrough against NumPy, and every line that it names against the code that runs."""

import json
import re
import sys
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
from helpers.numpy_walk import FUNCTIONS, Expected, NumpyStack, expected_answer
from rich.console import Console
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

import glassformer as gf
from glassformer.config import LayerKind
from glassformer.errors import InputError
from glassformer.inspect.walk.equations import Walk, Worked, show_walk
from glassformer.inspect.walk.walkthrough import AttentionPart, walk
from glassformer.predict.prepare import text_preparer
from glassformer.text import Tokenizer

WORDS = ["<s>", "</s>", *"abcdefghijklmnopqr"]
SIZES = {"d_model": 24, "num_layers": 3, "num_heads": 4, "d_ff": 20, "max_len": 16}
LLAMA = {"positions": "rotary", "norm": "rms", "gated": True, "activation": "silu", "num_kv_heads": 2,
         "qkv_bias": False, "out_bias": False, "ffn_bias": False}  # fmt: skip
GEMMA = {**LLAMA, "norm": "rms_offset", "norm_order": "sandwich", "score_cap": 5.0, "attention_scale": 0.3,
         "layer_kinds": (LayerKind(window=64), LayerKind(rotary_base=100.0)), "qk_norm": True}  # fmt: skip
NEOX = {"positions": "rotary", "rotary_fraction": 0.5, "activation": "gelu", "norm_bias": False}

MODELS: dict[str, tuple[dict[str, dict[str, Any]], dict[str, Any]]] = {
    "paper": ({"encoder": {"norm_order": "post"}, "decoder": {"norm_order": "post"}}, {"scale_embeddings": True}),
    "t5": (
        {"encoder": {"positions": "relative", "norm": "rms"}, "decoder": {"positions": "relative", "norm": "rms"}},
        {"logit_scale": 0.5, "tie_embeddings": True},
    ),
    "normed": ({"encoder": {"qk_norm": True}, "decoder": {"qk_norm": True, "norm": "rms"}}, {}),
    "gpt2": ({"decoder": {"positions": "learned", "position_offset": 2, "activation": "gelu"}}, {"head_bias": True}),
    "llama": ({"decoder": LLAMA}, {}),
    "gemma": ({"decoder": GEMMA}, {"logit_cap": 3.0}),
    "neox": ({"decoder": {**NEOX, "block": "parallel_two_norms"}}, {}),
    "falcon": ({"decoder": {**NEOX, "block": "parallel"}}, {}),
    "bloom": ({"decoder": {"positions": "alibi"}}, {"embed_norm": True}),
    "albert": (
        {"encoder": {"positions": "learned", "norm_order": "post", "activation": "gelu"}},
        {"embed_dim": 10, "embed_norm": True, "num_segments": 2, "head_activation": "gelu", "head_norm": True},
    ),
    "span": ({"encoder": {"norm_order": "post"}}, {"head": "span"}),
    "classifier": (
        {"encoder": {"norm_order": "post"}},
        {"head": "class", "num_classes": 3, "pooling": "first", "head_activation": "tanh"},
    ),
}
CASES: list[tuple[str, AttentionPart | None, int, int, int]] = [  # model, part, layer, head, token
    ("paper", None, 0, 0, -1), ("paper", "encoder", 1, 2, 3), ("paper", "cross", 2, 3, 1), ("t5", "encoder", 0, 1, 0),
    ("t5", "decoder", 1, 1, 2), ("t5", "cross", 0, 0, -1), ("gpt2", None, 2, 1, 2), ("llama", None, 0, 0, -1),
    ("llama", "decoder", 1, 3, 3), ("gemma", None, 1, 2, -1), ("gemma", None, 0, 0, 1), ("neox", None, 1, 1, -1),
    ("normed", "encoder", 1, 3, 2), ("normed", "cross", 0, 2, 3),
    ("falcon", None, 1, 1, 4), ("bloom", None, 0, 3, 5), ("albert", None, 0, 0, 2), ("classifier", None, 2, 1, -1),
    ("span", None, 1, 0, 3),
]  # fmt: skip
TEXT, TARGET = "a c e g b d f", "q c a p b"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    backend = tokenizers.Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<s>"))
    backend.pre_tokenizer = WhitespaceSplit()
    return Tokenizer(backend, {"bos_token": "<s>", "eos_token": "</s>"})


def make_model(name: str) -> gf.Transformer:
    """A small model with random weights, so that no bias is 0 and no norm weight is 1."""
    torch.manual_seed(0)
    stacks, choices = MODELS[name]
    made = {part: gf.StackConfig(**{**SIZES, **stack}) for part, stack in stacks.items()}
    config = gf.TransformerConfig(**{"vocab_size": len(WORDS), "decoder_start_token_id": 0, **made, **choices})
    model = gf.Transformer(config).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


def make_walk(model: gf.Transformer, tokenizer: Tokenizer, part: AttentionPart | None, **chosen: int) -> Walk:
    both = model.encoder is not None and model.decoder is not None
    return walk(text_preparer(model, tokenizer), TEXT, part=part, target=TARGET if both else None, **chosen)


@pytest.mark.parametrize(("name", "part", "layer", "head", "token"), CASES)
def test_every_number_is_what_numpy_computes(
    name: str, part: AttentionPart | None, layer: int, head: int, token: int, tokenizer: Tokenizer
) -> None:
    model = make_model(name)
    found = make_walk(model, tokenizer, part, layer=layer, head=head, token=token)
    weights = {key: value.double().numpy() for key, value in model.state_dict().items()}
    source = [WORDS.index(word) for word in TEXT.split()]
    target = [0, *(WORDS.index(word) for word in TARGET.split()[:-1])]
    names, own = source, source
    stack = memory = None
    if model.encoder is not None:
        stack = NumpyStack(weights, model.config, "encoder", source, None)
        memory = stack.last if model.decoder is not None else None
    if model.decoder is not None and part != "encoder":
        own = source if model.encoder is None else target
        stack = NumpyStack(weights, model.config, "decoder", own, memory)
        names = source if part == "cross" else own
    assert stack is not None
    row, site = token % len(own), "cross" if part == "cross" else "attn"
    known = [WORDS[i] for i in names]
    expected = Expected(stack, site=site, layer=layer, head=head, row=row, names=known).walk()
    if part != "encoder":
        vocabulary = WORDS if model.config.head == "language" else ["0", "1", "2"]
        expected += expected_answer(stack, row, vocabulary)
    assert [equation.title for equation in found.equations] == [title for title, _ in expected]
    assert (found.token, found.tokens) == (row, [WORDS[i] for i in own])
    for equation, (title, rows) in zip(found.equations, expected, strict=True):
        assert [shown.name for shown in equation.rows] == [row_name for row_name, _, _ in rows], title
        for shown, (row_name, values, result) in zip(equation.rows, rows, strict=True):
            where = f"{title}: {row_name}"
            np.testing.assert_allclose(shown.values, values, rtol=2e-4, atol=2e-5, err_msg=where)
            if isinstance(shown, Worked):
                np.testing.assert_allclose(shown.result, result, rtol=2e-4, atol=2e-5, err_msg=where)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "part", "layer", "head", "token"), CASES)
def test_what_is_printed_adds_up_by_hand(
    name: str, part: AttentionPart | None, layer: int, head: int, token: int, tokenizer: Tokenizer
) -> None:
    """Evaluates each formula as printed, with its rounded numbers."""
    found = make_walk(make_model(name), tokenizer, part, layer=layer, head=head, token=token)
    formulas = [row for equation in found.equations for row in equation.rows if isinstance(row, Worked)]
    assert len(formulas) > 10
    for formula in formulas:
        _, text, result = str(formula).split(" = ")
        text = re.sub(r"\.\.\.|others", "", text)
        assert eval(text, {}, dict(FUNCTIONS)) == pytest.approx(float(result), rel=2e-4, abs=2e-5), str(formula)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        *((name, None) for name in ("paper", "llama", "gemma", "albert", "classifier", "falcon", "span")),
        ("normed", "cross"),
    ],
)
def test_every_line_runs_and_stands_where_it_is_said_to(
    name: str, part: AttentionPart | None, tokenizer: Tokenizer
) -> None:
    model, ran = make_model(name), set()

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        if "glassformer" not in frame.f_code.co_filename:
            return None
        if event == "line":
            ran.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        found = make_walk(model, tokenizer, part, layer=1, head=1)
    finally:
        sys.settrace(before)
    package = Path(gf.__file__).parent
    for equation in found.equations:
        place = equation.place
        assert (package / place.file).read_text(encoding="utf-8").splitlines()[place.line - 1].strip() == place.code
        assert (str(package / place.file), place.line) in ran, f"{equation.title}: {place} did not run"


@pytest.mark.parametrize(("part", "first"), [("q", 2), ("k", 5)])
def test_the_lines_of_a_query_and_a_key_make_what_is_shown(part: str, first: int, tokenizer: Tokenizer) -> None:
    """The lines that are not steps: the product before its norm and rotation, and the norm."""
    model = make_model("gemma")
    found = make_walk(model, tokenizer, None, layer=0, head=2, token=4)
    linear, norm = found.equations[first : first + 2]
    assert (linear.title, norm.title[:7]) == {"q": ("query", "the que"), "k": ("keys", "the key")}[part]
    made: dict[int, torch.Tensor] = {}
    line = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal line
        if frame.f_code.co_name != "queries_keys_and_values":
            return trace if event == "call" and "glassformer" in frame.f_code.co_filename else None
        if event == "line":
            if part in frame.f_locals:
                made.setdefault(line, frame.f_locals[part])  # the result of the line before, in layer 0
            line = frame.f_lineno
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with torch.no_grad():
            model(tokenizer.encode([TEXT]).input_ids)
    finally:
        sys.settrace(before)
    assert model.config.decoder is not None
    width, head = model.config.decoder.head_dim, {"q": 2, "k": 1}[part]
    place = 4 if part == "q" else int(linear.rows[-1].name.split()[2])
    raw = made[linear.place.line][0, place, head * width : (head + 1) * width]
    np.testing.assert_allclose(linear.rows[-1].values, raw[:4], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(norm.rows[-1].values, made[norm.place.line][0, head, place, :4], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pooling", ["first", "last", "end", "first_end", "highest_id", "max", "mean", "attention"])
def test_a_pooled_vector_is_shown_with_the_line_that_pools(pooling: str, tokenizer: Tokenizer) -> None:
    stack = gf.StackConfig(**SIZES)
    choices = {"vocab_size": len(WORDS), "head": "class", "num_classes": 3, "pooling": pooling, "eos_token_id": 9}
    model = gf.Transformer(gf.TransformerConfig(encoder=stack, **choices)).eval()
    found = next(
        equation for equation in walk(text_preparer(model, tokenizer), TEXT).equations if equation.step == "head.pooled"
    )
    made: list[tuple[int, torch.Tensor]] = []

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        if event == "return" and frame.f_code.co_name == "pool":
            made.append((frame.f_lineno, arg))
        return trace if "glassformer" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with torch.no_grad():
            model(tokenizer.encode([TEXT]).input_ids)
    finally:
        sys.settrace(before)
    assert made[0][0] == found.place.line
    np.testing.assert_allclose(found.rows[0].values, made[0][1][0, :4], rtol=1e-5)


def test_a_walk_is_printed_and_becomes_json(tokenizer: Tokenizer) -> None:
    found = make_walk(make_model("gpt2"), tokenizer, None, token=2)
    printed = StringIO()
    show_walk(found, Console(width=300, file=printed))
    assert "token 2, 'e', through head 0 of decoder.blocks.0.attn" in printed.getvalue()
    assert re.search(r"core/attention\.py:\d+  scores = q @ k\.transpose", printed.getvalue())
    assert "3 'g' -inf" in printed.getvalue()
    read = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert len(read["equations"]) == len(found.equations)
    assert read["equations"][0]["place"]["file"] == "core/embeddings.py"
    assert all({"step", "equation", "english", "korean", "rows"} <= set(equation) for equation in read["equations"])


@pytest.mark.parametrize(
    ("name", "text", "chosen", "said"),
    [
        pytest.param("gpt2", " ", {}, "is empty", id="empty"),
        pytest.param("gpt2", "a", {"part": "cross"}, "no cross-attention", id="no-cross"),
        pytest.param("gpt2", "a", {"part": "encoder"}, "no encoder", id="no-encoder"),
        pytest.param("gpt2", "a", {"layer": 3}, "--layer is 3: expected 0 to 2", id="layer"),
        pytest.param("gpt2", "a", {"head": 4}, "--head is 4: expected 0 to 3", id="head"),
        pytest.param("gpt2", "a b", {"token": 2}, "token 2 does not exist: expected 0 to 1", id="token"),
        pytest.param("gpt2", "a b", {"token": -3}, "token -3 does not exist", id="token-from-the-end"),
        pytest.param("gpt2", "a", {"target": "b"}, "does not translate", id="target"),
        pytest.param("paper", "a", {"target": " "}, "the target is empty: write at least a word", id="empty-target"),
        pytest.param("gpt2", "a " * 17, {}, "the text has 17 tokens: expected at most 16", id="long"),
    ],
)
def test_what_does_not_exist_is_refused(
    name: str, text: str, chosen: dict[str, Any], said: str, tokenizer: Tokenizer
) -> None:
    with pytest.raises(InputError, match=said):
        walk(text_preparer(make_model(name), tokenizer), text, **chosen)


def test_a_target_longer_than_the_table_is_refused(tokenizer: Tokenizer) -> None:
    sizes = {**SIZES, "positions": "learned"}
    stacks = {"encoder": gf.StackConfig(**sizes), "decoder": gf.StackConfig(**{**sizes, "max_len": 5})}
    model = gf.Transformer(gf.TransformerConfig(**stacks, vocab_size=len(WORDS), decoder_start_token_id=0)).eval()
    assert len(walk(text_preparer(model, tokenizer), "a " * 16, target="b " * 5).tokens) == 5
    with pytest.raises(InputError, match="the text has 17 tokens: expected at most 16"):
        walk(text_preparer(model, tokenizer), "a " * 17)
    with pytest.raises(InputError, match="the translation has 6 tokens: expected at most 5"):
        walk(text_preparer(model, tokenizer), "a", target="b " * 6)


def test_each_of_two_vocabularies_names_its_own_tokens() -> None:
    """The encoder's tokens, and so the keys of cross-attention, are from the source vocabulary; all others from the
    target vocabulary."""
    backends = []
    for words in ("one two three four", "하나 둘 셋 넷"):
        vocabulary = {word: i for i, word in enumerate(["<s>", *words.split()])}
        backends.append(tokenizers.Tokenizer(WordLevel(vocabulary, unk_token="<s>")))
        backends[-1].pre_tokenizer = WhitespaceSplit()
    both = Tokenizer(backends[0], {"bos_token": "<s>"}, target=backends[1])
    model = make_model("paper")
    found = {
        part: walk(text_preparer(model, both), "one two three", target="하나 둘", part=part)
        for part in ("encoder", "decoder", "cross")
    }
    assert found["encoder"].tokens == ["one", "two", "three"]
    assert found["decoder"].tokens == found["cross"].tokens == ["<s>", "하나"]
    keys = {}
    for part, walked in found.items():
        rows = (row for equation in walked.equations for row in equation.rows)
        keys[part] = next(row for row in rows if row.name == "weights")
    assert keys["encoder"].of == keys["cross"].of == ["0 'one'", "1 'two'", "2 'three'"]
    assert keys["decoder"].of == ["0 '<s>'", "1 '하나'"]
    likeliest = {row.name: row.of for row in found["cross"].equations[-1].rows}["p"]
    assert "'하나'" in likeliest  # the model's table is larger than the vocabularies: other ids have no word


def test_a_character_of_several_tokens_stands_at_the_first() -> None:
    text = "안녕 🎉"
    tokenizer = gf.train_tokenizer(["hello world"] * 3, 280, "bytes")
    stack = gf.StackConfig(**{**SIZES, "max_len": 64})
    model = gf.Transformer(gf.TransformerConfig(decoder=stack, vocab_size=len(tokenizer)))
    found = walk(text_preparer(model, tokenizer), text)
    assert found.tokens[:3] == ["안", "…", "…"]
    printed = StringIO()
    show_walk(found, Console(width=300, file=printed))
    assert "\ufffd" not in printed.getvalue()
