"""Missions, their tasks, agents, membranes and steering."""
