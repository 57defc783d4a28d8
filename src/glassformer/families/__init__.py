"""Published architectures, one page each: `config.json` -> our config, and a table of weight names.

No page has a forward pass: the core computes everything, as the config says. A page has

    model_types   what `config.json` calls the family
    config        (keys of config.json) -> TransformerConfig
    weights       the table of the model without a head; files with a head put `prefix` before these names
    heads         kind of head -> Head: its class in transformers and the table of its own weights
    ignored       patterns of tensors that the model does not use
    reads         other class names found in files -> the kind of head to read them with
    translates    whether the family's models are translators, rather than just built like one
    fixed_tokens  special tokens that `generation_config.json` cannot change

A model made here is saved in the layout of the family with the same architecture. That family's page also has

    resembles     whether a model has this architecture; True on exactly one page
    describe      the inverse of `config`: the keys of the nearest config.json
    saved_form    config -> the config to save, where the files hold the same model in another form
    saved_weights (config, parameters by name) -> the parameters in that form

A pair of models has a different kind of page: `clip.py`.

Read first: `gpt2.py`, then the two tools it uses: `keys.py` and `table.py`.
"""

from importlib import import_module
from types import ModuleType

from glassformer.config import TransformerConfig
from glassformer.families import clip
from glassformer.families.page import Family as Family
from glassformer.families.page import PairFamily as PairFamily
from glassformer.families.page import TransformersHead as TransformersHead

PAGES = (
    "albert", "bart", "bert", "blip", "clip_text", "clip_vision", "deit", "distilbert", "electra", "falcon", "gemma",
    "gemma2", "gemma3", "git", "gpt2", "gpt_neox", "llama", "m2m100", "marian", "mbart", "mistral", "modernbert",
    "patchtst", "phi3", "qwen2", "qwen3", "roberta", "t5", "vision_encoder_decoder", "vit",
)  # fmt: skip


OPTIONAL = (
    "prefix", "ignored", "reads", "translates", "fixed_tokens", "resembles", "describe", "saved_form", "saved_weights"
)  # fmt: skip


def _family(page: ModuleType, model_type: str) -> Family:
    optional = {name: getattr(page, name) for name in OPTIONAL if name in vars(page)}
    heads = page.heads.get(model_type, page.heads)  # T5 and mT5: one page, different class names
    return Family(page.__name__.rpartition(".")[2], page.config, page.weights, heads, **optional)


FAMILIES: dict[str, Family] = {
    model_type: _family(page, model_type)
    for page in (import_module(f"{__name__}.{name}") for name in PAGES)
    for model_type in page.model_types
}


PAIR_FAMILIES: dict[str, PairFamily] = {
    clip.model_type: PairFamily(clip.model_type, clip.architecture, clip.scale, clip.sides, clip.describe)
}

# Known architectures that cannot be loaded, and why.
REFUSED = {
    "siglip": "its text model is not causal, and it pools images by attention",
    "siglip2": "its text model is not causal, and it pools images by attention",
    "align": "its image encoder is a convolutional network",
    "clipseg": "it predicts segmentation masks",
    "chinese_clip": "its text model is a BERT with different pooling",
    "blip-2": "it connects its image and text models by learned queries",
    "instructblip": "it connects its image and text models by learned queries",
    "donut-swin": "it uses shifted-window attention",
    "swin": "it uses shifted-window attention",
    "llava": "it mixes image vectors with text tokens",
    "trocr": "it is the decoder of a vision-encoder-decoder model: load the whole model",
    "BlipForQuestionAnswering": "it encodes questions with a second text model",
    "BlipForImageTextRetrieval": "it scores pairs of an image and a text",
    "BlipModel": "it is an image-text pair without a caption decoder",
}


def nearest_type(config: TransformerConfig) -> str:
    """The `model_type` whose architecture this config has."""
    return next(model_type for model_type, family in FAMILIES.items() if family.resembles(config))
