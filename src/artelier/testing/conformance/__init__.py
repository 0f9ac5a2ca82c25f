"""Promises of the ports, as test classes to inherit; see `artelier.testing.store_conformance`."""
