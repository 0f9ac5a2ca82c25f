"""Chats: sessions, turns, the tree of variants, files. Names load on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artelier.chat.session.agent_conversation import Chat
    from artelier.chat.session.chat_reader import Turn, Variant
    from artelier.chat.session.event_stream import RunEvent
    from artelier.chat.session.session import Session
    from artelier.chat.turn.turn_runner import TurnResult

__all__ = ["Chat", "RunEvent", "Session", "Turn", "TurnResult", "Variant"]

_HOME = {
    "Chat": "artelier.chat.session.agent_conversation",
    "RunEvent": "artelier.chat.session.event_stream",
    "Session": "artelier.chat.session.session",
    "Turn": "artelier.chat.session.chat_reader",
    "TurnResult": "artelier.chat.turn.turn_runner",
    "Variant": "artelier.chat.session.chat_reader",
}


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'artelier.chat' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value
