"""The model that a task trains: new from a preset, or loaded from a checkpoint with the task's kind of head.

Every preset is an architecture of a published family, so that other libraries can load the trained model.
"""

from collections.abc import Callable
from typing import Any

import torch

from glassformer.checkpoints.load import load_folder, load_model
from glassformer.config import PairConfig, StackConfig, TransformerConfig
from glassformer.core.embeddings import PatchEmbedding
from glassformer.core.model import Transformer, count
from glassformer.core.pair import Pair
from glassformer.core.positions import Learned
from glassformer.errors import InputError
from glassformer.tasks.settings import TaskSettings
from glassformer.text import Tokenizer
from glassformer.threads import memory_of_machine

GRID = 0.1  # amplitude of the position sines; patch embeddings are about 0.15
TRAINING_BYTES = 16  # per parameter: its value, its gradient, and two moments
PRESET_SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 128, "num_layers": 2, "num_heads": 4},
    "small": {"d_model": 256, "num_layers": 4, "num_heads": 4},
    "base": {"d_model": 512, "num_layers": 6, "num_heads": 8},
}


def stack_sizes(settings: TaskSettings, **presets: dict[str, Any]) -> dict[str, Any]:
    """The fields of a `StackConfig` set by preset and flags; `presets` replace `PRESET_SIZES` for a task.

    Dropout is on branches and embeddings, as in the paper; on attention weights it would rule out the fused kernel.
    """
    paper = {"attention_dropout": 0.0, "ffn_dropout": 0.0}
    return {**PRESET_SIZES[settings.preset], **presets.get(settings.preset, {}), **paper, **settings.sizes}


def with_gated_width(sizes: dict[str, Any]) -> dict[str, Any]:
    """Adds the default width of a gated feed-forward: 2/3 of 4 d_model, rounded up to a multiple of 32. It has three
    matrices instead of two, so the number of parameters stays the same (Shazeer, 2020)."""
    return {"d_ff": -(-8 * sizes["d_model"] // 3 // 32) * 32, **sizes}


def encoder_config(
    settings: TaskSettings, tokenizer: Tokenizer, *, max_len: int, dropout: float = 0.1, **head: Any
) -> TransformerConfig:
    """ModernBERT (Warner et al., 2024) at the requested size, with global attention in every layer, and this head."""
    stack = StackConfig(
        **with_gated_width({"dropout": dropout, **stack_sizes(settings)}),
        max_len=max_len,
        positions="rotary",
        activation="gelu",
        gated=True,
        first_norm=False,
        norm_bias=False,
        qkv_bias=False,
        out_bias=False,
        ffn_bias=False,
    )
    return TransformerConfig(
        encoder=stack,
        vocab_size=len(tokenizer),
        embed_norm=True,
        head_activation="gelu",
        head_norm=True,
        head_dense_bias=False,
        head_bias=True,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        **head,
    )


def make_model(
    settings: TaskSettings, config: Callable[[], TransformerConfig], *, head: str, num_classes: int | None = None
) -> Transformer:
    """The model of a run: new from this config, or loaded from `--init`, with its own classes unless given."""
    torch.manual_seed(settings.seed)
    if settings.init_folder is None:
        chosen = config()
        check_training_memory(chosen)
        return Transformer(chosen)
    if settings.head not in (None, head):
        raise InputError(f"--head {settings.head}: {settings.task} trains a model with head {head!r}")
    new = settings.head is not None
    model = load_folder(
        settings.init_folder, head=head if new else None, num_classes=num_classes if new else None,
        dtype=torch.float32, finite=True,
    )  # fmt: skip
    if model.config.head != head or num_classes not in (None, model.config.num_classes):
        classes = f" of {num_classes} classes" if num_classes else ""
        has = f" of {model.config.num_classes} classes" if model.config.num_classes else ""
        raise InputError(
            f"--init {settings.init} has the head {model.config.head!r}{has}, but {settings.task} needs {head!r}"
            f"{classes}. Use --head {head} to replace it with a new, untrained one"
        )
    for parameter in model.parameters():  # loaded weights are a read-only memory map
        parameter.data = parameter.data.clone()
    return model.train()


@torch.no_grad()
def init_grid_positions(model: Transformer) -> None:
    """Initialises the learned positions of patches with sines of their row and column (as in He et al., 2022).

    The model then learns locations in a few hundred steps; from random positions it takes many times as long.
    """
    image, embed = model.config.image, model.encoder.embed if model.encoder is not None else None
    if image is None or not isinstance(embed, PatchEmbedding) or not isinstance(embed.positions, Learned):
        raise InputError("grid positions need a model of image patches with learned positions")
    table = embed.positions.weight  # (N, D)
    side, width = image.patches_per_side, table.shape[1] // 4
    turns = torch.arange(side)[:, None] * 2 / 100 ** (torch.arange(width) / max(1, width))  # (side, D/4)
    waves = torch.cat([turns.sin(), turns.cos()], dim=1)  # (side, D/2)
    rows, columns = waves[:, None].expand(-1, side, -1), waves[None].expand(side, -1, -1)  # (side, side, D/2) each
    grid = torch.cat([rows, columns], dim=-1).flatten(0, 1)  # (N, D)
    table[image.prefix_tokens :, : grid.shape[1]] = GRID * grid


def make_pair(settings: TaskSettings, config: Callable[[], PairConfig]) -> Pair:
    """The two models of a run: new from this config, or loaded from `--init`."""
    torch.manual_seed(settings.seed)
    if settings.init_folder is None:
        chosen = config()
        check_training_memory(chosen)
        return Pair(chosen)
    if settings.head is not None:
        raise InputError(f"--head {settings.head}: a pair of models has no head to replace. Leave it out")
    pair = load_model(settings.init_folder, dtype=torch.float32, finite=True)
    if not isinstance(pair, Pair):
        raise InputError(
            f"--init {settings.init}: {settings.task} needs a text and an image model together, such as a CLIP "
            "checkpoint or a run of `glassformer train match`"
        )
    for parameter in pair.parameters():  # loaded weights are a read-only memory map
        parameter.data = parameter.data.clone()
    return pair.train()


def check_training_memory(config: TransformerConfig | PairConfig) -> None:
    """Refuses a model that needs more memory to train than this machine has, before allocating it."""
    with torch.device("meta"):
        parameters = count(Pair(config) if isinstance(config, PairConfig) else Transformer(config))
    needed, there = TRAINING_BYTES * parameters, memory_of_machine()
    if there is not None and needed > there:
        raise InputError(
            f"a model of {parameters:,} parameters takes at least {needed / 1e9:,.0f} GB to train (weights, gradients "
            f"and two moments of the optimiser), but this machine has {there / 1e9:,.0f} GB. Choose a smaller "
            "--d-model, --num-layers or --vocab-size"
        )


def describe_model(model: Transformer | Pair, settings: TaskSettings) -> str:
    """A line about a model: its stacks, its size and its origin."""
    origin = f", from {settings.init}" if settings.init else f" ({settings.preset})"
    if isinstance(model, Pair):
        text, image = model.config.text.last_stack, model.config.image.last_stack
        return (
            f"image encoder with {image.num_layers} layers, d_model {image.d_model}; text encoder with "
            f"{text.num_layers}, d_model {text.d_model}; embeddings of {model.config.text.pooled_width}, "
            f"{count(model):,} parameters{origin}"
        )
    stacks = {"encoder": model.config.encoder, "decoder": model.config.decoder}
    parts = [name for name, stack in stacks.items() if stack is not None]
    layers = "+".join(str(stack.num_layers) for stack in stacks.values() if stack is not None)
    last = model.config.last_stack
    return (
        f"{'-'.join(parts)}, {layers} layers, d_model {last.d_model}, {last.num_heads} heads, "
        f"{count(model):,} parameters{origin}"
    )
