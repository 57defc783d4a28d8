"""The verbs `inspect LOOK`: one file per look inside a model, as a table, as numbers, or as a picture."""
