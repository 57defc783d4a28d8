"""Runs every benchmark, one after the other so that they do not disturb each other: `make bench`."""

import subprocess
import sys
from pathlib import Path

SCRIPTS = (
    *("startup.py", "core.py", "load.py", "families.py", "demo.py", "train.py", "tasks.py", "scenes.py"),
    *("watch.py", "align.py", "explorer.py", "speed.py", "beside.py"),
)

for script in SCRIPTS:
    print(f"\n{script}")
    subprocess.run([sys.executable, str(Path(__file__).parent / script), *sys.argv[1:]], check=True)
