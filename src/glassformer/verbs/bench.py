"""The verb `bench`: how fast a model runs on this machine, plain and through the engine."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rich.table import Table
from tyro.conf import Positional

from glassformer.errors import InputError, join_choices
from glassformer.settings import Settings
from glassformer.terminal import make_console

if TYPE_CHECKING:
    from glassformer.study.speed import Figure, Inputs, Side, Workload

SIDE_TITLES = {"plain": "plain", "float32": "engine", "int8": "engine, int8"}
RATE_UNITS = {"generates": "tokens", "encodes texts": "texts", "reads images": "images", "reads series": "series"}
KIND_FLAGS = {  # by kind of model
    "generates": ("batch_sizes", "prompt_tokens", "new_tokens", "num_beams"),
    "encodes texts": ("texts", "mean_tokens"),
    "reads images": ("batch_sizes",),
    "reads series": ("batch_sizes",),
}
SIZE_FLAGS = tuple(dict.fromkeys(flag for flags in KIND_FLAGS.values() for flag in flags))


@dataclass(frozen=True, kw_only=True)
class BenchSettings(Settings):
    """Measure how fast a model runs on this machine: plain, and through the engine with float32 and int8 weights.

    Models that generate: tokens per second and time to the first token. Models that encode texts: texts per second one
    by one, in padded batches, and sorted by length as engine.encode does. Models of images or series: examples per
    second. Also the time until the engine is ready, and peak memory. Inputs are random. The variants take turns, and
    the best of several rounds is reported.
    """

    run: Positional[str]
    """The run or model folder, or a hub id owner/name."""
    sides: tuple[Literal["plain", "float32", "int8"], ...] = ("plain", "float32", "int8")
    """Variants to measure: plain (the model as it is), float32 and int8 (the engine with these weights)."""
    batch_sizes: tuple[int, ...] = ()
    """Batch sizes to measure (default: 1 and 8)."""
    prompt_tokens: int | None = None
    """Tokens in each prompt or source text (default: 32, or fewer if the model takes fewer)."""
    new_tokens: int | None = None
    """Tokens to generate for each input (default: 64, or fewer if the model takes fewer)."""
    num_beams: int | None = None
    """Number of beams (default: the model's own setting)."""
    texts: int | None = None
    """Number of texts to encode (default: 64)."""
    mean_tokens: int | None = None
    """Mean length of these texts in tokens; most are shorter, a few are much longer (default: 32)."""
    rounds: int = 3
    """Rounds to measure; the best is reported."""
    threads: int | None = None
    """Number of threads (default: one per core)."""
    json: bool = False
    """Print the results as one JSON object."""
    revision: str | None = None
    """Branch, tag or commit of a hub model (default: the newest)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("prompt_tokens", "new_tokens", "num_beams", "texts", "mean_tokens", "rounds", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise self._refuse(name, "expected at least 1")
        if min(self.batch_sizes, default=1) < 1:
            raise self._refuse("batch_sizes", "expected numbers of at least 1")
        if not self.sides:
            raise self._refuse("sides", "expected one or more of plain, float32 and int8")

    def inputs_for(self, kind: str) -> "Inputs":
        """Sizes of the inputs. A flag that this kind of model does not use is an error."""
        from glassformer.study.speed import Inputs

        for flag in SIZE_FLAGS:
            if getattr(self, flag) and flag not in KIND_FLAGS[kind]:
                able = join_choices([other for other, flags in KIND_FLAGS.items() if flag in flags])
                raise InputError(f"{self._name(flag)} needs a model that {able}; this model {kind}. Leave it out")
        return Inputs(**{flag: getattr(self, flag) for flag in SIZE_FLAGS})


def main(settings: BenchSettings) -> None:
    import torch

    from glassformer.hub import find_folder
    from glassformer.study.speed import load_plain, make_jobs, measure, memory_added, model_kind, prepare_side, warm_up

    folder = find_folder(settings.run, revision=settings.revision)
    threads = settings.threads or torch.get_num_threads()
    torch.set_num_threads(threads)
    model = load_plain(folder)
    kind = model_kind(model)
    inputs = settings.inputs_for(kind)
    jobs, sizes = make_jobs(model, inputs)
    sides = [prepare_side(name, model) for name in dict.fromkeys(settings.sides)]
    warm_up(sides, jobs)
    with progress() as say:
        figures = measure(sides, jobs, settings.rounds, say)
        memory = dict[str, float | None]()
        for side in sides:
            say(f"peak memory: {side.name}")
            memory[side.name] = memory_added(folder, side.name, inputs, threads)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    notes = list(dict.fromkeys(side.note for side in sides if side.note))
    if settings.json:
        told = {
            "run": settings.run, "kind": kind, "unit": RATE_UNITS[kind], "parameters": parameters, "threads": threads,
            "rounds": settings.rounds, **sizes, "figures": [figure._asdict() for figure in figures],
            "ready": {side.name: {"seconds": side.seconds, "compiled": side.compiled} for side in sides},
            "peak_mib": memory, "notes": notes,
        }  # fmt: skip
        print(json.dumps(told, ensure_ascii=False))
        return
    console = make_console()
    console.print(f"{settings.run}: {parameters:,} parameters, {threads} thread{'s' if threads > 1 else ''}")
    console.print(f"{figure_text(sizes)}\n")
    console.print(table_of(sides, jobs, figures, memory, RATE_UNITS[kind]))
    for note in notes:
        console.print(f"\n{note}")


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Shows on a terminal what is being measured."""
    console = make_console(stderr=True)
    if not console.is_terminal:
        yield lambda text: None
        return
    with console.status("") as status:
        yield status.update


def figure_text(sizes: Mapping[str, int]) -> str:
    if "new_tokens" in sizes:
        search = "greedy" if sizes["num_beams"] == 1 else f"{sizes['num_beams']} beams"
        return f"random prompts of {sizes['prompt_tokens']} tokens, {sizes['new_tokens']} new tokens each, {search}"
    return f"{sizes['texts']} random texts, {sizes['tokens']:,} tokens" if "texts" in sizes else "random inputs"


def table_of(
    sides: "Sequence[Side]",
    jobs: "Sequence[Workload]",
    figures: "Sequence[Figure]",
    memory: Mapping[str, float | None],
    unit: str,
) -> Table:
    """One column per variant; each speed with its ratio to the first."""
    table = Table("", *(SIDE_TITLES[side.name] for side in sides), box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for column in table.columns[1:]:
        column.justify = "right"
    found = {(figure.side, figure.job): figure for figure in figures}
    for job in jobs:
        row = [found[side.name, job.name] for side in sides]
        ratios = ["", *(f" ({figure.per_second / row[0].per_second:.2f}x)" for figure in row[1:])]
        speeds = [f"{figure.per_second:,.1f}{ratio}" for figure, ratio in zip(row, ratios, strict=True)]
        table.add_row(f"{unit}/s, {job.name}", *speeds)
        firsts = [f"{1000 * figure.first_token:,.1f} ms" for figure in row if figure.first_token is not None]
        if firsts:
            table.add_row(f"first token, {job.name}", *firsts)
    waits = [f"{side.seconds:.1f} s{' (compiled)' if side.compiled else ''}" for side in sides]
    table.add_row("ready in", *("-" if side.name == "plain" else wait for side, wait in zip(sides, waits, strict=True)))
    held = [memory[side.name] for side in sides]
    table.add_row("peak memory", *("-" if size is None else f"{size:,.0f} MiB" for size in held))
    return table
