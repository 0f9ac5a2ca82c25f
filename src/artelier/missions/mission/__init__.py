"""The run of a mission, from its goal to its report."""
