"""Events as lines for people."""
