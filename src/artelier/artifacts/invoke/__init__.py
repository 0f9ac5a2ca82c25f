"""Executable artifacts: programs, and the trees of their invocations."""
