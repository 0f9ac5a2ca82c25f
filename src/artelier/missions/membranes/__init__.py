"""Membranes and their members: shared pools of context, and the agents of missions."""
