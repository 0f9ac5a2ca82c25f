"""Keeping prompts within a model's window."""
