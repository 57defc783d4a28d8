"""Shapes, parameters, FLOPs and bytes from the input to the loss."""
