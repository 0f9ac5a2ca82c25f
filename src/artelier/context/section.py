"""A section: one tagged part of a prompt before anybody decided whether it fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from artelier.errors import InvalidRequest
from artelier.kernel import RangePart
from artelier.ports.model import ChatMessage, Role

Stability = Literal["fixed", "slow", "append_only", "volatile"]
Truncation = Literal["start", "end", "middle", "drop"]
STABILITIES: tuple[str, ...] = get_args(Stability)
TRUNCATIONS: tuple[str, ...] = get_args(Truncation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The source of a section, and the reason why it may be there."""

    ref: str
    """An artifact with its version (`handbook@3`), or a name such as `agent`, `tools`, `memory`."""
    why: str = ""
    """Such as `subscribed`, `recalled`, `loaded`."""
    grant: str = ""
    """The grant by which it was read, where one was needed."""

    def __str__(self) -> str:
        notes = "; ".join(note for note in (self.why, self.grant and f"grant {self.grant}") if note)
        return f"{self.ref} ({notes})" if notes else self.ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Text, messages, or a range of a conversation, with all that a manifest says of it."""

    tag: str
    text: str = ""
    role: Role = "system"
    """Of the message that `text` becomes."""
    messages: tuple[ChatMessage, ...] = ()
    range: RangePart | None = None
    joined: bool = False
    """`text` joins the message before it, after a blank line, if that has the same role; else it stands
    alone."""
    stability: Stability = "fixed"
    """`volatile` sections stand at the very end: they are added to the last user or tool message."""
    priority: int = 50
    """Over budget, the lowest is cut or left out first."""
    max_tokens: int | None = None
    """By estimate. None: no limit of its own."""
    truncation: Truncation = "end"
    """Where text is cut, over its own limit or the prompt's; `drop` leaves all of it out. Of messages the
    oldest go first, and with `drop` all of them may."""
    pinned: bool = False
    """Never cut, never left out."""
    sources: tuple[Source | str, ...] = ()
    trust: str = "trusted"
    """A label; text of any other than `trusted` is fenced as data."""
    is_fenced: bool = False
    """Its maker has fenced what is not trusted in it; the words around that are its own."""
    label: str = ""
    """The trust label in the manifest, where it is worse than the way in which the text is shown."""
    cut: str = ""
    """How its maker has shortened it already: `start`, `end` or `middle`."""
    dropped: str = ""
    """Why its maker left it out (`denied`, `no_funds`, `missing`, ...); the manifest says so."""

    def __post_init__(self) -> None:
        """Errors: `InvalidRequest` that names what is no section's."""
        for name, allowed in (("stability", STABILITIES), ("truncation", TRUNCATIONS)):
            if getattr(self, name) not in allowed:
                raise InvalidRequest(
                    f"{name} of section {self.tag!r}",
                    expected=" or ".join(allowed),
                    got=repr(getattr(self, name))[:80],
                )
        for name in ("tag", "text"):
            value: object = getattr(self, name)
            if not isinstance(value, str) or (name == "tag" and not 0 < len(value) <= 120):
                raise InvalidRequest(
                    f"{name} of a section",
                    expected="text" if name == "text" else "1-120 characters",
                    got=repr(value)[:80],
                )

    @property
    def is_empty(self) -> bool:
        return not self.text and not self.messages and self.range is None
