"""python -m glassformer, and torchrun -m glassformer."""

import os
import sys

from glassformer.cli import main

main()
if int(os.environ.get("WORLD_SIZE", "1")) > 1:
    # The work is done and written. Threads that torch.distributed leaves behind can abort a process that takes itself
    # apart, and torchrun would then call the training failed.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
