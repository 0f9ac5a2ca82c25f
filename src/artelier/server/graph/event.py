"""Events as clients see them, and readers of their fields that never fail."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from artelier.server.live.event_encoder import WireEvent

INTEGER_MAX = 2**53 - 1
"""The largest whole number that a browser holds exactly; a larger one is none to either side."""


class SeenEvent(msgspec.Struct, frozen=True):
    """One event as a client sees it. Events of later versions may lack or change a field."""

    position: int
    stream: str
    space: str
    seq: int
    kind: str
    at_us: int
    actor: str
    data: dict[str, Any]
    texts: dict[str, str]

    @property
    def id(self) -> str:
        """The id in the name of its stream: `churn/figures` of `run:churn/figures`."""
        return self.stream.partition(":")[2]

    def text(self, field: str, fallback: str = "") -> str:
        value = self.data.get(field)
        return value if isinstance(value, str) else fallback

    def integer(self, field: str, fallback: int = 0) -> int:
        value = self.data.get(field)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) > INTEGER_MAX:
            return fallback
        return value

    def flag(self, field: str) -> bool:
        return self.data.get(field) is True

    def strings(self, field: str) -> list[str]:
        return strings(self.data.get(field))

    def parsed(self, field: str) -> dict[str, Any]:
        """Return a small text that is JSON of an object; {} if it was cut or is something else."""
        try:
            return record(_parse(self.texts.get(field, "")))
        except (msgspec.DecodeError, RecursionError):
            return {}


_parse = msgspec.json.Decoder().decode
_decode = msgspec.json.Decoder(SeenEvent).decode


def seen(event: WireEvent) -> SeenEvent:
    """Return an event as whoever receives it reads it."""
    return _decode(event.body)


def strings(value: object) -> list[str]:
    """Return those of a list that are text."""
    return (
        [one for one in cast("list[Any]", value) if isinstance(one, str)] if isinstance(value, list) else []
    )


def record(value: object) -> dict[str, Any]:
    """Return a JSON object; {} for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def string(value: object) -> str:
    return value if isinstance(value, str) else ""
