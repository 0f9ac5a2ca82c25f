"""Commands that have agents work."""
