"""One loop for all tasks."""
