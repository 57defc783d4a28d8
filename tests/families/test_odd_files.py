"""Unusual but valid files: extra or missing keys, ids outside the vocabulary, old names. Also unsupported settings:
the error names the key."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import glassformer as gf
from glassformer.errors import InputError

LLAMA = {
    "vocab_size": 41, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
BERT = {
    "vocab_size": 41, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 32,
}  # fmt: skip


def written(model: transformers.PreTrainedModel, folder: Path, file: str = "config.json", **changes: Any) -> Path:
    """The model's folder with keys of a file changed; `...` removes a key."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.eval().save_pretrained(folder)
    values = json.loads((folder / file).read_text()) | changes
    (folder / file).write_text(json.dumps({key: value for key, value in values.items() if value is not ...}))
    return folder


def llama(**choices: Any) -> transformers.LlamaForCausalLM:
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA | choices))


def same_logits(ours: gf.Transformer, theirs: Any, **inputs: torch.Tensor) -> None:
    with torch.no_grad():
        torch.testing.assert_close(ours(**inputs).logits, theirs(**inputs).logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "extra",
    [
        {"is_llama_config": True}, {"unsloth_fixed": True}, {"transformers.js_config": {"dtype": "q4"}},
        {"_num_labels": 2}, {"tie_encoder_decoder": False}, {"adapters": {}}, {"something_new": None},
        {"layer_types": ["full_attention"] * 2}, {"original_max_position_embeddings": 32},
        {"pad_token_id": -1}, {"bos_token_id": 50256}, {"architectures": ["LLaMAForCausalLM"]},
    ],
    ids=lambda extra: next(iter(extra)),
)  # fmt: skip
def test_what_changes_nothing_is_let_through(extra: dict[str, Any], tmp_path: Path) -> None:
    theirs = llama()
    ours = gf.load(written(theirs, tmp_path, **extra))
    same_logits(ours, theirs, input_ids=torch.arange(3, 12)[None])


@pytest.mark.parametrize(
    ("model_type", "missing"),
    [
        ("roberta", {"pad_token_id": 1}),
        ("gemma2", {"final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0}),
        ("m2m_100", {"scale_embedding": True, "activation_function": "relu"}),
        ("phi3", {"rms_norm_eps": 1e-5}),
        ("mt5", {"feed_forward_proj": "gated-gelu"}),
    ],
)
def test_a_missing_key_means_what_transformers_means(model_type: str, missing: dict[str, Any], tmp_path: Path) -> None:
    sizes: dict[str, dict[str, Any]] = {
        "roberta": BERT,
        "gemma2": {**LLAMA, "head_dim": 8},
        "m2m_100": {
            "vocab_size": 41, "d_model": 24, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
            "decoder_attention_heads": 2, "encoder_ffn_dim": 30, "decoder_ffn_dim": 30, "max_position_embeddings": 32,
        },
        "phi3": {**LLAMA, "original_max_position_embeddings": 64},
        "mt5": {"vocab_size": 41, "d_model": 24, "d_kv": 6, "d_ff": 30, "num_layers": 1, "num_heads": 4},
    }  # fmt: skip
    config = transformers.AutoConfig.for_model(model_type, **sizes[model_type])
    for key, value in missing.items():
        assert getattr(config, key) == value, "the default of transformers"
    auto = {"roberta": "AutoModelForMaskedLM", "m2m_100": "AutoModelForSeq2SeqLM", "mt5": "AutoModelForSeq2SeqLM"}
    theirs = getattr(transformers, auto.get(model_type, "AutoModelForCausalLM")).from_config(config)
    ours = gf.load(written(theirs, tmp_path, **dict.fromkeys(missing, ...)))
    inputs = {"input_ids": torch.arange(5, 14)[None]}
    if ours.encoder is not None and ours.decoder is not None:
        inputs["decoder_input_ids"] = torch.arange(7, 11)[None]
    same_logits(ours, theirs, **inputs)


def test_a_file_that_names_no_class_has_the_head_that_is_in_it(tmp_path: Path) -> None:
    theirs = llama(tie_word_embeddings=False)
    ours = gf.load(written(theirs, tmp_path / "head", architectures=...))
    same_logits(ours, theirs, input_ids=torch.arange(3, 12)[None])
    base = gf.load(written(theirs.model, tmp_path / "base", architectures=...))
    assert (ours.config.head, base.config.head) == ("language", "none")


@pytest.mark.parametrize("settings", [{}, {"num_beams": 3}, {"ragged": True}], ids=["greedy", "beams", "ragged"])
def test_longrope_crosses_the_length_it_was_trained_on(settings: dict[str, Any], tmp_path: Path) -> None:
    rope = {
        "rope_type": "longrope", "rope_theta": 100.0, "short_factor": [1.0, 1.1, 1.2], "long_factor": [2.0, 3.0, 4.0],
        "original_max_position_embeddings": 16,
    }  # fmt: skip
    sizes = {**LLAMA, "original_max_position_embeddings": 16, "rope_parameters": rope, "eos_token_id": None}
    torch.manual_seed(0)
    theirs = transformers.Phi3ForCausalLM(transformers.Phi3Config(**sizes))
    ours = gf.load(written(theirs, tmp_path))
    ids, mask = torch.randint(3, 41, (2, 9)), torch.ones(2, 9, dtype=torch.long)
    if settings.pop("ragged", False):
        ids[1, :4], mask[1, :4] = 0, 0
    chosen = {"max_new_tokens": 20, "do_sample": False, "attention_mask": mask, **settings}
    expected = theirs.generate(ids, **chosen)
    assert torch.equal(gf.generate(ours, ids, **chosen), expected)
    whole = ids if mask.all() else ids[:1]
    if settings:
        return
    for _ in range(20):
        with torch.no_grad():
            whole = torch.cat([whole, ours(whole).logits[:, -1].argmax(-1, keepdim=True)], dim=1)
    assert torch.equal(expected[: len(whole)], whole), "the same as without a cache"


@pytest.mark.parametrize("model_type", ["bert", "roberta", "electra", "distilbert", "modernbert"])
def test_a_new_span_head_opens_in_transformers(
    model_type: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = {"dim": 24, "n_layers": 1, "n_heads": 2, "hidden_dim": 40, "vocab_size": 41, "max_position_embeddings": 32}
    sizes = {**(sizes if model_type == "distilbert" else BERT), "num_labels": 5}
    special = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 3)
    config = transformers.AutoConfig.for_model(model_type, **sizes, **(special if model_type == "modernbert" else {}))
    written(transformers.AutoModelForTokenClassification.from_config(config), tmp_path / "five")
    model = gf.load(tmp_path / "five", head="span")
    assert "untrained" in capsys.readouterr().err
    gf.save(model, tmp_path / "span")
    theirs = transformers.AutoModelForQuestionAnswering.from_pretrained(tmp_path / "span").eval()
    ids = torch.arange(5, 14)[None]
    with torch.no_grad():
        torch.testing.assert_close(theirs(ids).start_logits, model(ids).start_logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        (
            "generation_config.json",
            {"typical_p": 0.9},
            r"generation_config\.json: typical_p is 0\.9, which is not supported",
        ),
        ("generation_config.json", {"num_beams": "x"}, r"generation_config\.json: .*num_beams"),
        ("config.json", {"something_new": 3}, "unknown key 'something_new'"),
        ("config.json", {"layer_types": ["full_attention", "sliding_attention"]}, "layer_types is"),
        (
            "config.json",
            {"rope_parameters": {"rope_type": "longrope", "short_factor": [1.0] * 2, "long_factor": [1.0] * 2}},
            "has 2 short_factors and 2 long_factors: expected 3",
        ),
    ],
)
def test_what_nobody_here_can_do_is_refused(file: str, changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        gf.load(written(llama(), tmp_path, file, **changes))


def test_an_odd_number_of_turning_dimensions_is_refused(tmp_path: Path) -> None:
    sizes = {**BERT, "hidden_size": 48, "rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.25}}
    model = transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**sizes))
    with pytest.raises(InputError, match=r"rotary_pct is 0\.25, which rotates 3 dimensions of a head"):
        gf.load(written(model, tmp_path))


@pytest.mark.parametrize(
    ("classes", "labels"),
    [(1, [0.5, 1.2]), (1, [0, 3]), (3, [[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]]), (3, [2, 0])],
    ids=["regression", "regression, whole number", "multi-label", "one of three"],
)
def test_losses_of_a_class_head_are_those_of_transformers(classes: int, labels: list[Any], tmp_path: Path) -> None:
    config = transformers.BertConfig(**BERT, num_labels=classes)
    torch.manual_seed(0)
    theirs = transformers.BertForSequenceClassification(config)
    ours = gf.load(written(theirs, tmp_path))
    inputs = {"input_ids": torch.arange(5, 17).view(2, 6), "labels": torch.tensor(labels)}
    with torch.no_grad():
        torch.testing.assert_close(ours(**inputs).loss, theirs(**inputs).loss, atol=1e-5, rtol=1e-5)
    with pytest.raises(InputError, match="expected integers"):
        gf.load(tmp_path, head="token", num_classes=3)(inputs["input_ids"], labels=torch.zeros(2, 6))
