"""The conventions of each family: its special tokens and where they are added to a text.

A family is named by the `tokenizer_class` of `tokenizer_config.json`, or else by the `model_type` of `config.json`.
"""

from collections.abc import Mapping
from typing import Any

import tokenizers
from tokenizers import processors

from glassformer.errors import InputError

JsonObject = Mapping[str, Any]

BERT = "BertTokenizer"
BERT_SPECIAL = {
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}
FAIRSEQ = {
    "bos_token": "<s>",
    "pad_token": "<pad>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "sep_token": "</s>",
    "cls_token": "<s>",
    "mask_token": "<mask>",
}
END_OF_TEXT = "<|endoftext|>"
# Special tokens of a family, used if its files do not name them.
DEFAULT_SPECIAL: dict[str, dict[str, str]] = {
    BERT: BERT_SPECIAL,
    "GPT2Tokenizer": dict.fromkeys(("bos_token", "eos_token", "unk_token"), END_OF_TEXT),
    "GPTNeoXTokenizer": {
        **dict.fromkeys(("bos_token", "eos_token", "unk_token"), END_OF_TEXT),
        "pad_token": "<|padding|>",
    },
    "Qwen2Tokenizer": dict.fromkeys(("eos_token", "pad_token", "unk_token"), END_OF_TEXT),
    "RobertaTokenizer": FAIRSEQ,
    "T5Tokenizer": {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"},
    "AlbertTokenizer": {
        **BERT_SPECIAL,
        "unk_token": "<unk>",
        "pad_token": "<pad>",
        "bos_token": "[CLS]",
        "eos_token": "[SEP]",
    },
    "XLMRobertaTokenizer": FAIRSEQ,
    "MBartTokenizer": FAIRSEQ,
    "MBart50Tokenizer": {name: token for name, token in FAIRSEQ.items() if name != "bos_token"},
    "NllbTokenizer": FAIRSEQ,
    "M2M100Tokenizer": {name: token for name, token in FAIRSEQ.items() if name not in ("cls_token", "mask_token")},
    "MarianTokenizer": {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"},
    "CLIPTokenizer": {
        **dict.fromkeys(("eos_token", "pad_token", "unk_token"), END_OF_TEXT),
        "bos_token": "<|startoftext|>",
    },
    "LlamaTokenizer": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
    "GemmaTokenizer": {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>", "pad_token": "<pad>"},
}
TOKENISES_LIKE = {  # classes that tokenise like another
    "DistilBertTokenizer": BERT,
    "ElectraTokenizer": BERT,
    "MobileBertTokenizer": BERT,
    "ConvBertTokenizer": BERT,
    "BartTokenizer": "RobertaTokenizer",
    "LongformerTokenizer": "RobertaTokenizer",
    "LEDTokenizer": "RobertaTokenizer",
    "CodeLlamaTokenizer": "LlamaTokenizer",
}
MODEL_TYPES = {
    **dict.fromkeys(("bert", "distilbert", "electra", "mobilebert", "convbert"), BERT),
    **dict.fromkeys(("gpt2", "gpt_neo", "gptj", "opt", "phi"), "GPT2Tokenizer"),
    **dict.fromkeys(("qwen2", "qwen2_moe", "qwen3", "qwen3_moe"), "Qwen2Tokenizer"),
    **dict.fromkeys(("roberta", "bart", "longformer", "led"), "RobertaTokenizer"),
    **dict.fromkeys(("clip", "clip_text_model"), "CLIPTokenizer"),
    **dict.fromkeys(("t5", "mt5", "umt5", "switch_transformers"), "T5Tokenizer"),
    **dict.fromkeys(("llama", "mistral", "mixtral", "phi3"), "LlamaTokenizer"),
    **dict.fromkeys(("gemma", "gemma2", "gemma3", "gemma3_text"), "GemmaTokenizer"),
    "gpt_neox": "GPTNeoXTokenizer",
    "albert": "AlbertTokenizer",
    "xlm-roberta": "XLMRobertaTokenizer",
    "mbart": "MBartTokenizer",
    "m2m_100": "M2M100Tokenizer",
    "nllb": "NllbTokenizer",
    "nllb-moe": "NllbTokenizer",
    "marian": "MarianTokenizer",
}
GENERIC = ("PreTrainedTokenizer", "TokenizersBackend", "PythonBackend")  # says nothing about the special tokens


def declared_family(settings: JsonObject, config: JsonObject) -> str | None:
    """The class that `tokenizer_config.json` or `config.json` names."""
    for name in (settings.get("tokenizer_class"), config.get("tokenizer_class")):
        name = str(name or "").removesuffix("Fast")
        if name and name not in GENERIC:
            return TOKENISES_LIKE.get(name, name)
    return None


def tokenizer_family(settings: JsonObject, config: JsonObject) -> str | None:
    """The tokenizer class whose conventions apply: the declared one, or the usual one for the model type."""
    return declared_family(settings, config) or MODEL_TYPES.get(str(config.get("model_type")))


def use_special(settings: dict[str, Any], defaults: Mapping[str, str]) -> dict[str, str]:
    """Adds the family's special tokens unless the folder names its own or sets them to null."""
    for name, token in defaults.items():
        settings.setdefault(name, token)
    return {name: content(settings[name]) for name in defaults if settings[name] is not None}


def content(token: Any) -> str:
    """A token is a string or `{"content": ..., "lstrip": ...}`."""
    return str(token["content"] if isinstance(token, Mapping) else token)


def template(backend: tokenizers.Tokenizer, single: str, pair: str, special: JsonObject) -> processors.PostProcessor:
    names = {"bos": special.get("bos_token"), "end": special.get("eos_token")}
    used = {token for name, token in names.items() if token is not None and f"{{{name}}}" in single + pair}
    return processors.TemplateProcessing(
        single=single.format(**names).split(),
        pair=pair.format(**names).split(),
        special_tokens=numbered_tokens(backend, sorted(used)),
    )


def segments(backend: tokenizers.Tokenizer, special: JsonObject) -> processors.PostProcessor:
    """`[CLS] text [SEP]`, or `[CLS] text [SEP] pair [SEP]`, whose second part is of type 1."""
    begin, end = special["cls_token"], special["sep_token"]
    return processors.TemplateProcessing(
        single=f"{begin}:0 $A:0 {end}:0",
        pair=f"{begin}:0 $A:0 {end}:0 $B:1 {end}:1",
        special_tokens=numbered_tokens(backend, [begin, end]),
    )


def begin_and_end(
    backend: tokenizers.Tokenizer, special: JsonObject, settings: JsonObject, *, begin: bool
) -> processors.PostProcessor:
    """The template for `add_bos_token` and `add_eos_token`; `begin` is the default of the first."""
    bos = "{bos}" if settings.get("add_bos_token", begin) and special.get("bos_token") else ""
    end = "{end}" if settings.get("add_eos_token", False) and special.get("eos_token") else ""
    first, second = (
        " ".join(f"{part}:{i}" for part in (bos, text, end) if part) for i, text in enumerate(("$A", "$B"))
    )
    return template(backend, first, f"{first} {second}", special)


def numbered_tokens(backend: tokenizers.Tokenizer, tokens: list[str]) -> list[tuple[str, int]]:
    ids = {token: backend.token_to_id(token) for token in tokens}
    for token, number in ids.items():
        if number is None:
            raise InputError(
                f"the vocabulary has no token {token!r}, which every text needs. Name another one as bos_token, "
                "eos_token, cls_token or sep_token in tokenizer_config.json"
            )
    return [(token, int(number)) for token, number in ids.items() if number is not None]
