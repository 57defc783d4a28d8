"""A config.json written by transformers 4, as most on the hub still are, loads as the same model."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from helpers.reference import Checkpoint
from helpers.samples import SAMPLES, Sample

import glassformer as gf
from glassformer.families import FAMILIES

ROTARY = ("gpt_neox", "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "falcon", "phi3")
TWO_ROTARIES = {
    "gemma3_text": ("rope_theta", "rope_local_base_freq"),
    "modernbert": ("global_rope_theta", "local_rope_theta"),
}
CASES = [
    sample
    for sample in SAMPLES
    if sample.model_type in FAMILIES and sample.model_type in (*ROTARY, *TWO_ROTARIES, "t5", "bert", "vit")
]


@pytest.mark.parametrize("sample", CASES, ids=str)
def test_old_config(
    sample: Sample,
    checkpoint: Callable[[Sample, str], Checkpoint],
    loaded: Callable[[Sample, str], gf.Transformer],
    tmp_path: Path,
) -> None:
    kind = "class" if sample.model_type == "vit" else "language"
    made = checkpoint(sample, kind)
    (tmp_path / "model.safetensors").symlink_to(made.path / "model.safetensors")
    old = old_spelling(json.loads((made.path / "config.json").read_text()))
    (tmp_path / "config.json").write_text(json.dumps(old))
    with torch.no_grad():
        theirs = getattr(transformers, made.architecture).from_pretrained(tmp_path, attn_implementation="eager").eval()
        assert torch.equal(theirs(**made.inputs).logits, made.output.logits), "this test's old spelling is wrong"
        ours = gf.load(tmp_path).eval()
        assert torch.equal(ours(**made.inputs).logits, loaded(sample, kind)(**made.inputs).logits)


def old_spelling(config: dict[str, Any]) -> dict[str, Any]:
    config = dict(config)
    config["torch_dtype"] = config.pop("dtype")
    rope = config.pop("rope_parameters", None)
    model_type = config["model_type"]
    if model_type == "t5":
        config["tie_word_embeddings"] = config.pop("scale_decoder_outputs")  # in T5 1.1, one key for both settings
    elif model_type in TWO_ROTARIES:
        everywhere, local = TWO_ROTARIES[model_type]
        config[everywhere] = rope["full_attention"].pop("rope_theta")
        config[local] = rope["sliding_attention"]["rope_theta"]
        if rope["full_attention"]["rope_type"] != "default":
            config["rope_scaling"] = rope["full_attention"]
    elif rope is not None:
        theta, part = (
            ("rotary_emb_base", "rotary_pct") if model_type == "gpt_neox" else ("rope_theta", "partial_rotary_factor")
        )
        config[theta] = rope.pop("rope_theta")
        if "partial_rotary_factor" in rope:
            config[part] = rope.pop("partial_rotary_factor")
        config["rope_scaling"] = rope if rope["rope_type"] != "default" else None
        if model_type == "phi3" and config["rope_scaling"]:
            rope["type"] = rope.pop("rope_type")
            rope.pop("original_max_position_embeddings", None)  # stored beside rope_scaling, not inside
    return config
