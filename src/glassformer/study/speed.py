"""Measures how fast a model runs on this machine: plain, and through the engine with float32 and int8 weights.

A side is one of these three; a workload is one kind of call on random inputs. The sides take turns, and the best of
several rounds counts. Peak memory is measured in a separate process for each side.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from glassformer.checkpoints.load import load_folder
from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.generation.compiled import is_compiled
from glassformer.generation.encode import encode, hidden_state, make_batch
from glassformer.generation.engine import NO_END, EngineReader, engine
from glassformer.generation.loop import generate

SideName = Literal["plain", "float32", "int8"]
ModelKind = Literal["generates", "encodes texts", "reads images", "reads series"]

PROMPT, NEW, BATCHES = 32, 64, (1, 8)
TEXTS, MEAN, SPREAD = 64, 32, 0.8  # texts to encode: their number, and the log-normal distribution of their lengths
PADDED_TEXTS = 32  # texts in a padded batch


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Sizes of the random inputs; None means the default."""

    batch_sizes: tuple[int, ...] = ()
    prompt_tokens: int | None = None
    new_tokens: int | None = None
    num_beams: int | None = None
    texts: int | None = None
    mean_tokens: int | None = None


class Side(NamedTuple):
    """A model that is ready to run, in one of the three ways."""

    name: SideName
    model: Transformer  # the model itself, or a copy with packed weights
    generate: Callable[..., Any]
    encode: Callable[..., Any]
    seconds: float = 0.0  # preparation time
    compiled: bool = False  # whether it was compiled in that time
    note: str = ""


class Workload(NamedTuple):
    """A call, and for a model that generates, the same call for a single new token."""

    name: str
    amount: int  # tokens, texts or examples
    run: Callable[[Side], Any]
    first: Callable[[Side], Any] | None = None


class Figure(NamedTuple):
    side: SideName
    job: str
    per_second: float
    first_token: float | None  # seconds


def load_plain(folder: Path) -> Transformer:
    """Loads the model in float32, which the engine needs and which is fastest on a CPU."""
    return load_folder(folder, dtype=torch.float32)


def model_kind(model: Transformer) -> ModelKind:
    config = model.config
    if config.patches is not None:
        if config.decoder is not None:
            raise InputError("bench cannot run a model that reads patches and writes text. Use gf.load and call it")
        return "reads images" if config.image is not None else "reads series"
    return "generates" if config.decoder is not None and config.head == "language" else "encodes texts"


def make_jobs(model: Transformer, inputs: Inputs) -> tuple[list[Workload], dict[str, int]]:
    """The workloads of each side, and the sizes used."""
    kind, sizes = model_kind(model), tuple(dict.fromkeys(inputs.batch_sizes or BATCHES))
    if kind == "generates":
        prompt, new = settled_lengths(model, inputs)
        beams = inputs.num_beams or model.config.generation.num_beams
        jobs = [generating_job(model, size, prompt, new, beams) for size in sizes]
        return jobs, {"prompt_tokens": prompt, "new_tokens": new, "num_beams": beams}
    if kind == "encodes texts":
        texts = random_texts(model, inputs.texts or TEXTS, inputs.mean_tokens or MEAN)
        return encoding_jobs(texts), {"texts": len(texts), "tokens": sum(len(text) for text in texts)}
    return [reading_job(model, size) for size in sizes], {}


def settled_lengths(model: Transformer, inputs: Inputs) -> tuple[int, int]:
    """Prompt tokens and new tokens: as given, or the defaults limited by the model's maximum length."""
    config, prompt, new = model.config, inputs.prompt_tokens, inputs.new_tokens
    room = config.last_stack.room
    if config.encoder is not None:
        source = config.encoder.room
        if source is not None and (prompt or 0) > source:
            raise InputError(f"--prompt-tokens is {prompt}: this model reads at most {source}. Give fewer")
        if room is not None and (new or 0) > room:
            raise InputError(f"--new-tokens is {new}: this model writes at most {room}. Give fewer")
        return prompt or min(PROMPT, source or PROMPT), new or min(NEW, room or NEW)
    if room is None:
        return prompt or PROMPT, new or NEW
    prompt = prompt or max(1, min(PROMPT, room // 2, room - (new or 0)))
    new = new or max(1, min(NEW, room - prompt))
    if prompt + new > room:
        raise InputError(
            f"--prompt-tokens {prompt} and --new-tokens {new} need {prompt + new} positions: this model has {room}. "
            "Give fewer"
        )
    return prompt, new


def generating_job(model: Transformer, batch: int, prompt: int, new: int, beams: int) -> Workload:
    ids = random_ids(model, batch, prompt)  # (B, T)
    choices = {"num_beams": beams, "num_return_sequences": 1, "do_sample": False, "stop_strings": ()}

    def run(side: Side, count: int) -> Any:
        return side.generate(ids, max_new_tokens=count, min_new_tokens=count, **choices)

    return Workload(f"batch {batch}", batch * new, lambda side: run(side, new), lambda side: run(side, 1))


def encoding_jobs(texts: Sequence[Tensor]) -> list[Workload]:
    """One text at a time, padded batches in the texts' own order, and batches of similar length."""

    @torch.no_grad()
    def as_they_come(side: Side) -> None:
        for start in range(0, len(texts), PADDED_TEXTS):
            numbers = range(start, min(start + PADDED_TEXTS, len(texts)))
            batch = make_batch(side.model, numbers, {"input_ids": texts})
            batch.rows(hidden_state(side.model, batch))

    return [
        Workload("one by one", len(texts), lambda side: [side.encode([text]) for text in texts]),
        Workload(f"batches of {PADDED_TEXTS}", len(texts), as_they_come),
        Workload("sorted by length", len(texts), lambda side: side.encode(texts)),
    ]


def reading_job(model: Transformer, batch: int) -> Workload:
    image, series = model.config.image, model.config.series
    if image is not None:
        given = {"pixel_values": torch.rand(batch, image.channels, image.size, image.size)}
    else:
        assert series is not None
        given = {"past_values": torch.rand(batch, series.length, series.channels or 1)}

    @torch.no_grad()
    def run(side: Side) -> Any:
        return side.model(**given)

    return Workload(f"batch {batch}", batch, run)


def random_ids(model: Transformer, batch: int, length: int) -> Tensor:
    draw = torch.Generator().manual_seed(0)
    return torch.randint(0, model.config.vocab_size or 1, (batch, length), generator=draw)  # (B, T)


def random_texts(model: Transformer, count: int, mean: int) -> list[Tensor]:
    """Random ids with realistic lengths: many short texts, a few long ones, in random order."""
    room = (model.config.encoder or model.config.last_stack).room
    drawn = np.random.default_rng(0).lognormal(np.log(mean) - SPREAD**2 / 2, SPREAD, count)
    return [random_ids(model, 1, int(length))[0] for length in drawn.round().clip(1, room)]


def prepare_side(name: SideName, model: Transformer) -> Side:
    """Packs the weights and compiles the model, or loads what was compiled before."""
    if name == "plain":
        return Side(name, model, partial(generate, model), partial(encode, model))
    start = time.perf_counter()
    fast = engine(model, weights=name)
    twin = fast.twin()
    if twin is None:
        note = "The engine cannot run here: the plain model was measured instead."
        return Side(name, model, fast.generate, fast.encode, note=note)
    compiled, note = False, ""
    if model_kind(model) == "generates":
        known = is_compiled(twin, fast.span_at(0) or NO_END)
        if not isinstance(fast.reader(), EngineReader):
            note = "The engine's step cannot be compiled here: packed weights alone were measured."
        compiled = not known and not note
    return Side(name, twin, fast.generate, fast.encode, time.perf_counter() - start, compiled, note)


def measure(sides: Sequence[Side], jobs: Sequence[Workload], rounds: int, say: Callable[[str], None]) -> list[Figure]:
    """Measures the sides in turn, and calls `say` with the name of each measurement. Call `warm_up` first."""
    whole, first = defaultdict[Any, list[float]](list), defaultdict[Any, list[float]](list)
    pairs = [(side, job) for job in jobs for side in sides]
    for number in range(rounds):
        for side, job in pairs:
            say(f"round {number + 1} of {rounds}: {side.name}, {job.name}")
            if job.first is not None:
                first[side.name, job.name].append(seconds(job.first, side))
            whole[side.name, job.name].append(seconds(job.run, side))
    figures = []
    for side, job in pairs:
        key = (side.name, job.name)
        figures.append(Figure(*key, job.amount / min(whole[key]), min(first[key], default=None)))
    return figures


def warm_up(sides: Sequence[Side], jobs: Sequence[Workload]) -> None:
    """Runs every call once, so that memory is allocated and lazy compilation is done."""
    for job in jobs:
        for side in sides:
            job.run(side)


def seconds(run: Callable[[Side], Any], side: Side) -> float:
    start = time.perf_counter()
    run(side)
    return time.perf_counter() - start


def memory_added(folder: Path, name: SideName, inputs: Inputs, threads: int) -> float | None:
    """Memory in MiB that the model and its last workload add to a new process; None if it cannot be measured."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        try:
            return pool.submit(added_memory, folder, name, inputs, threads).result()
        except BrokenProcessPool:  # killed, for example because memory ran out
            return None


def added_memory(folder: Path, name: SideName, inputs: Inputs, threads: int) -> float | None:
    before = peak()
    torch.set_num_threads(threads)
    model = load_plain(folder)
    jobs, _ = make_jobs(model, inputs)
    jobs[-1].run(prepare_side(name, model))
    after = peak()
    return None if before is None or after is None else after - before


def peak() -> float | None:
    """Peak memory of this process in MiB, including mapped files."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), None)
