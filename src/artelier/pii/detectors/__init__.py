"""The shipped detectors of personal data, patterns of tenants, and one search with several of them."""

from artelier.pii.detectors.match_merge import find_all, shipped
from artelier.pii.detectors.pattern import pattern

__all__ = ["find_all", "pattern", "shipped"]
