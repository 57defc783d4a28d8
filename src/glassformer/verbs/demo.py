"""The verb `demo`: trains, scores, translates and draws on built-in data, in about a minute on two cores."""

import random
from dataclasses import dataclass
from pathlib import Path

from glassformer.errors import InputError
from glassformer.settings import Settings
from glassformer.terminal import make_console

EXAMPLE_DATE = "the 3rd of March 1998, half past four in the afternoon"


@dataclass(frozen=True, kw_only=True)
class DemoSettings(Settings):
    """Train a small Transformer on the built-in dates for a minute, score it, translate, and draw its attention."""

    out: Path = Path("runs/demo")
    """Output folder; an earlier demo there is replaced."""
    steps: int = 1400
    """Number of training steps."""
    seed: int = 0
    """Random seed of the data, its order and the initial weights."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps < 1:
            raise self._refuse("steps", "expected at least 1")


def main(settings: DemoSettings) -> None:
    from glassformer.checkpoints.run import is_run, read_record
    from glassformer.inspect.looks.attention import picture_attention
    from glassformer.inspect.looks.positions import picture_positions
    from glassformer.predict.writing import translate
    from glassformer.tasks.settings import TranslateSettings
    from glassformer.tasks.translate import Translate
    from glassformer.training.folder import REPORT, check_free
    from glassformer.training.run import run

    console = make_console(enduring=True)
    console.print("A Transformer learns to read English dates in Korean.\n")
    is_a_demo = is_run(settings.out) and read_record(settings.out).get("verb") == "demo"
    # Three epochs of 40,000 examples do not overfit, so there is no dropout.
    job = TranslateSettings(
        out=settings.out, overwrite=is_a_demo, steps=settings.steps, seed=settings.seed, batch_tokens=1024,
        optimizer="adam", schedule="inverse-sqrt", weight_decay=0.0,
        warmup=max(1, min(150, settings.steps // 4)), rate=2e-3, d_model=96, d_ff=384, dropout=0.0,
    )  # fmt: skip
    if is_run(settings.out) and not is_a_demo:
        raise InputError(f"--out {settings.out} holds a run that is not a demo. Choose another folder")
    check_free(job)
    made: list[Translate] = []

    def make(_: object) -> Translate:
        made.append(Translate(job))
        return made[0]

    _, scores = run(make, job, console, verb="demo")
    task = made[0]
    console.print(f"\nheld-out exact match {scores.metrics['exact_match']:.1%}", style="bold", end="")
    console.print(f": phrases and dates that training never saw, {scores.count} of them\n")
    texts = [EXAMPLE_DATE, *(pair.source for pair in random.Random(0).sample(task.test or task.valid, 3))]
    for text, answer in zip(texts, translate(task.model, task.tokenizer, texts), strict=True):
        console.print(f"  {text}")
        console.print(f"    {answer}", style="bold")
    attention, positions = settings.out / "attention-cross.png", settings.out / "positions.png"
    picture_attention(task.model, task.tokenizer, EXAMPLE_DATE, attention)
    picture_positions(task.model, positions)
    console.print(
        f"\nwhat each Korean word attends to   {attention}\n"
        f"how it encodes the order of words  {positions}\n"
        f"curves and more translations       {settings.out / REPORT}\n\n"
        f"Next:\n"
        f'  glassformer predict {settings.out} "Sun, Nov 15 2026 15:40"\n'
        f"  glassformer explore {settings.out}        look inside it in the browser\n"
        f'  glassformer inspect align {settings.out} "noon on May 1st, 2031"\n'
        f"  glassformer inspect shapes {settings.out} --fold\n"
        f"  glassformer train translate --data your-pairs.tsv --out runs/mine\n"
        f"The command is in .venv/bin: `source .venv/bin/activate` puts it on your path.\n"
        f"Then open src/glassformer/core/ and read it in the order of its __init__.py."
    )
