"""Detects the format of a user's file: encoding, delimiter, quotes and header, and the kind of table."""
