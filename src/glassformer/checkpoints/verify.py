"""Checks that a model computes the right results on this machine. `gf.verify(path)` returns a certificate.

    cache = no cache        hidden states are the same with a cache, token by token, and without
    cut = whole             the hidden states of a decoder do not depend on later tokens
    batch = single          a row gives the same result in a batch as alone
    left = right padding    the result does not depend on the side of the padding
    watched = unwatched     `gf.record` does not change a bit of the result
    save -> load            weights, config and results are the same after saving and loading
    half = float32          a half-precision model gives nearly the same results in its own dtype
    golden values           the results are those stored when the model was saved
    transformers            the results are those of transformers, if it is installed and knows the model

A check that does not apply, or cannot be made, says so and counts neither as passed nor as failed. But if transformers
refuses a folder in the layout of one of its families, the check fails.
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

from glassformer.checkpoints.example import (
    answers,
    is_per_token,
    left_padded,
    make_example,
    single_row,
    without_padding,
)
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

# Differences are relative to the largest value. Summing the same float32 numbers in another order changes a result by
# about 1e-6, at most 6e-6 in our tests, with 48 layers; the smallest mistakes, such as a wrong epsilon, by about 1e-3.
TOLERANCE = 2e-5
HALF_TOLERANCE = 16.0  # in units of the dtype's epsilon: every layer adds rounding errors of random sign


@dataclass(frozen=True)
class Check:
    """One comparison: the difference of the two sides, relative to the largest value, and its tolerance."""

    name: str
    verdict: Literal["passed", "differs", "-"]
    difference: float | None = None
    tolerance: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Certificate:
    """The results of all checks, with the files, versions and date."""

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
        """Whether no check failed; checks that do not apply are ignored."""
        return all(check.verdict != "differs" for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "checks": [asdict(check) for check in self.checks], "passed": self.passed}


class NothingToCompareError(Exception):
    """The check does not apply to this model, or cannot be made here."""


class RefusedError(Exception):
    """transformers refuses a folder in the layout of one of its families."""


def verify(path: str | Path, *, revision: str | None = None, token: str | None = None) -> Certificate:
    """Checks the model of a run, a Hugging Face folder or a hub id, without changing any file."""
    subject = VerifiedModel(find_folder(path, revision=revision, token=token))
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


class VerifiedModel:
    """The model to verify, its inputs and its outputs.

    A half-precision model is run in float32, which holds its weights exactly, so that a mistake cannot hide in
    rounding.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.values = folder, read_settings_file(folder / CONFIG)
        self.model = load_model(folder)
        self.dtype = self.model.dtype
        self.is_half = torch.finfo(self.dtype).bits < 32
        if self.is_half:
            self.model.float()
        self.reader = self.model.text if isinstance(self.model, Pair) else self.model  # the text model of a pair
        self.config = self.reader.config
        self.inputs = make_example(self.model.config)

    @cached_property
    def answers(self) -> dict[str, Tensor]:
        return answers(self.model, self.inputs)

    def refuse_stretched(self) -> None:
        """Skips the check if rotary scaling depends on the length: a long batch may then differ from a short row."""
        length = max(value.shape[1] for name, value in self.inputs.items() if name.endswith("input_ids"))
        for stack in (self.config.encoder, self.config.decoder):
            for kind in stack.layer_kinds if stack else ():
                scaling = kind.rotary_scaling
                if scaling and scaling.type in ("dynamic", "longrope") and length > scaling.trained_len:
                    raise NothingToCompareError(
                        f"{scaling.type} positions depend on the length beyond {scaling.trained_len}"
                    )


def compared(name: str, check: Callable[[VerifiedModel], float], subject: VerifiedModel, tolerance: float) -> Check:
    try:
        difference = check(subject)
    except NothingToCompareError as reason:
        return Check(name, "-", note=str(reason))
    except RefusedError as reason:
        return Check(name, "differs", tolerance=tolerance, note=str(reason))
    except Exception as error:  # a model that cannot run fails the check too
        return Check(name, "differs", tolerance=tolerance, note=f"stopped with {type(error).__name__}: {error}")
    if not math.isfinite(difference):
        return Check(name, "differs", tolerance=tolerance, note="an output is not finite")
    return Check(name, "passed" if difference <= tolerance else "differs", difference, tolerance)


def distance(ours: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> float:
    """The largest difference of any output, relative to the largest value of that output."""
    return max(apart(ours[name], value, value.abs().max().item()) for name, value in expected.items())


def apart(ours: Tensor, expected: Tensor, scale: float) -> float:
    if ours.shape != expected.shape:
        raise ValueError(f"an output has shape {tuple(ours.shape)}: expected {tuple(expected.shape)}")
    difference = (ours.double() - expected.double()).abs().max().item()
    if math.isnan(difference):
        return math.inf
    return difference / scale if scale else (math.inf if difference else 0.0)


# The checks: each returns the difference of two ways to compute the same


@torch.no_grad()
def cache_and_none(subject: VerifiedModel) -> float:
    """With left padding, as in generation; the first half at once, then token by token."""
    if subject.reader.decoder is None:
        raise NothingToCompareError("an encoder reads its input once")
    subject.refuse_stretched()
    ids, keep, memory = decoder_call(subject, left_padded(subject.inputs))
    whole = subject.reader.decode(ids, keep, **memory)
    cache, first = Cache(), max(1, ids.shape[1] // 2)
    pieces = [subject.reader.decode(ids[:, :first], keep[:, :first], **memory, cache=cache)]
    pieces += [subject.reader.decode(ids[:, i : i + 1], cache=cache) for i in range(first, ids.shape[1])]
    return distance({"": torch.cat(pieces, dim=1)[keep.bool()]}, {"": whole[keep.bool()]})


@torch.no_grad()
def cut_and_whole(subject: VerifiedModel) -> float:
    if subject.reader.decoder is None:
        raise NothingToCompareError("an encoder attends to the whole input")
    subject.refuse_stretched()
    ids, keep, memory = decoder_call(subject, subject.inputs)
    half = max(1, ids.shape[1] // 2)
    whole = subject.reader.decode(ids, keep, **memory)[:, :half]
    cut = subject.reader.decode(ids[:, :half], keep[:, :half], **memory)
    return distance({"": cut[keep[:, :half].bool()]}, {"": whole[keep[:, :half].bool()]})


def decoder_call(subject: VerifiedModel, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """The decoder's token ids and their mask, and the encoder's output for it."""
    if subject.reader.encoder is None:
        return inputs["input_ids"], inputs["attention_mask"], {}
    source = {name: value for name, value in inputs.items() if not name.startswith("decoder_")}
    memory = {"encoder_last_hidden_state": subject.reader.encode(**source)}
    if "attention_mask" in source:
        memory["attention_mask"] = source["attention_mask"]
    return inputs["decoder_input_ids"], inputs["decoder_attention_mask"], memory


def batch_and_single(subject: VerifiedModel) -> float:
    if not subject.config.patches:
        subject.refuse_stretched()
    single = [answers(subject.model, single_row(subject.inputs, row)) for row in range(2)]
    each = {
        name: value for name, value in subject.answers.items() if name != "logits_per_image"
    }  # compares all with all
    return distance({name: torch.cat([row[name] for row in single]) for name in each}, each)


def left_and_right(subject: VerifiedModel) -> float:
    masks = [value for name, value in subject.inputs.items() if name.endswith("attention_mask")]
    if all(bool(mask.all()) for mask in masks):
        raise NothingToCompareError("the inputs have no padding")
    return distance(answers(subject.model, left_padded(subject.inputs)), subject.answers)


def watched_and_not(subject: VerifiedModel) -> float:
    with record(subject.model) as seen:
        watched = answers(subject.model, subject.inputs)
    configs = (part.config for part in subject.model.modules() if isinstance(part, Stack))
    layers = sum(config.num_layers for config in configs)
    if len(seen) < layers:
        raise ValueError(f"only {len(seen)} of {layers} attention maps were recorded")
    return distance(watched, subject.answers)


def saved_and_loaded(subject: VerifiedModel) -> float:
    """Saves to a temporary folder in the dtype of the file, and loads it again."""
    stored = load_model(subject.folder)
    with tempfile.TemporaryDirectory() as folder:
        try:
            save(stored, folder)
        except OSError as error:
            raise NothingToCompareError(f"a copy could not be written: {error}") from None
        again = load_model(Path(folder))
        if again.config != stored.config:
            raise ValueError("the config changed")
        weights = dict(again.named_parameters())
        for name, parameter in stored.named_parameters():
            if name not in weights or not torch.equal(weights[name], parameter):
                raise ValueError(f"the values of {name} changed")
        return distance(answers(again.float() if subject.is_half else again, subject.inputs), subject.answers)


def half_and_full(subject: VerifiedModel) -> float:
    if not subject.is_half:
        raise NothingToCompareError("the weights are not in half precision")
    inputs = {n: v.to(subject.dtype) if v.is_floating_point() else v for n, v in subject.inputs.items()}
    return distance(answers(load_model(subject.folder), inputs), subject.answers)


def golden_and_now(subject: VerifiedModel) -> float:
    if not (subject.folder / GOLDEN).is_file():
        raise NothingToCompareError(f"there is no {GOLDEN}: gf.save writes one")
    inputs, outputs = read_golden(subject.folder / GOLDEN)
    ours = answers(subject.model, inputs)
    if ours.keys() != outputs.keys():
        raise ValueError(f"{GOLDEN} has the outputs {', '.join(outputs)}; the model has {', '.join(ours)}")
    worst = 0.0
    for name, expected in outputs.items():
        if tuple(ours[name].shape) != expected["shape"]:
            raise ValueError(f"{name} has shape {tuple(ours[name].shape)}; in {GOLDEN} it has {expected['shape']}")
        worst = max(worst, apart(sample(ours[name]), expected["values"], expected["scale"]))
    return worst


# transformers: used if it is installed, never required


def theirs_and_ours(subject: VerifiedModel) -> float:
    described = subject.model.about.settings
    if not described:
        raise NothingToCompareError("transformers has no such model")
    if version_of("transformers") is None:
        raise NothingToCompareError("transformers is not installed: pip install transformers")
    inputs = subject.inputs
    if subject.config.head == "class" and subject.config.pad_token_id is None and "input_ids" in inputs:
        inputs = single_row(inputs, 0)  # without a padding token, transformers classifies one text at a time
    try:
        with quiet_transformers():
            expected = their_answers(subject, described["architectures"][0], inputs)
    except (NothingToCompareError, RefusedError):
        raise
    except NotImplementedError as error:
        raise NothingToCompareError(f"this version of transformers cannot run such a model: {error}") from None
    except Exception as error:
        reason = (str(error).strip() or "no reason given").splitlines()[0]
        raise RefusedError(f"transformers refuses this folder: {type(error).__name__}: {reason}") from None
    return distance(answers(subject.model, inputs), expected)


@torch.no_grad()
def their_answers(subject: VerifiedModel, architecture: str, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    library = import_module("transformers")
    if not hasattr(library, architecture):
        raise NothingToCompareError(f"this version of transformers has no {architecture}: pip install -U transformers")
    dtype = torch.float32 if subject.is_half else subject.dtype
    model, report = getattr(library, architecture).from_pretrained(
        subject.folder, dtype=dtype, attn_implementation="eager", local_files_only=True, output_loading_info=True
    )
    lacking = report["missing_keys"] if subject.config.head != "none" else ()
    if lacking:
        raise RefusedError(f"transformers finds no {min(lacking)} in the file")
    output = model.eval()(**in_their_words(inputs, model))
    names = {name: name for name in subject.answers} | {"pooled": "pooler_output"}
    if subject.config.pooled_dim and not isinstance(subject.model, Pair):
        names["pooled"] = "image_embeds" if subject.config.image else "text_embeds"
    found = {name: output[names[name]] for name in subject.answers if output.get(names[name]) is not None}
    if not found:
        raise NothingToCompareError("transformers returns none of the same outputs")
    if isinstance(subject.model, Pair):
        return found
    if subject.config.prefix:  # transformers returns logits for the image too
        length = inputs["decoder_input_ids"].shape[1]
        found = {name: value[:, -length:] for name, value in found.items()}
    return {
        name: without_padding(value, inputs) if is_per_token(name, subject.config) else value
        for name, value in found.items()
    }


def in_their_words(inputs: Mapping[str, Tensor], model: Any) -> dict[str, Tensor]:
    """The inputs with transformers' names: some captioning models call the decoder's tokens input_ids."""
    if "decoder_input_ids" in signature(model.forward).parameters:
        return dict(inputs)
    return {name.removeprefix("decoder_"): value for name, value in inputs.items()}


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silences the progress bars, advice and warnings of transformers."""
    settings = import_module("transformers").logging
    verbosity, bars = settings.get_verbosity(), settings.is_progress_bar_enabled()
    disabled = logging.root.manager.disable
    settings.set_verbosity_error()
    settings.disable_progress_bar()
    logging.disable(logging.WARNING)  # libraries that it imports log advice too
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
    """The version of an installed library; None if it cannot be imported."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return str(import_module(library).__version__)
    except Exception:  # not installed, or broken
        return None
