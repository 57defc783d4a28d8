"""Trains the recipes under the protocols of published results, and writes the scores into docs/results.md.

    make results                                         # every row: many hours
    python benchmarks/results.py digits                  # one row
    python benchmarks/results.py etth1 --horizons 96 --seeds 1 -- --rate 0.001    # after --: flags for each training
    python benchmarks/results.py times                   # seconds per step and minutes per row on this machine
    python benchmarks/results.py times --rows nsmc       # the same of one row; the page keeps the others
    python benchmarks/results.py drop-last               # ETTh1 scored on every window, and as some papers do
    python benchmarks/results.py table                   # no training: writes the finished runs in --runs to the pages

Each training is a separate run in --runs. Finished runs are not repeated and stopped runs are resumed, so you can stop
the script at any time. Only `all` and `table` write to the pages. A row without a finished run keeps its old content:
"not run yet", or the figures of an earlier run.
"""

import argparse
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from statistics import fmean, pstdev
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from dlinear import dlinear
from numpy.typing import NDArray
from readme import ROOT, put

PAGES = {"en": ROOT / "docs" / "results.md", "ko": ROOT / "docs" / "results.ko.md"}
READMES = {"en": ROOT / "README.md", "ko": ROOT / "README.ko.md"}
LEARNED = {  # rows of the README
    "shakespeare-long": "tiny Shakespeare, nats per character (lower is better)",
    "nsmc": "NSMC, Korean film reviews, trained on nothing else",
    "multi30k": "Multi30k, English to German, on one CPU core",
    "etth1": "ETTh1, mean of four horizons (lower is better)",
}
DATA = Path("data") if Path("data").is_dir() else ROOT.parent / "shared" / "data"  # `glassformer data` fills data/
HORIZONS = (96, 192, 336, 720)
DROPPED = (128, 2048)  # batch sizes of PatchTST and xPatch
GRID = {"C": [1, 3, 10, 30], "gamma": [0.0003, 0.001, 0.003]}  # searched for the support-vector machine
STEPS = {"plain": 20, "quicker": 100}  # training steps that `times` measures per turn
WARM, TURNS = 10, 2  # steps before them, and turns of each side
Record = dict[str, Any]
Cells = list[str]


class Measure(NamedTuple):
    """How the score of a run is read and written."""

    value: Callable[[Record], float]
    digits: int
    unit: str

    def shown(self, *records: Record) -> str:
        return spread([self.value(record) for record in records], self.digits) + self.unit


PERCENT = Measure(lambda record: 100 * record["results"]["accuracy"], 2, "%")
NATS = Measure(lambda record: math.log(record["results"]["perplexity"]), 4, " nats")
BLEU = Measure(lambda record: record["results"]["bleu"], 2, " BLEU")
MSE = Measure(lambda record: record["results"]["mse"], 4, "")


class Row(NamedTuple):
    """A row of the table that comes from one training, or from one per seed."""

    name: str
    task: str
    recipe: str
    measure: Measure
    published: str
    flags: tuple[str, ...] = ()
    seeds: int = 1
    files: Mapping[str, tuple[str, ...]] = MappingProxyType({})  # data files that replace the recipe's
    pretraining: str = ""  # recipe of a masked language model to train first


def flags_of(text: str) -> tuple[str, ...]:
    return tuple(text.split())


LONG = flags_of("--d-model 192 --num-layers 6 --num-heads 6 --context 256 --dropout 0.15 --batch-tokens 4096")
LONG += flags_of("--rate 0.006 --steps 1500 --eval-every 220")
SHORT = flags_of("--steps 780 --eval-every 780")  # what fits into the time of nanoGPT's CPU recipe
CASED = {
    name: tuple(f"data/multi30k/{part}.{language}" for language in ("en", "de"))
    for name, part in (("data", "train"), ("valid", "val"), ("test", "test2016"))
}
SINGLE = (
    Row("shakespeare-short", "lm", "shakespeare", NATS, "nanoGPT, CPU recipe: 1.886", SHORT, seeds=3),
    Row("shakespeare", "lm", "shakespeare", NATS, "nanoGPT, CPU recipe: 1.886", seeds=3),
    Row("shakespeare-long", "lm", "shakespeare", NATS, "nanoGPT, A100: 1.4697", LONG),
    Row(
        "nsmc", "classify", "nsmc", PERCENT, "Transformer 83.12 %, BiLSTM with self-attention 86.37 %",
        pretraining="nsmc-mlm",
    ),
    Row("fashion-mnist", "images", "fashion-mnist", PERCENT, "small ViTs 92.3 to 93.5 %"),
    Row("multi30k", "translate", "multi30k-en-de", BLEU, "Transformer-Tiny 41.02 BLEU"),
    Row(
        "multi30k-cased", "translate", "multi30k-en-de", BLEU, "-",
        flags_of("--bleu-tokenize 13a --no-lowercase --steps 2250 --eval-every 150"), files=CASED,
    ),
    Row("ko-en", "translate", "ko-en", BLEU, "-"),
)  # fmt: skip
# Chosen on the validation rows. The head grows with the horizon, so the rest of the model is smaller at long horizons.
SIZES: dict[int, tuple[str, ...]] = {
    96: (),
    192: flags_of("--d-model 16 --d-ff 32"),
    336: flags_of("--d-model 16 --d-ff 32"),
}
SIZES[720] = flags_of("--d-model 16 --d-ff 32 --num-layers 1 --fold 24 --batch-size 32")
SIZES[720] += flags_of("--steps 240 --eval-every 40 --warmup 30")
NAMES = ("digits", "etth1", *(row.name for row in SINGLE))
KOREAN = {
    "data": "데이터",
    "this model": "이 모델",
    "baselines": "기준 모델",
    "published": "공개된 수치",
    "steps": "스텝",
    "parameters": "파라미터",
    "command": "명령",
    "not run yet": "아직 실행하지 않음",
    "support-vector machine": "서포트 벡터 머신",
    "horizon": "예측 길이",
    "seeds": "시드",
    "average": "평균",
    "windows": "윈도 수",
    "every window": "모든 윈도",
    "none found": "찾지 못함",
    "small ViTs 92.3 to 93.5 %": "작은 ViT 92.3~93.5 %",
    "Transformer 83.12 %, BiLSTM with self-attention 86.37 %": "Transformer 83.12 %, 셀프 어텐션 BiLSTM 86.37 %",
    "nanoGPT, CPU recipe: 1.886": "nanoGPT CPU 레시피 1.886",
    "recipe": "레시피",
    "training": "학습",
    "plain, s per step": "기본 방식, 스텝당 초",
    "quicker, s per step": "빠른 방식, 스텝당 초",
    "of the matmul limit": "행렬 곱 한계 대비",
    "minutes": "분",
    "nanoGPT's CPU recipe": "nanoGPT CPU 레시피",
    "seconds": "초",
    "loss": "손실",
    "1.886 (published)": "1.886 (공개된 수치)",
    "threads": "스레드",
    "trained on public data": "공개 데이터로 학습",
    "Glassformer": "Glassformer",
    "tiny Shakespeare, nats per character (lower is better)": "tiny Shakespeare, 문자당 nat(낮을수록 좋음)",
    "NSMC, Korean film reviews, trained on nothing else": "NSMC, 한국어 영화 리뷰, 이 데이터로만 학습",
    "Multi30k, English to German, on one CPU core": "Multi30k, 영어에서 독일어로, CPU 코어 하나",
    "ETTh1, mean of four horizons (lower is better)": "ETTh1, 네 가지 예측 길이의 평균(낮을수록 좋음)",
    "nanoGPT, A100: 1.4697": "nanoGPT A100 1.4697",
}


def main() -> None:
    arguments = read_arguments()
    if arguments.row == "table":
        write_pages(arguments.runs)
        return
    if arguments.row == "all":
        for name in NAMES:
            tell(run_row(name, arguments))
        tell(nanogpt_time(arguments))
        tell(drop_last(arguments))
        tell(times(arguments))
        write_pages(arguments.runs)
        pictures = [str(ROOT / "benchmarks" / "results_pictures.py"), "--data", str(arguments.data)]
        subprocess.run([sys.executable, *pictures, "--runs", str(arguments.runs)], check=True)
        return
    other = {"times": times, "drop-last": drop_last, "nanogpt-time": nanogpt_time}
    tell(other[arguments.row](arguments) if arguments.row in other else run_row(arguments.row, arguments))


def tell(lines: Iterator[Cells]) -> None:
    for cells in lines:
        print("| " + " | ".join(cells) + " |", flush=True)


def read_arguments() -> argparse.Namespace:
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", choices=["all", *NAMES, "nanogpt-time", "times", "drop-last", "table"])
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data sets (default: %(default)s)")
    parser.add_argument("--runs", type=Path, default=Path("runs/results"), help="output folder of the trainings")
    parser.add_argument("--seeds", type=int, help="fewer seeds than the row has")
    trainings = [row.name for row in timed_rows()]
    parser.add_argument("--rows", nargs="+", choices=trainings, help="rows to measure with `times` (default: all)")
    parser.add_argument("--horizons", type=int, nargs="+", default=HORIZONS)
    arguments = parser.parse_args(words[:cut])
    arguments.data, arguments.flags = arguments.data.resolve(), words[cut + 1 :]
    return arguments


def run_row(name: str, arguments: argparse.Namespace) -> Iterator[Cells]:
    if name == "digits":
        return digits(arguments)
    return etth1(arguments) if name == "etth1" else single(name, arguments)


def single(name: str, arguments: argparse.Namespace) -> Iterator[Cells]:
    """Trains and scores one model, or one per seed. The Korean model is also scored on everyday sentences."""
    row = next(row for row in SINGLE if row.name == name)
    flags = [*data_flags(row, arguments.data), *row.flags, *arguments.flags]
    if row.pretraining:
        before = arguments.runs / row.pretraining
        trained("mlm", row.pretraining, data_flags(row._replace(recipe=row.pretraining), arguments.data), before)
        flags = [*flags, "--init", str(before)]
    outs = run_folders(row, arguments.runs)[: arguments.seeds]
    for seed, out in enumerate(outs):
        record = trained(row.task, row.recipe, [*flags, *(("--seed", str(seed)) if row.seeds > 1 else ())], out)
        yield [out.name, row.measure.shown(record), *record["notes"]]
    if name == "ko-en":
        (out,) = outs
        files = [str(arguments.data / "ko-en" / f"jhe.test.{language}") for language in ("ko", "en")]
        scores = json.loads(glassformer("eval", str(out), "--data", *files, "--json", caught=True))
        (out / "jhe.json").write_text(json.dumps(scores, ensure_ascii=False), encoding="utf-8")
        yield ["jhe.test", f"{scores['metrics']['bleu']:.2f} BLEU", *scores["notes"]]


def run_folders(row: Row, runs: Path) -> list[Path]:
    return [runs / row.name] if row.seeds == 1 else [runs / f"{row.name}-{seed}" for seed in range(row.seeds)]


def data_flags(row: Row, data: Path) -> list[str]:
    """The flags --data, --valid and --test of a recipe, with paths in the folder of data sets."""
    recipe = tomllib.loads((ROOT / "recipes" / f"{row.recipe}.toml").read_text(encoding="utf-8"))
    flags = []
    for name in ("data", "valid", "test"):
        files = row.files.get(name, recipe.get(name, ()))
        places = [data / Path(file).relative_to("data") for file in ((files,) if isinstance(files, str) else files)]
        if places:
            zipped = [place.with_name(f"{place.name}.gz") for place in places]
            chosen = [z if z.exists() and not p.exists() else p for p, z in zip(places, zipped, strict=True)]
            flags += [f"--{name}", *map(str, chosen)]
    return flags


def etth1(arguments: argparse.Namespace) -> Iterator[Cells]:
    """Trains every horizon and seed, and DLinear on the same windows, then yields the table."""
    for horizon in arguments.horizons:
        flags = ["--data", str(arguments.data / "ett" / "ETTh1.csv"), "--horizon", str(horizon)]
        flags += [*SIZES.get(horizon, ()), *arguments.flags]
        for seed in range(arguments.seeds or 3):
            out = arguments.runs / f"etth1-{horizon}-{seed}"
            trained("forecast", "etth1", [*flags, "--seed", str(seed)], out)
            if not (out / "dlinear.json").exists():
                task = forecast_task(out)
                score = dlinear(task.train, task.valid, task.test, seed)
                (out / "dlinear.json").write_text(json.dumps({"mse": score}), encoding="utf-8")
    yield from etth1_table(arguments.runs)


def forecast_task(run: Path) -> Any:
    """The data of a run, and its model."""
    from glassformer.checkpoints.run import read_record as read_run
    from glassformer.tasks.registry import make_task, settings_for_scoring

    task = make_task(settings_for_scoring("forecast", read_run(run)["settings"], str(run)))
    task.model.eval()
    return task


def etth1_table(runs: Path) -> Iterator[Cells]:
    """The finished horizons; the average only if all are finished."""
    yield ["horizon", "seeds", "MSE", "MAE", "DLinear", "linear", "seasonal naive, 24"]
    yield ["---:"] * 7
    every = []
    for horizon in HORIZONS:
        folders = [out for out in sorted(runs.glob(f"etth1-{horizon}-*")) if (out / "dlinear.json").exists()]
        records = [read_record(out) for out in folders]
        if not records:
            yield [str(horizon), "-", "not run yet", "-", "-", "-", "-"]
            continue
        scores = [[record["results"][name] for record in records] for name in ("mse", "mae")]
        scores += [[json.loads((out / "dlinear.json").read_text(encoding="utf-8"))["mse"] for out in folders]]
        seasonal, linear = (baseline["mse"] for baseline in records[0]["baselines"].values())
        every.append([*map(fmean, scores), linear, seasonal])
        yield [str(horizon), str(len(records)), *map(spread, scores), f"{linear:.4f}", f"{seasonal:.4f}"]
    if len(every) == len(HORIZONS):
        yield ["average", "", *(f"{fmean(column):.4f}" for column in zip(*every, strict=True))]


def digits(arguments: argparse.Namespace) -> Iterator[Cells]:
    """Stratified 80/20 splits, one per seed, and a support-vector machine on the same splits."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import GridSearchCV, train_test_split
    from sklearn.svm import SVC

    yield ["split", "this model", "support-vector machine"]
    yield ["---:"] * 3
    pixels, labels = load_digits(return_X_y=True)
    for seed in range(arguments.seeds or 10):
        parts = train_test_split(pixels, labels, test_size=0.2, stratify=labels, random_state=seed)
        folder = arguments.runs / f"digits-data-{seed}"
        write_idx(folder, *parts)
        flags = ["--data", str(folder), "--seed", str(seed), *arguments.flags]
        record = trained("images", "digits", flags, arguments.runs / f"digits-{seed}")
        beside = arguments.runs / f"digits-{seed}" / "svm.json"
        if not beside.exists():
            train, test, train_labels, test_labels = parts
            reached = GridSearchCV(SVC(), GRID).fit(train, train_labels).score(test, test_labels)
            beside.write_text(json.dumps({"accuracy": float(reached)}), encoding="utf-8")
        theirs = json.loads(beside.read_text(encoding="utf-8"))["accuracy"]
        yield [str(seed), f"{100 * record['results']['accuracy']:.2f}", f"{100 * theirs:.2f}"]
    yield ["mean", *digits_means(arguments.runs)]


def digits_means(runs: Path) -> tuple[str, str]:
    folders = [out for out in sorted(runs.glob("digits-[0-9]*")) if (out / "svm.json").exists()]
    ours = [100 * read_record(out)["results"]["accuracy"] for out in folders]
    theirs = [100 * json.loads((out / "svm.json").read_text(encoding="utf-8"))["accuracy"] for out in folders]
    return spread(ours, 2), spread(theirs, 2)


def write_idx(folder: Path, *parts: NDArray[Any]) -> None:
    """Writes training and test images with pixels from 0 to 16, and their labels, as MNIST's four files."""
    folder.mkdir(parents=True, exist_ok=True)
    train, test, train_labels, test_labels = parts
    for part, images, names in (("train", train, train_labels), ("t10k", test, test_labels)):
        grey = np.rint(images * 255 / 16).astype(np.uint8).reshape(-1, 8, 8)
        for kind, values in (("images", grey), ("labels", names.astype(np.uint8))):
            header = struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape)
            (folder / f"{part}-{kind}-idx{values.ndim}-ubyte").write_bytes(header + values.tobytes())


def nanogpt_time(arguments: argparse.Namespace) -> Iterator[Cells]:
    """Times nanoGPT's CPU recipe in plain PyTorch with transformers' GPT-2, then ours, cut to that time and whole.

    nanoGPT's recipe has 2,000 steps and 9 evaluations of 20 batches per split. Ours is timed with its validations.
    """
    import torch
    from train import BATCH, CONTEXT, HEADS, LAYERS, WIDTH
    from transformers import GPT2Config, GPT2LMHeadModel

    text = (arguments.data / "shakespeare" / "input.txt").read_text(encoding="utf-8")
    names = sorted(set(text))
    ids = torch.tensor([names.index(character) for character in text])
    splits = ids[: int(0.9 * len(ids))], ids[int(0.9 * len(ids)) :]
    sizes: dict[str, Any] = {"n_positions": CONTEXT, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS}
    off: dict[str, Any] = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "use_cache": False}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(names), bos_token_id=0, eos_token_id=0, **sizes, **off))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)

    def loss(split: torch.Tensor) -> torch.Tensor:
        starts = torch.randint(len(split) - CONTEXT, (BATCH,)).tolist()
        batch = torch.stack([split[start : start + CONTEXT] for start in starts])
        found: torch.Tensor = model(batch, labels=batch).loss
        return found

    began = time.perf_counter()
    for step in range(2001):
        if step % 250 == 0:
            with torch.no_grad():
                for split in splits:
                    fmean(float(loss(split)) for _ in range(20))
        if step < 2000:
            loss(splits[0]).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    theirs = time.perf_counter() - began
    row = next(row for row in SINGLE if row.name == "shakespeare")
    found: Record = {"nanogpt": theirs, "threads": torch.get_num_threads(), "ours": []}
    for flags in (SHORT, ()):
        out = arguments.runs / f"shakespeare-timed{'-short' if flags else ''}"
        shutil.rmtree(out, ignore_errors=True)  # an earlier run was not timed next to nanoGPT's
        record = trained("lm", row.recipe, [*data_flags(row, arguments.data), *flags], out)
        seconds = record["results"]["train_seconds"]
        found["ours"].append({"steps": record["steps"], "seconds": seconds, "loss": NATS.shown(record)})
    (arguments.runs / "nanogpt-time.json").write_text(json.dumps(found), encoding="utf-8")
    yield from nanogpt_table(arguments.runs)


def nanogpt_table(runs: Path) -> Iterator[Cells]:
    found = json.loads((runs / "nanogpt-time.json").read_text(encoding="utf-8"))
    yield ["recipe", "steps", "seconds", "loss", "threads"]
    yield ["---", *["---:"] * 4]
    yield ["nanoGPT's CPU recipe", "2,000", f"{found['nanogpt']:.0f}", "1.886 (published)", str(found["threads"])]
    for run in found["ours"]:
        yield ["`shakespeare`", f"{run['steps']:,}", f"{run['seconds']:.0f}", run["loss"], str(found["threads"])]


def times(arguments: argparse.Namespace) -> Iterator[Cells]:
    """Seconds per training step of each row, in turns with the core's own layers and PyTorch's cross-entropy ("plain")
    and with those of `training/quicker.py`. Beside them the speed of a step's matrix products as a share of the fastest
    here, and the minutes of the whole training without evaluations. Rows that are not measured keep their figures."""
    file = arguments.runs / "times.json"
    found: dict[str, dict[str, float]] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    limit = matmul_limit()
    for row in timed_rows():
        name = row.name
        if name not in (arguments.rows or [name]):
            continue
        words = ["--config", str(ROOT / "recipes" / f"{row.recipe}.toml"), *data_flags(row, arguments.data), *row.flags]
        if row.pretraining:
            words += ["--init", str(begun(row.pretraining, arguments))]
        seconds: dict[str, list[float]] = {"plain": [], "quicker": []}
        flops = 0
        for side in ("plain", "quicker") * TURNS:
            each, counted, steps = step_seconds(row.task, words, quicker=side == "quicker")
            seconds[side].append(each)
            flops = max(flops, counted)  # products by oneDNN are not counted
        best = {side: min(measured) for side, measured in seconds.items()}
        found[name] = best | {"flops": flops, "limit": limit, "steps": steps}
        print(name, best, file=sys.stderr, flush=True)
        file.write_text(json.dumps(found, indent=1), encoding="utf-8")
    yield from times_table(arguments.runs)


def timed_rows() -> list[Row]:
    """Every training: a row has several if it has several horizons or pre-trains."""
    rows = [Row("digits", "images", "digits", PERCENT, "")]
    rows += [
        Row(f"etth1-{horizon}", "forecast", "etth1", MSE, "", ("--horizon", str(horizon), *SIZES[horizon]))
        for horizon in HORIZONS
    ]
    for row in SINGLE:
        if row.pretraining:
            rows.append(Row(row.pretraining, "mlm", row.pretraining, PERCENT, ""))
        rows.append(row)
    return rows


def begun(recipe: str, arguments: argparse.Namespace) -> Path:
    """The finished pre-training or, because the time of a step does not depend on the weights, its first step."""
    finished = arguments.runs / recipe
    if "results" in read_record(finished):
        return finished
    flags = [*data_flags(Row(recipe, "mlm", recipe, PERCENT, ""), arguments.data), "--steps", "1", "--eval-every", "1"]
    out = arguments.runs / f"{recipe}-one-step"
    trained("mlm", recipe, flags, out)
    return out


def times_table(runs: Path) -> Iterator[Cells]:
    yield ["training", "plain, s per step", "quicker, s per step", "of the matmul limit", "steps", "minutes"]
    yield ["---", *["---:"] * 5]
    for name, one in json.loads((runs / "times.json").read_text(encoding="utf-8")).items():
        share = one["flops"] / one["quicker"] / one["limit"]
        minutes = one["quicker"] * one["steps"] / 60
        figures = [
            f"{one['plain']:.3f}",
            f"{one['quicker']:.3f}",
            f"{share:.0%}",
            f"{one['steps']:,}",
            f"{minutes:.1f}",
        ]
        yield [f"`{name}`", *figures]


def step_seconds(task: str, words: list[str], *, quicker: bool) -> tuple[float, int, int]:
    """Seconds and floating-point operations of one training step with these flags, and the steps of the whole run."""
    import tempfile
    from contextlib import ExitStack
    from unittest.mock import patch

    from rich.console import Console
    from torch.utils.flop_counter import FlopCounterMode

    from glassformer.tasks.registry import TASKS, make_task
    from glassformer.training import loop
    from glassformer.training import task as tasks
    from glassformer.training.checkpoint import Checkpoints
    from glassformer.training.quicker import keep_freed_memory
    from glassformer.training.ranks import Ranks
    from glassformer.training.report import Report
    from glassformer.verbs.flags import read_settings

    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        if quicker:
            stack.enter_context(keep_freed_memory())
        else:
            stack.enter_context(patch.object(loop, "speed_up", lambda *_, **__: None))
            stack.enter_context(patch.object(tasks, "cross_entropy", plain_cross_entropy))
        options: Any = read_settings(TASKS[task].settings, f"train {task}", [*words, "--out", folder])
        ranks = Ranks("cpu")
        report = Report(Path(folder) / "metrics.jsonl", Console(quiet=True), unit="steps", steps=10**6)
        trainer = loop.Trainer(make_task(options), options, ranks, Checkpoints(Path(folder), ranks, 1), report)
        batches = trainer.remaining()
        flops = 0
        for _ in range(WARM):
            with FlopCounterMode(display=False) as counter:
                trainer.update(next(batches))
            flops += counter.get_total_flops()
        steps = STEPS["quicker" if quicker else "plain"]
        began = time.perf_counter()
        for _ in range(steps):
            trainer.update(next(batches))
        return (time.perf_counter() - began) / steps, flops // WARM, options.steps


def plain_cross_entropy(logits: Any, labels: Any, *, ignore: int, smoothing: float) -> Any:
    from torch.nn.functional import cross_entropy

    return cross_entropy(logits, labels, ignore_index=ignore, reduction="sum", label_smoothing=smoothing)


def matmul_limit() -> float:
    """Floating-point operations per second of a large matrix product, the best of several, by MKL or oneDNN."""
    import torch

    from glassformer.training.quicker import is_onednn_faster, linear

    size = 2048
    a, b = torch.randn(size, size), torch.randn(size, size)
    seconds = []
    for _ in range(8):
        began = time.perf_counter()
        linear(a, b, None) if is_onednn_faster() else a @ b
        seconds.append(time.perf_counter() - began)
    return 2 * size**3 / min(seconds)


def drop_last(arguments: argparse.Namespace) -> Iterator[Cells]:
    """MSE of one run per horizon, over every test window and without the incomplete last batch."""
    from glassformer.tasks.baselines import linear_forecast

    found: dict[str, dict[str, float]] = {}
    for horizon in HORIZONS:
        run = arguments.runs / f"etth1-{horizon}-0"
        if "results" not in read_record(run):
            continue
        task = forecast_task(run)
        counts = {str(size): len(task.test) // size * size for size in DROPPED} | {"every": len(task.test)}
        squared = linear = 0.0
        before = 0
        for size, count in sorted(counts.items(), key=lambda item: item[1]):  # each count extends the previous one
            new = range(before, count)
            if new:
                squared += len(new) * task.errors(task.test, new)["mse"]
                linear += len(new) * linear_forecast(task.train, task.test, numbers=new).mse
            before = count
            found[f"{horizon} {size}"] = {"windows": count, "mse": squared / count, "linear": linear / count}
    (arguments.runs / "drop-last.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
    yield from drop_last_table(arguments.runs)


def drop_last_table(runs: Path) -> Iterator[Cells]:
    yield ["horizon", "every window", *(f"drop-last, {size:,}" for size in DROPPED), "windows"]
    yield ["---:"] * 5
    file = runs / "drop-last.json"
    found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    for horizon in HORIZONS:
        scores = [found.get(f"{horizon} {size}") for size in ("every", *DROPPED)]
        if None in scores:
            yield [str(horizon), *["not run yet"] * 3, "-"]
        else:
            shown = [f"{score['mse']:.4f} ({score['linear']:.4f})" for score in scores if score]
            yield [str(horizon), *shown, " / ".join(f"{score['windows']:,}" for score in scores if score)]


def trained(task: str, recipe: str, flags: list[str], out: Path) -> Record:
    """The record of a run of this recipe: finished already, resumed, or new. A run of another recipe is an error."""
    record = read_record(out)
    if record:
        check_same_settings(record["settings"], task, recipe, flags, out)
    if "results" not in record:
        words = ["train", task, "--config", str(ROOT / "recipes" / f"{recipe}.toml"), "--out", str(out)]
        words = ["train", task, "--out", str(out), "--resume"] if record else [*words, *flags]
        print(f"glassformer {' '.join(words)}", file=sys.stderr, flush=True)
        glassformer(*words)
        record = read_record(out)
    return record


def check_same_settings(old: Record, task: str, recipe: str, flags: list[str], out: Path) -> None:
    from glassformer.tasks.registry import TASKS
    from glassformer.training.settings import DATA as PLACES
    from glassformer.training.settings import FREE
    from glassformer.verbs.flags import read_settings

    words = ["--config", str(ROOT / "recipes" / f"{recipe}.toml"), "--out", str(out), *flags]
    new = json.loads(json.dumps(read_settings(TASKS[task].settings, f"train {task}", words).to_dict(), default=str))
    names = [name for name in new if name == "steps" or name not in (*FREE, *PLACES, "init")]
    if changed := [
        f"{name} {old.get(name)}, now {new[name]}" for name in names if old.get(name, new[name]) != new[name]
    ]:
        sys.exit(f"{out} was trained with other settings ({'; '.join(changed)}). Use another --runs, or delete it")


def glassformer(*words: str, caught: bool = False) -> str:
    """Runs `glassformer WORDS` from this checkout. Its output goes to stderr, or is returned if `caught`."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "glassformer", *words]
    to: Any = subprocess.PIPE if caught else sys.stderr
    done = subprocess.run(command, env=environment, stdout=to, check=False, text=True)
    if done.returncode:
        sys.exit(f"glassformer {words[0]} exited with code {done.returncode}. Run the same command again to resume")
    return done.stdout or ""


def write_pages(runs: Path) -> None:
    """Writes the tables of both pages from the finished runs."""
    for language, page in PAGES.items():
        header = ["data", "this model", "baselines", "published", "steps", "parameters", "command"]
        lines = [header, ["---", "---:", "---", "---", "---:", "---:", "---"]]
        for name in NAMES:
            not_run = [f"`{name}`", "not run yet", "-", published(name), "-", "-", command(name)]
            lines.append(row_cells(name, runs) or old_cells("results", name, page) or not_run)
        put("results", in_language(lines, language), page)
        short = [["trained on public data", "Glassformer", "published"], ["---", "---:", "---"]]
        short += [[LEARNED[name], line[1], line[3]] for name in LEARNED for line in lines if line[0] == f"`{name}`"]
        put("learned", in_language(short, language), READMES[language])
        signed = [line for row in SINGLE for line in signatures(row.name, runs) or old_signatures(row.name, page)]
        put("signatures", "\n".join(signed), page)
        if row_cells("etth1", runs):
            put("etth1", in_language(list(etth1_table(runs)), language), page)
        if (runs / "drop-last.json").exists() and not any("not run yet" in row for row in drop_last_table(runs)):
            put("drop-last", in_language(list(drop_last_table(runs)), language), page)
        if (runs / "times.json").exists():
            header, under, *measured = times_table(runs)
            new = {cells[0].strip("`"): cells for cells in measured}
            every = [new.get(name) or old_cells("times", name, page) for name in map(attrgetter("name"), timed_rows())]
            put("times", in_language([header, under, *filter(None, every)], language), page)
        if (runs / "nanogpt-time.json").exists():
            put("nanogpt-time", in_language(list(nanogpt_table(runs)), language), page)
        print(f"written: {page.relative_to(ROOT)}")


def old_cells(table: str, name: str, page: Path) -> Cells | None:
    """The cells that a row has on the page now."""
    row = re.search(rf"^\| `{name}` \|.*$", old_table(table, page), re.MULTILINE)
    return [cell.strip() for cell in row[0].strip("|").split("|")] if row else None


def old_signatures(name: str, page: Path) -> list[str]:
    return re.findall(rf"^- `{name}`[:,].*$", old_table("signatures", page), re.MULTILINE)


def old_table(name: str, page: Path) -> str:
    return page.read_text(encoding="utf-8").partition(f"<!-- {name} -->")[2].partition(f"<!-- /{name} -->")[0]


def signatures(name: str, runs: Path) -> list[str]:
    """Lines of a list: BLEU and chrF of a translation run, with sacreBLEU's signatures."""
    record, everyday = read_record(runs / name), runs / name / "jhe.json"
    scored = [(f"`{name}`", record["results"], record["notes"])] if "results" in record else []
    if everyday.exists():
        scores = json.loads(everyday.read_text(encoding="utf-8"))
        scored.append((f"`{name}`, `jhe.test`", scores["metrics"], scores["notes"]))
    lines = []
    for what, scores, notes in scored:
        for note in notes:
            measure, _, signature = note.partition(": ")
            if shown := {"bleu": "BLEU", "chrf": "chrF"}.get(measure):
                lines.append(f"- {what}: {scores[measure]:.2f} {shown}, `{signature}`")
    return lines


def row_cells(name: str, runs: Path) -> Cells | None:
    """The cells of a row if all its runs are finished, otherwise None."""
    if name == "digits":
        records = finished(runs, "digits-[0-9]*")
        if len(records) < 10 or len(list(runs.glob("digits-[0-9]*/svm.json"))) < 10:
            return None
        ours, theirs = digits_means(runs)
        figure, beside, models = f"{ours} %", f"support-vector machine {theirs} %", [runs / "digits-0"]
    elif name == "etth1":
        records = finished(runs, "etth1-[0-9]*")
        if len(records) < 3 * len(HORIZONS) or len(list(runs.glob("etth1-[0-9]*/dlinear.json"))) < len(records):
            return None
        *_, average = etth1_table(runs)
        figure = f"MSE {average[2]}"
        beside = f"DLinear {average[4]}; linear {average[5]}; seasonal naive, 24 {average[6]}"
        models = [runs / f"etth1-{horizon}-0" for horizon in HORIZONS]
    else:
        row = next(row for row in SINGLE if row.name == name)
        out, *_ = models = run_folders(row, runs)
        records = [record for record in map(read_record, models) if "results" in record]
        if len(records) < len(models):
            return None
        figure = row.measure.shown(*records)
        if (out / "jhe.json").exists():
            everyday = json.loads((out / "jhe.json").read_text(encoding="utf-8"))
            figure = f"bible {figure}; jhe {everyday['metrics']['bleu']:.2f} BLEU"
        baselines = records[0]["baselines"].items()
        beside = "; ".join(f"{method} {row.measure.shown(as_record(s))}" for method, s in baselines) or "-"
    repeated = Counter(record["steps"] for record in records)
    steps = ", ".join(f"{each:,}" + (f" x {times}" if times > 1 else "") for each, times in repeated.items())
    before = next((row.pretraining for row in SINGLE if row.name == name), "")
    if before and (pretrained := read_record(runs / before).get("steps")):
        steps = f"{pretrained:,} + {steps}"
    sizes = sorted(map(parameters, models))
    size = f"{sizes[0]:,}" if sizes[0] == sizes[-1] else f"{sizes[0]:,} / {sizes[-1]:,}"
    return [f"`{name}`", f"**{figure}**", beside, published(name), steps, size, command(name)]


def as_record(scores: dict[str, float]) -> Record:
    """The scores of a baseline as a run record. N-grams report only bits, from which the perplexity is computed."""
    if "bits_per_byte" in scores:
        scores = {"perplexity": 2 ** scores["bits_per_byte"], **scores}
    return {"results": scores}


def published(name: str) -> str:
    known = {"digits": "none found", "etth1": "PatchTST .419, DLinear .425, SparseTSF .407, DUET .398"}
    return known.get(name) or next(row.published for row in SINGLE if row.name == name)


def command(name: str) -> str:
    return f"`python benchmarks/results.py {name}`"


def parameters(out: Path) -> int:
    """The number of parameters of a run, from the header of its weights file."""
    with (out / "model.safetensors").open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return sum(math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")


def in_language(lines: list[Cells], language: str) -> str:
    from glassformer.figures.korean import in_korean

    def said(cell: str) -> str:
        if language == "en":
            return cell
        for english in sorted(KOREAN, key=len, reverse=True):
            if cell == english:
                return KOREAN[english]
        for english in ("support-vector machine", "every window"):
            cell = cell.replace(english, KOREAN[english])
        methods = "; ".join(translated(part, in_korean) for part in cell.split("; "))
        return KOREAN.get(cell, methods)

    return "\n".join("| " + " | ".join(map(said, cells)) + " |" for cells in lines)


def translated(part: str, in_korean: Callable[[str], str | None]) -> str:
    """`METHOD FIGURE`, with the method in Korean if a translation is known."""
    words = part.rsplit(" ", 2)
    for cut in (1, 2):
        method, figure = " ".join(words[:-cut]), " ".join(words[-cut:])
        if method and (korean := in_korean(method)):
            return f"{korean} {figure}"
    return in_korean(part) or part


def finished(runs: Path, pattern: str) -> list[Record]:
    records = [read_record(out) for out in sorted(runs.glob(pattern)) if "data" not in out.name]
    return [record for record in records if "results" in record]


def read_record(out: Path) -> Record:
    file = out / "run.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def spread(values: list[float], digits: int = 4) -> str:
    """Mean and standard deviation, or the value itself if there is only one."""
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{fmean(values):.{digits}f} ± {pstdev(values):.{digits}f}"


if __name__ == "__main__":
    main()
