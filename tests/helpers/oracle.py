"""Hugging Face's `generate` on our models' logits, and its models with their weights copied into ours.

The wrapper has no cache: every step is a full pass, the reference for our cache. Below are readers that count rows, and
drop rows that have ended as the engine does.
"""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    GenerationConfig,
    GenerationMixin,
    GPT2Config,
    GPT2LMHeadModel,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

import glassformer as gf
from glassformer.generation.loop import ModelReader
from glassformer.generation.plan import GenerationCall

VOCAB = 40
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
STACK = gf.StackConfig(d_model=16, num_layers=2, num_heads=4, num_kv_heads=2, d_ff=24)


class Oracle(PreTrainedModel, GenerationMixin):
    """Our model with the interface that `GenerationMixin` needs."""

    config_class = PretrainedConfig
    main_input_name = "input_ids"

    def __init__(self, model: gf.Transformer) -> None:
        ids = {name: getattr(model.config, name) for name in ("pad_token_id", "bos_token_id", "eos_token_id")}
        if isinstance(ids["eos_token_id"], tuple):
            ids["eos_token_id"] = list(ids["eos_token_id"])
        two = model.encoder is not None
        config = PretrainedConfig(is_encoder_decoder=two, vocab_size=VOCAB, **ids)
        super().__init__(config)
        self.generation_config = GenerationConfig(
            use_cache=False, decoder_start_token_id=model.config.decoder_start_token_id, **ids
        )
        self.inner, self.anchor = model, nn.Parameter(torch.zeros(1))

    def get_encoder(self, *_: Any) -> nn.Module:
        return Encoder(self.inner)

    def prepare_inputs_for_generation(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        encoder_outputs: BaseModelOutput | None = None,
        **_: Any,
    ) -> dict[str, Any]:
        if self.inner.encoder is None:
            return {"input_ids": input_ids, "attention_mask": attention_mask}
        return {
            "decoder_input_ids": input_ids, "attention_mask": attention_mask, "encoder_outputs": encoder_outputs
        }  # fmt: skip

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        encoder_outputs: BaseModelOutput | None = None,
        return_dict: bool = True,
    ) -> Seq2SeqLMOutput:
        if self.inner.encoder is None:
            return Seq2SeqLMOutput(logits=self.inner(input_ids, attention_mask).logits)
        memory = encoder_outputs.last_hidden_state
        hidden = self.inner.decode(decoder_input_ids, encoder_last_hidden_state=memory, attention_mask=attention_mask)
        return Seq2SeqLMOutput(logits=self.inner.head(hidden))


class Encoder(nn.Module):
    def __init__(self, model: gf.Transformer) -> None:
        super().__init__()
        self.inner = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any) -> BaseModelOutput:
        return BaseModelOutput(last_hidden_state=self.inner.encode(input_ids, attention_mask))


def writer(positions: str = "rotary", seed: int = 0, **changes: Any) -> gf.Transformer:
    torch.manual_seed(seed)
    config = gf.TransformerConfig.from_dict(
        {"decoder": STACK.replace(positions=positions), "vocab_size": VOCAB, "tie_embeddings": False, **IDS, **changes}
    )
    return sharpened(gf.Transformer(config).eval())


def translator(seed: int = 1, **changes: Any) -> gf.Transformer:
    torch.manual_seed(seed)
    values = {"encoder": STACK, "decoder": STACK, "vocab_size": VOCAB, "tie_embeddings": False, **IDS}
    config = gf.TransformerConfig.from_dict({**values, "decoder_start_token_id": 1, **changes})
    return sharpened(gf.Transformer(config).eval())


@torch.no_grad()
def sharpened(model: gf.Transformer) -> gf.Transformer:
    """Larger weights, so that the most likely token changes at each step; less in the head, so that beams compete."""
    for name, parameter in model.named_parameters():
        factor = 12.0 if name.startswith("head") else 50.0 if "tokens" in name else 8.0
        parameter.mul_(factor if parameter.ndim > 1 else 1.0)
    return model


def ragged(lengths: tuple[int, ...] = (3, 7, 5, 1), *, left: bool = True, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Prompts of these lengths as ids and mask, padded with 0 on one side."""
    torch.manual_seed(seed)
    size = (len(lengths), max(lengths))
    index = torch.arange(size[1]).expand(size)
    counts = torch.tensor(lengths)[:, None]
    mask = index >= size[1] - counts if left else index < counts
    return torch.randint(3, VOCAB, size) * mask, mask.long()


@torch.no_grad()
def gpt2() -> tuple[gf.Transformer, GPT2LMHeadModel]:
    """Our GPT-2 and Hugging Face's, with the same random weights."""
    torch.manual_seed(3)
    theirs = GPT2LMHeadModel(
        GPT2Config(vocab_size=VOCAB, n_positions=64, n_embd=16, n_layer=2, n_head=4, use_cache=True, **IDS)
    ).eval()
    stack = gf.StackConfig(
        d_model=16, num_layers=2, num_heads=4, max_len=64, positions="learned", activation="gelu_tanh"
    )
    ours = gf.Transformer(gf.TransformerConfig(decoder=stack, vocab_size=VOCAB, **IDS)).eval()
    scramble(theirs)
    mine, body = ours.decoder, theirs.transformer
    mine.embed.tokens.weight.copy_(body.wte.weight)
    mine.embed.positions.weight.copy_(body.wpe.weight)
    same(mine.norm, body.ln_f)
    for block, layer in zip(mine.blocks, body.h, strict=True):
        same(block.attn_norm, layer.ln_1)
        same(block.ffn_norm, layer.ln_2)
        for part, weight, bias in zip(
            (block.attn.q, block.attn.k, block.attn.v),
            layer.attn.c_attn.weight.split(16, dim=1),
            layer.attn.c_attn.bias.split(16),
            strict=True,
        ):
            same(part, SimpleNamespace(weight=weight.T, bias=bias))
        for part, other in (
            (block.attn.out, layer.attn.c_proj),
            (block.ffn.up, layer.mlp.c_fc),
            (block.ffn.down, layer.mlp.c_proj),
        ):
            same(part, SimpleNamespace(weight=other.weight.T, bias=other.bias))
    return ours, theirs


@torch.no_grad()
def bart() -> tuple[gf.Transformer, BartForConditionalGeneration]:
    """Our BART and Hugging Face's, with the same random weights."""
    torch.manual_seed(4)
    sizes = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in
             {"layers": 2, "attention_heads": 4, "ffn_dim": 24}.items()}  # fmt: skip
    theirs = BartForConditionalGeneration(
        BartConfig(
            vocab_size=VOCAB,
            d_model=16,
            max_position_embeddings=64,
            decoder_start_token_id=2,
            forced_eos_token_id=None,
            **sizes,
            **IDS,
        )
    ).eval()
    stack = gf.StackConfig(
        d_model=16, num_layers=2, num_heads=4, d_ff=24, max_len=64, positions="learned", activation="gelu",
        norm_order="post",
    )  # fmt: skip
    config = gf.TransformerConfig(
        encoder=stack, decoder=stack, vocab_size=VOCAB, embed_norm=True, decoder_start_token_id=2, **IDS
    )
    ours = gf.Transformer(config).eval()
    scramble(theirs)
    ours.decoder.embed.tokens.weight.copy_(theirs.model.shared.weight)
    for mine, other in ((ours.encoder, theirs.model.encoder), (ours.decoder, theirs.model.decoder)):
        mine.embed.positions.weight.copy_(other.embed_positions.weight[2:])
        same(mine.embed.norm, other.layernorm_embedding)
        for block, layer in zip(mine.blocks, other.layers, strict=True):
            names = {"attn": "self_attn", "cross": "encoder_attn"} if mine is ours.decoder else {"attn": "self_attn"}
            for kind, their_kind in names.items():
                for part in ("q", "k", "v", "out"):
                    same(getattr(getattr(block, kind), part), getattr(getattr(layer, their_kind), f"{part}_proj"))
                same(getattr(block, f"{kind}_norm"), getattr(layer, f"{their_kind}_layer_norm"))
            same(block.ffn.up, layer.fc1)
            same(block.ffn.down, layer.fc2)
            same(block.ffn_norm, layer.final_layer_norm)
    return ours, theirs


def scramble(model: nn.Module) -> None:
    """Makes matrices so large, compared with the embeddings, that a token does not predict itself."""
    for name, parameter in model.named_parameters():
        table = any(part in name for part in ("wte", "wpe", "shared", "embed_positions"))
        deviation = (0.5 if table else 1.5) if parameter.ndim > 1 else 0.2
        parameter.mul_(0 if parameter.ndim > 1 else 1).add_(torch.randn_like(parameter) * deviation)


def same(mine: nn.Module, other: Any) -> None:
    mine.weight.copy_(other.weight)
    mine.bias.copy_(other.bias)


class Counting(ModelReader):
    """Records the number of rows that each pass reads."""

    def __init__(self, model: gf.Transformer) -> None:
        super().__init__(model)
        self.rows: list[int] = []

    def prefill(self, call: GenerationCall) -> Tensor:
        self.rows.append(len(call.prompt))
        return super().prefill(call)

    def step(self, token: Tensor) -> Tensor:
        self.rows.append(len(token))
        return super().step(token)


class Dropping(Counting):
    drops_rows = True


def seeded(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
