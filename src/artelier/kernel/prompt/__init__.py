"""Prompts: their parts, their manifests, and the conversation that they show."""
