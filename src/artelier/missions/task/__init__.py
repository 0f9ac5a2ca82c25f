"""The run of a task: decide, act, evaluate, until it is done or has ended."""
