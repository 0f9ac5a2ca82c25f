"""Missions: a goal taken apart into tasks, the decision loop that works on them, steering, membranes."""
