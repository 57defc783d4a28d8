"""The tasks a Transformer can be trained for: data, model, loss and metric, one file each."""
