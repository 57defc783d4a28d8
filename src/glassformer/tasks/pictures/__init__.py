"""The tasks of pictures with texts: what they share is in `task.py`; each has its page."""
