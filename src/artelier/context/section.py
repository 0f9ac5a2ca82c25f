"""A section: one tagged part of a prompt before anybody decided whether it fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from artelier.kernel import RangePart
from artelier.ports.model import ChatMessage, Role

Stability = Literal["fixed", "slow", "append_only", "volatile"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Text, messages, or a range of a conversation, with all that a manifest says of it."""

    tag: str
    text: str = ""
    role: Role = "system"
    """Of the message that `text` becomes."""
    messages: tuple[ChatMessage, ...] = ()
    range: RangePart | None = None
    stability: Stability = "fixed"
    priority: int = 50
    """What has the lowest is left out first."""
    pinned: bool = False
    """Never left out."""
    src: tuple[str, ...] = ()
    """Refs with versions that it was made from."""
    trust: str = "trusted"

    @property
    def is_empty(self) -> bool:
        return not self.text and not self.messages and self.range is None
