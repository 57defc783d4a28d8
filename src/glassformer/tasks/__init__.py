"""What a Transformer can be trained for: data + model + loss + metric, one page each."""
