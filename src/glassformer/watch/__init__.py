"""Watching a call from outside: `listen` is the mechanism, `record` keeps what is computed, `ablate` silences heads.

`activations` names every step, and `names` takes such a name apart.
"""
