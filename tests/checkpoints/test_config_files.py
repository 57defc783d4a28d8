"""A bad config.json: the error names the key, its value and what was expected; no other exception is raised."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from helpers.small_checkpoints import Made, config_of, reconfigure

import glassformer as gf
from glassformer.checkpoints.read_layout import layout_of
from glassformer.errors import InputError

LLAMA, BERT, GEMMA, T5 = "LlamaForCausalLM", "BertForMaskedLM", "Gemma3ForCausalLM", "T5ForConditionalGeneration"
ROPE = {"rope_theta": 10_000.0, "factor": 2.0}

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    (BERT, {"model_type": "bart_"}, r"model_type is 'bart_', which is not known: did you mean 'bart'\?"),
    (BERT, {"model_type": "zzz"}, r"model_type is 'zzz', which is not known; choose from albert, .*glassformer"),
    (BERT, {"model_type": None}, "model_type is None, which is not known"),
    (BERT, {"model_type": ["bert"]}, r"model_type is \['bert'\], which is not known"),
    (BERT, {"architectures": ["BertForJudgement"]}, r"architectures is 'BertForJudgement'.*one of pool, .*head='pool'"),
    (BERT, {"architectures": 3}, "architectures is 3: expected a list"),
    (BERT, {"hidden_act": "gelu_nev"}, r"hidden_act is 'gelu_nev', an unknown activation: did you mean 'gelu_new'\?"),
    (BERT, {"hidden_act": {"a": 1}}, "hidden_act is {'a': 1}: expected a text"),
    (BERT, {"pruned_heads": {"0": [1]}}, r"pruned_heads is {'0': \[1\]}, but only {} is supported"),
    (BERT, {"is_decoder": True}, "is_decoder is True, but only False is supported"),
    (BERT, {"position_embedding_type": "relative_key"}, "embedding_type is 'relative_key', but only 'absolute'"),
    (BERT, {"quantization_config": {"bits": 4}}, r"these weights are quantised \(quantization_config\)"),
    (BERT, {"hiden_size": 3}, r"unknown key 'hiden_size' \(value 3\) for a 'bert' model"),
    (BERT, {"hidden_size": "abc"}, "hidden_size is 'abc': expected a whole number"),
    (BERT, {"hidden_size": 16.0}, "hidden_size is 16.0: expected a whole number"),
    (BERT, {"hidden_size": -16}, "hidden_size is -16: expected at least 1"),
    (BERT, {"num_hidden_layers": 0}, "num_hidden_layers is 0: expected at least 1"),
    (BERT, {"num_hidden_layers": True}, "num_hidden_layers is True: expected a whole number"),
    (BERT, {"vocab_size": None}, "has no 'vocab_size', which every 'bert' model needs"),
    (BERT, {"num_attention_heads": 3}, "d_model is 16 and num_heads is 3: 16 is not divisible by 3"),
    (BERT, {"hidden_dropout_prob": "much"}, "hidden_dropout_prob is 'much': expected a number"),
    (BERT, {"hidden_dropout_prob": 1.5}, "dropout is 1.5: expected a probability"),
    (BERT, {"layer_norm_eps": -1}, "norm_eps is -1.0: expected a small number above 0"),
    (BERT, {"tie_word_embeddings": "yes"}, "tie_word_embeddings is 'yes': expected true or false"),
    (LLAMA, {"num_key_value_heads": 3}, "num_kv_heads is 3: expected a divisor of num_heads = 4"),
    (LLAMA, {"rope_parameters": "fast"}, "rope_parameters is 'fast': expected an object"),
    (LLAMA, {"rope_parameters": {"rope_type": "yearn"}}, r"unknown rope type 'yearn': did you mean 'yarn'\?"),
    (LLAMA, {"rope_parameters": {"rope_type": ["yarn"]}}, r"unknown rope type \['yarn'\]"),
    (LLAMA, {"rope_parameters": {"rope_type": "linear"}}, "have no 'factor', which this rope type needs"),
    (LLAMA, {"rope_parameters": {"rope_type": "dynamic"}}, "have no 'factor', which this rope type needs"),
    (LLAMA, {"rope_parameters": {"rope_type": "linear", "factor": "x"}}, "factor of the rope parameters is 'x'"),
    (LLAMA, {"rope_parameters": {**ROPE, "rope_type": "llama3"}}, "have no 'low_freq_factor', which this"),
    (
        LLAMA,
        {"rope_parameters": {**ROPE, "rope_type": "llama3", "low_freq_factor": 1}},
        "have no 'high_freq_factor', which this rope type needs",
    ),
    (LLAMA, {"rope_parameters": {**ROPE, "rope_type": "longrope"}}, "short_factor is None: expected a list"),
    (LLAMA, {"rope_parameters": {**ROPE, "rope_type": "yarn", "beta_fast": []}}, r"beta_fast of the rope .* is \[\]"),
    (LLAMA, {"rope_parameters": {"rope_theta": -1.0}}, "rotary_base is -1.0: expected a number above 0"),
    (GEMMA, {"layer_types": 3}, "layer_types is 3: expected a list"),
    (GEMMA, {"layer_types": ["full_attention", "none"]}, "layer_types has 'none'; choose from full_attention"),
    (GEMMA, {"layer_types": ["full_attention"] * 5}, "layer_types has 5 entries for 2 layers"),
    (GEMMA, {"query_pre_attn_scalar": 0}, "query_pre_attn_scalar is 0: expected at least 1"),
    (T5, {"feed_forward_proj": "gated-gehlu"}, r"feed_forward_proj is gated-gehlu: did you mean 'gated-gelu'\?"),
    (T5, {"feed_forward_proj": 3}, "feed_forward_proj is 3: expected a text"),
]  # fmt: skip


@pytest.mark.parametrize(("architecture", "changes", "message"), REFUSED, ids=lambda value: str(value)[:60])
def test_refused(architecture: str, changes: dict[str, Any], message: str, made: Made) -> None:
    folder = made(architecture)
    reconfigure(folder, **changes)
    with pytest.raises(InputError, match=message) as error:
        gf.load(folder)
    assert str(error.value).startswith(str(folder / "config.json")), "it does not say where"


@pytest.mark.parametrize("content", ['{"model_type": "bert"', "", "[]", "null", '"bert"', "\xff\xfe"])
@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
def test_a_file_that_is_no_json_object(name: str, content: str, made: Made) -> None:
    folder = made(LLAMA)
    (folder / name).write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError, match=rf"{name}(:| is not JSON)"):
        gf.load(folder)


@pytest.mark.parametrize("architecture", ["BertForSequenceClassification", "GPT2LMHeadModel", LLAMA, GEMMA, T5,
                                          "ModernBertForMaskedLM", "ViTForImageClassification"])  # fmt: skip
def test_no_value_of_any_key_gives_another_error(architecture: str, original: Callable[[str], Path]) -> None:
    values = config_of(original(architecture))
    for key in values:
        for value in ("abc", -3, 0, 1.5, True, None, [], [1], [[1]], {}, {"a": 1}, float("nan")):
            with suppress(InputError):
                layout_of({**values, key: value}, {}, name="config.json")


def test_a_config_of_our_own(tmp_path: Path) -> None:
    stack = gf.StackConfig(d_model=8, num_layers=1, num_heads=2)
    gf.save(gf.Transformer(gf.TransformerConfig(decoder=stack, vocab_size=9)), tmp_path / "own")
    whole = config_of(tmp_path / "own")
    for changes, message in (
        ({"vocab_size": "abc"}, "vocab_size is 'abc': expected a whole number or None"),
        ({"decoder": {**whole["decoder"], "num_heads": 3}}, "num_kv_heads is 2: expected a divisor of num_heads = 3"),
        ({"decoder": {**whole["decoder"], "activation": "rely"}}, "activation is 'rely': expected one of"),
        ({"head": "tail"}, "head is 'tail': expected one of"),
    ):
        (tmp_path / "own" / "config.json").write_text(json.dumps({**whole, **changes}))
        with pytest.raises(InputError, match=message):
            gf.load(tmp_path / "own")
