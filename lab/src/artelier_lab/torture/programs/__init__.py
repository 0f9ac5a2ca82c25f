"""Programs that a seed mixes from: probes, races, compensations."""
