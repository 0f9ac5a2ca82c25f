"""Schedules: what is to be started when, each firing as an event and a run. `api.py` is what people use."""
