"""Runs a model on a whole file and writes the answers to another: start with `job.py`."""
