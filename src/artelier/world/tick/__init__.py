"""One tick: what agents know, what they decide, and over which state."""
