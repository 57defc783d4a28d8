"""The explorer: a page in the browser that shows what a model does with an input, and the server behind it.

`command` is the verb, `server` speaks HTTP, `routes` knows every answer, `session` holds the model and what it was
asked. An input goes through `inputs` and one of `read_text`, `read_picture` and `read_series`; what the model did with
it is in `seen` and `answers`, and leaves as `slices` and `shown`. `export` writes all of it as one file.
"""
