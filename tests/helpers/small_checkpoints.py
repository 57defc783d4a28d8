"""Small models made and saved by transformers, and ways to damage them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

import glassformer as gf

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

GROUPED = {
    "vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 24, "max_position_embeddings": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
BERT = {
    "vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 32,
}  # fmt: skip
IMAGE = {
    "image_size": 16, "patch_size": 4, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 24,
}  # fmt: skip
T5 = {"vocab_size": 50, "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 3}
CONFIGS: dict[str, dict[str, Any]] = {
    "Bert": BERT,
    "ModernBert": {**BERT, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1,
                   "sep_token_id": 2},
    "GPT2": {"vocab_size": 50, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32, "bos_token_id": 1,
             "eos_token_id": 2},
    "Llama": GROUPED,
    "Phi3": GROUPED,
    "Gemma3": {**GROUPED, "head_dim": 8},
    "T5": T5,
    "ViT": IMAGE,
    "DeiT": IMAGE,
}  # fmt: skip


def build(architecture: str, **changes: Any) -> Any:
    model_class = getattr(transformers, architecture)
    sizes = next(sizes for name, sizes in CONFIGS.items() if architecture.startswith(name))
    torch.manual_seed(1)
    model = model_class(model_class.config_class(**{**sizes, **changes}))
    with torch.no_grad():
        for parameter in model.parameters():  # zeros and ones would hide swapped weights
            parameter += 0.3 * torch.randn_like(parameter)
    return model.eval()


def save_small(architecture: str, path: Path, **changes: Any) -> None:
    build(architecture, **changes).save_pretrained(path)


def opened_by_transformers(path: Path, architecture: str) -> Any:
    """The model, loaded without missing or unexpected weights."""
    model, report = getattr(transformers, architecture).from_pretrained(path, output_loading_info=True)
    assert not any(report[problem] for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return model.eval()


def config_of(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "config.json").read_text(encoding="utf-8")))


def reconfigure(folder: Path, *without: str, **changes: Any) -> None:
    """Changes keys of config.json, and removes some."""
    values = {key: value for key, value in config_of(folder).items() if key not in without}
    (folder / "config.json").write_text(json.dumps({**values, **changes}), encoding="utf-8")


def weights_of(folder: Path) -> dict[str, Tensor]:
    return dict(load_file(folder / "model.safetensors"))


def store(folder: Path, tensors: dict[str, Tensor]) -> None:
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


Made = Callable[[str], Path]  # an architecture -> its folder
IDS = torch.tensor([[5, 9, 31, 2, 17], [8, 44, 3, 21, 6]])


@torch.no_grad()
def logits(model: Any) -> Tensor:
    """The logits of our model or of theirs: both are called in the same way."""
    return model(input_ids=IDS).logits


def same_parameters(one: gf.Transformer, other: gf.Transformer) -> bool:
    mine, theirs = dict(one.named_parameters()), dict(other.named_parameters())
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)
