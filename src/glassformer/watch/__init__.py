"""Watching a model from outside: `listen` is the mechanism, `record` keeps tensors, `ablate` switches heads off.

`activations` names every step, and `names` parses such a name.
"""
