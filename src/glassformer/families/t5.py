"""T5 and mT5 (Raffel et al., 2020; Xue et al., 2021): an encoder-decoder without absolute positions, biases or
attention scaling. Version 1.1 and mT5 have a gated feed-forward and an untied language head."""

from glassformer.config import StackConfig, TransformerConfig
from glassformer.errors import InputError, did_you_mean
from glassformer.families.keys import ACTIVATION, Keys
from glassformer.families.page import TransformersHead
from glassformer.families.table import NameTable

model_types = ("t5", "mt5")
ignored = (
    "encoder.embed_tokens.weight", "decoder.embed_tokens.weight",
    "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",
)  # fmt: skip


reads = {"T5WithLMHeadModel": "language"}  # its name before 2020


def config(hf: Keys) -> TransformerConfig:
    hf.ignore("is_gated_act", "dense_act_fn", "n_positions", "output_past")
    tied, d_model = hf.take("tie_word_embeddings", True), hf.take("d_model")
    scaled = hf.take("scale_decoder_outputs", tied) and hf.values["model_type"] == "t5" and hf.head == "language"
    gate, _, activation = hf.take(
        "feed_forward_proj", "relu" if hf.values["model_type"] == "t5" else "gated-gelu"
    ).rpartition("-")
    if activation not in ACTIVATION or gate not in ("", "gated"):
        known = (*ACTIVATION, *(f"gated-{name}" for name in ACTIVATION))
        raise InputError(f"feed_forward_proj is {gate}-{activation}{did_you_mean(f'{gate}-{activation}', known)}")
    # "gated-gelu" has always meant the tanh form.
    meant = "gelu_tanh" if (gate, activation) == ("gated", "gelu") else ACTIVATION[activation]
    encoder = StackConfig(
        d_model=d_model,
        num_layers=hf.take("num_layers"),
        num_heads=hf.take("num_heads"),
        head_dim=hf.take("d_kv"),
        d_ff=hf.take("d_ff"),
        positions="relative",
        relative_buckets=hf.take("relative_attention_num_buckets", 32),
        relative_max_distance=hf.take("relative_attention_max_distance", 128),
        norm="rms",
        norm_eps=hf.take("layer_norm_epsilon", 1e-6),
        activation=meant,
        gated=gate == "gated",
        attention_scale=1.0,
        qkv_bias=False,
        out_bias=False,
        ffn_bias=False,
        dropout=hf.take("dropout_rate", 0.1),
    )
    whole = {
        "vocab_size": hf.take("vocab_size"),
        "encoder": encoder,
        "decoder": encoder.replace(num_layers=hf.take("num_decoder_layers", encoder.num_layers)),
        "logit_scale": d_model**-0.5 if scaled else 1.0,
        "head_dropout": hf.take("classifier_dropout", 0.0),
    }
    return TransformerConfig(**{**whole, **hf.common()})


def weights(config: TransformerConfig) -> NameTable:
    table = {"shared.weight": "encoder.embed.tokens.weight"}
    for stack, last in (("encoder", 1), ("decoder", 2)):
        theirs, ours = stack + ".block.{i}.layer.", stack + ".blocks.{i}."
        for name, part, layer in (("SelfAttention", "attn", 0), ("EncDecAttention", "cross", 1)):
            if stack == "decoder" or part == "attn":
                table |= {f"{theirs}{layer}.{name}.{p}.weight": f"{ours}{part}.{p}.weight" for p in "qkv"}
                table[f"{theirs}{layer}.{name}.o.weight"] = f"{ours}{part}.out.weight"
                table[f"{theirs}{layer}.layer_norm.weight"] = f"{ours}{part}_norm.weight"
        first = {"wi_0": "gate", "wi_1": "up"} if (config.encoder or config.last_stack).gated else {"wi": "up"}
        for name, part in {**first, "wo": "down"}.items():
            table[f"{theirs}{last}.DenseReluDense.{name}.weight"] = f"{ours}ffn.{part}.weight"
        table[f"{theirs}{last}.layer_norm.weight"] = f"{ours}ffn_norm.weight"
        bias = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        table |= {bias: f"{stack}.position_bias.weight", f"{stack}.final_layer_norm.weight": f"{stack}.norm.weight"}
    return table


def heads_of(name: str) -> dict[str, TransformersHead]:
    dense = {"classification_head.dense.*": "head.project.*", "classification_head.out_proj.*": "head.out.*"}
    judged, alone = {"pooling": "end", "head_activation": "tanh"}, {"decoder": None}
    return {
        "none": TransformersHead(f"{name}Model"),
        "none_encoder": TransformersHead(f"{name}EncoderModel", {}, alone),
        "language": TransformersHead(f"{name}ForConditionalGeneration", {"lm_head.weight": "head.out.weight"}),
        "class": TransformersHead(f"{name}ForSequenceClassification", dense, judged, prefix="transformer."),
        "token": TransformersHead(
            f"{name}ForTokenClassification", {"classifier.*": "head.out.*"}, alone, prefix="transformer."
        ),
        "span": TransformersHead(f"{name}ForQuestionAnswering", {"qa_outputs.*": "head.out.*"}),
    }


heads = {"t5": heads_of("T5"), "mt5": heads_of("MT5")}
