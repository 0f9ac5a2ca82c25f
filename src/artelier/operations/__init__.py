"""Operations around a main model call: profiles, sessions, chats. Names load on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from artelier.operations.definition import OperationProfile
    from artelier.operations.driving import TurnResult
    from artelier.operations.session import Session
    from artelier.operations.stream import RunEvent
    from artelier.operations.turns import Turn, Variant

__all__ = ["OperationProfile", "RunEvent", "Session", "Turn", "TurnResult", "Variant"]

_HOME = {
    "OperationProfile": "definition",
    "RunEvent": "stream",
    "Session": "session",
    "Turn": "turns",
    "TurnResult": "driving",
    "Variant": "turns",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'artelier.operations' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"artelier.operations.{home}"), name)
    globals()[name] = value
    return value
