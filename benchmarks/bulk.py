"""Speed of `glassformer predict --file --out` on many short texts, compared with a bare encoding loop.

    python benchmarks/bulk.py                # 100,000 rows; --rows N changes the number
    python benchmarks/bulk.py --memory       # also the peak memory for 10,000 to 1,000,000 rows

The bare loop tokenises texts that are already in memory and calls a small classifier on batches of similar length
(`generation/encode.py`). The verb reads a CSV file and writes another one, in chunks that survive a kill. Both use the
engine, in one process that has imported everything; they take turns, and the best of several rounds counts. Peak memory
is measured in a separate process.
"""

import contextlib
import csv
import io
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

import glassformer as gf
from glassformer.checkpoints.labels import name_classes
from glassformer.cli import main as command
from glassformer.generation.encode import answer
from glassformer.generation.pace import paced
from glassformer.tasks.models import encoder_config
from glassformer.tasks.settings import ClassifySettings

ROWS, ROUNDS = 100_000, 3
WORDS = 4000  # size of the vocabulary
MEMORY_ROWS = (10_000, 100_000, 1_000_000)


def main() -> None:
    if sys.argv[1:2] == ["--peak"]:
        print_peak(*sys.argv[2:])
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        rows = int(sys.argv[sys.argv.index("--rows") + 1]) if "--rows" in sys.argv else ROWS
        texts = make_texts(rows)
        model = make_classifier(folder / "model", texts)
        write_table(folder / "in.csv", texts)
        rates = compare(model, folder, texts)
        print(f"bare loop  {rates['bare']:10,.0f} rows/s")
        print(f"the verb   {rates['verb']:10,.0f} rows/s  {rates['verb'] / rates['bare']:.2f} x (target: 0.90)")
        if "--memory" in sys.argv:
            for rows in MEMORY_ROWS:
                call = [sys.executable, __file__, "--peak", str(model), place, str(rows)]
                peak = int(subprocess.run(call, check=True, capture_output=True, text=True).stdout)
                print(f"{rows:9,} rows: peak memory {peak / 1e6:,.0f} MB")


def make_texts(count: int) -> list[str]:
    """Texts the length of short reviews: 2 to 30 words, most of them short."""
    draw = random.Random(0)
    words = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(2, 9))) for _ in range(WORDS)]
    return [" ".join(draw.choices(words, k=min(30, 2 + int(draw.expovariate(1 / 8))))) for _ in range(count)]


def make_classifier(folder: Path, texts: list[str]) -> Path:
    """Saves an untrained model of `train classify`: its speed does not depend on the weights."""
    torch.manual_seed(0)
    tokenizer = gf.train_tokenizer(texts[:5000], 2000, "bpe", around="segments")
    settings = ClassifySettings.from_dict({})
    config = encoder_config(settings, tokenizer, max_len=settings.max_len, head="class", num_classes=2, pooling="mean")
    model = gf.Transformer(config).eval()
    name_classes(model, ["bad", "good"])
    gf.save(model, folder, tokenizer=tokenizer)
    return folder


def write_table(file: Path, texts: list[str]) -> None:
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(["id", "text"])
        writer.writerows(enumerate(texts))


def compare(model: Path, folder: Path, texts: list[str]) -> dict[str, float]:
    seconds: dict[str, list[float]] = {"bare": [], "verb": []}
    engine = gf.engine(gf.load(model))
    tokenizer = gf.load_tokenizer(model)
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        labels = bare_loop(engine.twin() or engine.model, tokenizer, texts)
        seconds["bare"].append(time.perf_counter() - begin)
        begin = time.perf_counter()
        predict(model, folder / "in.csv", folder / "out.csv")
        seconds["verb"].append(time.perf_counter() - begin)
        print("  ".join(f"{side} {taken[-1]:.1f} s" for side, taken in seconds.items()), flush=True)
        with (folder / "out.csv").open(encoding="utf-8", newline="") as opened:
            found = [row["label"] for row in csv.DictReader(opened)]
        differ = sum(one != other for one, other in zip(labels, found, strict=True))
        assert differ <= len(texts) // 10_000, f"the two sides disagree on {differ} labels"
    return {side: len(texts) / min(taken) for side, taken in seconds.items()}


def bare_loop(model: gf.Transformer, tokenizer: gf.Tokenizer, texts: list[str]) -> list[str]:
    rows = [torch.tensor(row) for row in tokenizer.rows(texts)]
    with paced(model, sum(map(len, rows))):
        outputs = answer(model, rows)
    logits = torch.stack([output.logits for output in outputs if output.logits is not None])
    return [("bad", "good")[i] for i in logits.argmax(dim=1).tolist()]


def predict(model: Path, file: Path, out: Path) -> None:
    words = ["predict", model, "--file", file, "--out", out, "--overwrite", "--engine", "on"]
    with contextlib.redirect_stderr(io.StringIO()):
        command([str(word) for word in words])


def print_peak(model: str, place: str, rows: str) -> None:
    """Runs `predict` on a file of `rows` rows, and prints the peak memory of this process in bytes."""
    file = Path(place) / f"{rows}.csv"
    texts = make_texts(10_000)
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(["id", "text"])
        writer.writerows((i, texts[i % len(texts)]) for i in range(int(rows)))
    predict(Path(model), file, Path(place) / f"{rows}-out.csv")
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(1024 * int(status["VmHWM"].split()[0]))  # not `ru_maxrss`, which a child inherits from its parent


if __name__ == "__main__":
    main()
