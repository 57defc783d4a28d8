"""From the user's input to a call of the model, and back to an answer. Read `pipeline.py` first."""
