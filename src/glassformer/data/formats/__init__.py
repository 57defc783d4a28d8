"""How a file of the user is written: its encoding, the delimiter and the header of a table, and the kinds of tables."""
