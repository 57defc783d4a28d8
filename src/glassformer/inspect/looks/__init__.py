"""Looks inside a model: attention, lens, alignment, positions, what a head is worth."""
