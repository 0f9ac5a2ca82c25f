"""The offline model: a deterministic stand-in for a language model, for demonstrations and tests.

It answers a small set of questions about tables and texts, with the tools that it is given, and fulfils the
contracts of missions, chats and worlds. Everything else it refuses.
"""

from artelier_offline.model import OfflineModel

__all__ = ["OfflineModel"]
