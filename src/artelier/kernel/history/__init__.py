"""The recorded history of runs: replay, forks, comparison, drift."""
