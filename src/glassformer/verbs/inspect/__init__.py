"""The verbs `inspect LOOK`: one file per look at a model, as a table, numbers or a picture."""
