"""Tiny checkpoints of transformers, with a tokenizer, for every head."""

import json
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "Hello world",
    "오늘은 5월 1일 월요일입니다",
    "how are you today?",
]
SPECIAL = {
    "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "cls_token": "[CLS]",
    "sep_token": "[SEP]", "mask_token": "[MASK]",
}  # fmt: skip
LANGUAGES = {
    "mbart": ["en_XX", "ko_KR", "ro_RO"],
    "m2m_100": ["__en__", "__ko__", "__ro__"],
    "nllb": ["eng_Latn", "kor_Hang"],
}
LABELS = {0: "calm", 1: "glad", 2: "sad"}
CHATML = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37}
BART = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 37, "decoder_ffn_dim": 41, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "decoder_start_token_id": 2, "forced_eos_token_id": None,
}  # fmt: skip


def make_tokenizer(folder: Path, kind: str, extra: list[str], *, vocab_size: int = 340, **settings: Any) -> int:
    """Writes a byte-level tokenizer with the special tokens that this kind of model expects around a text."""
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = [*SPECIAL.values(), *extra]
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(TEXTS * 5, trainer)
    template = {
        "encoder": ("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1"),
        "decoder": ("<s> $A", "<s> $A $B"),
        "both": ("$A </s>", "$A $B </s>"),
    }[kind]
    named = [(token, backend.token_to_id(token)) for token in SPECIAL.values()]
    post = processors.TemplateProcessing(single=template[0], pair=template[1], special_tokens=named)
    backend.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), post])
    backend.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({**SPECIAL, **settings}), encoding="utf-8")
    return int(backend.get_vocab_size())


def make(folder: Path, architecture: str, kind: str, *, extra: list[str] | None = None, **settings: Any) -> Path:
    """A checkpoint of transformers with random weights, and its tokenizer."""
    size = make_tokenizer(folder, kind, extra or [], **settings.pop("tokenizer", {}))
    model_class = getattr(transformers, architecture)
    torch.manual_seed(0)
    model = model_class(model_class.config_class(vocab_size=size, **settings))
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    return folder


def bert(folder: Path, head: str, **settings: Any) -> Path:
    defaults = {**SMALL, "max_position_embeddings": 64, "pad_token_id": 0}
    return make(folder, f"Bert{head}", "encoder", **{**defaults, **settings})


def llama(folder: Path, **settings: Any) -> Path:
    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    extra = ["<|user|>", "<|assistant|>"]
    return make(folder, "LlamaForCausalLM", "decoder", extra=extra, **{**SMALL, **ids, **settings})


def theirs(folder: Path, architecture: str) -> tuple[Any, Any]:
    model = getattr(transformers, architecture).from_pretrained(folder, attn_implementation="eager").eval()
    file = str(folder / "tokenizer.json")
    return model, transformers.PreTrainedTokenizerFast(tokenizer_file=file, **SPECIAL)
