"""Personal data in runs: scrubbing, data subjects, erasure."""
