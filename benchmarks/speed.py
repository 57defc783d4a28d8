"""Speed of generation and encoding: the engine and the plain path against transformers, CTranslate2 and others.

    python benchmarks/speed.py              everything, about half an hour
    python benchmarks/speed.py gpt2 int8    only the cases whose name contains all these words; writes no table
    python benchmarks/speed.py start-up     also: "long input", "quality" (the parts in `speed_alone.py`)
    --dry                                   do not write tables and pictures
    --tiny                                  tiny models and one round, to test this script. Implies --dry

The models have published shapes and random weights. All sides use two threads, the same weights and the same number of
tokens. Each side runs in its own process; they take turns, and the best of several rounds counts. Compiling, loading
and warm-up calls do not count. A ratio is our speed divided by the peer's: above 1, we are faster.

The roof is the hardware limit: a decoding step reads every weight once and multiplies it with each row, so it takes at
least max(bytes / bandwidth, FLOPs / rate). Bandwidth and rate are the best that any kernel, ours or PyTorch's, reached
in this run. The share of the roof is this minimum divided by the measured time of a step, without the first token.

Each computing thread is bound to its own core, on all sides: some virtual machines put threads that wake often on the
same core, where they slow each other down.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from readme import write_table
from speed_alone import measure_lengths, measure_quality, measure_start
from speed_peers import ENCODING, GENERATION_INT8, Case, Models, Side, make_side, random_texts, save_model
from torch import nn

import glassformer as gf
from glassformer.generation.kernels import load_kernels
from glassformer.generation.packing import PackedLinear

TF, CT2, TORCH = "transformers", "CTranslate2", "nn.TransformerEncoder"
CASES = (
    Case("GPT-2 small, batch 1", "gpt2", memory=True, targets={TF: 2.6, CT2: 1.6}),
    Case("GPT-2 small, batch 8", "gpt2", batch=8, targets={TF: 2.4, CT2: 1.5}),
    Case("GPT-2 small, batch 1, int8 weights", "gpt2", GENERATION_INT8, targets={"CTranslate2 int8": 1.7}),
    Case("the paper's base, beam 4, batch 32", "base", batch=32, new=64, beams=4, targets={TF: 2.0, CT2: 1.1}),
    Case("the paper's base, greedy, batch 32", "base", batch=32, new=64, targets={TF: 2.0, CT2: 1.5}),
    Case("the paper's base, greedy, batch 1", "base", new=64, rounds=15, targets={TF: 2.4, CT2: 1.2}),
    Case("one layer, 64 wide, batch 1", "one layer", threads=(1, 2), rounds=20, targets={TF: 4.0}),
    Case("BERT-base, 256 texts of 4 to 256 tokens", "bert", ENCODING, rounds=2, targets={TF: 3.0, TORCH: 1.1}),
)
OTHERS = ("nn.TransformerEncoder", "ONNX Runtime")
ANSWER, RESULTS = "answer: ", 32  # prefix of a worker's answers; number of rows or texts compared
SETTLE = 0.2  # seconds: the previous side's OpenMP threads spin for a while, and would take a core from the next side
SQUARE, WIDE = 2048, 8192  # sizes of the roof's matrices: one for compute, one of 256 MB for bandwidth


class Time(NamedTuple):
    """Best time of a side in seconds: the whole call, and a call for one token."""

    whole: float
    first: float


class Measured(NamedTuple):
    case: Case
    tokens: int
    times: dict[str, Time]
    bytes_read: float  # weights of one step
    flops: float  # of one step, or of the whole call if nothing is generated
    memory: dict[str, float]  # MiB

    def speed(self, side: str) -> float:
        return self.tokens / self.times[side].whole

    def ratio(self, peer: str) -> float:
        return self.speed(self.case.sides[0]) / self.speed(peer)


class Roof:
    """The best rate and bandwidth measured so far. `look` measures again between cases, as the machine may be busy."""

    rate = bandwidth = 0.0  # FLOP/s, bytes/s

    def __init__(self, tiny: bool) -> None:
        load_kernels()
        square, wide = (SQUARE // 8, WIDE // 8) if tiny else (SQUARE, WIDE)
        self.square, self.vector = torch.randn(square, square), torch.randn(1, wide)
        self.packed = PackedLinear(self.square, None, "float32")
        self.long = PackedLinear(torch.randn(wide, wide), None, "float32")

    @torch.no_grad()
    def look(self) -> None:
        time.sleep(SETTLE)
        flops = 2.0 * len(self.square) ** 3
        for product in (lambda: self.square @ self.square, lambda: self.packed(self.square)):
            self.rate = max(self.rate, flops / best_seconds(product, 5))
        size = self.long.weight.nbytes
        self.bandwidth = max(self.bandwidth, size / best_seconds(lambda: self.long(self.vector), 20))

    def share(self, measured: Measured) -> float:
        """The minimum time divided by our measured time."""
        case, ours = measured.case, measured.times[measured.case.sides[0]]
        seconds = (ours.whole - ours.first) / (case.new - 1) if case.generates else ours.whole
        return max(measured.bytes_read / self.bandwidth, measured.flops / self.rate) / seconds


def best_seconds(run: Callable[[], Any], rounds: int) -> float:
    return min(seconds(run) for _ in range(rounds))


def seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


class Worker:
    """A side in its own process, so that the threads and memory of one library do not disturb another."""

    def __init__(self, case: Case, side: str, threads: int, folder: Path) -> None:
        command = [sys.executable, __file__, "--serve", case.name, side, str(threads), str(folder)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer()  # sent after the warm-up

    def answer(self) -> Any:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(ANSWER):
                return json.loads(line[len(ANSWER) :])
        raise RuntimeError(f"{self.process.args!r} ended without an answer")

    def ask(self, what: str) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self) -> None:
        self.process.communicate("")


def serve(case: Case, name: str, threads: int, folder: Path) -> None:
    """The process of a `Worker`: warms up, then answers with seconds or with the results of the side."""
    torch.set_num_threads(threads)
    side = make_side(name, case, Models(folder), threads)
    side.run()
    give_cores(side, threads)
    print(ANSWER + "null", flush=True)
    for line in sys.stdin:
        if line.strip() == "result":
            rows = [row if isinstance(row, list) else row.tolist() for row in side.run()[:RESULTS]]
            print(ANSWER + json.dumps(rows), flush=True)
            continue
        asked = side.run if line.strip() == "run" else side.first
        assert asked is not None
        print(ANSWER + json.dumps(seconds(asked)), flush=True)


def measure(case: Case, folder: Path, rounds: int) -> dict[str, Time]:
    """The best time of each side over all rounds and thread counts. The sides take turns."""
    workers = {(side, threads): Worker(case, side, threads, folder) for side in case.sides for threads in case.threads}
    compare(case, {side: worker.ask("result") for (side, _), worker in workers.items()})
    best = {key: Time(float("inf"), float("inf")) for key in workers}
    for _ in range(rounds):
        for key, worker in workers.items():
            time.sleep(SETTLE)
            whole, first = best[key]
            first = min(first, worker.ask("first")) if case.generates else first
            best[key] = Time(min(whole, worker.ask("run")), first)
    for worker in workers.values():
        worker.end()
    return {name: min(best[name, threads] for threads in case.threads) for name in case.sides}


def compare(case: Case, results: dict[str, list[Any]]) -> None:
    """Checks that all sides compute the same."""
    if case.generates:
        wrong = {name for name, rows in results.items() if any(len(row) != case.new for row in rows)}
        assert not wrong, f"expected {case.new} tokens per row from: {wrong}"
        for name in (side for side in case.sides if side != "engine" and "int8" not in side):
            same = sum(a == b for a, b in zip(results["engine"], results[name], strict=True))
            print(f"  engine and {name}: {same} of {case.batch} rows have the same tokens")
        return
    expected = [torch.tensor(rows) for rows in results["transformers"]]
    for name, vectors in results.items():
        pairs = zip(map(torch.tensor, vectors), expected, strict=True)
        error = max(float((a - b).abs().max()) for a, b in pairs)
        print(f"  {name}: differs from transformers by at most {error:.1e}")
        assert error < (1.0 if "int8" in name else 1e-3), name


def give_cores(side: Side, threads: int) -> None:
    """Runs a side once more, and binds each of its busiest threads to its own core."""
    cores = list(range(os.cpu_count() or 1))
    os.sched_setaffinity(0, cores)  # threads that start later inherit it
    before = seconds_by_thread()
    side.run()
    after = seconds_by_thread()
    busiest = sorted(after, key=lambda thread: before.get(thread, 0) - after[thread])[:threads]
    busiest.sort(key=lambda thread: thread != os.getpid())  # the main thread computes on several sides
    for thread, core in zip(busiest, cores, strict=False):
        os.sched_setaffinity(thread, {core})


def seconds_by_thread() -> dict[int, int]:
    """The CPU time of each thread, in kernel ticks."""
    found = {}
    for folder in Path("/proc/self/task").iterdir():
        fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        found[int(folder.name)] = int(fields[11]) + int(fields[12])
    return found


def work_of(case: Case, model: gf.Transformer) -> tuple[float, float]:
    """Bytes of weights and FLOPs of one decoding step; for encoding, the FLOPs of the whole call."""
    stack, skipped = ("encoder.", ()) if not case.generates else (("decoder.", "head."), ("cross.k", "cross.v"))
    parts = [x for name, x in model.named_modules() if name.startswith(stack) and not name.endswith(skipped or "-")]
    weights = sum(x.weight.numel() for x in parts if isinstance(x, nn.Linear))
    if case.generates:
        return weights * (1.0 if "int8" in case.sides[0] else 4.0), 2.0 * weights * case.batch * case.beams
    assert model.config.encoder is not None
    per_pair = 4.0 * model.config.encoder.d_model * model.config.encoder.num_layers  # q k^T and weights times v
    lengths = [len(text) for text in random_texts()]
    return 0.0, 2.0 * weights * sum(lengths) + per_pair * sum(length**2 for length in lengths)


def peak() -> float:
    """Peak memory of this process in MiB, mapped files included."""
    with open("/proc/self/status", encoding="utf-8") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024


def print_memory(case: Case, side: str, folder: str) -> None:
    """Prints the memory that one call of one side adds, with all libraries already imported."""
    before = peak()
    torch.set_num_threads(max(case.threads))
    make_side(side, case, Models(Path(folder)), max(case.threads)).run()
    print(json.dumps(peak() - before))


def peak_memory(case: Case, side: str, folder: Path) -> float:
    command = [sys.executable, __file__, "--memory", case.name, side, str(folder)]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(found.strip().splitlines()[-1])


def row_of(measured: Measured, roof: Roof) -> list[str]:
    """The cells of the table: our speed, each peer's speed and ratio, the first token, and the share of the roof."""
    case, ours = measured.case, measured.case.sides[0]

    def cell(peer: str) -> str:
        return f"{measured.speed(peer):,.0f} ({measured.ratio(peer):.2f}x)"

    ct2 = next((side for side in case.sides if side.startswith("CTranslate2")), None)
    others = ", ".join(f"{name} {cell(name)}" for name in OTHERS if name in case.sides) or "-"
    first, theirs = (f"{1000 * measured.times[name].first:.3g} ms" for name in (ours, "transformers"))
    return [
        case.name, f"**{measured.speed(ours):,.0f}**", cell("plain"), cell("transformers"), cell(ct2) if ct2 else "-",
        others, f"{first} ({theirs})" if case.generates else "-", f"{roof.share(measured):.0%}",
    ]  # fmt: skip


def show(measured: Measured, roof: Roof) -> None:
    for name, (_, first) in measured.times.items():
        parts = [f"{measured.speed(name):,.1f} tokens/s"]
        parts += [f"ratio {measured.ratio(name):.2f}"] if name != measured.case.sides[0] else []
        parts += [f"target {measured.case.targets[name]:g}"] if name in measured.case.targets else []
        parts += [f"first token {1000 * first:,.1f} ms"] if measured.case.generates else []
        parts += [f"peak {measured.memory[name]:,.0f} MiB"] if name in measured.memory else []
        print(f"  {name}: {', '.join(parts)}")
    print(f"  {roof.share(measured):.0%} of the roof", flush=True)


def measure_cases(cases: Sequence[Case], tiny: bool, place: Path) -> tuple[list[Measured], Roof]:
    roof, found, models = Roof(tiny), list[Measured](), Models(place)
    for case in cases:
        folder = place / case.shape
        if models.folder != folder:
            if not folder.is_dir():
                save_model(case.shape, folder, tiny)
            models = Models(folder)
        roof.look()
        print(case.name, flush=True)
        times = measure(case, folder, 1 if tiny else case.rounds)
        tokens = case.batch * case.new if case.generates else sum(len(text) for text in random_texts())
        memory = {side: peak_memory(case, side, folder) for side in case.sides} if case.memory else {}
        found.append(Measured(case, tokens, times, *work_of(case, models.plain), memory))
        roof.look()
        show(found[-1], roof)
    print(f"roof: {roof.rate / 1e9:,.0f} GFLOP/s, {roof.bandwidth / 1e9:,.1f} GB/s")
    return found, roof


def prepare() -> None:
    torch.set_num_threads(2)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    warnings.simplefilter("ignore")


def main() -> None:
    prepare()
    if "--memory" in sys.argv:
        name, side, home = sys.argv[-3:]
        print_memory(next(case for case in CASES if case.name == name), side, home)
        return
    if "--serve" in sys.argv:
        name, side, threads, home = sys.argv[-4:]
        serve(next(case for case in CASES if case.name == name), side, int(threads), Path(home))
        return
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    tiny = "--tiny" in sys.argv
    dry = tiny or "--dry" in sys.argv

    def wanted(name: str) -> bool:
        return all(word in name for word in words)

    with tempfile.TemporaryDirectory() as folder:
        cases = [case for case in CASES if wanted(f"{case.shape} {case.name}")]
        if cases:
            found, roof = measure_cases(cases, tiny, Path(folder))
            header = ["tokens/s, float32, two threads (speedup of the engine)", "engine", "`gf.generate`, `encode`"]
            header += ["transformers", "CTranslate2", "others", "first token (transformers)", "of the hardware limit"]
            rows = [row_of(measured, roof) for measured in found]
            write_table("speed", header, rows, dry=dry or len(cases) < len(CASES))
        if wanted("start-up"):
            if not (Path(folder) / "gpt2").is_dir():
                save_model("gpt2", Path(folder) / "gpt2", tiny)
            measure_start(Path(folder) / "gpt2", rounds=1 if tiny else 3, dry=dry)
        if wanted("long input"):
            measure_lengths(tiny=tiny, dry=dry)
        if wanted("int8 quality"):
            measure_quality(tiny=tiny, dry=dry)


if __name__ == "__main__":
    main()
