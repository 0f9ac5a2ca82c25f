"""Chats: sessions, turns, the tree of variants, files. Names load on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artelier.ports.lazy_names import load_on_use

if TYPE_CHECKING:
    from artelier.chat.session.agent_conversation import Chat
    from artelier.chat.session.chat_reader import Turn, Variant
    from artelier.chat.session.event_stream import RunEvent
    from artelier.chat.session.session import Session
    from artelier.chat.turn.turn_runner import TurnResult

__all__ = ["Chat", "RunEvent", "Session", "Turn", "TurnResult", "Variant"]

_HOMES = {
    "Chat": "session.agent_conversation",
    "RunEvent": "session.event_stream",
    "Session": "session.session",
    "Turn": "session.chat_reader",
    "TurnResult": "turn.turn_runner",
    "Variant": "session.chat_reader",
}

__getattr__ = load_on_use(__name__, _HOMES)
