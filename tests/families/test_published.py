"""The `config.json` of published checkpoints, copied from the hub: every key is read, and the model has the same number
of parameters as in transformers. Nothing is downloaded, and no memory is allocated for weights.
"""

import json
from typing import Any

import pytest
import torch
import transformers

import glassformer as gf
from glassformer.checkpoints.read_layout import layout_of

BERT = {
    "attention_probs_dropout_prob": 0.1, "gradient_checkpointing": False, "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072,
    "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "model_type": "bert", "num_attention_heads": 12,
    "num_hidden_layers": 12, "pad_token_id": 0, "position_embedding_type": "absolute", "transformers_version": "4.6.0",
    "type_vocab_size": 2, "use_cache": True, "vocab_size": 30522,
}  # fmt: skip
LLAMA = {
    "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
    "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 11008, "max_position_embeddings": 4096,
    "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
    "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 10000.0,
    "tie_word_embeddings": False, "torch_dtype": "float16", "transformers_version": "4.31.0", "use_cache": True,
    "vocab_size": 32000, "_name_or_path": "meta-llama/Llama-2-7b-hf", "architectures": ["LlamaForCausalLM"],
}  # fmt: skip
T5 = {
    "architectures": ["T5ForConditionalGeneration"], "d_ff": 2048, "d_kv": 64, "d_model": 512,
    "decoder_start_token_id": 0, "dropout_rate": 0.1, "eos_token_id": 1, "feed_forward_proj": "relu",
    "initializer_factor": 1.0, "is_encoder_decoder": True, "layer_norm_epsilon": 1e-06, "model_type": "t5",
    "n_positions": 512, "num_decoder_layers": 6, "num_heads": 8, "num_layers": 6, "output_past": True,
    "pad_token_id": 0, "relative_attention_max_distance": 128, "relative_attention_num_buckets": 32,
    "task_specific_params": {"summarization": {"early_stopping": True, "num_beams": 4, "prefix": "summarize: "}},
    "transformers_version": "4.27.0.dev0", "use_cache": True, "vocab_size": 32128,
}  # fmt: skip
BART = {
    "activation_dropout": 0.1, "activation_function": "gelu", "add_bias_logits": False, "add_final_layer_norm": False,
    "architectures": ["BartForConditionalGeneration"], "attention_dropout": 0.1, "bos_token_id": 0,
    "classif_dropout": 0.1, "classifier_dropout": 0.0, "d_model": 768, "decoder_attention_heads": 12,
    "decoder_ffn_dim": 3072, "decoder_layerdrop": 0.0, "decoder_layers": 6, "decoder_start_token_id": 2,
    "dropout": 0.1, "early_stopping": True, "encoder_attention_heads": 12, "encoder_ffn_dim": 3072,
    "encoder_layerdrop": 0.0, "encoder_layers": 6, "eos_token_id": 2, "forced_bos_token_id": 0,
    "forced_eos_token_id": 2, "gradient_checkpointing": False,
    "id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}, "init_std": 0.02, "is_encoder_decoder": True,
    "label2id": {"LABEL_0": 0, "LABEL_1": 1, "LABEL_2": 2}, "max_position_embeddings": 1024, "model_type": "bart",
    "no_repeat_ngram_size": 3, "normalize_before": False, "normalize_embedding": True, "num_beams": 4,
    "num_hidden_layers": 6, "pad_token_id": 1, "scale_embedding": False, "task_specific_params": {},
    "torch_dtype": "float32", "transformers_version": "4.12.0.dev0", "use_cache": True, "vocab_size": 50265,
}  # fmt: skip
VIT = {
    "architectures": ["ViTForImageClassification"], "attention_probs_dropout_prob": 0.0, "encoder_stride": 16,
    "hidden_act": "gelu", "hidden_dropout_prob": 0.0, "hidden_size": 768,
    "id2label": {str(i): f"class {i}" for i in range(1000)}, "image_size": 224, "initializer_range": 0.02,
    "intermediate_size": 3072, "label2id": {f"class {i}": i for i in range(1000)}, "layer_norm_eps": 1e-12,
    "model_type": "vit", "num_attention_heads": 12, "num_channels": 3, "num_hidden_layers": 12, "patch_size": 16,
    "qkv_bias": True, "transformers_version": "4.13.0.dev0",
}  # fmt: skip


def without(values: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in keys}


PUBLISHED: dict[str, dict[str, Any]] = {
    "bert-base-uncased": {**BERT, "architectures": ["BertForMaskedLM"]},
    "bert-base-multilingual-cased": {
        **BERT, "architectures": ["BertForMaskedLM"], "directionality": "bidi", "pooler_fc_size": 768,
        "pooler_num_attention_heads": 12, "pooler_num_fc_layers": 3, "pooler_size_per_head": 128,
        "pooler_type": "first_token_transform", "vocab_size": 119547,
    },
    "roberta-base": {
        **BERT, "architectures": ["RobertaForMaskedLM"], "model_type": "roberta", "bos_token_id": 0, "eos_token_id": 2,
        "layer_norm_eps": 1e-05, "max_position_embeddings": 514, "pad_token_id": 1, "type_vocab_size": 1,
        "vocab_size": 50265,
    },
    "xlm-roberta-base": {
        **BERT, "architectures": ["XLMRobertaForMaskedLM"], "model_type": "xlm-roberta", "bos_token_id": 0,
        "eos_token_id": 2, "layer_norm_eps": 1e-05, "max_position_embeddings": 514, "output_past": True,
        "pad_token_id": 1, "type_vocab_size": 1, "vocab_size": 250002,
    },
    "distilbert-base-uncased": {
        "activation": "gelu", "architectures": ["DistilBertForMaskedLM"], "attention_dropout": 0.1, "dim": 768,
        "dropout": 0.1, "hidden_dim": 3072, "initializer_range": 0.02, "max_position_embeddings": 512,
        "model_type": "distilbert", "n_heads": 12, "n_layers": 6, "pad_token_id": 0, "qa_dropout": 0.1,
        "seq_classif_dropout": 0.2, "sinusoidal_pos_embds": False, "tie_weights_": True,
        "transformers_version": "4.10.0.dev0", "vocab_size": 30522,
    },
    "albert-base-v2": {
        "architectures": ["AlbertForMaskedLM"], "attention_probs_dropout_prob": 0, "bos_token_id": 2,
        "classifier_dropout_prob": 0.1, "down_scale_factor": 1, "embedding_size": 128, "eos_token_id": 3,
        "gap_size": 0, "hidden_act": "gelu_new", "hidden_dropout_prob": 0, "hidden_size": 768,
        "initializer_range": 0.02, "inner_group_num": 1, "intermediate_size": 3072, "layer_norm_eps": 1e-12,
        "max_position_embeddings": 512, "model_type": "albert", "net_structure_type": 0, "num_attention_heads": 12,
        "num_hidden_groups": 1, "num_hidden_layers": 12, "num_memory_blocks": 0, "pad_token_id": 0,
        "type_vocab_size": 2, "vocab_size": 30000,
    },
    "electra-small-discriminator": {
        **BERT, "architectures": ["ElectraForPreTraining"], "model_type": "electra", "embedding_size": 128,
        "hidden_size": 256, "intermediate_size": 1024, "num_attention_heads": 4, "summary_activation": "gelu",
        "summary_last_dropout": 0.1, "summary_type": "first", "summary_use_proj": True,
    },
    "ModernBERT-base": {
        "architectures": ["ModernBertForMaskedLM"], "attention_bias": False, "attention_dropout": 0.0,
        "bos_token_id": 50281, "classifier_activation": "gelu", "classifier_bias": False, "classifier_dropout": 0.0,
        "classifier_pooling": "mean", "cls_token_id": 50281, "decoder_bias": True, "deterministic_flash_attn": False,
        "embedding_dropout": 0.0, "eos_token_id": 50282, "global_attn_every_n_layers": 3,
        "global_rope_theta": 160000.0, "gradient_checkpointing": False, "hidden_activation": "gelu",
        "hidden_size": 768, "initializer_cutoff_factor": 2.0, "initializer_range": 0.02, "intermediate_size": 1152,
        "layer_norm_eps": 1e-05, "local_attention": 128, "local_rope_theta": 10000.0,
        "max_position_embeddings": 8192, "mlp_bias": False, "mlp_dropout": 0.0, "model_type": "modernbert",
        "norm_bias": False, "norm_eps": 1e-05, "num_attention_heads": 12, "num_hidden_layers": 22,
        "pad_token_id": 50283, "position_embedding_type": "absolute", "sep_token_id": 50282,
        "tie_word_embeddings": True, "torch_dtype": "float32", "transformers_version": "4.47.0.dev0",
        "vocab_size": 50368,
    },
    "vit-base-patch16-224": VIT,
    "vit-base-patch16-224-in21k": {**without(VIT, "id2label", "label2id"), "architectures": ["ViTModel"]},
    "deit-base-distilled-patch16-224": {
        **VIT, "model_type": "deit", "architectures": ["DeiTForImageClassificationWithTeacher"],
    },
    "gpt2": {
        "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
        "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12,
        "n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": None, "summary_first_dropout": 0.1,
        "summary_proj_to_labels": True, "summary_type": "cls_index", "summary_use_proj": True,
        "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}, "vocab_size": 50257,
    },
    "pythia-70m": {
        "architectures": ["GPTNeoXForCausalLM"], "bos_token_id": 0, "eos_token_id": 0, "hidden_act": "gelu",
        "hidden_size": 512, "initializer_range": 0.02, "intermediate_size": 2048, "layer_norm_eps": 1e-05,
        "max_position_embeddings": 2048, "model_type": "gpt_neox", "num_attention_heads": 8, "num_hidden_layers": 6,
        "rotary_emb_base": 10000, "rotary_pct": 0.25, "tie_word_embeddings": False, "torch_dtype": "float16",
        "transformers_version": "4.24.0", "use_cache": True, "use_parallel_residual": True, "vocab_size": 50304,
    },
    "Llama-2-7b": LLAMA,
    "Llama-3.1-8B-Instruct": {
        **LLAMA, "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009], "intermediate_size": 14336,
        "max_position_embeddings": 131072, "mlp_bias": False, "num_key_value_heads": 8, "rope_theta": 500000.0,
        "rope_scaling": {
            "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
            "rope_type": "llama3",
        },
        "torch_dtype": "bfloat16", "vocab_size": 128256,
    },
    "Llama-3.2-1B": {
        **LLAMA, "bos_token_id": 128000, "eos_token_id": 128001, "head_dim": 64, "hidden_size": 2048,
        "intermediate_size": 8192, "max_position_embeddings": 131072, "mlp_bias": False, "num_hidden_layers": 16,
        "num_key_value_heads": 8, "rope_theta": 500000.0, "tie_word_embeddings": True, "vocab_size": 128256,
        "rope_scaling": {
            "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
            "rope_type": "llama3",
        },
    },
    "Mistral-7B-v0.1": {
        **without(LLAMA, "attention_bias", "pretraining_tp", "rope_scaling"), "architectures": ["MistralForCausalLM"],
        "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mistral",
        "num_key_value_heads": 8, "sliding_window": 4096,
    },
    "Qwen2.5-0.5B": {
        **without(LLAMA, "attention_bias", "pretraining_tp", "rope_scaling"), "architectures": ["Qwen2ForCausalLM"],
        "bos_token_id": 151643, "eos_token_id": 151643, "hidden_size": 896, "intermediate_size": 4864,
        "max_position_embeddings": 32768, "max_window_layers": 24, "model_type": "qwen2", "num_attention_heads": 14,
        "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
        "sliding_window": 32768, "tie_word_embeddings": True, "use_mrope": False, "use_sliding_window": False,
        "vocab_size": 151936,
    },
    "Qwen3-0.6B": {
        **without(LLAMA, "pretraining_tp"), "architectures": ["Qwen3ForCausalLM"], "bos_token_id": 151643,
        "eos_token_id": 151645, "head_dim": 128, "hidden_size": 1024, "intermediate_size": 3072,
        "max_position_embeddings": 40960, "max_window_layers": 28, "model_type": "qwen3", "num_attention_heads": 16,
        "num_hidden_layers": 28, "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_theta": 1000000,
        "sliding_window": None, "tie_word_embeddings": True, "use_sliding_window": False, "vocab_size": 151936,
    },
    "gemma-2b": {
        **without(LLAMA, "pretraining_tp", "tie_word_embeddings"), "architectures": ["GemmaForCausalLM"],
        "bos_token_id": 2, "eos_token_id": 1, "head_dim": 256, "hidden_act": "gelu",
        "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2048, "intermediate_size": 16384,
        "max_position_embeddings": 8192, "model_type": "gemma", "num_attention_heads": 8, "num_hidden_layers": 18,
        "num_key_value_heads": 1, "pad_token_id": 0, "rms_norm_eps": 1e-06, "vocab_size": 256000,
    },
    "gemma-2-2b": {
        **without(LLAMA, "pretraining_tp", "tie_word_embeddings", "rope_scaling"),
        "architectures": ["Gemma2ForCausalLM"], "attn_logit_softcapping": 50.0, "bos_token_id": 2,
        "cache_implementation": "hybrid", "eos_token_id": 1, "final_logit_softcapping": 30.0, "head_dim": 256,
        "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2304,
        "intermediate_size": 9216, "max_position_embeddings": 8192, "model_type": "gemma2", "num_attention_heads": 8,
        "num_hidden_layers": 26, "num_key_value_heads": 4, "pad_token_id": 0, "query_pre_attn_scalar": 256,
        "rms_norm_eps": 1e-06, "sliding_window": 4096, "vocab_size": 256000,
    },
    "gemma-3-1b-it": {
        **without(LLAMA, "pretraining_tp", "tie_word_embeddings", "hidden_act"),
        "architectures": ["Gemma3ForCausalLM"], "attn_logit_softcapping": None, "bos_token_id": 2,
        "cache_implementation": "hybrid", "eos_token_id": [1, 106], "final_logit_softcapping": None, "head_dim": 256,
        "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152, "intermediate_size": 6912,
        "max_position_embeddings": 32768, "model_type": "gemma3_text", "num_attention_heads": 4,
        "num_hidden_layers": 26, "num_key_value_heads": 1, "pad_token_id": 0, "query_pre_attn_scalar": 256,
        "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000, "rope_theta": 1000000, "sliding_window": 512,
        "sliding_window_pattern": 6, "vocab_size": 262144,
    },
    "falcon-7b": {
        "alibi": False, "apply_residual_connection_post_layernorm": False, "architectures": ["FalconForCausalLM"],
        "attention_dropout": 0.0, "auto_map": {"AutoConfig": "configuration_falcon.FalconConfig"}, "bias": False,
        "bos_token_id": 11, "eos_token_id": 11, "hidden_dropout": 0.0, "hidden_size": 4544,
        "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "falcon", "multi_query": True,
        "new_decoder_architecture": False, "num_attention_heads": 71, "num_hidden_layers": 32, "parallel_attn": True,
        "torch_dtype": "bfloat16", "transformers_version": "4.27.4", "use_cache": True, "vocab_size": 65024,
    },
    "falcon-40b": {
        "alibi": False, "apply_residual_connection_post_layernorm": False, "architectures": ["FalconForCausalLM"],
        "attention_dropout": 0.0, "bias": False, "bos_token_id": 11, "eos_token_id": 11, "hidden_dropout": 0.0,
        "hidden_size": 8192, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "falcon",
        "new_decoder_architecture": True, "num_attention_heads": 128, "num_hidden_layers": 60, "num_kv_heads": 8,
        "parallel_attn": True, "torch_dtype": "bfloat16", "use_cache": True, "vocab_size": 65024,
    },
    "Phi-3-mini-128k-instruct": {
        **without(LLAMA, "pretraining_tp"), "architectures": ["Phi3ForCausalLM"],
        "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"}, "embd_pdrop": 0.0, "eos_token_id": 32000,
        "hidden_size": 3072, "intermediate_size": 8192, "max_position_embeddings": 131072, "model_type": "phi3",
        "original_max_position_embeddings": 4096, "pad_token_id": 32000, "resid_pdrop": 0.0, "sliding_window": 262144,
        "rope_scaling": {"long_factor": [1.5] * 48, "short_factor": [1.0] * 48, "type": "longrope"},
        "vocab_size": 32064,
    },
    "t5-small": T5,
    "flan-t5-small": {
        **without(T5, "task_specific_params"), "d_ff": 1024, "feed_forward_proj": "gated-gelu", "num_heads": 6,
        "num_layers": 8, "num_decoder_layers": 8, "tie_word_embeddings": False, "is_gated_act": True,
        "dense_act_fn": "gelu_new",
    },
    "mt5-small": {
        **without(T5, "task_specific_params", "n_positions", "output_past"),
        "architectures": ["MT5ForConditionalGeneration"], "d_ff": 1024, "feed_forward_proj": "gated-gelu",
        "model_type": "mt5", "num_heads": 6, "num_layers": 8, "num_decoder_layers": 8, "tie_word_embeddings": False,
        "tokenizer_class": "T5Tokenizer", "vocab_size": 250112,
    },
    "bart-base": BART,
    "mbart-large-50-many-to-many-mmt": {
        **without(BART, "id2label", "label2id", "no_repeat_ngram_size", "forced_bos_token_id"),
        "_name_or_path": "/home/suraj/projects/mbart-50/hf_models/mbart-50-large", "activation_function": "relu",
        "add_final_layer_norm": True, "architectures": ["MBartForConditionalGeneration"], "d_model": 1024,
        "decoder_attention_heads": 16, "decoder_ffn_dim": 4096, "decoder_layers": 12, "encoder_attention_heads": 16,
        "encoder_ffn_dim": 4096, "encoder_layers": 12, "max_length": 200, "model_type": "mbart",
        "normalize_before": True, "num_beams": 5, "num_hidden_layers": 12, "output_past": True,
        "scale_embedding": True, "static_position_embeddings": False, "tokenizer_class": "MBart50Tokenizer",
        "vocab_size": 250054,
    },
    "opus-mt-en-de": {
        **without(BART, "id2label", "label2id", "no_repeat_ngram_size", "forced_bos_token_id", "early_stopping"),
        "activation_function": "swish", "architectures": ["MarianMTModel"], "bad_words_ids": [[58100]],
        "d_model": 512, "decoder_attention_heads": 8, "decoder_ffn_dim": 2048, "decoder_start_token_id": 58100,
        "decoder_vocab_size": 58101, "encoder_attention_heads": 8, "encoder_ffn_dim": 2048, "eos_token_id": 0,
        "extra_pos_embeddings": 58101, "force_bos_token_to_be_generated": False, "forced_eos_token_id": 0,
        "max_length": 512, "max_position_embeddings": 512, "model_type": "marian", "normalize_embedding": False,
        "num_beams": 6, "pad_token_id": 58100, "scale_embedding": True, "share_encoder_decoder_embeddings": True,
        "static_position_embeddings": True, "vocab_size": 58101,
    },
    "m2m100_418M": {
        **without(BART, "id2label", "label2id", "no_repeat_ngram_size", "forced_bos_token_id"),
        "activation_function": "relu", "architectures": ["M2M100ForConditionalGeneration"], "d_model": 1024,
        "decoder_attention_heads": 16, "decoder_ffn_dim": 4096, "decoder_layers": 12, "encoder_attention_heads": 16,
        "encoder_ffn_dim": 4096, "encoder_layers": 12, "max_length": 200, "model_type": "m2m_100", "num_beams": 5,
        "num_hidden_layers": 12, "scale_embedding": True, "vocab_size": 128112,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_its_config_is_understood_and_its_size_is_right(name: str) -> None:
    values = PUBLISHED[name]
    with torch.device("meta"):
        ours = gf.Transformer(layout_of(values, name=name).config)
    config = transformers.AutoConfig.for_model(**json.loads(json.dumps(values)))
    architecture = {"ElectraForPreTraining": "ElectraModel"}.get(values["architectures"][0], values["architectures"][0])
    with torch.device("meta"):
        theirs = getattr(transformers, architecture)(config)
    theirs.tie_weights()
    # Not trained in transformers: sinusoids stored as parameters, the logits' bias as a buffer.
    fixed = sum(p.numel() for n, p in theirs.named_parameters() if "embed_positions" in n and not p.requires_grad)
    bias = ours.config.output_vocab_size if hasattr(theirs, "final_logits_bias") else 0
    untied = ours.head.out.weight.numel() if values.get("tie_word_embeddings") is False and "t5" in name else 0
    count = sum(parameter.numel() for parameter in ours.parameters())
    assert count - bias - untied == sum(parameter.numel() for parameter in theirs.parameters()) - fixed
