"""Runs recipes as their published rows ask for it: over seeds, splits and horizons, on real data.

    python benchmarks/results.py digits
    python benchmarks/results.py etth1 --data DIR --runs DIR
    python benchmarks/results.py etth1 --horizons 96 --seeds 1 -- --rate 0.001     # flags of each training after --

Every training is a run of its own in --runs: one that is there and finished is not made again, and one that was ended
is taken up, so all of it can be stopped at any time. The table says the mean over the seeds and the spread.
Shakespeare, NSMC, Fashion-MNIST and the translations are one run each: `glassformer train TASK --config recipes/NAME`.
"""

import argparse
import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import numpy as np
from numpy.typing import NDArray
from readme import ROOT

HORIZONS = (96, 192, 336, 720)


def main() -> None:
    arguments = read_arguments()
    rows = {"digits": digits, "etth1": etth1}[arguments.row](arguments)
    for cells in rows:
        print("| " + " | ".join(cells) + " |", flush=True)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", choices=["digits", "etth1"])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="holds NAME/ of each set")
    parser.add_argument("--runs", type=Path, default=Path("runs/results"), help="where the trainings go")
    parser.add_argument("--seeds", type=int, help="how many; ten for digits, three for etth1")
    parser.add_argument("--horizons", type=int, nargs="+", default=HORIZONS)
    parser.add_argument("flags", nargs="*", help="after --, for every training")
    return parser.parse_args()


def etth1(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """The four horizons, and their average."""
    yield ["horizon", "MSE", "MAE", "linear", "seasonal naive"]
    yield ["---:"] * 5
    every = []
    for horizon in arguments.horizons:
        flags = ["--data", str(arguments.data / "ett" / "ETTh1.csv"), "--horizon", str(horizon), *arguments.flags]
        records = [
            trained("forecast", "etth1", [*flags, "--seed", str(seed)], arguments.runs / f"etth1-{horizon}-{seed}")
            for seed in range(arguments.seeds or 3)
        ]
        scores = [[record["results"][name] for record in records] for name in ("mse", "mae")]
        beside = [baseline["mse"] for baseline in records[0]["baselines"].values()]
        every.append([*map(fmean, scores), *beside])
        seasonal, linear = beside
        yield [str(horizon), *map(spread, scores), f"{linear:.4f}", f"{seasonal:.4f}"]
    mse, mae, seasonal, linear = (fmean(column) for column in zip(*every, strict=True))
    yield ["average", f"{mse:.4f}", f"{mae:.4f}", f"{linear:.4f}", f"{seasonal:.4f}"]


def digits(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Stratified splits of 80 and 20 %, one for each seed, and a support-vector machine on the same."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import GridSearchCV, train_test_split
    from sklearn.svm import SVC

    yield ["split", "this model", "support-vector machine"]
    yield ["---:"] * 3
    pixels, labels = load_digits(return_X_y=True)
    grid = {"C": [1, 3, 10, 30], "gamma": [0.0003, 0.001, 0.003]}
    ours, theirs = [], []
    for seed in range(arguments.seeds or 10):
        parts = train_test_split(pixels, labels, test_size=0.2, stratify=labels, random_state=seed)
        folder = arguments.runs / f"digits-data-{seed}"
        write_idx(folder, *parts)
        flags = ["--data", str(folder), "--seed", str(seed), *arguments.flags]
        record = trained("images", "digits", flags, arguments.runs / f"digits-{seed}")
        ours.append(100 * record["results"]["accuracy"])
        train, test, train_labels, test_labels = parts
        theirs.append(100 * GridSearchCV(SVC(), grid).fit(train, train_labels).score(test, test_labels))
        yield [str(seed), f"{ours[-1]:.2f}", f"{theirs[-1]:.2f}"]
    yield ["mean", spread(ours, 2), spread(theirs, 2)]


def write_idx(folder: Path, *parts: NDArray[Any]) -> None:
    """Pixels of 0 to 16 to train and to test, and their labels, as MNIST's four files."""
    folder.mkdir(parents=True, exist_ok=True)
    train, test, train_labels, test_labels = parts
    for part, images, names in (("train", train, train_labels), ("t10k", test, test_labels)):
        grey = np.rint(images * 255 / 16).astype(np.uint8).reshape(-1, 8, 8)
        for kind, values in (("images", grey), ("labels", names.astype(np.uint8))):
            header = struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape)
            (folder / f"{part}-{kind}-idx{values.ndim}-ubyte").write_bytes(header + values.tobytes())


def trained(task: str, recipe: str, flags: list[str], out: Path) -> dict[str, Any]:
    """The record of a run of this recipe: a finished one, one that is taken up, or a new one."""
    record = read_record(out)
    if "results" not in record:
        words = ["train", task, "--config", str(ROOT / "recipes" / f"{recipe}.toml"), "--out", str(out)]
        words = ["train", task, "--out", str(out), "--resume"] if record else [*words, *flags]
        print(f"glassformer {' '.join(words)}", file=sys.stderr, flush=True)
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        command = [sys.executable, "-m", "glassformer", *words]
        if subprocess.run(command, env=environment, stdout=sys.stderr, check=False).returncode:
            sys.exit(f"{out} is not finished; the same command takes it up")
        record = read_record(out)
    return record


def read_record(out: Path) -> dict[str, Any]:
    file = out / "run.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def spread(values: list[float], digits: int = 4) -> str:
    return f"{fmean(values):.{digits}f} ± {pstdev(values):.{digits}f}"


if __name__ == "__main__":
    main()
