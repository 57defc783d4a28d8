"""Training speed on the model of nanoGPT's CPU example, compared with a plain PyTorch loop over transformers' GPT-2.

    python benchmarks/train.py

The model has 4 layers, 4 heads, width 128, a context of 64 characters, batches of 12 and no dropout. Both sides use the
same characters, AdamW, clipping and two threads. Ours is the whole loop of `glassformer train lm`, with batching,
checks and the report. The sides take turns, and the best of several rounds counts. `--compile` adds our compiled loop.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from readme import write_table
from rich.console import Console
from transformers import GPT2Config, GPT2LMHeadModel

from glassformer.config import StackConfig, TransformerConfig
from glassformer.data.documentation import documentation_split
from glassformer.tasks.lm import LanguageModel
from glassformer.tasks.settings import LmSettings
from glassformer.training.checkpoint import Checkpoints
from glassformer.training.loop import Trainer
from glassformer.training.ranks import Ranks
from glassformer.training.report import Report

LAYERS, HEADS, WIDTH, CONTEXT, BATCH = 4, 4, 128, 64, 12
ROUNDS, STEPS, WARM = 15, 40, 10


class GptShape(LanguageModel):
    """The task `lm` with GPT-2's architecture, so that both sides compute the same."""

    def config(self) -> TransformerConfig:
        stack = StackConfig(
            d_model=WIDTH, num_layers=LAYERS, num_heads=HEADS, max_len=CONTEXT, positions="learned",
            activation="gelu_tanh",
        )  # fmt: skip
        return TransformerConfig(decoder=stack, vocab_size=len(self.tokenizer))


class Watched(Report):
    """Adds up the seconds of forward, backward and optimiser."""

    computing = 0.0

    def step(self, step: int, *, busy: float, **told: Any) -> None:
        self.computing += busy
        super().step(step, busy=busy, **told)


def ours(folder: Path, *, compiled: bool) -> tuple[Callable[[int], None], Watched]:
    settings = LmSettings(
        out=folder, tokenizer="characters", context=CONTEXT, batch_tokens=BATCH * CONTEXT, dropout=0.0, rate=1e-3,
        optimizer="adamw", compile=compiled, steps=10**6,
    )  # fmt: skip
    task, ranks = GptShape(settings), Ranks("cpu")
    report = Watched(folder / "metrics.jsonl", Console(quiet=True), unit="tokens", steps=10**6)
    trainer = Trainer(task, settings, ranks, Checkpoints(folder, ranks, 1), report)
    batches = trainer.remaining()

    def run(steps: int) -> None:
        for _ in range(steps):
            trainer.update(next(batches))

    return run, report


def theirs(text: str) -> Callable[[int], None]:
    names = sorted(set(text))
    ids = torch.tensor([names.index(character) for character in text[:300_000]])
    config = GPT2Config(
        vocab_size=len(names), n_positions=CONTEXT, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98), weight_decay=0.1)

    def run(steps: int) -> None:
        for _ in range(steps):
            starts = torch.randint(len(ids) - CONTEXT, (BATCH,))
            batch = torch.stack([ids[start : start + CONTEXT] for start in starts.tolist()])
            loss = model(batch, labels=batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            loss.item()

    return run


def main() -> None:
    torch.set_num_threads(2)
    with tempfile.TemporaryDirectory() as folder:
        loop, report = ours(Path(folder), compiled=False)
        sides = {"glassformer": loop, "transformers' GPT-2, plain loop": theirs(documentation_split()[0])}
        if "--compile" in sys.argv:
            sides["glassformer --compile"], _ = ours(Path(folder), compiled=True)
        for run in sides.values():
            run(WARM)
        best = dict.fromkeys(sides, float("inf"))
        outside = 1.0
        for _ in range(ROUNDS):
            for name, run in sides.items():
                before, start = report.computing, time.perf_counter()
                run(STEPS)
                spent = time.perf_counter() - start
                best[name] = min(best[name], spent)
                if name == "glassformer":
                    outside = min(outside, 1 - (report.computing - before) / spent)
    speeds = {name: STEPS * BATCH * CONTEXT / seconds for name, seconds in best.items()}
    plain = speeds["transformers' GPT-2, plain loop"]
    rows = [[name, f"{speed:,.0f}", f"{speed / plain:.2f}x"] for name, speed in speeds.items()]
    rows.append(["our time outside forward, backward and optimiser", f"{outside:.1%}", ""])
    write_table("train", ["training the model of nanoGPT's CPU example, two threads", "tokens/s", "ratio"], rows)


if __name__ == "__main__":
    main()
