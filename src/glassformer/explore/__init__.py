"""The explorer: a page in the browser that shows what a model computes for an input. The server is in `serve/`."""
