"""Glassformer: the whole Transformer in one core you can read, train, load real checkpoints into, run fast, and see
through.

    import glassformer as gf
    model, tokenizer = gf.load("runs/demo"), gf.load_tokenizer("runs/demo")

The names below are imported when they are first used, so that `import glassformer` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from glassformer.version import __version__ as __version__

if TYPE_CHECKING:
    from glassformer.checkpoints.convert import convert as convert
    from glassformer.checkpoints.load import load as load
    from glassformer.checkpoints.save import save as save
    from glassformer.checkpoints.verify import verify as verify
    from glassformer.config import GenerationConfig as GenerationConfig
    from glassformer.config import ImageConfig as ImageConfig
    from glassformer.config import LayerKind as LayerKind
    from glassformer.config import PairConfig as PairConfig
    from glassformer.config import RotaryScaling as RotaryScaling
    from glassformer.config import SeriesConfig as SeriesConfig
    from glassformer.config import StackConfig as StackConfig
    from glassformer.config import TransformerConfig as TransformerConfig
    from glassformer.core.cache import Cache as Cache
    from glassformer.core.model import Output as Output
    from glassformer.core.model import Transformer as Transformer
    from glassformer.core.pair import Pair as Pair
    from glassformer.core.stack import Stack as Stack
    from glassformer.errors import InputError as InputError
    from glassformer.generation import generate as generate
    from glassformer.generation.engine import engine as engine
    from glassformer.inspect.ledger.ledger import ledger as ledger
    from glassformer.predict.pipeline import pipeline as pipeline
    from glassformer.tasks.evaluate import evaluate as evaluate
    from glassformer.text import Tokenizer as Tokenizer
    from glassformer.text import load_tokenizer as load_tokenizer
    from glassformer.text import train_tokenizer as train_tokenizer
    from glassformer.verbs.train import train as train
    from glassformer.watch.ablate import ablate as ablate
    from glassformer.watch.record import record as record

_HOME = {
    "glassformer.checkpoints.convert": ("convert",),
    "glassformer.checkpoints.load": ("load",),
    "glassformer.checkpoints.save": ("save",),
    "glassformer.checkpoints.verify": ("verify",),
    "glassformer.config": (
        "GenerationConfig",
        "ImageConfig",
        "LayerKind",
        "PairConfig",
        "RotaryScaling",
        "SeriesConfig",
        "StackConfig",
        "TransformerConfig",
    ),
    "glassformer.core.cache": ("Cache",),
    "glassformer.core.model": ("Output", "Transformer"),
    "glassformer.core.pair": ("Pair",),
    "glassformer.core.stack": ("Stack",),
    "glassformer.errors": ("InputError",),
    "glassformer.generation": ("generate",),
    "glassformer.generation.engine": ("engine",),
    "glassformer.watch.ablate": ("ablate",),
    "glassformer.inspect.ledger.ledger": ("ledger",),
    "glassformer.watch.record": ("record",),
    "glassformer.tasks.evaluate": ("evaluate",),
    "glassformer.predict.pipeline": ("pipeline",),
    "glassformer.text": ("Tokenizer", "load_tokenizer", "train_tokenizer"),
    "glassformer.verbs.train": ("train",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
__all__ = sorted(_MODULE_OF)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"glassformer has no {name!r}; its public names are {', '.join(__all__)}")
    value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
