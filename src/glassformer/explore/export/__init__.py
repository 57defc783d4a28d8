"""The page with the answers to one input, as one file."""
