"""Runs the demo as a user does, times the whole command, and copies its pictures into the documentation.

python benchmarks/demo.py
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from readme import ROOT, write_table


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "demo"
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "glassformer", "demo", "--out", str(out)], check=True)
        whole = time.perf_counter() - start
        results = json.loads((out / "run.json").read_text(encoding="utf-8"))["results"]
        if "--dry" not in sys.argv:
            for picture in ("attention-cross.png", "positions.png"):
                shutil.copy(out / picture, ROOT / "docs" / "images" / picture)
    rows = [
        ["exact match on held-out dates", f"{results['exact_match']:.1%} of {results['count']:.0f}"],
        ["training", f"{results['train_seconds']:.0f} s"],
        ["total time, training included", f"{whole:.0f} s"],
    ]
    write_table("demo", ["`make demo`, two cores", "measured"], rows)


if __name__ == "__main__":
    main()
