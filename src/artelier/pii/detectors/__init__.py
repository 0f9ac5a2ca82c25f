"""The shipped detectors of personal data, patterns of tenants, and one search with several of them."""

from artelier.pii.detectors.search import find_all, pattern, shipped

__all__ = ["find_all", "pattern", "shipped"]
