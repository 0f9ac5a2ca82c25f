"""Decisions about writes, over a state with pending changes."""
