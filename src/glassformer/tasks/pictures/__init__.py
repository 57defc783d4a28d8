"""Tasks with images and texts: the shared code is in `task.py`, and each task has a file."""
