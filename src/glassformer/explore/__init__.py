"""The explorer: what a page in the browser shows of a model and its input. The server is in `serve/`."""
