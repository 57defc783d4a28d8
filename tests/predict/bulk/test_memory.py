"""A long file takes no more memory than a short one."""

import os
import random
from pathlib import Path

import pytest
import torch
from helpers.command import python

import glassformer as gf
from glassformer.checkpoints.labels import name_classes

CHUNK = 2048  # rows per chunk
LETTERS = "etaoinshrdlu"
PEAK = """
import sys
from pathlib import Path
from glassformer.cli import main
from glassformer.predict.bulk import job
job.CHUNK_ROWS = ({chunk}, {chunk})
main(["predict", sys.argv[1], "--file", sys.argv[2], "--out", sys.argv[3], "--engine", "off"])
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print("peak", status["VmHWM"].split()[0])
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read from Linux's /proc")
def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    """Each chunk has batches of new shapes: nothing may be kept per shape."""
    draw = random.Random(0)
    words = ["".join(draw.choices(LETTERS, k=draw.randint(2, 9))) for _ in range(1000)]
    texts = [" ".join(draw.choices(words, k=2 + int(draw.expovariate(1 / 12)))) for _ in range(12 * CHUNK)]
    model = make_classifier(tmp_path / "model", texts[:CHUNK])
    peaks = [peak(model, texts[:count], tmp_path / str(count)) for count in (CHUNK, len(texts))]
    assert peaks[1] < 1.1 * peaks[0], f"{peaks[0]:,} kB for {CHUNK:,} rows, {peaks[1]:,} kB for {len(texts):,}"


def make_classifier(folder: Path, texts: list[str]) -> Path:
    torch.manual_seed(0)
    tokenizer = gf.train_tokenizer(texts, 500, "bpe", around="segments")
    stack = gf.StackConfig(d_model=64, d_ff=512, num_layers=2, num_heads=2, positions="rotary", activation="gelu")
    vocab_size = len(tokenizer)
    model = gf.Transformer(gf.TransformerConfig(encoder=stack, vocab_size=vocab_size, head="class", num_classes=2))
    name_classes(model, ["bad", "good"])
    gf.save(model.eval(), folder, tokenizer=tokenizer)
    return folder


def peak(model: Path, texts: list[str], place: Path) -> int:
    """The peak memory, in kB, of a process that answers these texts."""
    source = place.with_suffix(".csv")
    source.write_text("text\n" + "".join(f"{text}\n" for text in texts), encoding="utf-8")
    code, one_thread = PEAK.format(chunk=CHUNK), {**os.environ, "OMP_NUM_THREADS": "1"}
    return int(python("-c", code, model, source, f"{place}-out.csv", env=one_thread).split()[-1])
