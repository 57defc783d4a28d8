"""Runs every recipe end to end on its real data for a short while, and says what came of it beside simple methods.

    make recipes
    python benchmarks/recipes.py --minutes 10 --only nsmc --only etth1
    python benchmarks/recipes.py --data DIR --dry        # data from DIR; nothing is written into docs/measured.md

The recipes are meant for longer: a few minutes show that each runs and learns, not how good it becomes. So where a
recipe warms up over more steps than a short run has, the warm-up is shortened, and the table says so. Data is looked
for in DIR, else in ../shared/data; a data set that is not there is left out, with the reason. A table that lacks a
recipe is printed only; a whole one is written into docs/measured.md, between <!-- recipes --> and <!-- /recipes -->.
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
from glassformer.training.report import as_number

SHORT = 20  # minutes below which a long warm-up would be most of the training


class Recipe(NamedTuple):
    """A recipe as it is tried: what to print of its scores, and flags for a short run."""

    name: str
    metrics: tuple[str, ...]
    flags: tuple[str, ...] = ()

    @property
    def data(self) -> str | None:
        """The name of its data set; the digits are built in."""
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
                print(f"left out: {arguments.data} has no {recipe.data}; give the folder that has it, --data DIR")
                continue
            row = tried(recipe, arguments.minutes, arguments.data, Path(folder))
            if row is None:
                failed.append(recipe.name)
            else:
                rows.append(row)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")
    if not rows:
        sys.exit("no recipe was run: none of their data is here. Give its folder, --data DIR")
    print()
    header = [f"recipe, {arguments.minutes:g} min in all", "steps", "reached", "simple methods", "whole command"]
    write_table("recipes", header, rows, optional=True, dry=len(rows) < len(RECIPES))


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2.0, help="for each recipe, reading and scoring included")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="holds NAME/ of each set")
    parser.add_argument("--only", action="append", choices=[recipe.name for recipe in RECIPES], help="this recipe")
    parser.add_argument("--dry", action="store_true", help="write nothing into docs/measured.md")  # read in readme.py
    arguments = parser.parse_args()
    arguments.data = arguments.data.resolve()  # the commands run in another folder
    return arguments


def tried(recipe: Recipe, minutes: float, source: Path, folder: Path) -> list[str] | None:
    """The two commands of a recipe, as a user gives them: a row of the table, or nothing where one failed."""
    if recipe.data is not None and not run("data", recipe.data, "--from", str(source), folder=folder):
        return None
    flags = recipe.flags if minutes < SHORT else ()
    config = ROOT / "recipes" / f"{recipe.name}.toml"
    start = time.perf_counter()
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
    """`glassformer WORDS` of this checkout, in the folder, on two threads; whether it went well."""
    # Threads that wait in a busy loop cost a machine whose cores are shared several times the work.
    environment = {"GOMP_SPINCOUNT": "1000", **os.environ, "OMP_NUM_THREADS": "2", "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "glassformer", *words]
    return subprocess.run(command, cwd=folder, env=environment, check=False).returncode == 0


def said(scores: dict[str, float], metrics: tuple[str, ...]) -> str:
    shown = [
        f"{metric.replace('_', ' ')} {as_number(metric, scores[metric])}" for metric in metrics if metric in scores
    ]
    return ", ".join(shown)


if __name__ == "__main__":
    main()
