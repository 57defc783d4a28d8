"""Looks inside a model: `steps/` describes each step, `ledger/` gives its cost, `walk/` computes one head by hand, and
`looks/` analyses and draws attention. `watch/` records the values.
"""
