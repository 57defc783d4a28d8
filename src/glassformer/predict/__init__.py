"""From a person's input to a call of the model, and back to an answer."""
