"""A tiny model of every kind, to record its steps."""

from typing import Any

import torch
from torch import Tensor

import glassformer as gf

SIZES = {"d_model": 12, "num_layers": 2, "num_heads": 3, "d_ff": 20}


def stack(**fields: Any) -> gf.StackConfig:
    return gf.StackConfig(**{**SIZES, **fields})


LLAMA = {
    "positions": "rotary",
    "norm": "rms",
    "gated": True,
    "activation": "silu",
    "num_kv_heads": 1,
    "qkv_bias": False,
}
IMAGE, SERIES = gf.ImageConfig(size=6, patch=2), gf.SeriesConfig(length=12, patch=4, horizon=3, instance_norm=True)
MODELS: dict[str, dict[str, Any]] = {
    "paper": {"encoder": stack(norm_order="post"), "decoder": stack(norm_order="post"), "vocab_size": 17},
    "llama": {"decoder": stack(**LLAMA, qk_norm=True), "vocab_size": 17},
    "gemma": {"decoder": stack(norm="rms_offset", norm_order="sandwich", score_cap=5.0, positions="rotary"),
              "vocab_size": 17, "logit_cap": 9.0, "scale_embeddings": True},
    "falcon": {"decoder": stack(block="parallel", positions="alibi"), "vocab_size": 17},
    "neox": {"decoder": stack(block="parallel_two_norms", positions="learned"), "vocab_size": 17},
    "t5": {"encoder": stack(positions="relative"), "decoder": stack(positions="relative"), "vocab_size": 17},
    "albert": {"encoder": stack(num_blocks=1, positions="learned", norm_order="post"), "vocab_size": 17, "embed_dim": 5,
               "embed_norm": True, "head": "language", "head_activation": "gelu", "head_norm": True},
    "classes": {"encoder": stack(positions="learned"), "vocab_size": 17, "head": "class", "num_classes": 4},
    "tokens": {"encoder": stack(), "vocab_size": 17, "head": "token", "num_classes": 4},
    "span": {"encoder": stack(), "vocab_size": 17, "head": "span"},
    "image": {"encoder": stack(positions="learned"), "image": IMAGE, "head": "class", "num_classes": 4},
    "stem": {"encoder": stack(positions="learned"), "image": IMAGE.replace(stem=1), "head": "class", "num_classes": 4,
             "pooling": "mean"},
    "caption": {"encoder": stack(positions="learned", d_model=18), "decoder": stack(positions="learned"),
                "image": IMAGE, "vocab_size": 17},
    "joined": {"encoder": stack(positions="learned", d_model=18), "decoder": stack(positions="learned"),
               "image": IMAGE, "vocab_size": 17, "memory_project": "linear"},
    "prefix": {"encoder": stack(positions="learned", d_model=18), "decoder": stack(positions="learned"),
               "image": IMAGE, "vocab_size": 17, "memory": "prefix", "memory_project": "linear_norm"},
    "series": {"encoder": stack(positions="learned"), "series": SERIES, "head": "forecast"},
    "folded": {"encoder": stack(positions="learned"), "series": SERIES.replace(patch=6, stride=3, fold=3),
               "head": "forecast"},
}  # fmt: skip


def make(name: str) -> gf.Transformer:
    torch.manual_seed(0)
    return gf.Transformer(gf.TransformerConfig(**{"decoder_start_token_id": 0, **MODELS[name]})).eval()


def labels_for(model: gf.Transformer, inputs: dict[str, Tensor]) -> Tensor | None:
    config = model.config
    shapes = {"class": (2,), "span": (2, 2), "forecast": (2, 3, 2)}
    source = inputs.get("decoder_input_ids", inputs.get("input_ids"))
    shape = shapes.get(config.head, tuple(source.shape) if source is not None else ())
    return torch.randn(shape) if config.head == "forecast" else torch.ones(shape, dtype=torch.long)
