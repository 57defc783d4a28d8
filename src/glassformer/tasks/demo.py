"""The verb `demo`: the whole job from input to picture, on built-in data, in about a minute on two cores."""

import random

from rich.console import Console

from glassformer.inspect.command import picture_attention, picture_positions
from glassformer.settings import DemoSettings, TranslateSettings
from glassformer.tasks.command import describe
from glassformer.tasks.translate import Translate, translate
from glassformer.train.run import check_free, run

SHOWN = "the 3rd of March 1998, half past four in the afternoon"


def demo(settings: DemoSettings) -> None:
    console = Console(highlight=False)
    console.print("A Transformer learns to read English dates in Korean.\n")
    # The data never repeats and nothing can be overfitted in a minute, so there is no dropout.
    job = TranslateSettings(
        out=settings.out, overwrite=True, steps=settings.steps, seed=settings.seed, batch_tokens=1024,
        warmup=max(1, min(150, settings.steps // 4)), rate_scale=0.25, d_model=96, d_ff=384, dropout=0.0,
    )  # fmt: skip
    check_free(job)
    task = Translate(job)
    describe(task, console)
    results = run(task, job, console)
    console.print(
        f"\nheld-out exact match [bold]{results['exact_match']:.1%}[/bold]: phrases and dates that training never saw, "
        f"{results['held_out']:.0f} of them, after {results['train_seconds']:.0f} s\n"
    )
    unseen = [pair.source for pair in random.Random(0).sample(task.held_out, 3)]
    texts = [SHOWN, *unseen]
    for text, answer in zip(texts, translate(task.model, task.tokenizer, texts), strict=True):
        console.print(f"  {text}\n    [bold]{answer}[/bold]")
    attention, positions = settings.out / "attention-cross.png", settings.out / "positions.png"
    picture_attention(task.model, task.tokenizer, SHOWN, attention)
    picture_positions(task.model, positions)
    console.print(
        f"\nwhat each Korean word looked at   {attention}\n"
        f"how it knows the order of words   {positions}\n\n"
        f"Try next\n"
        f'  glassformer predict {settings.out} "Sun, Nov 15 2026 15:40"\n'
        f'  glassformer inspect {settings.out} --attention "noon on May 1st, 2031" --layer 0\n'
        f"  glassformer inspect {settings.out}\n"
        f"  glassformer train translate --data your-pairs.tsv --out runs/mine\n"
        f"then open src/glassformer/core/ and read it in the order of its __init__.py.",
        soft_wrap=True,
    )
