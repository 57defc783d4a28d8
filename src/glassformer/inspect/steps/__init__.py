"""Describes every step of a model: axes, equation, a sentence in two languages, the line of code that computes it."""
