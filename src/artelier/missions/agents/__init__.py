"""Agents of missions."""
