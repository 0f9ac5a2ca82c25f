"""Artifacts, and files that become artifacts."""
