"""One file per verb: its settings and a short `main`. Nothing heavy is imported before the verb runs."""
