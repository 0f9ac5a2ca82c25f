"""Worlds that are shipped: data files, and the rule agents that they name."""
