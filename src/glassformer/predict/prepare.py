"""The one way from the user's input to a call of the model: everything that shows, scores or runs a model uses it.

preparer = preparer_of(model, folder)
prepared = preparer.prepare("Nov 15 2026")
prepared.run(model), prepared.lines["encoder"].names
"""

from pathlib import Path

from glassformer.checkpoints.preparation import read_preparation
from glassformer.checkpoints.run import is_run, read_record, read_text_rules
from glassformer.core.model import Transformer
from glassformer.core.pair import Pair
from glassformer.errors import InputError
from glassformer.predict.captions import CaptionPreparer, check_question
from glassformer.predict.embed import MEAN, read_recipe
from glassformer.predict.images import ImagePreparer, Picture
from glassformer.predict.match import PairPreparer
from glassformer.predict.prepared import Prepared
from glassformer.predict.series import SeriesPreparer, read_scale
from glassformer.predict.texts import TextPreparer
from glassformer.text import Tokenizer, check_vocabulary, read_tokenizer

Preparer = TextPreparer | ImagePreparer | CaptionPreparer | SeriesPreparer


def ability_of(model: Transformer | Pair, folder: Path | None = None) -> str:
    """What a model does, known from its stacks and its head. For a model that writes about images, its folder also says
    whether it answers questions."""
    if isinstance(model, Pair):
        return "match"
    head, config = model.config.head, model.config
    if config.image is not None and head == "language" and model.decoder is not None:
        is_ask = folder is not None and is_run(folder) and read_record(folder)["task"] == "ask"
        return "ask" if is_ask else "caption"
    if config.image is not None and head == "class":
        return "images"
    if config.series is not None and head in ("forecast", "class"):
        return "forecast" if head == "forecast" else "series"
    if config.patches is not None:
        kind = "images" if config.image else "series"
        raise InputError(
            f"{folder or 'this'} is a model of {kind} with head {head!r}, which a pipeline does not support: expected "
            "a model that classifies or describes images, or forecasts or classifies series. Load it with gf.load and "
            "call it with tensors"
        )
    if head == "language":
        if model.decoder is None:
            return "mlm"
        return "translate" if model.encoder is not None else "lm"
    return {"class": "classify", "token": "tokens", "span": "answer"}.get(head, "embed")


def pair_preparer_of(pair: Pair, folder: Path) -> PairPreparer:
    """The preparer for the pair of models in a folder."""
    return PairPreparer(pair, read_preparation(folder, pair.image.config), tokenizer_of(pair.text, folder))


def preparer_of(model: Transformer, folder: Path) -> Preparer:
    """The preparer for the model in a folder, configured by its files."""
    ability = ability_of(model, folder)
    if ability in ("caption", "ask"):
        return CaptionPreparer(model, read_preparation(folder, model.config), tokenizer_of(model, folder), ability)
    if model.config.image is not None:
        return ImagePreparer(model, read_preparation(folder, model.config))
    if model.config.series is not None:
        return SeriesPreparer(model, read_scale(folder))
    return TextPreparer(
        model, tokenizer_of(model, folder), ability, recipe=read_recipe(folder) or MEAN,
        rules=read_text_rules(folder),
    )  # fmt: skip


def tokenizer_of(model: Transformer, folder: Path) -> Tokenizer:
    tokenizer = read_tokenizer(folder)
    check_vocabulary(tokenizer, model.config.vocab_size or 0)
    return tokenizer


def prepare_words(
    preparer: TextPreparer | CaptionPreparer,
    given: str | Picture,
    *,
    question: str | None = None,
    target: str | None = None,
    new_tokens: int = 0,
) -> Prepared:
    """The call for a text, or for an image and possibly a question, read by both stacks of the model."""
    if isinstance(preparer, CaptionPreparer):
        return preparer.prepare(given, question, target=target)
    check_question(question)
    assert isinstance(given, str)
    return preparer.prepare(given, target=target, new_tokens=new_tokens, whole=True)


def text_preparer(model: Transformer, tokenizer: Tokenizer) -> TextPreparer:
    """The preparer for a model and a tokenizer in memory, without a folder."""
    return TextPreparer(model, tokenizer, ability_of(model))
