"""Looking inside a model: `steps/` says what a step is, `ledger/` what it costs, `walk/` how one head is computed by
hand, and `looks/` draws it. What is seen comes from `watch/`.
"""
