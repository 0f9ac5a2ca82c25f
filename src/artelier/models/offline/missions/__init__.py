"""Missions on the offline model: it plans a goal, decides in a task, writes what was found, and judges it."""
