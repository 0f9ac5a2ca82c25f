"""`artelier torture --availability`: inputs of one tenant, and what another tenant notices of them.

served.py     the server, in a process of its own, with the neighbour's agent and a heartbeat
neighbour.py  the neighbour's requests, fifty a second, in a process of its own
inputs/       the hostile inputs, each with a decent twin
trial.py      one input: measured, and compared with before
life.py       a run that freezes every process that drives it
"""
