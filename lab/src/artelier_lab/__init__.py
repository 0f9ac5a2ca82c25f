"""Test tooling of Artelier, which may import its internals: torture, availability, bench, fixtures."""
