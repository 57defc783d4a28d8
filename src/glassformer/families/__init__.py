"""Published architectures: a page each, with its `config.json` -> our config, and its table of weight names.

There is no forward pass in any of them: what they compute is the core's, set by a config. A page has

    model_types   what `config.json` calls the family
    config        (keys of config.json) -> TransformerConfig
    weights       the table of the model without a head; `prefix` stands before these names where there is a head
    heads         kind of head -> Head: the class that transformers has for it, and the table of its own weights
    ignored       patterns of tensors in files that the model has no use for
    reads         further classes that appear in files -> the kind of head they are read with
    translates    whether such models translate, and are not only built like those that do
    fixed_tokens  special tokens that `generation_config.json` has no say in

A model that was made here is saved as the family it is built like. The page of such a family also has

    resembles     whether a model is built like it; of all pages, one says so
    describe      the inverse of `config`: the sizes and choices of the config.json that comes nearest
    saved_form    config -> the config of its files, where these have another form of the same model
    saved_weights (config, parameters by name) -> the parameters of that form

A pair of models has a page of another kind: `clip.py`.

Read first: `gpt2.py`. The two tools it is written with: `keys.py`, `table.py`.
"""

from importlib import import_module
from types import ModuleType

from glassformer.config import TransformerConfig
from glassformer.families import clip
from glassformer.families.page import Family as Family
from glassformer.families.page import Head as Head
from glassformer.families.page import PairFamily as PairFamily

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
    heads = page.heads.get(model_type, page.heads)  # of two names for one build, each has its own classes
    return Family(page.__name__.rpartition(".")[2], page.config, page.weights, heads, **optional)


FAMILIES: dict[str, Family] = {
    model_type: _family(page, model_type)
    for page in (import_module(f"{__name__}.{name}") for name in PAGES)
    for model_type in page.model_types
}


PAIRS: dict[str, PairFamily] = {
    clip.model_type: PairFamily(clip.model_type, clip.architecture, clip.scale, clip.sides, clip.describe)
}

# Known, and not read: what the core lacks for them.
REFUSED = {
    "siglip": "its text model is not causal, and its images are pooled by attention",
    "siglip2": "its text model is not causal, and its images are pooled by attention",
    "align": "its images are read by convolutions",
    "clipseg": "it decodes masks",
    "chinese_clip": "its text model is a BERT beside another pooling",
    "blip-2": "learned queries stand between its image and its text model",
    "instructblip": "learned queries stand between its image and its text model",
    "donut-swin": "its attention works in shifted windows",
    "swin": "its attention works in shifted windows",
    "llava": "image vectors stand among its tokens",
    "trocr": "it is the decoder of a vision-encoder-decoder model, which is read as a whole",
    "BlipForQuestionAnswering": "a second text model reads its questions",
    "BlipForImageTextRetrieval": "it judges pairs of a picture and a text",
    "BlipModel": "it is a pair of models without a caption's decoder",
}


def nearest_type(config: TransformerConfig) -> str:
    """The `model_type` that a model made here is built like."""
    return next(model_type for model_type, family in FAMILIES.items() if family.resembles(config))
