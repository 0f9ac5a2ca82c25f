"""Worlds, their figures and their markets."""
