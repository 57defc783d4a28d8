"""What every step of a model is: axes, equation, a sentence in two languages, the line that computes it."""
