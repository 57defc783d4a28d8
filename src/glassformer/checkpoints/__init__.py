"""Models on disk: `files.load` and `files.save`; `table` is the engine that the pages of `families/` feed."""
