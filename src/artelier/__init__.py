"""Artelier: a durable runtime for LLM agents."""
