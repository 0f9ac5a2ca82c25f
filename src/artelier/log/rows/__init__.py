"""Rows of the log: its own statements on its tables, for both engines, as parts of a transaction."""
