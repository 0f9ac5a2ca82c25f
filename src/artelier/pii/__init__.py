"""Personal data: found by detectors, replaced by placeholders, kept in a vault, restored for some."""
