"""Draws the trained models of `benchmarks/results.py` for docs/results.md: curves, errors, and what the models look at.

    python benchmarks/results_pictures.py [--runs DIR] [--data DIR]

It uses the finished runs in --runs; the pictures of other runs stay as they are. Examples are not
selected by hand: the sentence is the first of the validation pairs with a fixed number of words, the window is the last
of the file, and of the test images the script takes the most confident right and the most confident wrong answer.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from readme import ROOT
from results import read_record

from glassformer.figures.palette import FIRST, SECOND, ink_on_weight, scale_of
from glassformer.figures.plots import canvas

IMAGES = ROOT / "docs" / "images"
CURVES = ("shakespeare-0", "shakespeare-long", "etth1-96-0", "nsmc", "fashion-mnist", "multi30k", "ko-en")
CLOTHES = ("T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
WORDS = 9  # of the sentence that is aligned


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs/results"), help="folder of the finished runs")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of the data sets")
    arguments = parser.parse_args()
    runs = [arguments.runs / name for name in CURVES if is_finished(arguments.runs / name)]
    if not runs:
        sys.exit(f"no finished run in {arguments.runs}. Train one first: python benchmarks/results.py shakespeare")
    for run in runs:
        draw_curve(run)
    if is_finished(arguments.runs / "multi30k"):
        draw_alignment(arguments.runs / "multi30k", arguments.data / "multi30k" / "tok" / "val.en")
    if is_finished(arguments.runs / "fashion-mnist"):
        draw_classes(arguments.runs / "fashion-mnist")
    if is_finished(arguments.runs / "etth1-96-0"):
        series = str(arguments.data / "ett" / "ETTh1.csv")
        inspect("rollout", arguments.runs / "etth1-96-0", series, "results-forecast.png")


def is_finished(run: Path) -> bool:
    return "results" in read_record(run)


def draw_curve(run: Path) -> None:
    """The loss in training, and the losses on the validation data."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    judged = "valid_loss" if any("valid_loss" in line for line in lines) else "valid_mse"
    path = IMAGES / f"results-curve-{run.name}.png"
    with canvas(3.1, 2.4, path) as picture:
        axis = picture.subplots()
        for name, colour, label in (("loss", SECOND, "training"), (judged, FIRST, "validation")):
            points = [(line["step"], line[name]) for line in lines if name in line]
            style = "-o" if name == judged and len(points) < 30 else "-"
            axis.plot(*zip(*points, strict=True), style, color=colour, linewidth=1.2, markersize=3, label=label)
        highest = max(line[judged] for line in lines if judged in line)
        axis.set_ylim(top=1.15 * highest, bottom=min(axis.get_ylim()[0], 0.9 * highest))
        axis.set_title(run.name, fontsize=9, loc="left")
        axis.tick_params(labelsize=7)
        axis.grid(alpha=0.25)
        axis.legend(frameon=False, fontsize=7)
    shrink(path)


def draw_alignment(run: Path, sentences: Path) -> None:
    lines = sentences.read_text(encoding="utf-8").splitlines()
    inspect("align", run, next(line for line in lines if len(line.split()) == WORDS), "results-alignment.png")


def draw_classes(run: Path) -> None:
    """The confusion matrix on the test images, and the attention over a right and a wrong answer. Fashion-MNIST's files
    have numbers for classes, in the order of `CLOTHES`."""
    from glassformer.checkpoints.run import read_record as read_run
    from glassformer.tasks.images import ImageClasses
    from glassformer.tasks.metrics import confusion
    from glassformer.tasks.registry import make_task, settings_for_scoring

    task = make_task(settings_for_scoring("images", read_run(run)["settings"], str(run)))
    assert isinstance(task, ImageClasses)
    assert task.test is not None
    task.model.eval()
    logits, truths = task.judge(task.test)
    sure, answers = logits.softmax(dim=-1).max(dim=-1)
    draw_confusion(np.array(confusion(truths.tolist(), answers.tolist(), len(task.names))), CLOTHES)
    for kind, chosen in (("right", answers == truths), ("wrong", answers != truths)):
        number = int((sure * chosen).argmax())
        answer, truth = (CLOTHES[int(which[number])] for which in (answers, truths))
        name = f"{truth}, taken for {answer}" if kind == "wrong" else answer
        file = run / f"{name}.png"
        Image.fromarray(task.test.take([number])[0, 0]).save(file)
        inspect(
            "attention",
            run,
            str(file),
            f"results-{kind}.png",
            "--layer",
            str(task.model.config.last_stack.num_layers - 1),
        )
        print(f"{kind}: test image {number}, {name}, {float(sure[number]):.1%}")


def draw_confusion(counts: NDArray[Any], names: Sequence[str]) -> None:
    """Counts by true class (rows) and answer (columns), shaded by their share of the row."""
    shares = counts / counts.sum(axis=1, keepdims=True)
    path = IMAGES / "results-confusion.png"
    with canvas(6.4, 5.6, path) as picture:
        axis = picture.subplots()
        axis.imshow(shares, cmap=scale_of("sequential"), vmin=0, vmax=1)
        for row, column in np.argwhere(counts):
            colour = ink_on_weight(float(shares[row, column]))
            text = str(counts[row, column])
            axis.text(column, row, text, ha="center", va="center", fontsize=8, color=colour)
        axis.set_xticks(range(len(names)), names, rotation=40, ha="right", fontsize=8)
        axis.set_yticks(range(len(names)), names, fontsize=8)
        axis.set(xlabel="answer", ylabel="true class")
    shrink(path)


def inspect(look: str, run: Path, given: str, picture: str, *flags: str) -> None:
    words = [sys.executable, "-m", "glassformer", "inspect", look, str(run), given, "--picture", str(IMAGES / picture)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run([*words, *flags], env=environment, check=True)
    shrink(IMAGES / picture)


def shrink(path: Path) -> None:
    """Reduces the colours of a picture, which makes its file a third of the size."""
    Image.open(path).convert("RGB").quantize(128).save(path, optimize=True)
    print(f"written: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
