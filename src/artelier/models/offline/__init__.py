"""The offline model: answers questions about tables and texts by rules, with the tools it is given."""

from artelier.models.offline.model import OfflineModel

__all__ = ["OfflineModel"]
