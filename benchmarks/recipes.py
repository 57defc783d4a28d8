"""Runs every recipe on its real data for a few minutes, and compares its scores with baselines.

    make recipes
    python benchmarks/recipes.py --minutes 10 --only nsmc --only etth1
    python benchmarks/recipes.py --data DIR --dry        # data from DIR; does not write docs/measured.md

The recipes are meant to run longer: a few minutes show that each runs and learns, not how good it gets. If a recipe's
warm-up is longer than the short run, it is shortened, and the table says so. Data is read from DIR (default:
../shared/data); recipes whose data is missing are skipped with a message. A table of all recipes is written into
docs/measured.md, between <!-- recipes --> and <!-- /recipes -->; an incomplete one is only printed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from readme import ROOT, write_table

from glassformer.data.known import KNOWN
from glassformer.training.report import readable_metric

SHORT = 20  # minutes; in a shorter run a long warm-up would take most of the training


class Recipe(NamedTuple):
    """A recipe, the metrics to print, and the flags for a short run."""

    name: str
    metrics: tuple[str, ...]
    flags: tuple[str, ...] = ()

    @property
    def data(self) -> str | None:
        """The name of its data set; None for the digits, which are built in."""
        return next((name for name, entry in KNOWN.items() if entry.recipe == self.name), None)

    @property
    def task(self) -> str:
        return KNOWN[self.data].task if self.data else "images"


RECIPES = (
    Recipe("digits", ("accuracy",)),
    Recipe("etth1", ("mse", "mae")),
    Recipe("shakespeare", ("bits_per_byte",)),
    Recipe("fashion-mnist", ("accuracy",)),
    Recipe("nsmc", ("accuracy",)),
    Recipe("multi30k-en-de", ("bleu", "perplexity"), ("--warmup", "50")),
    Recipe("ko-en", ("bleu", "perplexity"), ("--warmup", "50")),
)


def main() -> None:
    arguments = read_arguments()
    rows, failed = [], []
    with tempfile.TemporaryDirectory(prefix="glassformer-recipes-") as folder:
        for recipe in RECIPES:
            if arguments.only and recipe.name not in arguments.only:
                continue
            print(f"\n== {recipe.name}", flush=True)
            if recipe.data is not None and not (arguments.data / recipe.data).is_dir():
                print(f"skipped: {arguments.data} has no {recipe.data}. Give its folder with --data DIR")
                continue
            row = tried(recipe, arguments.minutes, arguments.data, Path(folder))
            if row is None:
                failed.append(recipe.name)
            else:
                rows.append(row)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")
    if not rows:
        sys.exit("no recipe was run: none of their data was found. Give its folder with --data DIR")
    print()
    header = [f"recipe, {arguments.minutes:g} min in total", "steps", "score", "baselines", "total time"]
    write_table("recipes", header, rows, optional=True, dry=len(rows) < len(RECIPES))


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2.0, help="minutes per recipe, including reading and scoring")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of the data sets")
    parser.add_argument("--only", action="append", choices=[recipe.name for recipe in RECIPES], help="run only this")
    parser.add_argument("--dry", action="store_true", help="do not write docs/measured.md")  # readme.py reads it
    arguments = parser.parse_args()
    arguments.data = arguments.data.resolve()  # the commands run in a different folder
    return arguments


def tried(recipe: Recipe, minutes: float, source: Path, folder: Path) -> list[str] | None:
    """Runs the commands of a recipe as a user would, `minutes` in all.

    Returns a row of the table, or None if one failed.
    """
    if recipe.data is not None and not run("data", recipe.data, "--from", str(source), folder=folder):
        return None
    before = KNOWN[recipe.data].pretraining if recipe.data else ""
    start = time.perf_counter()
    if before:
        minutes /= 2
    if before and not run(
        "train", "mlm", "--config", str(ROOT / "recipes" / f"{before}.toml"), "--minutes", str(minutes), folder=folder
    ):
        return None
    flags = recipe.flags if minutes < SHORT else ()
    config = ROOT / "recipes" / f"{recipe.name}.toml"
    if not run("train", recipe.task, "--config", str(config), "--minutes", str(minutes), *flags, folder=folder):
        return None
    whole = time.perf_counter() - start
    record = json.loads((folder / "runs" / recipe.name / "run.json").read_text(encoding="utf-8"))
    baselines = [f"{name} {said(scores, recipe.metrics)}" for name, scores in record["baselines"].items()]
    return [
        f"`{recipe.name}`{' ' + ' '.join(flags) if flags else ''}",
        f"{record['steps']:,}",
        said(record["results"], recipe.metrics),
        "; ".join(baselines) or "-",
        f"{whole:.0f} s",
    ]


def run(*words: str, folder: Path) -> bool:
    """Runs `glassformer WORDS` from this checkout in a folder, on two threads. Returns whether it succeeded."""
    # On shared cores, threads that wait in a busy loop make the work take several times as long.
    environment = {"GOMP_SPINCOUNT": "1000", **os.environ, "OMP_NUM_THREADS": "2", "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "glassformer", *words]
    return subprocess.run(command, cwd=folder, env=environment, check=False).returncode == 0


def said(scores: dict[str, float], metrics: tuple[str, ...]) -> str:
    shown = [
        f"{metric.replace('_', ' ')} {readable_metric(metric, scores[metric])}"
        for metric in metrics
        if metric in scores
    ]
    return ", ".join(shown)


if __name__ == "__main__":
    main()
