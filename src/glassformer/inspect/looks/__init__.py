"""Looks inside a model: attention, logit lens, word alignment, positions, head importance."""
