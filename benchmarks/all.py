"""Every benchmark, one after the other, so that none disturbs another: `make bench`."""

import subprocess
import sys
from pathlib import Path

for script in ("startup.py", "core.py", "load.py", "families.py", "demo.py", "train.py", "tasks.py"):
    print(f"\n{script}")
    subprocess.run([sys.executable, str(Path(__file__).parent / script), *sys.argv[1:]], check=True)
