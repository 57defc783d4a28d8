"""Models on disk: loading, saving, verifying, converting, and `run.json`."""
