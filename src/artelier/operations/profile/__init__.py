"""Profiles: their content, the rules for it, and where they are stored."""
