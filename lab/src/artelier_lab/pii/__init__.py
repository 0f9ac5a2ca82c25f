"""Texts with personal data, made from seeds: values, ways of hiding them, and what only looks like them."""
