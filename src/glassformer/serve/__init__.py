"""The HTTP server: the explorer today."""
