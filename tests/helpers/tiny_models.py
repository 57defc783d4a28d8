"""Tiny models of every kind that the explorer shows, with random weights, each saved as a folder; and helpers to
compare answers."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.checkpoints.labels import name_classes
from glassformer.checkpoints.preparation import Preparation
from glassformer.checkpoints.run import RUN
from glassformer.io import write_json
from glassformer.text import Tokenizer

LINES = [
    "The quick brown fox jumps over the lazy dog.",
    "Once upon a time there was a small model.",
    "옛날 옛적에 작은 모델이 살았습니다.",
    "Sun, Nov 15 2026 <b>bold</b> & more",
]
CAPTIONS = ["a red circle left of a blue square .", "What colour is the circle ?", "빨간 원 왼쪽에 파란 사각형"]
QUESTION = "What colour is the circle ?"
TEXT = "The quick fox 🦊 says 안녕"


def tokenizer_of(kind: str) -> Tokenizer:
    if kind == "decoder":
        return gf.train_tokenizer(LINES * 3, 300, "bytes")
    if shape_of(kind) == "caption":
        return gf.train_tokenizer(CAPTIONS * 3, 120, "bpe", around="end")
    around = {"encoder-decoder": "end"}.get(kind, "segments")
    return gf.train_tokenizer(LINES * 3, 120, "wordpiece" if kind == "fill" else "bpe", around=around)  # type: ignore[arg-type]


def stack(changes: dict[str, Any], **own: Any) -> gf.StackConfig:
    return gf.StackConfig(**{"d_model": 24, "num_layers": 2, "num_heads": 4, "d_ff": 40, **own, **changes})


def config_of(kind: str, size: int, tokenizer: Tokenizer | None, **changes: Any) -> gf.TransformerConfig:
    whole: dict[str, Any] = {
        "encoder-decoder": {"encoder": stack(changes), "decoder": stack(changes, d_ff=32)},
        "decoder": {"decoder": stack(changes, positions="rotary", num_kv_heads=2, norm="rms")},
        "encoder": {"encoder": stack(changes), "head": "class", "num_classes": 3},
        "fill": {"encoder": stack(changes)},
        "label": {"encoder": stack(changes), "head": "token", "num_classes": 3},
        "span": {"encoder": stack(changes), "head": "span"},
        "embed": {"encoder": stack(changes), "head": "none"},
        "image": {
            "encoder": stack(changes, positions="learned"),
            "image": gf.ImageConfig(size=8, patch=2, channels=1),
            "head": "class",
            "num_classes": 10,
            "pooling": "first",
        },
        "caption": {
            "encoder": stack(changes, positions="learned", norm_order="pre", activation="gelu"),
            "decoder": stack(changes, positions="learned", norm_order="pre", activation="gelu", max_len=128),
            "image": gf.ImageConfig(size=12, patch=3, channels=3),
            "tie_embeddings": True,
        },
        "twice": {
            "encoder": stack(changes),
            "decoder": stack(changes),
            "head": "class",
            "num_classes": 3,
            "pooling": "last",
        },
        "judge": {
            "encoder": stack(changes, positions="learned"),
            "series": gf.SeriesConfig(length=48, patch=8, channels=1),
            "head": "class",
            "num_classes": 3,
        },
        "series": {
            "encoder": stack(changes, positions="learned"),
            "series": gf.SeriesConfig(length=48, patch=8, stride=4, horizon=12, instance_norm=True),
            "head": "forecast",
        },
    }[shape_of(kind)]
    if tokenizer is not None:
        ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
        start = {"decoder_start_token_id": tokenizer.bos_token_id} if "decoder" in whole and "encoder" in whole else {}
        whole |= {"vocab_size": size, **{key: value for key, value in ids.items() if value is not None}, **start}
        if kind in ("encoder-decoder", "caption", "ask", "prefix"):
            whole["generation"] = gf.GenerationConfig(max_new_tokens=12)
    return gf.TransformerConfig(**whole, **({"memory": "prefix"} if kind == "prefix" else {}))


def make(folder: Path, kind: str, **changes: Any) -> Path:
    """A model of this kind; `changes` are fields of its stacks."""
    if kind == "match":
        return make_pair(folder)
    torch.manual_seed(1)
    tokenizer = None if kind in ("image", "series", "judge") else tokenizer_of(kind)
    config = config_of(kind, 0 if tokenizer is None else len(tokenizer), tokenizer, **changes)
    model = gf.Transformer(config)
    with torch.no_grad():
        for parameter in model.parameters():  # large enough that heads differ
            parameter += 0.2 * torch.randn_like(parameter)
    if config.num_classes == 3:
        name_classes(model, ["calm", "glad", "<b>sad</b>"])
    preparation = None
    if config.image is not None:
        side, channels = config.image.size, config.image.channels
        preparation = Preparation((side, side), 2, None, 1 / 255, mean=(0.3,) * channels, deviation=(0.4,) * channels)
    gf.save(model.eval(), folder, tokenizer=tokenizer, preparation=preparation)
    if kind == "ask":  # the same model, trained for something else
        write_json(folder / RUN, {"task": "ask", "settings": {}})
    return folder


def make_pair(folder: Path) -> Path:
    """A pair of tiny models, one for texts and one for images, with a shared embedding space."""
    torch.manual_seed(1)
    tokenizer = gf.train_tokenizer(CAPTIONS * 3, 120, "bpe", around="both")
    fields = {"positions": "learned", "norm_order": "pre", "activation": "quick_gelu"}
    text = gf.TransformerConfig(
        decoder=stack(fields, max_len=64), vocab_size=len(tokenizer), head="pool", pooling="first_end", pooled_dim=16,
        head_bias=False, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    image = gf.TransformerConfig(
        encoder=stack(fields, final_norm=False), head_norm=True, head="pool",
        image=gf.ImageConfig(size=12, patch=3, patch_bias=False, embed_norm=True),
        pooling="first", pooled_dim=16, head_bias=False,
    )  # fmt: skip
    pair = gf.Pair(gf.PairConfig(text=text, image=image))
    with torch.no_grad():
        for parameter in pair.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    preparation = Preparation((12, 12), 2, None, 1 / 255, mean=(0.3,) * 3, deviation=(0.4,) * 3)
    gf.save(pair.eval(), folder, tokenizer=tokenizer, preparation=preparation)
    return folder


def shape_of(kind: str) -> str:
    return "caption" if kind in ("ask", "prefix") else kind


def make_of_languages(folder: Path, codes: list[str]) -> Path:
    """A translation model with several languages, whose tokenizer marks them as NLLB's does."""
    torch.manual_seed(1)
    tokenizer = tokenizer_of("encoder-decoder")
    tokenizer.backend.add_special_tokens(codes)
    config = config_of("encoder-decoder", len(tokenizer), tokenizer)
    gf.save(gf.Transformer(config).eval(), folder, tokenizer=tokenizer)
    file = folder / "tokenizer_config.json"
    settings = {**json.loads(file.read_text(encoding="utf-8")), "tokenizer_class": "NllbTokenizer"}
    file.write_text(json.dumps(settings), encoding="utf-8")
    return folder


def flat(answer: Any) -> list[Any]:
    """The values of an answer, one after another."""
    if isinstance(answer, torch.Tensor | np.ndarray):
        return answer.flatten().tolist()
    if isinstance(answer, list | tuple):
        return [value for part in answer for value in flat(part)]
    if isinstance(answer, dict):
        return [value for key in answer for value in (key, *flat(answer[key]))]
    return flat(asdict(answer)) if hasattr(answer, "__dataclass_fields__") else [answer]


def rounded(answer: Any) -> list[Any]:
    """The same values rounded, to compare them up to the last digits."""
    return [pytest.approx(value, rel=1e-4, abs=1e-5) if type(value) is float else value for value in flat(answer)]
