"""A whole file through a model, to a file: start with `job.py`."""
