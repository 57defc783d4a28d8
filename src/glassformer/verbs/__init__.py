"""One file per verb: its settings and its few lines. Nothing heavy is imported before it runs."""
