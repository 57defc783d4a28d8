"""Does a model compute, on this machine, what it should? `gf.verify(path)` tries, and signs what it found.

    cache = no cache        a text read in pieces, with a cache, gives the vectors of the text read at once
    cut = whole             what a decoder says of a text does not depend on how it goes on
    batch = single          a row in a batch with longer ones gives what it gives alone
    left = right padding    on whichever side the padding stands
    watched = unwatched     `gf.record` changes nothing, to the bit
    save -> load            every weight and setting comes back, and the same answers
    half = float32          a half precision file in its own arithmetic, nearly
    golden values           the answers that were stored when the model was saved
    transformers            the answers of that library, where it is installed and knows the model

A check that does not apply to a model, or cannot be made here, says so and counts neither way. A folder in the layout
of a family that transformers refuses is no such case: it should open it, and differs.
"""

import logging
import math
import platform
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from glassformer.checkpoints.example import alone, answers, is_per_token, kept, make_example, to_left
from glassformer.checkpoints.folder import CONFIG, read_settings_file
from glassformer.checkpoints.golden import GOLDEN, read_golden, sample
from glassformer.checkpoints.load import load_model
from glassformer.checkpoints.save import save
from glassformer.checkpoints.tensors import weight_files
from glassformer.core.cache import Cache
from glassformer.core.pair import Pair
from glassformer.core.stack import Stack
from glassformer.hub import find_folder
from glassformer.io import checksum
from glassformer.version import __version__
from glassformer.watch.record import record

# Differences are told in parts of the largest value. Two right orders of the same float32 sums are about 1e-6 apart,
# at most 6e-6 in what we tried, 48 layers deep; the smallest of mistakes, an epsilon or a position, about 1e-3.
TOLERANCE = 2e-5
HALF_TOLERANCE = 16.0  # roundings of the half precision format: each layer adds some, of random sign


@dataclass(frozen=True)
class Check:
    """One comparison: how far apart the two sides are, in parts of the largest value, and how far they may be."""

    name: str
    verdict: Literal["passed", "differs", "-"]
    difference: float | None = None
    tolerance: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Certificate:
    """What was found, of which files, with which versions, and when."""

    path: str
    model_type: str
    head: str
    dtype: str
    versions: dict[str, str]
    sha256: dict[str, str]  # of the files with the weights
    date: str
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing differs of all that could be compared."""
        return all(check.verdict != "differs" for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "checks": [asdict(check) for check in self.checks], "passed": self.passed}


class NothingToCompareError(Exception):
    """A check that does not apply to this model, or that cannot be made here."""


class RefusedError(Exception):
    """A folder of a family's layout that the other library does not take for one."""


def verify(path: str | Path, *, revision: str | None = None, token: str | None = None) -> Certificate:
    """Checks the model of a run, a Hugging Face folder or a hub id; nothing of it is changed."""
    subject = Subject(find_folder(path, revision=revision, token=token))
    reference_version = version_of("transformers")
    checks = (
        ("cache = no cache", cache_and_none, TOLERANCE),
        ("cut = whole", cut_and_whole, TOLERANCE),
        ("batch = single", batch_and_single, TOLERANCE),
        ("left = right padding", left_and_right, TOLERANCE),
        ("watched = unwatched", watched_and_not, 0.0),
        ("save -> load", saved_and_loaded, TOLERANCE),
        ("half = float32", half_and_full, HALF_TOLERANCE * torch.finfo(subject.dtype).eps),
        ("golden values", golden_and_now, TOLERANCE),
        ("transformers", theirs_and_ours, TOLERANCE),
    )
    return Certificate(
        path=str(path),
        model_type=str(subject.values.get("model_type")),
        head="pair" if isinstance(subject.model, Pair) else subject.model.config.head,
        dtype=str(subject.dtype).removeprefix("torch."),
        versions={
            "glassformer": __version__,
            "torch": torch.__version__,
            **({"transformers": reference_version} if reference_version else {}),
            "python": platform.python_version(),
        },
        sha256={file.name: checksum(file) for file in weight_files(subject.folder)},
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        checks=tuple(compared(name, check, subject, tolerance) for name, check, tolerance in checks),
    )


class Subject:
    """The model to be verified, what it is asked, and what it answers.

    It is run in float32 where its file is of half precision: such weights are exact in it, so that a mistake is not
    taken for rounding.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.values = folder, read_settings_file(folder / CONFIG)
        self.model = load_model(folder)
        self.dtype = self.model.dtype
        self.is_half = torch.finfo(self.dtype).bits < 32
        if self.is_half:
            self.model.float()
        self.reader = self.model.text if isinstance(self.model, Pair) else self.model  # whoever reads texts, if anybody
        self.config = self.reader.config
        self.inputs = make_example(self.model.config)

    @cached_property
    def answers(self) -> dict[str, Tensor]:
        return answers(self.model, self.inputs)

    def refuse_stretched(self) -> None:
        """Rotary positions that turn slower in a longer text tell a long batch from a short row, and mean to."""
        length = max(value.shape[1] for name, value in self.inputs.items() if name.endswith("input_ids"))
        for stack in (self.config.encoder, self.config.decoder):
            for kind in stack.layer_kinds if stack else ():
                scaling = kind.rotary_scaling
                if scaling and scaling.type in ("dynamic", "longrope") and length > scaling.trained_len:
                    raise NothingToCompareError(
                        f"{scaling.type} positions depend on the length beyond {scaling.trained_len}"
                    )


def compared(name: str, check: Callable[[Subject], float], subject: Subject, tolerance: float) -> Check:
    try:
        difference = check(subject)
    except NothingToCompareError as reason:
        return Check(name, "-", note=str(reason))
    except RefusedError as reason:
        return Check(name, "differs", tolerance=tolerance, note=str(reason))
    except Exception as error:  # a model that cannot answer is no better than one that answers wrongly
        return Check(name, "differs", tolerance=tolerance, note=f"stopped with {type(error).__name__}: {error}")
    if not math.isfinite(difference):
        return Check(name, "differs", tolerance=tolerance, note="an answer is not finite")
    return Check(name, "passed" if difference <= tolerance else "differs", difference, tolerance)


def distance(ours: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> float:
    """The largest difference, in parts of the largest value of its kind."""
    return max(apart(ours[name], value, value.abs().max().item()) for name, value in expected.items())


def apart(ours: Tensor, expected: Tensor, scale: float) -> float:
    if ours.shape != expected.shape:
        raise ValueError(f"an answer of shape {tuple(ours.shape)}, where {tuple(expected.shape)} was expected")
    difference = (ours.double() - expected.double()).abs().max().item()
    if math.isnan(difference):
        return math.inf
    return difference / scale if scale else (math.inf if difference else 0.0)


# One side and the other


@torch.no_grad()
def cache_and_none(subject: Subject) -> float:
    """Padded on the left, as batches are that go on; half of it at once, then token by token."""
    if subject.reader.decoder is None:
        raise NothingToCompareError("an encoder reads its input once")
    subject.refuse_stretched()
    ids, keep, memory = decoder_call(subject, to_left(subject.inputs))
    whole = subject.reader.decode(ids, keep, **memory)
    cache, first = Cache(), max(1, ids.shape[1] // 2)
    pieces = [subject.reader.decode(ids[:, :first], keep[:, :first], **memory, cache=cache)]
    pieces += [subject.reader.decode(ids[:, i : i + 1], cache=cache) for i in range(first, ids.shape[1])]
    return distance({"": torch.cat(pieces, dim=1)[keep.bool()]}, {"": whole[keep.bool()]})


@torch.no_grad()
def cut_and_whole(subject: Subject) -> float:
    if subject.reader.decoder is None:
        raise NothingToCompareError("an encoder sees the whole input")
    subject.refuse_stretched()
    ids, keep, memory = decoder_call(subject, subject.inputs)
    half = max(1, ids.shape[1] // 2)
    whole = subject.reader.decode(ids, keep, **memory)[:, :half]
    cut = subject.reader.decode(ids[:, :half], keep[:, :half], **memory)
    return distance({"": cut[keep[:, :half].bool()]}, {"": whole[keep[:, :half].bool()]})


def decoder_call(subject: Subject, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """The decoder's token ids and their mask, and what it is given of the source."""
    if subject.reader.encoder is None:
        return inputs["input_ids"], inputs["attention_mask"], {}
    source = {name: value for name, value in inputs.items() if not name.startswith("decoder_")}
    memory = {"encoder_last_hidden_state": subject.reader.encode(**source)}
    if "attention_mask" in source:
        memory["attention_mask"] = source["attention_mask"]
    return inputs["decoder_input_ids"], inputs["decoder_attention_mask"], memory


def batch_and_single(subject: Subject) -> float:
    if not subject.config.patches:
        subject.refuse_stretched()
    single = [answers(subject.model, alone(subject.inputs, row)) for row in range(2)]
    each = {name: value for name, value in subject.answers.items() if name != "logits_per_image"}  # of all with all
    return distance({name: torch.cat([row[name] for row in single]) for name in each}, each)


def left_and_right(subject: Subject) -> float:
    masks = [value for name, value in subject.inputs.items() if name.endswith("attention_mask")]
    if all(bool(mask.all()) for mask in masks):
        raise NothingToCompareError("its inputs have no padding")
    return distance(answers(subject.model, to_left(subject.inputs)), subject.answers)


def watched_and_not(subject: Subject) -> float:
    with record(subject.model) as seen:
        watched = answers(subject.model, subject.inputs)
    configs = (part.config for part in subject.model.modules() if isinstance(part, Stack))
    layers = sum(config.num_layers for config in configs)
    if len(seen) < layers:
        raise ValueError(f"{len(seen)} maps were recorded of {layers} layers")
    return distance(watched, subject.answers)


def saved_and_loaded(subject: Subject) -> float:
    """Through a folder of its own, in the dtype of the file."""
    stored = load_model(subject.folder)
    with tempfile.TemporaryDirectory() as folder:
        try:
            save(stored, folder)
        except OSError as error:
            raise NothingToCompareError(f"a copy could not be written: {error}") from None
        again = load_model(Path(folder))
        if again.config != stored.config:
            raise ValueError("the config that came back is another")
        weights = dict(again.named_parameters())
        for name, parameter in stored.named_parameters():
            if name not in weights or not torch.equal(weights[name], parameter):
                raise ValueError(f"{name} came back changed")
        return distance(answers(again.float() if subject.is_half else again, subject.inputs), subject.answers)


def half_and_full(subject: Subject) -> float:
    if not subject.is_half:
        raise NothingToCompareError("its weights are not of half precision")
    inputs = {n: v.to(subject.dtype) if v.is_floating_point() else v for n, v in subject.inputs.items()}
    return distance(answers(load_model(subject.folder), inputs), subject.answers)


def golden_and_now(subject: Subject) -> float:
    if not (subject.folder / GOLDEN).is_file():
        raise NothingToCompareError(f"there is no {GOLDEN}: gf.save writes one")
    inputs, outputs = read_golden(subject.folder / GOLDEN)
    ours = answers(subject.model, inputs)
    if ours.keys() != outputs.keys():
        raise ValueError(f"{GOLDEN} holds {', '.join(outputs)}; the model answers with {', '.join(ours)}")
    worst = 0.0
    for name, expected in outputs.items():
        if tuple(ours[name].shape) != expected["shape"]:
            raise ValueError(f"{name} has shape {tuple(ours[name].shape)}; in {GOLDEN} it has {expected['shape']}")
        worst = max(worst, apart(sample(ours[name]), expected["values"], expected["scale"]))
    return worst


# The other library: found if it is there, never needed


def theirs_and_ours(subject: Subject) -> float:
    described = subject.model.about.settings
    if not described:
        raise NothingToCompareError("it has no such model")
    if version_of("transformers") is None:
        raise NothingToCompareError("nothing to compare with: pip install transformers")
    inputs = subject.inputs
    if subject.config.head == "class" and subject.config.pad_token_id is None and "input_ids" in inputs:
        inputs = alone(inputs, 0)  # without a padding token, it classifies one text at a time
    try:
        with quiet():
            expected = their_answers(subject, described["architectures"][0], inputs)
    except (NothingToCompareError, RefusedError):
        raise
    except NotImplementedError as error:
        raise NothingToCompareError(f"this version of it cannot run such a model: {error}") from None
    except Exception as error:
        reason = (str(error).strip() or "no reason given").splitlines()[0]
        raise RefusedError(f"it refuses this folder: {type(error).__name__}: {reason}") from None
    return distance(answers(subject.model, inputs), expected)


@torch.no_grad()
def their_answers(subject: Subject, architecture: str, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    library = import_module("transformers")
    if not hasattr(library, architecture):
        raise NothingToCompareError(f"this version of it has no {architecture}: pip install -U transformers")
    dtype = torch.float32 if subject.is_half else subject.dtype
    model, report = getattr(library, architecture).from_pretrained(
        subject.folder, dtype=dtype, attn_implementation="eager", local_files_only=True, output_loading_info=True
    )
    lacking = report["missing_keys"] if subject.config.head != "none" else ()
    if lacking:
        raise RefusedError(f"it finds no {min(lacking)} in the file")
    output = model.eval()(**in_their_words(inputs, model))
    names = {name: name for name in subject.answers} | {"pooled": "pooler_output"}
    if subject.config.pooled_dim and not isinstance(subject.model, Pair):
        names["pooled"] = "image_embeds" if subject.config.image else "text_embeds"
    found = {name: output[names[name]] for name in subject.answers if output.get(names[name]) is not None}
    if not found:
        raise NothingToCompareError("could not be compared: it answers with none of the same")
    if isinstance(subject.model, Pair):
        return found
    if subject.config.prefix:  # the picture has logits there, too
        length = inputs["decoder_input_ids"].shape[1]
        found = {name: value[:, -length:] for name, value in found.items()}
    return {name: kept(value, inputs) if is_per_token(name, subject.config) else value for name, value in found.items()}


def in_their_words(inputs: Mapping[str, Tensor], model: Any) -> dict[str, Tensor]:
    """Some that write about a picture call the decoder's tokens input_ids."""
    if "decoder_input_ids" in signature(model.forward).parameters:
        return dict(inputs)
    return {name.removeprefix("decoder_"): value for name, value in inputs.items()}


@contextmanager
def quiet() -> Iterator[None]:
    """Without its progress bars and advice."""
    settings = import_module("transformers").logging
    verbosity, bars = settings.get_verbosity(), settings.is_progress_bar_enabled()
    disabled = logging.root.manager.disable
    settings.set_verbosity_error()
    settings.disable_progress_bar()
    logging.disable(logging.WARNING)  # what it imports has advice too
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        settings.set_verbosity(verbosity)
        if bars:
            settings.enable_progress_bar()


def version_of(library: str) -> str | None:
    """The version of a library that can be imported here; None if it cannot."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return str(import_module(library).__version__)
    except Exception:  # not there, or broken
        return None
