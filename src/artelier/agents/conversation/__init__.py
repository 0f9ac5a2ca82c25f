"""Conversations of an agent over many runs."""
