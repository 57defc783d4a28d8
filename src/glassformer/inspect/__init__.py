"""Looking inside a model. Begin with `record.py` and `steps.py`; `command.py` lists every look."""
