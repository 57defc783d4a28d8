"""The alignment error of date translators, trained as in the demo, on held-out dates.

python benchmarks/align.py            trains the demo with five seeds
python benchmarks/align.py RUN ...    uses these runs

The chosen heads are compared with a common method: averaging the heads of the last layer. Which is better depends on
the model, so the table shows every model. How many heads are chosen and how they are merged was decided on seeds 0 to 2
with another sample of dates, without seeds 3 and 4.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from readme import write_table

import glassformer as gf
from glassformer.data.dates import aligned_pairs
from glassformer.inspect.looks.align import Method, align_corpus, alignment_error

TEXTS, SAMPLE, SEEDS = 500, 7, range(5)
METHODS: tuple[Method, ...] = ("chosen", "last_layer")


def main() -> None:
    given = [Path(word) for word in sys.argv[1:] if not word.startswith("--")]
    errors = {run.name: measure(run) for run in given} or {f"demo, seed {seed}": train(seed) for seed in SEEDS}
    rows = [[name, *(f"{error:.1%}" for error in found)] for name, found in errors.items()]
    means = [sum(found[i] for found in errors.values()) / len(errors) for i in range(len(METHODS))]
    rows.append(["mean", *(f"{mean:.1%}" for mean in means)])
    header = [f"alignment error, {TEXTS} held-out dates", "heads chosen without labels", "last layer, heads averaged"]
    write_table("align", header, rows)


def train(seed: int) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "demo"
        command = [sys.executable, "-m", "glassformer", "demo", "--seed", str(seed), "--out", str(run)]
        subprocess.run(command, check=True)
        return measure(run)


def measure(run: Path) -> list[float]:
    """The alignment error of each method."""
    model, tokenizer = gf.load(run), gf.load_tokenizer(run)
    gold = aligned_pairs(TEXTS, seed=SAMPLE, held_out=True)
    sources, targets = [pair.source for pair in gold], [pair.target for pair in gold]
    found = (align_corpus(model, tokenizer, sources, targets, method=method) for method in METHODS)
    sure, possible = [pair.sure for pair in gold], [pair.possible for pair in gold]
    return [alignment_error([a.pairs for a in alignments], sure, possible) for alignments in found]


if __name__ == "__main__":
    main()
