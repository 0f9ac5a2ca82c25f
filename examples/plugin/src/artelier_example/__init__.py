"""Counts words: each object that Artelier loads is in a module of its own."""
