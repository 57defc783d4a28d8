"""Experiments: the effect of a choice on training, in small models trained side by side, and the speed of a model."""
