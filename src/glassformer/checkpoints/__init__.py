"""Models on disk: `load.py` and `save.py`; `table` is the engine that the pages of `families/` feed."""
