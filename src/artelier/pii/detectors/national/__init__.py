"""Numbers that states give to people."""
