"""The whole Transformer, from input to loss: an encoder, a decoder or both, and a head.

An encoder alone classifies and embeds (BERT, ViT), a decoder alone generates (GPT, LLaMA), both together translate
(the paper, T5). Arguments have the names used by Hugging Face: input_ids, attention_mask, labels with -100 to ignore.
This is the last file of the core. Read next: `generation/`, which runs the model, and `tasks/`, which train it.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.config import StackConfig, TransformerConfig
from glassformer.core.cache import Cache, document_starts
from glassformer.core.context import as_keep
from glassformer.core.embeddings import Embedding, Memory, PatchEmbedding, SeriesEmbedding, TokenEmbedding, level_of
from glassformer.core.heads import ClassHead, ForecastHead, LanguageHead, SpanHead, TokenHead
from glassformer.core.norms import LayerNorm, RMSNorm
from glassformer.core.positions import Learned, RelativeBias
from glassformer.core.stack import Stack
from glassformer.errors import InputError

IGNORE = -100  # the label of a position without loss


@dataclass(frozen=True, kw_only=True)
class Output:
    """The result of a call; fields that the model or the call does not produce are None."""

    loss: Tensor | None = None
    logits: Tensor | None = None
    last_hidden_state: Tensor | None = None
    encoder_last_hidden_state: Tensor | None = None
    pooled: Tensor | None = None
    start_logits: Tensor | None = None
    end_logits: Tensor | None = None


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """Metadata of a model, for saving and display. It does not affect any computation."""

    classes: Mapping[str, Any] = field(default_factory=dict)  # names of the classes, and the type of the problem
    settings: Mapping[str, Any] = field(default_factory=dict)  # the config.json of another library, if it came with one
    generation: Mapping[str, Any] = field(default_factory=dict)  # and its generation_config.json


class Transformer(nn.Module):
    """head(decoder(target, encoder(source))), or either stack alone."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.about = Metadata()
        self.encoder = self.decoder = self.memory = None
        if config.encoder:
            self.encoder = Stack(config.encoder, causal=False, embed=source_embedding(config, config.encoder))
        if config.decoder:
            segments = 0 if config.encoder and not config.patches else config.num_segments  # the source has them
            target = token_embedding(config, config.decoder, config.output_vocab_size, segments)
            self.decoder = Stack(
                config.decoder, causal=True, cross=config.cross, prefix=config.prefix, embed=target,
                memory_width=config.memory_width,
            )  # fmt: skip
        if config.encoder and config.decoder and config.memory_project != "none":
            self.memory = Memory(config.encoder, config.decoder, norm=config.memory_project == "linear_norm")
        self.head = make_head(config)
        if self.device.type != "meta":  # meta tensors have no storage to initialise
            initialise(self)
        self.tie()

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    def tie(self) -> None:
        """Ties the weights that the config shares: source and target embedding, and the language head's matrix."""
        source, target = (stack.embed if stack else None for stack in (self.encoder, self.decoder))
        two_tables = self.config.target_vocab_size is not None
        if isinstance(source, TokenEmbedding) and isinstance(target, TokenEmbedding) and not two_tables:
            source.tokens.weight = target.tokens.weight
        last = target or source
        if self.config.tie_embeddings and isinstance(self.head, LanguageHead) and isinstance(last, TokenEmbedding):
            self.head.out.weight = last.tokens.weight

    def encode(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        *,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        pixel_values: Tensor | None = None,
        past_values: Tensor | None = None,
        documents: Tensor | None = None,
    ) -> Tensor:
        """The encoder's hidden states for token ids, embeddings, images or series."""
        if self.encoder is None:
            raise InputError("this model has no encoder: call the model itself, or decode(), with input_ids")
        given = {"pixel_values": pixel_values} if self.config.image else {"past_values": past_values}
        if not self.config.patches:
            given = {"input_ids": input_ids, "inputs_embeds": inputs_embeds}
        everything = {"input_ids": input_ids, "inputs_embeds": inputs_embeds}
        everything |= {"pixel_values": pixel_values, "past_values": past_values}
        got = [name for name, value in everything.items() if value is not None]
        if len(got) != 1 or got[0] not in given:
            instead = [name for name in got if name not in given]
            aside = f", and not {' and '.join(instead)}" if instead else ""
            aside += ". Pass text as decoder_input_ids" if self.decoder is not None and self.config.patches else ""
            wanted = "one of them" if len(given) > 1 else "only that"
            raise InputError(f"this model's encoder reads {' or '.join(given)}: give {wanted}{aside}")
        if documents is not None and self.config.patches:
            raise InputError("documents are for packed texts, and this model's encoder reads patches: leave them out")
        source = next((x for x in (input_ids, pixel_values, past_values) if x is not None), None)
        return self.encoder(
            source, embeds=inputs_embeds, keep=attention_mask, segments=token_type_ids, positions=position_ids,
            documents=documents,
        )  # (B, S, D)  # fmt: skip

    def decode(
        self,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        *,
        encoder_last_hidden_state: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        documents: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """The decoder's hidden states for a target, given the encoder's output if there is an encoder."""
        if self.decoder is None:
            raise InputError("this model has no decoder: call the model itself, or encode()")
        if (decoder_input_ids is None) == (inputs_embeds is None):
            raise InputError("the decoder reads token ids or inputs_embeds: give exactly one of the two")
        memory = encoder_last_hidden_state
        if memory is not None and self.memory is not None:
            memory = self.memory(memory)  # (B, S, D)
        hidden = self.decoder(
            decoder_input_ids, embeds=inputs_embeds, keep=decoder_attention_mask, segments=token_type_ids,
            positions=position_ids, memory=memory, memory_keep=attention_mask, documents=documents, cache=cache,
        )  # (B, ..., D)  # fmt: skip
        given = decoder_input_ids if inputs_embeds is None else inputs_embeds
        assert given is not None
        return hidden[:, -given.shape[1] :] if self.decoder.prefix else hidden  # (B, T, D)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        *,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        pixel_values: Tensor | None = None,
        past_values: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        documents: Tensor | None = None,
        labels: Tensor | None = None,
        logits_at: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Output:
        """Logits, and the loss if labels are given.

        Encoder and decoder: without decoder_input_ids, the decoder reads the labels shifted right. With heads 'class',
        'span' and 'pool' it reads the source shifted right instead (BART).
        Decoder alone: the logits at t predict labels[t + 1], so pass the input ids as labels.
        Otherwise labels[t] belongs to the logits at t. The labels of a span are its start and end, (B, 2).

        `documents` (B, T) numbers the documents packed in a row: they do not attend to each other, and predicting the
        first token of a document has no loss. With an image as source, they number the texts in the decoder's input.

        `logits_at` (B, T) is True where logits are wanted; logits and labels are then lists of these positions. A
        masked language model needs few, and the vocabulary is half of a small model's work.
        """
        memory = None
        if documents is not None:
            self.check_packing()
        if self.encoder is None:
            self.refuse({"pixel_values": pixel_values, "past_values": past_values})
        if self.decoder is None:
            self.refuse({"cache": cache})
        if self.encoder is None or self.decoder is None:
            self.refuse({"decoder_input_ids": decoder_input_ids, "decoder_attention_mask": decoder_attention_mask})
        if self.encoder is not None:
            memory = hidden = self.encode(
                input_ids, attention_mask, token_type_ids=token_type_ids, position_ids=position_ids,
                inputs_embeds=inputs_embeds, pixel_values=pixel_values, past_values=past_values,
                documents=documents if self.decoder is None else None,
            )  # (B, S, ...)  # fmt: skip
            if self.decoder is not None:
                if decoder_input_ids is None:
                    if logits_at is not None and labels is not None:
                        raise InputError("logits_at makes a list of the labels: give decoder_input_ids too")
                    shifted = input_ids if self.config.head in ("class", "span", "pool") else labels
                    decoder_input_ids = None if shifted is None else self.shift_right(shifted)
                hidden = self.decode(
                    decoder_input_ids, decoder_attention_mask, encoder_last_hidden_state=memory,
                    attention_mask=attention_mask, documents=documents, cache=cache,
                )  # (B, T, D)  # fmt: skip
        else:
            hidden = self.decode(
                input_ids, attention_mask, token_type_ids=token_type_ids, position_ids=position_ids,
                inputs_embeds=inputs_embeds, documents=documents, cache=cache,
            )  # (B, T, D)  # fmt: skip
            if labels is not None and documents is not None and labels.shape == documents.shape:
                labels = labels.masked_fill(document_starts(documents), IGNORE)  # (B, T)
        read = hidden if logits_at is None else self.at(hidden, logits_at, labels)  # (..., D)
        answer = self.answer(read, self.pooled_over(input_ids, attention_mask, hidden), past_values)
        return Output(
            loss=self.loss(answer, labels) if labels is not None else None,
            last_hidden_state=hidden,
            encoder_last_hidden_state=memory if self.decoder is not None else None,
            **answer,
        )

    def refuse(self, given: dict[str, object]) -> None:
        """Raises if one of these arguments, which this model cannot use, was given."""
        for name, value in given.items():
            if value is not None:
                instead = ", give input_ids" if name in ("pixel_values", "past_values") else ""
                stack = "a decoder" if self.decoder else "an encoder"
                raise InputError(f"this model has only {stack}: leave {name} out{instead}")

    def at(self, hidden: Tensor, logits_at: Tensor, labels: Tensor | None) -> Tensor:
        """The hidden states at which logits are wanted."""
        if not isinstance(self.head, LanguageHead | TokenHead):
            raise InputError(f"head={self.config.head!r} does not predict at single tokens: leave logits_at out")
        if self.encoder is None and labels is not None:
            raise InputError("the labels of a decoder are its input, shifted: give labels or logits_at, not both")
        if logits_at.dtype != torch.bool or logits_at.shape != hidden.shape[:2]:
            expected = f"expected {tuple(hidden.shape[:2])}, True and False"
            raise InputError(f"logits_at has shape {tuple(logits_at.shape)} and dtype {logits_at.dtype}: {expected}")
        return hidden[logits_at]

    def check_packing(self) -> None:
        """Raises if a row cannot pack several documents: that needs a text model with a prediction at every token."""
        if self.encoder is not None and self.decoder is not None and self.config.image is None:
            raise InputError("documents do not work with an encoder and a decoder: give one source and target per row")
        if self.config.head in ("class", "pool", "span"):
            raise InputError(
                f"documents do not work with head={self.config.head!r}, which makes one prediction per row: "
                f"give one document per row"
            )

    def pooled_over(self, input_ids: Tensor | None, attention_mask: Tensor | None, hidden: Tensor) -> Tensor | None:
        """The tokens that a pooling head reads, as a mask: the kept tokens, or the end tokens among them."""
        keep = attention_mask
        if not isinstance(self.head, ClassHead) or self.config.patches:
            return None
        if self.config.pooling == "highest_id" and input_ids is not None:
            keep = input_ids == input_ids.amax(dim=1, keepdim=True)  # (B, T)
        elif self.config.pooling in ("end", "first_end") and input_ids is not None:
            ends = torch.isin(input_ids, torch.tensor(self.config.eos_token_id, device=input_ids.device))  # (B, T)
            keep = ends if keep is None else ends & keep.bool()
        return as_keep(keep, tuple(hidden.shape[:2]), "attention_mask")  # (B, T)

    def answer(self, hidden: Tensor, keep: Tensor | None, past_values: Tensor | None) -> dict[str, Tensor | None]:
        """The head's predictions, as fields of `Output`."""
        if isinstance(self.head, LanguageHead | TokenHead):
            return {"logits": self.head(hidden)}
        if isinstance(self.head, SpanHead):
            start, end = self.head(hidden)
            return {"start_logits": start, "end_logits": end}
        if isinstance(self.head, ClassHead):
            if past_values is not None:  # pool over all channels of a series
                hidden = hidden.unflatten(0, (len(past_values), -1)).flatten(1, 2)  # (B, ..., D)
            logits, pooled = self.head(hidden, keep)
            return {"logits": logits, "pooled": pooled}
        if isinstance(self.head, ForecastHead) and past_values is not None and self.config.series is not None:
            forecast = self.head(hidden, past_values.shape[2])  # (B, Z, C)
            if self.config.series.instance_norm:  # undo it: the forecast has the mean and deviation of the input
                mean, deviation = level_of(past_values)  # (B, 1, C), (B, 1, C)
                forecast = forecast * deviation + mean  # (B, Z, C)
            return {"logits": forecast}
        return {}

    def shift_right(self, labels: Tensor) -> Tensor:
        """The decoder's input for these labels: the start token, then all labels but the last.

        With label_shift='last' (mBART) it starts with the last label instead, which is a language or end token.
        """
        if self.config.label_shift == "last":
            last = (labels != IGNORE) & (labels != self.config.pad_token_id)  # (B, T)
            last = (last * torch.arange(labels.shape[1], device=labels.device)).argmax(dim=1, keepdim=True)  # (B, 1)
            first = labels.gather(1, last)  # (B, 1)
        elif self.config.decoder_start_token_id is None:
            raise InputError("labels without decoder_input_ids need TransformerConfig.decoder_start_token_id: set it")
        else:
            first = torch.full_like(labels[:, :1], self.config.decoder_start_token_id)  # (B, 1)
        shifted = torch.cat([first, labels[:, :-1]], dim=1)  # (B, T)
        return shifted.masked_fill(shifted == IGNORE, self.config.fill_token_id or 0)  # (B, T)

    def loss(self, answer: dict[str, Tensor | None], labels: Tensor) -> Tensor:
        """Cross-entropy, without positions labelled -100; mean squared error for a forecast or a single class.

        Multi-label classification has float labels 0. and 1. for each class, (B, C), and binary cross-entropy.
        """
        start, end, logits = (answer.get(name) for name in ("start_logits", "end_logits", "logits"))
        if start is not None and end is not None:
            logits = torch.stack([start, end], dim=1)  # (B, 2, T)
        if logits is None:
            raise InputError(f"labels were given, but head={self.config.head!r} predicts nothing: leave them out")
        if self.config.head == "forecast":
            return F.mse_loss(logits, labels)
        if self.config.head == "class" and self.config.num_classes == 1:  # regression
            return F.mse_loss(logits.squeeze(1), labels.to(logits.dtype).view(-1))
        if self.config.head == "class" and labels.is_floating_point() and labels.shape == logits.shape:
            return F.binary_cross_entropy_with_logits(logits, labels)
        if self.config.head == "language" and self.encoder is None:
            if labels.shape[1] == 1:
                raise InputError("labels have only 1 token, so there is no next token to predict: give at least 2")
            logits, labels = logits[:, :-1], labels[:, 1:]  # (B, T-1, V), (B, T-1)
        if labels.is_floating_point():
            raise InputError(f"labels have dtype {labels.dtype}: expected integers, the index of a class or token")
        if labels.shape != logits.shape[:-1]:
            expected = tuple(logits.shape[:-1])
            raise InputError(f"labels have shape {tuple(labels.shape)}: expected {expected}, one per prediction")
        try:
            return F.cross_entropy(logits.flatten(0, -2), labels.flatten(), ignore_index=IGNORE)
        except IndexError:
            wrong = labels[(labels != IGNORE) & ((labels < 0) | (labels >= logits.shape[-1]))]
            allowed = f"0 to {logits.shape[-1] - 1}, or {IGNORE} to ignore a position"
            raise InputError(f"labels hold {int(wrong[0])}: expected {allowed}") from None


def source_embedding(config: TransformerConfig, stack: StackConfig) -> Embedding:
    if config.image:
        return PatchEmbedding(stack, config.image)
    if config.series:
        return SeriesEmbedding(stack, config.series)
    return token_embedding(config, stack, config.vocab_size or 0, config.num_segments)


def token_embedding(
    config: TransformerConfig, stack: StackConfig, vocab_size: int, num_segments: int
) -> TokenEmbedding:
    return TokenEmbedding(
        stack,
        vocab_size,
        width=config.embed_dim,
        scale=sqrt(stack.d_model) if config.scale_embeddings else 1.0,
        num_segments=num_segments,
        norm=config.embed_norm,
    )


def make_head(config: TransformerConfig) -> nn.Module | None:
    if config.head == "forecast" and config.series:
        return ForecastHead(config.last_stack.d_model, config.series, config.head_dropout)
    kinds = {"language": LanguageHead, "class": ClassHead, "pool": ClassHead, "token": TokenHead, "span": SpanHead}
    return kinds[config.head](config) if config.head in kinds else None


@torch.no_grad()
def initialise(model: Transformer, only: Container[str] | None = None) -> None:
    """Initialises the weights. In both schemes biases are 0, norms 1, and position tables have deviation 0.02.

    paper:   matrices uniform in +-sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010); embeddings with variance
             1/width, which becomes 1 when they are scaled by sqrt(D).
    modern:  deviation 0.02 everywhere (GPT-2: Radford et al., 2019), divided by sqrt(2 num_layers) for matrices that
             write to the residual stream, so that the stream does not grow with depth.
    A stem of convolutions keeps the variance through its ReLUs in both (He et al., 2015).

    `only` names the modules to initialise (default: all).
    """
    paper = model.config.init == "paper"
    for name, module in model.named_modules():
        if only is not None and name not in only:
            continue
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=module.embedding_dim**-0.5 if paper else 0.02)
        elif isinstance(module, nn.Linear | nn.Conv2d):
            writes_to_stream = name.endswith((".attn.out", ".cross.out", ".ffn.down"))
            if ".embed.stem." in name:
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            elif paper:
                nn.init.xavier_uniform_(module.weight.flatten(1))
            else:
                stack = model.config.encoder if name.startswith("encoder.") else model.config.decoder
                depth = 2 * stack.num_layers if stack and writes_to_stream else 1
                nn.init.normal_(module.weight, std=0.02 / sqrt(depth))
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, Learned | RelativeBias):
            nn.init.normal_(module.weight, std=0.02)
        elif isinstance(module, LayerNorm | RMSNorm):
            nn.init.constant_(module.weight, 0.0 if isinstance(module, RMSNorm) and module.offset else 1.0)
            if isinstance(module, LayerNorm) and module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, PatchEmbedding):
            for token in (module.class_token, module.distillation_token):
                if token is not None:
                    nn.init.zeros_(token)


def count(model: nn.Module) -> int:
    """The number of parameters of a model."""
    return sum(parameter.numel() for parameter in model.parameters())
