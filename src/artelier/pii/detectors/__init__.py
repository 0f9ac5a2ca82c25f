"""The shipped detectors of personal data, patterns of tenants, and one search with several of them."""

from artelier.pii.detectors.search import builtin_detectors, find_all, pattern

__all__ = ["builtin_detectors", "find_all", "pattern"]
