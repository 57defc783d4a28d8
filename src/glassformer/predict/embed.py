"""Sentence embeddings (Sentence-BERT: Reimers and Gurevych, 2019): a model without a head, pooled over its tokens.

The files of sentence-transformers next to the weights say how to pool: `modules.json` lists the modules after the
Transformer, `1_Pooling/config.json` configures the pooling. Vectors have length 1, so their dot product is the cosine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.generation.encode import BATCH_TOKENS, TextBatch, hidden_state
from glassformer.io import parse_json
from glassformer.predict.calls import TokenLimit, in_batches, least
from glassformer.text import Encoded, Tokenizer

MODULES, POOLING = "modules.json", "1_Pooling"
# In the order in which sentence-transformers concatenates them.
WAYS = ("cls", "max", "mean", "mean_sqrt_len", "weightedmean", "lasttoken")
SWITCH_SUFFIXES = ("_tokens", "_token")  # suffixes of the switches, as in pooling_mode_mean_tokens


@dataclass(frozen=True)
class PoolingRecipe:
    """How to compute the sentence vectors of a model."""

    ways: tuple[str, ...] = ("mean",)
    max_length: int | None = None
    lower_case: bool = False
    prompt: str = ""  # prefix of every text

    def written(self, text: str) -> str:
        """The text to encode: with the prompt, in lower case if the recipe says so."""
        return self.prompt + (text.lower() if self.lower_case else text)


MEAN = PoolingRecipe()  # the default


def read_recipe(folder: Path) -> PoolingRecipe | None:
    """Reads the recipe from the files of sentence-transformers; None if there are none."""
    pooling = folder / POOLING
    if (folder / MODULES).is_file():
        pooling = folder / check_modules(folder / MODULES)
    if not (pooling / "config.json").is_file():
        return None
    text, prompts = (read(folder / f"{name}.json") for name in ("sentence_bert_config", "config_sentence_transformers"))
    prompt = (prompts.get("prompts") or {}).get(prompts.get("default_prompt_name") or "", "")
    values = read(pooling / "config.json")
    if prompt and values.get("include_prompt") is False:
        raise InputError(f"{pooling}/config.json: include_prompt false is not supported. Remove the prompt")
    return PoolingRecipe(
        ways=ways_of(values, pooling / "config.json"),
        max_length=text.get("max_seq_length"),
        lower_case=bool(text.get("do_lower_case")),
        prompt=prompt,
    )


def check_modules(file: Path) -> str:
    """The folder of the pooling config. Refuses modules that are not supported."""
    modules = read(file, list)
    kinds = [str(module.get("type")).rpartition(".")[2] for module in modules]
    for kind in kinds:
        if kind not in ("Transformer", "Pooling", "Normalize"):
            raise InputError(
                f"{file} lists a {kind} module, which is not supported: expected Transformer, Pooling and Normalize. "
                "Use a model without it, or gf.load(path) for the vectors before it"
            )
    return next((str(m.get("path")) for m, kind in zip(modules, kinds, strict=True) if kind == "Pooling"), POOLING)


def ways_of(values: Mapping[str, Any], file: Path) -> tuple[str, ...]:
    named = values.get("pooling_mode")  # newer files have one name, older ones a switch for each way
    chosen = {named} if isinstance(named, str) else set(named or ())
    switches = (
        key.removeprefix("pooling_mode_") for key, on in values.items() if key.startswith("pooling_mode_") and on
    )
    chosen |= {next((key.removesuffix(end) for end in SWITCH_SUFFIXES if key.endswith(end)), key) for key in switches}
    if not chosen or not chosen <= set(WAYS):
        raise InputError(f"{file}: the pooling is {sorted(chosen) or None}: expected one or more of {', '.join(WAYS)}")
    return tuple(way for way in WAYS if way in chosen)


def read(file: Path, kind: type = dict) -> Any:
    if not file.is_file():
        return kind()
    values = parse_json(file)
    if not isinstance(values, kind):
        raise InputError(f"{file}: expected a JSON {'list' if kind is list else 'object'}. Download the file again")
    return values


def embed(
    model: Transformer,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    recipe: PoolingRecipe = MEAN,
    normalise: bool = True,
    batch_tokens: int = BATCH_TOKENS,
    batch_size: int | None = None,
) -> Tensor:
    """The vectors of the texts, (texts, width)."""
    reads = model.config.encoder or model.config.last_stack
    limit = TokenLimit(least(recipe.max_length, reads.room), cuts=True)  # sentence-transformers truncates, too

    def encode(some: Sequence[str], most: int | None) -> Encoded:
        return tokenizer.encode([recipe.written(text) for text in some], max_length=most)

    def run(batch: TextBatch) -> list[Tensor]:
        if model.config.pooled_dim:  # the model has its own pooling
            pooled = model(**batch.arguments).pooled.float()
        else:
            pooled = pool(hidden_state(model, batch).float(), batch.keep, recipe.ways)
        return list((F.normalize(pooled, dim=1) if normalise else pooled).cpu())

    vectors = in_batches(model, texts, encode, run, batch_tokens, batch_size, limit)
    return (
        torch.stack(vectors) if vectors else torch.empty(0, model.config.pooled_dim or reads.d_model * len(recipe.ways))
    )


def pool(hidden: Tensor, keep: Tensor, ways: Sequence[str]) -> Tensor:
    """Pools the vectors of the kept tokens, (B, T, D) -> (B, D); the results of several ways are concatenated."""
    return torch.cat([pool_one(way, hidden, keep) for way in ways], dim=1)


def pool_one(way: str, hidden: Tensor, keep: Tensor) -> Tensor:
    """(B, T, D) -> (B, D)."""
    rows, places = torch.arange(len(hidden), device=hidden.device), torch.arange(keep.shape[1], device=hidden.device)
    if way == "cls":
        return hidden[rows, keep.int().argmax(dim=1)]
    if way == "lasttoken":
        return hidden[rows, (keep * places).argmax(dim=1)]
    if way == "max":
        return hidden.masked_fill(~keep[:, :, None], -torch.inf).amax(dim=1)
    weights = keep.float()  # (B, T)
    if way == "weightedmean":  # in a causal model, later tokens have seen more of the text
        weights = weights * weights.cumsum(dim=1)
    total = weights.sum(dim=1, keepdim=True)  # (B, 1)
    divisor = total.sqrt() if way == "mean_sqrt_len" else total
    return (hidden * (weights / divisor)[:, :, None]).sum(dim=1)
