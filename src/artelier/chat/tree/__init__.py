"""The tree of turns and variants."""
