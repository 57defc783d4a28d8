"""Watching a call from outside: `record` keeps what it computes, `ablate` silences heads.

`activations` names every step.
"""
