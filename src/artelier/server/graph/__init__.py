"""The state of the page at a position of the log: folded from the events that clients see."""
