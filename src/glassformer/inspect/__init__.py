"""Looking inside a model: attention maps, parameter shares, pictures."""
