"""An image encoder (ViT or DeiT) with a text decoder of another family: GPT-2, BERT or TrOCR's decoder (Li et al.,
2021). Captioning and visual question answering models trained here are saved in this layout.

The families' own pages read the two parts; this page connects them.
"""

from collections.abc import Callable
from typing import Any

from glassformer.config import StackConfig, TransformerConfig
from glassformer.errors import InputError
from glassformer.families import bart, bert, deit, gpt2, vit
from glassformer.families.keys import TOKEN_ID_KEYS, Keys, activation_name, token_ids
from glassformer.families.page import TransformersHead
from glassformer.families.table import NameTable, prefixed, zeros

model_types = ("vision-encoder-decoder",)
ignored = (
    "encoder.pooler.dense.*", "decoder.bert.pooler.dense.*", "decoder.cls.predictions.decoder.bias",
    "decoder.bert.embeddings.position_ids", "decoder.transformer.h.*attn.masked_bias",
    "decoder.transformer.h.*.attn.bias", "decoder.transformer.h.*attention.masked_bias",
    "decoder.transformer.h.*.crossattention.bias", "decoder.model.decoder.embed_positions._float_tensor",
)  # fmt: skip
IMAGE_ENCODERS = {"vit": vit, "deit": deit}
DECODER_KEYS = (
    "is_decoder",
    "add_cross_attention",
    "cross_attention_hidden_size",
)  # keys of the decoder that are checked here


def config(hf: Keys) -> TransformerConfig:
    hf.ignore("vocab_size", "processor_class")
    eye, text = part_type(hf, "encoder", IMAGE_ENCODERS), part_type(hf, "decoder", DECODER_CONFIGS)
    for key in ("is_decoder", "add_cross_attention"):
        if hf.values["decoder"].get(key) is not True:
            raise InputError(f"{hf.name}, decoder: {key} is not true, but the decoder must attend to the encoder")
    seen, said = (
        hf.part("encoder"),
        hf.part("decoder", head=hf.head, choices=HEAD_CHOICES.get(text), without=DECODER_KEYS),
    )
    image, written = IMAGE_ENCODERS[eye].config(seen), DECODER_CONFIGS[text](said)
    assert image.encoder is not None
    wide, width = written.last_stack.d_model, hf.values["decoder"].get("cross_attention_hidden_size")
    if width not in (None, image.encoder.d_model if text == "trocr" else wide):
        raise InputError(
            f"{hf.name}, decoder: cross_attention_hidden_size is {width!r}: expected "
            f"{image.encoder.d_model if text == 'trocr' else wide} for a {text!r} decoder"
        )
    for part in (seen, said):
        part.finish()
    tokens = {key: token_ids(hf.take(key, None), hf.values) for key in TOKEN_ID_KEYS}
    hf.ignore("tie_word_embeddings")  # the decoder's config has it
    return written.replace(
        encoder=image.encoder,
        decoder=written.last_stack,
        image=image.image,
        memory_project="none" if width is not None or image.encoder.d_model == wide else "linear",
        **{key: value for key, value in tokens.items() if value is not None},
    )


def part_type(hf: Keys, part: str, known: Any) -> str:
    name = hf.take(part, {}).get("model_type")
    if not isinstance(name, str) or name not in known:
        raise InputError(
            f"{hf.name}, {part}: model_type is {name!r}: expected one of {', '.join(known)} for the {part} of a "
            "vision-encoder-decoder model"
        )
    return name


def trocr(hf: Keys) -> TransformerConfig:
    """TrOCR's decoder: BART's, with learned or sinusoidal positions."""
    learned = hf.take("use_learned_position_embeddings", True)
    positions: dict[str, Any] = {"positions": "learned", "position_offset": 2}
    if not learned:
        offset = hf.take("pad_token_id", 1) + 1
        positions = {"positions": "sinusoidal", "sinusoids": "closed_halves", "position_offset": offset}
    return TransformerConfig(
        **hf.common(),
        vocab_size=hf.take("vocab_size"),
        embed_norm=hf.take("layernorm_embedding", True),
        scale_embeddings=hf.take("scale_embedding", False),
        decoder=StackConfig(
            d_model=hf.take("d_model"),
            num_layers=hf.take("decoder_layers"),
            num_heads=hf.take("decoder_attention_heads"),
            d_ff=hf.take("decoder_ffn_dim"),
            max_len=hf.take("max_position_embeddings"),
            norm_order="post",
            activation=hf.activation("activation_function", "gelu"),
            dropout=hf.take("dropout", 0.1),
            attention_dropout=hf.take("attention_dropout", 0.0),
            ffn_dropout=hf.take("activation_dropout", 0.0),
            **positions,
        ),
    )


DECODER_CONFIGS: dict[str, Callable[[Keys], TransformerConfig]] = {
    "gpt2": gpt2.config,
    "bert": bert.config,
    "trocr": trocr,
}
HEAD_CHOICES = {"bert": bert.heads["language"].choices}


def decoder_type(config: TransformerConfig) -> str:
    """Only GPT-2 is pre-norm, and only BERT has segments."""
    if config.last_stack.norm_order == "pre":
        return "gpt2"
    return "bert" if config.num_segments else "trocr"


def weights(config: TransformerConfig) -> NameTable:
    image = config.image
    eye = deit if image is not None and image.distillation_token else vit
    text: dict[str, tuple[str, NameTable]] = {
        "gpt2": ("decoder.transformer.", {**gpt2.weights, **gpt2.cross}),
        "bert": ("decoder.bert.", {**bert.weights, **bert.cross}),
        "trocr": (
            "decoder.model.",
            {"decoder.embed_tokens.weight": "decoder.embed.tokens.weight", **bart.stack_weights("decoder")},
        ),
    }
    prefix, table = text[decoder_type(config)]
    return {
        **prefixed("encoder.", eye.weights),
        "encoder.pooler.dense.*": zeros("encoder.blocks.0.attn.out.*"),  # expected, but no output uses it
        "enc_to_dec_proj.*": "memory.project.*",
        **prefixed(prefix, table, stack="decoder"),
    }


def language(config: TransformerConfig) -> NameTable:
    if decoder_type(config) == "bert":
        return prefixed("decoder.", bert.heads["language"].table(config))
    name = "lm_head" if decoder_type(config) == "gpt2" else "output_projection"
    return {f"decoder.{name}.weight": "head.out.weight"}


heads = {"language": TransformersHead("VisionEncoderDecoderModel", language)}


def resembles(config: TransformerConfig) -> bool:
    is_bert = config.head_activation is not None
    return config.image is not None and config.cross and (not is_bert or config.num_segments > 0)


def describe(config: TransformerConfig) -> dict[str, Any]:
    kind = decoder_type(config)
    said = {"gpt2": gpt2.describe, "bert": bert.describe, "trocr": described_trocr}[kind](config)
    is_deit = config.image is not None and config.image.distillation_token
    image = {"model_type": "deit" if is_deit else "vit", **vit.describe(TransformerConfig(**image_side(config)))}
    joined: dict[str, Any] = {
        "is_decoder": True,
        "add_cross_attention": True,
        "tie_word_embeddings": config.tie_embeddings,
    }
    if kind == "trocr" and config.memory_project == "none" and config.encoder is not None:
        joined["cross_attention_hidden_size"] = config.encoder.d_model
    return {
        "encoder": image,
        "decoder": {"model_type": kind, **said, **joined},
        "is_encoder_decoder": True,
        "tie_word_embeddings": False,  # the decoder's own key says whether its embeddings are tied
    }


def image_side(config: TransformerConfig) -> dict[str, Any]:
    return {"image": config.image, "encoder": config.encoder, "head": "none"}


def described_trocr(config: TransformerConfig) -> dict[str, Any]:
    stack = config.last_stack
    return {
        "vocab_size": config.vocab_size,
        "d_model": stack.d_model,
        "decoder_layers": stack.num_layers,
        "decoder_attention_heads": stack.num_heads,
        "decoder_ffn_dim": stack.d_ff,
        "max_position_embeddings": stack.max_len,
        "activation_function": activation_name(stack.activation),
        "use_learned_position_embeddings": stack.positions == "learned",
        "layernorm_embedding": config.embed_norm,
        "scale_embedding": config.scale_embeddings,
        "pad_token_id": config.pad_token_id,
        "dropout": stack.dropout,
        "attention_dropout": stack.attention_dropout,
        "activation_dropout": stack.ffn_dropout,
    }
