"""`train caption`, `train ask` and `train match` on the built-in scenes, as a user runs them.

    python benchmarks/scenes.py [TASK ...] [--runs DIR] [--dry]

Each command should finish within eight minutes on two cores. If a score misses its target, it is still written, and the
script fails. With --runs, finished runs are kept there and not trained again.

The script also records the captioner's cross-attention: how much of the attention from a word that names a shape falls
on the patches of that shape? The scenes know the pixels of every shape, so this can be counted.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
from readme import ROOT, write, write_table
from torch import Tensor

import glassformer as gf
from glassformer.data.scenes.make import make_scenes
from glassformer.data.scenes.words import CAPTION_WORDS, caption_of
from glassformer.inspect.looks.attention import picture_input
from glassformer.predict.captions import CaptionPreparer
from glassformer.predict.images import normalised
from glassformer.predict.prepare import preparer_of

PAGES = (ROOT / "docs" / "pictures.md", ROOT / "docs" / "pictures.ko.md")
IMAGE = ROOT / "docs" / "images" / "caption-attention.png"
SECONDS = 480
WATCHED = 500  # test images whose attention is scored


class Goal(NamedTuple):
    """A metric of a task, its name in the table, and its target (None: only reported)."""

    metric: str
    name: str
    least: float | None = None


GOALS = {
    "caption": (
        Goal("exact_match", "captions fully correct", 0.85),
        Goal("facts", "facts correct", 0.95),
        Goal("exact_match_on_held_out_pairs", "captions fully correct, unseen pairs of colour and shape"),
        Goal("facts_on_held_out_pairs", "facts correct, unseen pairs"),
    ),
    "ask": (
        Goal("accuracy", "answers correct", 0.95),
        Goal("accuracy_on_held_out_pairs", "answers correct, unseen pairs"),
    ),
    "match": (
        Goal("recall", "correct match ranked first of 64 (mean of both directions)", 0.80),
        Goal("recall_on_held_out_pairs", "the same, unseen pairs"),
    ),
}


def main() -> None:
    arguments = read_arguments()
    with tempfile.TemporaryDirectory() as place:
        runs = arguments.runs or Path(place)
        rows, missed = [], []
        for task in arguments.tasks:
            record = trained(task, runs / task)
            rows += rows_of(task, record)
            missed += missed_by(task, record)
        dry = arguments.dry or list(arguments.tasks) != list(GOALS)
        header = ["built-in scenes, two cores", "Glassformer", "target", "baselines", "total time"]
        write_table("scenes", header, rows, dry=dry)
        if not dry:
            write("scenes", header, rows, pages=PAGES)
        if "caption" in arguments.tasks:
            looks = look(runs / "caption")
            header = ["attention from the name of a shape to its patches", "share"]
            write_table("looking", header, looks.rows, pages=PAGES, dry=dry)
            if not dry:
                picture_input(
                    gf.load(runs / "caption"), runs / "caption", "example", IMAGE, layer=looks.layer, head=looks.head
                )
    for sentence in missed:
        print(f"missed  {sentence}", file=sys.stderr)
    sys.exit(bool(missed))


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", choices=[*GOALS, []], help="tasks to run (default: all)")
    parser.add_argument("--runs", type=Path, help="folder that keeps the runs")
    parser.add_argument("--dry", action="store_true", help="print the tables without writing them")
    arguments = parser.parse_args()
    arguments.tasks = [task for task in GOALS if task in arguments.tasks] or list(GOALS)
    return arguments


def trained(task: str, out: Path) -> dict[str, Any]:
    """The record of the run, with the seconds of the whole command."""
    clock = out.with_name(f"{task}.seconds")
    if not clock.exists():
        start = time.perf_counter()
        command = [sys.executable, "-m", "glassformer", "train", task, "--out", str(out)]
        subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "2"})
        clock.write_text(f"{time.perf_counter() - start:.0f}", encoding="ascii")
    record: dict[str, Any] = json.loads((out / "run.json").read_text(encoding="utf-8"))
    return {**record, "seconds": int(clock.read_text(encoding="ascii"))}


def rows_of(task: str, record: dict[str, Any]) -> list[list[str]]:
    rows = []
    for number, goal in enumerate(GOALS[task]):
        beside = [
            f"{name}: {scores[goal.metric]:.1%}"
            for name, scores in record["baselines"].items()
            if goal.metric in scores
        ]
        aim = "" if goal.least is None else f"{goal.least:.0%}"
        spent = f"{record['seconds']} s" if number == 0 else ""
        name = f"`train {task}`: {goal.name}"
        rows.append([name, f"**{record['results'][goal.metric]:.1%}**", aim, "; ".join(beside), spent])
    return rows


def missed_by(task: str, record: dict[str, Any]) -> list[str]:
    missed = [
        f"{task}: {goal.metric} {record['results'][goal.metric]:.1%}, target {goal.least:.0%}"
        for goal in GOALS[task]
        if goal.least is not None and record["results"][goal.metric] < goal.least
    ]
    slow = record["seconds"] > SECONDS
    return [*missed, *([f"{task}: {record['seconds']} s, limit {SECONDS} s"] if slow else [])]


class Looks(NamedTuple):
    """The table of attention shares, and the head with the largest share."""

    rows: list[list[str]]
    layer: int
    head: int


@torch.no_grad()
def look(run: Path) -> Looks:
    """The share of cross-attention from a word that names a shape to that shape, for every head of every layer.

    A token is predicted at the position before it, so the attention of that position is scored. A patch belongs to a
    shape if it contains one of its pixels; chance is the fraction of such patches. Attention to the class token counts
    as outside.
    """
    model, tokenizer = gf.load(run).eval(), gf.load_tokenizer(run)
    preparer = preparer_of(model, run)
    assert isinstance(preparer, CaptionPreparer)
    image, decoder = model.config.image, model.config.decoder
    assert image is not None
    assert decoder is not None
    made = make_scenes(range(WATCHED), seed=0, part="test")
    kinds = set(CAPTION_WORDS["en"].kinds.values())
    shares: list[Tensor] = []
    chances: list[float] = []
    for pixels, scene in zip(made.pixels, made.scenes, strict=True):
        ids = tokenizer.ids(caption_of(scene), add_special=False)
        target = torch.tensor([[model.config.decoder_start_token_id, *ids[:-1]]])
        values = normalised(torch.from_numpy(pixels[None]), preparer.preparation)
        with gf.record(model, attention="decoder.blocks.*.cross") as seen:
            model(pixel_values=values, decoder_input_ids=target)
        layers = [seen[f"decoder.blocks.{layer}.cross"][0] for layer in range(decoder.num_layers)]
        weights = torch.stack(layers)  # (layers, heads, tokens, patches and class token)
        naming = [row for row, token in enumerate(ids) if tokenizer.decode([token]).strip() in kinds]
        for row, mask in zip(naming, torch.from_numpy(scene.masks()), strict=True):
            side = image.patch
            inside = mask.unfold(0, side, side).unfold(1, side, side).flatten(2).any(dim=2).flatten()  # (patches)
            shares.append(weights[:, :, row, image.prefix_tokens :][..., inside].sum(dim=-1))
            chances.append(float(inside.float().mean()))
    mean = torch.stack(shares).mean(dim=0)  # (layers, heads)
    layer, head = divmod(int(mean.argmax()), mean.shape[1])
    rows = [
        [f"best head (layer {layer}, head {head})", f"**{float(mean[layer, head]):.1%}**"],
        *([f"mean over the heads of layer {i}", f"{float(heads.mean()):.1%}"] for i, heads in enumerate(mean)),
        ["mean over all heads", f"{float(mean.mean()):.1%}"],
        ["chance: uniform attention over all patches", f"{sum(chances) / len(chances):.1%}"],
    ]
    return Looks(rows, layer, head)


if __name__ == "__main__":
    main()
