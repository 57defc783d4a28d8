"""Entry point of `python -m glassformer` and `torchrun -m glassformer`."""

import os
import sys
from contextlib import suppress

from glassformer.cli import main

code: object = 0
try:
    main()
except SystemExit as end:
    code = end.code
if int(os.environ.get("WORLD_SIZE", "1")) > 1:
    # Everything is saved. Threads of torch.distributed that still run can abort the process while it shuts down, and
    # torchrun would then report a failure.
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))
sys.exit(code)  # type: ignore[arg-type]
