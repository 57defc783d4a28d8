"""Training: one loop for all tasks. Start with `run.py`, then `loop.py`."""
