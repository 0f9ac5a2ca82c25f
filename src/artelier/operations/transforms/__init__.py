"""Declared changes of one value, by steps that a user wrote."""
