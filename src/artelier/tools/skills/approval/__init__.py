"""Approval of definitions, with the findings that a person should look at first."""
