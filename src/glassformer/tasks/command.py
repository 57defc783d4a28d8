"""The verb `train`."""

import shlex

from rich.console import Console

from glassformer.inspect.params import count
from glassformer.settings import TranslateSettings
from glassformer.tasks.translate import Translate
from glassformer.terminal import make_console
from glassformer.train.run import check_free, run


def train_translate(settings: TranslateSettings) -> None:
    console = make_console()
    check_free(settings)
    task = Translate(settings)
    describe(task, console)
    results = run(task, settings, console, verb="train translate")
    example = shlex.join(["glassformer", "predict", str(settings.out), task.held_out[0].source])
    console.print(
        f"\non {results['held_out']:.0f} held-out pairs: exact match {results['exact_match']:.1%}, perplexity "
        f"{results['perplexity']:.2f} per token, after {results['train_seconds']:.0f} s of training\n"
        f"the run is in {settings.out}; try\n  {example}"
    )


def describe(task: Translate, console: Console) -> None:
    """What is about to be trained, on what."""
    settings, config = task.settings, task.model.config.last_stack
    origin = settings.data or settings.source or "the built-in dates, English to Korean (no --data was given)"
    console.print(
        f"data    {origin}: {len(task.pairs):,} pairs to train on, {len(task.held_out):,} held out\n"
        f"tokens  a vocabulary of {len(task.tokenizer):,}, learned from the training pairs\n"
        f"model   encoder-decoder, {settings.num_layers}+{settings.num_layers} layers, d_model {config.d_model}, "
        f"{config.num_heads} heads, {count(task.model):,} parameters"
    )
