"""Tiny checkpoints of every family: the heads' class names in transformers, and configs that really differ.

A sample is a `transformers` config and the length of the longest test row. Sizes are small, and different wherever
possible, so that a swapped axis or a forgotten field shows. `reference.py` turns samples into checkpoints.
"""

from dataclasses import dataclass, field
from typing import Any

# The classes of transformers for each family, by our kind of head. The registry must agree.
HEADS = {
    "language": "ForMaskedLM",
    "class": "ForSequenceClassification",
    "token": "ForTokenClassification",
    "span": "ForQuestionAnswering",
}


def heads(prefix: str, base: str = "none", *without: str, **other: str) -> dict[str, str]:
    named = {base: f"{prefix}Model"} | {kind: prefix + end for kind, end in HEADS.items() if kind not in without}
    return named | other


def decoder_heads(prefix: str, *without: str, **other: str) -> dict[str, str]:
    return heads(prefix, "none", *without, **{"language": f"{prefix}ForCausalLM"} | other)


def seq2seq_heads(prefix: str, *without: str, **other: str) -> dict[str, str]:
    return heads(prefix, "none", *without, **{"language": f"{prefix}ForConditionalGeneration"} | other)


ARCHITECTURES: dict[str, dict[str, str]] = {
    "bert": heads("Bert", "pool"),
    "roberta": heads("Roberta", "pool"),
    "xlm-roberta": heads("XLMRoberta", "pool"),
    "distilbert": heads("DistilBert"),
    "albert": heads("Albert", "pool"),
    "electra": heads("Electra"),
    "modernbert": heads("ModernBert"),
    "clip_text_model": {"pool": "CLIPTextModel", "pool_projected": "CLIPTextModelWithProjection"},
    "clip_vision_model": {"pool": "CLIPVisionModel", "pool_projected": "CLIPVisionModelWithProjection"},
    "vit": {"pool": "ViTModel", "class": "ViTForImageClassification"},
    "deit": {
        "pool": "DeiTModel",
        "class": "DeiTForImageClassification",
        "class_distilled": "DeiTForImageClassificationWithTeacher",
    },
    "vision-encoder-decoder": {"language": "VisionEncoderDecoderModel"},
    "blip": {"language": "BlipForConditionalGeneration"},
    "git": {"none": "GitModel", "language": "GitForCausalLM"},
    "patchtst": {"none": "PatchTSTModel", "forecast": "PatchTSTForPrediction"},
    "gpt2": heads("GPT2", language="GPT2LMHeadModel"),
    "gpt_neox": decoder_heads("GPTNeoX"),
    "llama": decoder_heads("Llama"),
    "mistral": decoder_heads("Mistral"),
    "qwen2": decoder_heads("Qwen2"),
    "qwen3": decoder_heads("Qwen3"),
    "gemma": decoder_heads("Gemma", "span"),
    "gemma2": decoder_heads("Gemma2", "span"),
    "gemma3_text": {
        "none": "Gemma3TextModel",
        "language": "Gemma3ForCausalLM",
        "class": "Gemma3TextForSequenceClassification",
    },
    "falcon": decoder_heads("Falcon"),
    "phi3": decoder_heads("Phi3", "span"),
    "t5": seq2seq_heads("T5", none_encoder="T5EncoderModel"),
    "mt5": seq2seq_heads("MT5", none_encoder="MT5EncoderModel"),
    "bart": seq2seq_heads("Bart", "token"),
    "mbart": seq2seq_heads("MBart", "token"),
    "marian": {"none": "MarianModel", "language": "MarianMTModel"},
    "m2m_100": {"none": "M2M100Model", "language": "M2M100ForConditionalGeneration"},
}

ENCODERS = ("bert", "roberta", "xlm-roberta", "distilbert", "albert", "electra", "modernbert")
VISION = ("vit", "deit", "clip_vision_model")
POOLED_DECODERS = ("clip_text_model",)  # causal, used for one vector per text
CAPTIONERS = ("vision-encoder-decoder", "blip", "git")  # image to caption
SERIES = ("patchtst",)
DECODERS = (
    "gpt2", "gpt_neox", "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "falcon", "phi3",
)  # fmt: skip
SEQ2SEQ = ("t5", "mt5", "bart", "mbart", "marian", "m2m_100")
GENERATES = DECODERS + SEQ2SEQ
ENCODER_ONLY = ("T5ForTokenClassification", "MT5ForTokenClassification", "T5EncoderModel", "MT5EncoderModel")


@dataclass(frozen=True)
class Sample:
    """One config of one family; `length` is the longest test row."""

    model_type: str
    name: str
    config: dict[str, Any] = field(repr=False, hash=False, compare=False)
    length: int = 13

    def __str__(self) -> str:
        return f"{self.model_type}-{self.name}"


LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 3.0}
YARN = {"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "original_max_position_embeddings": 8}

# Settings shared by all configs of a family; a sample adds to them.
COMMON: dict[str, dict[str, Any]] = {
    "bert": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    "roberta": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    "xlm-roberta": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    "distilbert": {"dropout": 0.0, "attention_dropout": 0.0, "qa_dropout": 0.0, "seq_classif_dropout": 0.0},
    "albert": {"classifier_dropout_prob": 0.0},
    "electra": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "summary_last_dropout": 0.0},
    "modernbert": {"pad_token_id": 3, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2},
    "gpt2": {
        "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 1, "eos_token_id": 2,
        "pad_token_id": 3,
    },
    "gpt_neox": {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3},
    "llama": {"pad_token_id": 0},
    "mistral": {"pad_token_id": 0},
    "qwen2": {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3},
    "qwen3": {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3},
    "gemma": {},
    "gemma2": {},
    "gemma3_text": {},
    "falcon": {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3},
    "phi3": {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3},
    "t5": {"dropout_rate": 0.0, "decoder_start_token_id": 0},
    "mt5": {"dropout_rate": 0.0},
    "bart": {"dropout": 0.0},
    "mbart": {"dropout": 0.0, "decoder_start_token_id": 2},
    "marian": {"dropout": 0.0, "eos_token_id": 0},
    "m2m_100": {"dropout": 0.0, "attention_dropout": 0.0, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0},
    "clip_text_model": {"bos_token_id": 1, "eos_token_id": 5, "pad_token_id": 3},
    "clip_vision_model": {},
    "vit": {},
    "deit": {},
    "vision-encoder-decoder": {"decoder_start_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
    "blip": {},
    "git": {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
    "patchtst": {"norm_type": "layernorm", "pooling_type": None},
}  # fmt: skip


def bert(vocab: int, width: int, layers: int, heads: int, ffn: int, positions: int, **other: Any) -> dict[str, Any]:
    sizes = {"vocab_size": vocab, "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}
    return sizes | {"intermediate_size": ffn, "max_position_embeddings": positions} | other


def grouped(vocab: int, width: int, layers: int, heads: int, kv: int, ffn: int, **other: Any) -> dict[str, Any]:
    return bert(vocab, width, layers, heads, ffn, 64, num_key_value_heads=kv) | other


def image(size: int, patch: int, width: int, layers: int, heads: int, ffn: int, **other: Any) -> dict[str, Any]:
    sizes = {"image_size": size, "patch_size": patch, "hidden_size": width, "num_hidden_layers": layers}
    return sizes | {"num_attention_heads": heads, "intermediate_size": ffn} | other


def series(length: int, patch: int, channels: int, width: int, layers: int, heads: int, **other: Any) -> dict[str, Any]:
    sizes = {"context_length": length, "patch_length": patch, "num_input_channels": channels, "d_model": width}
    return sizes | {"num_hidden_layers": layers, "num_attention_heads": heads} | other


def t5(vocab: int, width: int, key: int, ffn: int, layers: tuple[int, int], heads: int, **other: Any) -> dict[str, Any]:
    sizes = {"vocab_size": vocab, "d_model": width, "d_kv": key, "d_ff": ffn, "num_heads": heads}
    return sizes | {"num_layers": layers[0], "num_decoder_layers": layers[1]} | other


def bart(
    vocab: int, width: int, layers: tuple[int, int], heads: tuple[int, int], ffn: tuple[int, int], **other: Any
) -> dict[str, Any]:
    sizes: dict[str, Any] = {"vocab_size": vocab, "d_model": width, "max_position_embeddings": 41}
    for side, stack in enumerate(("encoder", "decoder")):
        sizes[f"{stack}_layers"] = layers[side]
        sizes[f"{stack}_attention_heads"] = heads[side]
        sizes[f"{stack}_ffn_dim"] = ffn[side]
    return sizes | other


def falcon(vocab: int, width: int, layers: int, heads: int, **other: Any) -> dict[str, Any]:
    sizes = {"vocab_size": vocab, "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}
    return sizes | {"max_position_embeddings": 64, "alibi": False} | other


def longrope(half: int, original: int) -> dict[str, Any]:
    """Factors for the `half` rotary planes of a head; beyond `original` tokens the long ones apply."""
    return {
        "rope_type": "longrope",
        "rope_theta": 900.0,
        "original_max_position_embeddings": original,
        "short_factor": [1.0 + i / 10 for i in range(half)],
        "long_factor": [1.5 + i / 2 for i in range(half)],
    }


def joined(encoder: str, decoder: str, image: dict[str, Any], text: dict[str, Any]) -> dict[str, Any]:
    tokens = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    return {
        "encoder": {"model_type": encoder, **image},
        "decoder": {"model_type": decoder, "is_decoder": True, "add_cross_attention": True} | tokens | text,
    }


def gpt2(vocab: int, width: int, layers: int, heads: int, positions: int, **other: Any) -> dict[str, Any]:
    return {"vocab_size": vocab, "n_embd": width, "n_layer": layers, "n_head": heads, "n_positions": positions, **other}


def trocr(vocab: int, width: int, layers: int, heads: int, ffn: int, positions: int, **other: Any) -> dict[str, Any]:
    sizes = {"vocab_size": vocab, "d_model": width, "decoder_layers": layers, "decoder_attention_heads": heads}
    return sizes | {"decoder_ffn_dim": ffn, "max_position_embeddings": positions} | other


def blip(vision: dict[str, Any], text: dict[str, Any]) -> dict[str, Any]:
    tokens = {"bos_token_id": 1, "eos_token_id": 3, "sep_token_id": 2, "pad_token_id": 0}
    return {"vision_config": vision, "text_config": {"encoder_hidden_size": vision["hidden_size"]} | tokens | text}


CONFIGS: dict[str, dict[str, dict[str, Any]]] = {
    "vision-encoder-decoder": {
        "gpt2": joined("vit", "gpt2", image(12, 4, 32, 3, 4, 37), gpt2(99, 32, 2, 4, 41)),
        "gpt2_projected": joined(
            "vit", "gpt2", image(15, 5, 24, 2, 3, 53, num_channels=1, hidden_act="relu", qkv_bias=False),
            gpt2(97, 30, 3, 5, 43, n_inner=41, activation_function="relu", layer_norm_epsilon=1e-3),
        ),
        "deit_gpt2_untied": joined(
            "deit", "gpt2", image(14, 2, 24, 4, 2, 41, layer_norm_eps=1e-3),
            gpt2(101, 24, 2, 6, 47, scale_attn_weights=False, tie_word_embeddings=False),
        ),
        "bert": joined("vit", "bert", image(12, 4, 32, 3, 4, 37), bert(99, 32, 2, 4, 43, 41)),
        "bert_projected": joined(
            "vit", "bert", image(15, 5, 24, 2, 3, 53, num_channels=1),
            bert(97, 30, 3, 5, 41, 43, hidden_act="relu", type_vocab_size=3, layer_norm_eps=1e-3),
        ),
        "deit_bert_untied": joined(
            "deit", "bert", image(14, 2, 24, 4, 2, 41, pooler_act="relu"),
            bert(101, 28, 2, 7, 59, 47, hidden_act="gelu_new", tie_word_embeddings=False),
        ),
        "trocr": joined("deit", "trocr", image(12, 4, 32, 3, 4, 37), trocr(99, 32, 2, 4, 43, 41)),
        "trocr_wide": joined(
            "vit", "trocr", image(15, 5, 24, 2, 3, 53), trocr(
                97, 30, 3, 5, 41, 43, cross_attention_hidden_size=24, use_learned_position_embeddings=False,
                layernorm_embedding=False, scale_embedding=True, activation_function="relu",
            ),
        ),
        "trocr_projected_untied": joined(
            "vit", "trocr", image(14, 2, 24, 4, 2, 41),
            trocr(101, 28, 2, 7, 59, 47, tie_word_embeddings=False, scale_embedding=True),
        ),
    },
    "blip": {
        "plain": blip(image(12, 4, 32, 3, 4, 37), bert(99, 32, 2, 4, 43, 41)),
        "wide": blip(
            image(15, 5, 24, 2, 3, 53, hidden_act="quick_gelu", layer_norm_eps=1e-2),
            bert(97, 30, 3, 5, 41, 43, hidden_act="relu", layer_norm_eps=1e-3),
        ),
        "untied": blip(image(14, 2, 36, 4, 2, 41), bert(101, 28, 2, 7, 59, 47, tie_word_embeddings=False))
        | {"tie_word_embeddings": False},
    },
    "git": {
        "plain": bert(99, 32, 2, 4, 43, 41, vision_config=image(12, 4, 24, 3, 4, 37)),
        "grey": bert(
            97, 30, 3, 5, 41, 43, hidden_act="relu", layer_norm_eps=1e-3,
            vision_config=image(15, 5, 36, 2, 3, 53, num_channels=1, hidden_act="gelu", layer_norm_eps=1e-2),
        ),
        "tied": bert(101, 28, 2, 7, 59, 47, tie_word_embeddings=True, vision_config=image(14, 2, 28, 4, 2, 41)),
    },
    "bert": {
        "plain": bert(99, 32, 3, 4, 37, 41),
        "relu_types": bert(97, 30, 2, 5, 53, 29, hidden_act="relu", type_vocab_size=3, layer_norm_eps=1e-2),
        "tanh_untied": bert(
            101, 24, 4, 2, 41, 31, hidden_act="gelu_new", tie_word_embeddings=False, pad_token_id=7, num_labels=5
        ),
    },
    "roberta": {
        "plain": bert(99, 32, 3, 4, 37, 41, type_vocab_size=1, layer_norm_eps=1e-5),
        "pad5": bert(97, 30, 2, 5, 53, 29, pad_token_id=5, hidden_act="relu", type_vocab_size=3, layer_norm_eps=1e-2),
        "untied": bert(101, 24, 4, 2, 41, 31, tie_word_embeddings=False, hidden_act="gelu_new", num_labels=5),
    },
    "xlm-roberta": {
        "plain": bert(99, 32, 3, 4, 37, 41, type_vocab_size=1, layer_norm_eps=1e-5),
        "pad0": bert(97, 30, 2, 5, 53, 29, pad_token_id=0, bos_token_id=1, hidden_act="relu", type_vocab_size=3),
        "untied": bert(101, 24, 4, 2, 41, 31, tie_word_embeddings=False, hidden_act="silu", num_labels=5),
    },
    "distilbert": {
        "plain": {
            "vocab_size": 99, "dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 37, "max_position_embeddings": 41,
        },
        "relu_sinusoid": {
            "vocab_size": 97, "dim": 30, "n_layers": 2, "n_heads": 5, "hidden_dim": 53, "max_position_embeddings": 29,
            "activation": "relu", "sinusoidal_pos_embds": True,
        },
        "untied": {
            "vocab_size": 101, "dim": 24, "n_layers": 4, "n_heads": 2, "hidden_dim": 41, "max_position_embeddings": 31,
            "tie_word_embeddings": False, "pad_token_id": 7, "num_labels": 5,
        },
    },
    "albert": {
        "narrow": bert(99, 32, 3, 4, 37, 41, embedding_size=19),
        "equal": bert(97, 30, 2, 5, 53, 29, embedding_size=30, hidden_act="relu", type_vocab_size=3),
        "groups": bert(101, 24, 4, 2, 41, 31, embedding_size=17, num_hidden_groups=2, num_labels=5),
        "wide_untied": bert(89, 28, 3, 7, 43, 23, embedding_size=36, num_hidden_groups=3, tie_word_embeddings=False),
    },
    "electra": {
        "narrow": bert(99, 32, 3, 4, 37, 41, embedding_size=19),
        "equal": bert(97, 30, 2, 5, 53, 29, embedding_size=30, hidden_act="relu", type_vocab_size=3),
        "wide": bert(101, 24, 4, 2, 41, 31, embedding_size=29, tie_word_embeddings=False, num_labels=5),
    },
    "modernbert": {
        "plain": bert(99, 32, 4, 4, 37, 64, local_attention=6),
        "biases": bert(
            97, 40, 3, 5, 53, 64, local_attention=4, classifier_pooling="mean", attention_bias=True, mlp_bias=True,
            norm_bias=True, classifier_bias=True, decoder_bias=False, global_attn_every_n_layers=2,
        ),
        "theta": bert(
            101, 24, 4, 2, 41, 64, local_attention=8, hidden_activation="silu", classifier_activation="relu",
            norm_eps=1e-3, tie_word_embeddings=False, num_labels=5,
            rope_parameters={
                "full_attention": {"rope_type": "default", "rope_theta": 500.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
            },
            layer_types=["sliding_attention", "full_attention", "full_attention", "sliding_attention"],
        ),
    },
    "patchtst": {
        "plain": series(30, 7, 3, 32, 3, 4, patch_stride=4, ffn_dim=37, prediction_length=5),
        "post_random": series(
            24, 6, 2, 30, 2, 5, patch_stride=6, ffn_dim=53, pre_norm=False, positional_encoding_type="random",
            activation_function="relu", norm_eps=1e-2,
        ),
        "unscaled": series(21, 5, 1, 24, 4, 2, patch_stride=2, ffn_dim=41, scaling=None, bias=False),
    },
    "vit": {
        "plain": image(12, 4, 32, 3, 4, 37),
        "gray": image(15, 5, 30, 2, 5, 53, num_channels=1, qkv_bias=False, hidden_act="relu", pooler_act="relu"),
        "pooler": image(14, 2, 24, 4, 2, 41, num_channels=2, layer_norm_eps=1e-3, num_labels=5),
    },
    "deit": {
        "plain": image(12, 4, 32, 3, 4, 37),
        "gray": image(15, 5, 30, 2, 5, 53, num_channels=1, qkv_bias=False, hidden_act="relu", pooler_act="relu"),
        "pooler": image(14, 2, 24, 4, 2, 41, num_channels=2, layer_norm_eps=1e-3, num_labels=5),
    },
    "gpt2": {
        "plain": {"vocab_size": 99, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 41},
        "inner": {
            "vocab_size": 97, "n_embd": 30, "n_layer": 2, "n_head": 5, "n_positions": 43, "n_inner": 53,
            "activation_function": "relu",
        },
        "untied": {
            "vocab_size": 101, "n_embd": 24, "n_layer": 4, "n_head": 2, "n_positions": 47, "scale_attn_weights": False,
            "tie_word_embeddings": False, "layer_norm_epsilon": 1e-3, "num_labels": 5,
        },
    },
    "gpt_neox": {
        "parallel": bert(99, 32, 3, 4, 37, 64),
        "serial": bert(97, 40, 2, 5, 53, 64, use_parallel_residual=False, attention_bias=False, hidden_act="relu"),
        "rotary": bert(
            101, 24, 4, 2, 41, 64, tie_word_embeddings=True, hidden_act="gelu_new", layer_norm_eps=1e-3, num_labels=5,
            rope_parameters={"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5},
        ),
        "linear": bert(
            89, 36, 2, 3, 43, 64,
            rope_parameters={
                "rope_type": "linear", "rope_theta": 900.0, "factor": 3.0, "partial_rotary_factor": 1.0,
            },
        ),
    },
    "llama": {
        "plain": grouped(99, 32, 3, 4, 2, 37),
        "llama3_tied": grouped(
            97, 40, 2, 5, 1, 53, tie_word_embeddings=True, rms_norm_eps=1e-3,
            rope_parameters=LLAMA3 | {"original_max_position_embeddings": 16},
        ),
        "linear_biases": grouped(
            101, 24, 4, 6, 3, 41, attention_bias=True, mlp_bias=True, head_dim=10, hidden_act="gelu", num_labels=5,
            rope_parameters={"rope_type": "linear", "rope_theta": 700.0, "factor": 2.5},
        ),
        "dynamic": grouped(
            89, 36, 2, 6, 6, 43, max_position_embeddings=8, attention_bias=True,
            rope_parameters={"rope_type": "dynamic", "rope_theta": 800.0, "factor": 2.0},
        ),
        "yarn": grouped(83, 28, 2, 7, 1, 47, head_dim=12, mlp_bias=True, rope_parameters=YARN),
        "yarn_factors": grouped(
            79, 32, 2, 2, 2, 59,
            rope_parameters=YARN | {"beta_fast": 4.0, "beta_slow": 2.0, "attention_factor": 0.7, "truncate": False},
        ),
    },
    "mistral": {
        "window": grouped(99, 32, 3, 4, 2, 37, sliding_window=5),
        "no_window": grouped(97, 40, 2, 5, 1, 53, sliding_window=None, tie_word_embeddings=True, rms_norm_eps=1e-3),
        "head_dim": grouped(
            101, 24, 4, 6, 3, 41, head_dim=10, sliding_window=7, hidden_act="gelu", num_labels=5,
            rope_parameters={"rope_type": "default", "rope_theta": 300.0},
        ),
    },
    "qwen2": {
        "plain": grouped(99, 32, 3, 4, 2, 37),
        "window": grouped(
            97, 40, 4, 5, 1, 53, use_sliding_window=True, sliding_window=5, max_window_layers=2,
            tie_word_embeddings=True,
        ),
        "yarn": grouped(
            101, 24, 4, 6, 3, 41, hidden_act="gelu", rms_norm_eps=1e-3, rope_parameters=YARN, num_labels=5,
            layer_types=["sliding_attention", "full_attention", "full_attention", "sliding_attention"],
            use_sliding_window=True, sliding_window=4,
        ),
    },
    "qwen3": {
        "plain": grouped(99, 32, 3, 4, 2, 37, head_dim=8),
        "window": grouped(
            97, 40, 4, 5, 1, 53, head_dim=12, use_sliding_window=True, sliding_window=5, max_window_layers=2,
            tie_word_embeddings=True, attention_bias=True,
        ),
        "yarn": grouped(
            101, 24, 2, 6, 3, 41, head_dim=10, rms_norm_eps=1e-3, hidden_act="gelu", rope_parameters=YARN, num_labels=5
        ),
    },
    "gemma": {
        "plain": grouped(99, 32, 3, 4, 2, 37, head_dim=8),
        "multi_query": grouped(97, 40, 2, 5, 1, 53, head_dim=14, rms_norm_eps=1e-1, attention_bias=True),
        "untied": grouped(
            101, 24, 4, 6, 3, 41, head_dim=6, tie_word_embeddings=False, hidden_act="relu", num_labels=5,
            rope_parameters={"rope_type": "default", "rope_theta": 300.0},
        ),
    },
    "gemma2": {
        "caps": grouped(
            99, 32, 4, 4, 2, 37, head_dim=8, sliding_window=5, query_pre_attn_scalar=19,
            attn_logit_softcapping=3.0, final_logit_softcapping=5.0,
        ),
        "no_caps": grouped(
            97, 40, 3, 5, 1, 53, head_dim=12, sliding_window=4, query_pre_attn_scalar=8, attention_bias=True,
            attn_logit_softcapping=None, final_logit_softcapping=None, tie_word_embeddings=False, rms_norm_eps=1e-1,
        ),
        "types": grouped(
            101, 24, 4, 6, 3, 41, head_dim=10, sliding_window=3, query_pre_attn_scalar=24, num_labels=5,
            attn_logit_softcapping=None, final_logit_softcapping=4.0, hidden_activation="gelu",
            layer_types=["full_attention", "full_attention", "sliding_attention", "sliding_attention"],
            rope_parameters={"rope_type": "default", "rope_theta": 300.0},
        ),
    },
    "gemma3_text": {
        "plain": grouped(99, 32, 4, 4, 2, 37, head_dim=8, sliding_window=5, sliding_window_pattern=2),
        "types": grouped(
            97, 40, 3, 5, 1, 53, head_dim=12, sliding_window=4, query_pre_attn_scalar=19, attention_bias=True,
            layer_types=["full_attention", "sliding_attention", "sliding_attention"], rms_norm_eps=1e-1,
            rope_parameters={
                "full_attention": {"rope_type": "linear", "rope_theta": 900.0, "factor": 4.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 70.0},
            },
        ),
        "caps": grouped(
            101, 24, 7, 6, 3, 41, head_dim=10, sliding_window=3, tie_word_embeddings=False, num_labels=5,
            final_logit_softcapping=5.0,
        ),
    },
    "clip_text_model": {
        "plain": bert(99, 32, 3, 4, 37, 24, projection_dim=19),
        "ends_pad": bert(97, 30, 2, 5, 53, 24, projection_dim=23, pad_token_id=5, hidden_act="gelu"),
        "old_end": bert(101, 24, 4, 3, 41, 24, projection_dim=17, eos_token_id=2, layer_norm_eps=1e-2),
    },
    "clip_vision_model": {
        "plain": image(12, 4, 32, 3, 4, 37, projection_dim=19),
        "grey": image(15, 3, 30, 2, 5, 53, projection_dim=23, num_channels=1, hidden_act="gelu"),
        "eps": image(8, 2, 24, 4, 3, 41, projection_dim=17, layer_norm_eps=1e-2),
    },
    "falcon": {
        "7b": falcon(99, 32, 3, 4, multi_query=True, parallel_attn=True),
        "40b": falcon(97, 40, 2, 10, new_decoder_architecture=True, num_kv_heads=2, num_ln_in_parallel_attn=2),
        "11b": falcon(
            101, 24, 4, 6, new_decoder_architecture=True, num_kv_heads=3, num_ln_in_parallel_attn=1, num_labels=5,
            ffn_hidden_size=41, activation="relu", tie_word_embeddings=False, layer_norm_epsilon=1e-3,
        ),
        "1b": falcon(
            89, 36, 2, 6, multi_query=False, parallel_attn=False, bias=True, ffn_hidden_size=43,
            rope_parameters={"rope_type": "default", "rope_theta": 300.0},
        ),
        "serial_multi_query": falcon(83, 28, 2, 7, multi_query=True, parallel_attn=False),
    },
    "phi3": {
        "plain": grouped(99, 32, 3, 4, 2, 37, original_max_position_embeddings=64),
        "partial_window": grouped(
            97, 40, 2, 5, 1, 53, sliding_window=5, tie_word_embeddings=True, rms_norm_eps=1e-3,
            original_max_position_embeddings=64,
            rope_parameters={"rope_type": "default", "rope_theta": 300.0, "partial_rotary_factor": 0.5},
        ),
        "longrope_short": grouped(
            101, 24, 4, 3, 3, 41, original_max_position_embeddings=32, hidden_act="gelu", num_labels=5,
            rope_parameters=longrope(4, 32),
        ),
        "longrope_long": grouped(
            89, 36, 2, 3, 1, 43, original_max_position_embeddings=8,
            rope_parameters=longrope(6, 8),
        ),
    },
    "t5": {
        "relu": t5(99, 32, 8, 37, (3, 3), 4),
        "gated": t5(
            97, 30, 7, 53, (2, 4), 5, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
            relative_attention_num_buckets=8, relative_attention_max_distance=11,
        ),
        "gated_silu": t5(
            101, 24, 10, 41, (4, 2), 3, feed_forward_proj="gated-silu", layer_norm_epsilon=1e-3, num_labels=5,
            relative_attention_num_buckets=12, relative_attention_max_distance=9,
        ),
    },
    "mt5": {
        "gated": t5(99, 32, 8, 37, (3, 3), 4, tie_word_embeddings=False),
        "tied": t5(97, 30, 7, 53, (2, 4), 5, relative_attention_num_buckets=8, relative_attention_max_distance=11),
        "relu": t5(101, 24, 10, 41, (4, 2), 3, feed_forward_proj="relu", layer_norm_epsilon=1e-3, num_labels=5),
    },
    "bart": {
        # normalize_before is in every BART on the hub: transformers ignores it, CTranslate2 needs it.
        "plain": bart(99, 32, (3, 3), (4, 4), (37, 37), normalize_before=False),
        "sides": bart(97, 30, (2, 4), (5, 3), (53, 43), scale_embedding=True, activation_function="relu"),
        "tanh": bart(
            101, 24, (4, 2), (2, 6), (41, 59), activation_function="gelu_new", num_labels=5, forced_bos_token_id=7
        ),
    },
    "mbart": {
        "plain": bart(99, 32, (3, 3), (4, 4), (37, 37), scale_embedding=True, activation_function="relu"),
        "sides": bart(97, 30, (2, 4), (5, 3), (53, 43)),
        "tanh": bart(101, 24, (4, 2), (2, 6), (41, 59), activation_function="gelu_new", num_labels=5),
    },
    "marian": {
        "plain": bart(99, 32, (3, 3), (4, 4), (37, 37), scale_embedding=True, activation_function="silu")
        | {"pad_token_id": 98, "decoder_start_token_id": 98, "decoder_vocab_size": 99},
        "two_vocabularies": bart(97, 30, (2, 4), (5, 3), (53, 43), activation_function="relu")
        | {"pad_token_id": 88, "decoder_start_token_id": 88, "decoder_vocab_size": 89}
        | {"share_encoder_decoder_embeddings": False},
        "untied": bart(101, 24, (4, 2), (2, 6), (41, 59))
        | {"pad_token_id": 82, "decoder_start_token_id": 82, "decoder_vocab_size": 83}
        | {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False},
    },
    "m2m_100": {
        "plain": bart(99, 32, (3, 3), (4, 4), (37, 37)),
        "sides": bart(97, 30, (2, 4), (5, 3), (53, 43), scale_embedding=False, activation_function="gelu"),
        "pad5": bart(101, 24, (4, 2), (2, 6), (41, 59), pad_token_id=5, activation_function="silu"),
    },
}  # fmt: skip

SAMPLES = [
    Sample(model_type, name, COMMON[model_type] | config)
    for model_type, configs in CONFIGS.items()
    for name, config in configs.items()
]

# T5 1.1 and mT5 have a separate language head, though transformers 5 always writes tie_word_embeddings: true. Only the
# weights show it: they contain lm_head.weight besides shared.weight.
OWN_HEAD = ("t5-gated", "mt5-gated")

# Settings from a checkpoint's generation_config.json, which generation must follow.
GENERATION: dict[str, dict[str, Any]] = {
    "gpt2-inner": {"suppress_tokens": [20, 30, 40]},
    "bart-tanh": {"forced_bos_token_id": 7, "no_repeat_ngram_size": 2},
    "mbart-sides": {"forced_bos_token_id": 11},
    "marian-plain": {"bad_words_ids": [[98]]},
    "marian-two_vocabularies": {"bad_words_ids": [[88]], "forced_eos_token_id": 0},
    "marian-untied": {"bad_words_ids": [[82]]},
    "m2m_100-plain": {"bad_words_ids": [[1]], "forced_bos_token_id": 11},
    "m2m_100-sides": {"bad_words_ids": [[1]]},
    "m2m_100-pad5": {"bad_words_ids": [[5]]},
}

# With dynamic scaling the rotations depend on the current length: cached keys were rotated for a shorter text.
NOT_GENERATED = ("llama-dynamic",)
