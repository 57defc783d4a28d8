"""Start-up time: `import glassformer` compared with `import torch`, and `glassformer --help`.

    python benchmarks/startup.py

Each figure is the best of several new processes. The sides take turns.
"""

import subprocess
import sys
import time

from readme import write_table

ROUNDS = 7
SIDES = {
    "import torch": [sys.executable, "-c", "import torch"],
    "import torch, glassformer": [sys.executable, "-c", "import torch, glassformer"],
    "import glassformer": [sys.executable, "-c", "import glassformer"],
    "gf.Transformer ready": [sys.executable, "-c", "import glassformer as gf; gf.Transformer"],
    "import transformers": [sys.executable, "-c", "import transformers"],
    "transformers' GPT-2 ready": [sys.executable, "-c", "from transformers import GPT2LMHeadModel"],
    "glassformer --help": [sys.executable, "-m", "glassformer", "--help"],
}


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    best = dict.fromkeys(SIDES, float("inf"))
    for _ in range(ROUNDS):
        for name, command in SIDES.items():
            best[name] = min(best[name], seconds(command))
    torch_only = best["import torch"]
    rows = [
        [f"`{name}`" if " ready" not in name else name, f"{best[name]:.2f} s", f"{best[name] / torch_only:.2f} x"]
        for name in SIDES
    ]
    write_table("startup", ["start-up", "time", "relative to `import torch`"], rows)
    print(f"added to torch alone: {best['import torch, glassformer'] - torch_only:.3f} s (target: at most 0.1)")
    print(f"help: {best['glassformer --help']:.3f} s (target: under 0.5)")


if __name__ == "__main__":
    main()
