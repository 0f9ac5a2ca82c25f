"""Schedules: what is to be started when, each firing as an event. What starts the runs is in `agents/`."""
