"""Exports the page with the answers for one input as one file."""
