"""The artifacts of a session as one run sees and changes them. Values; every change is a new state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from artelier.operations.profile.definition import ArtifactUpsert
from artelier.ports.media import Medium
from artelier.ports.model import ChatMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """An earlier value, or an entry of a feed."""

    value: Any
    version: int
    at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Art:
    """`art.<tag>` at one moment."""

    tag: str
    value: Any
    """JSON; of a feed the list of its entries, oldest first."""
    at_us: int = 0
    version: int = 0
    """0 for one of this run only."""
    history: tuple[Version, ...] = ()
    """Newest first; of a feed one per entry, of anything else earlier values alone."""
    append: bool = False
    usage: str = "internal"
    semantics: str = "state"
    persisted: bool = True
    operation: str = ""
    """Which operation wrote it."""
    run: str = ""
    """In which run; empty for this one."""

    @property
    def in_prompt(self) -> bool:
        return self.usage in ("prompt_only", "prompt+ui")

    @property
    def in_ui(self) -> bool:
        return self.usage in ("ui_only", "prompt+ui")

    def names(self) -> dict[str, Any]:
        """Return what templates and code see."""
        earlier = (one.value for one in reversed(self.history))
        return {
            "value": self.value,
            "version": self.version,
            "history": [
                {"value": one.value, "version": one.version, "at_us": one.at_us} for one in self.history
            ],
            "values": self.value if self.append else [*earlier, self.value],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtState:
    """All artifacts that a run can see, by tag."""

    arts: Mapping[str, Art] = field(default_factory=dict[str, Art])

    def names(self) -> dict[str, Any]:
        return {tag: art.names() for tag, art in self.arts.items()}

    @property
    def in_prompt(self) -> frozenset[str]:
        return frozenset(tag for tag, art in self.arts.items() if art.in_prompt)

    @property
    def in_ui(self) -> frozenset[str]:
        return frozenset(tag for tag, art in self.arts.items() if art.in_ui)

    def upsert(self, effect: ArtifactUpsert, value: object, *, operation: str, at_us: int) -> ArtState:
        """The state after an operation wrote an artifact. Cost: O(entries that it retains)."""
        old = self.arts.get(effect.tag)
        persisted = effect.persistence == "persisted"
        if old is not None and (old.persisted != persisted or old.append != _appends(effect)):
            old = None if not persisted else replace(old, history=(), append=_appends(effect))
        is_hidden = old is not None and not covers(old.usage, effect.usage)
        version = (old.version if old is not None else 0) + 1 if persisted else 0
        art = Art(
            tag=effect.tag,
            value=value,
            at_us=at_us,
            version=version,
            append=_appends(effect),
            usage=effect.usage,
            semantics=effect.semantics,
            persisted=persisted,
            operation=operation,
        )
        if art.append:
            entry = Version(value=value, at_us=at_us, version=version)
            before = old.history if old is not None and not is_hidden else ()
            entries = self._retain(effect, (entry, *before), at_us)
            art = replace(
                art, value=[one.value for one in reversed(entries)], history=entries if persisted else ()
            )
            if not persisted and old is not None:
                art = replace(art, value=[*old.value, value][-effect.versions_max :])
        elif persisted and old is not None and not is_hidden:
            earlier = Version(value=old.value, at_us=old.at_us, version=old.version)
            art = replace(art, history=self._retain(effect, (earlier, *old.history), at_us))
        return ArtState(arts={**self.arts, effect.tag: art})

    def _retain(
        self, effect: ArtifactUpsert, versions: tuple[Version, ...], now_us: int
    ) -> tuple[Version, ...]:
        return retain_versions(
            versions, versions_max=effect.versions_max, ttl_s=effect.retention.ttl_s or 0, now_us=now_us
        )


def retain_versions(
    versions: Iterable[Version], *, versions_max: int, ttl_s: int, now_us: int
) -> tuple[Version, ...]:
    """Return the versions to keep, by count and age. `versions` are newest first; `ttl_s` 0: any age."""
    kept: list[Version] = []
    for version in versions:
        if len(kept) >= versions_max:
            break
        if ttl_s and now_us - version.at_us > ttl_s * 1_000_000:
            break
        kept.append(version)
    return tuple(kept)


_SEES = {
    "internal": frozenset[str](),
    "prompt_only": frozenset(("prompt",)),
    "ui_only": frozenset(("ui",)),
    "prompt+ui": frozenset(("prompt", "ui")),
}


def covers(usage: str, newer: str) -> bool:
    """Return True if all who may see a newer version may see one of this usage: else it stays hidden (I9)."""
    return _SEES.get(newer, frozenset()) <= _SEES.get(usage, frozenset())


def _appends(effect: ArtifactUpsert) -> bool:
    return effect.write_mode == "append"


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The part of the scope that all operations of a hook share."""

    people: Mapping[str, Any]
    """`user` and `char`: each `{name, description, ...}`."""
    chat: Mapping[str, Any]
    """`{id, branch, turn, trigger}`."""
    run: Mapping[str, Any]
    """`{id, trigger, turn}`."""
    now_us: int
    messages: Sequence[Mapping[str, str]]
    """The conversation up to and with the person's newest message: `{role, content, name}`."""
    text: str
    """The person's newest words."""
    reply: str | None = None
    """The main call's text, after it."""
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Names of where the agent lives; they take the place of no other."""
    attachments: tuple[Medium, ...] = ()
    """What the person's newest words came with."""

    @classmethod
    def of(
        cls,
        said: Iterable[ChatMessage],
        *,
        people: Mapping[str, Any],
        chat: str,
        branch: str,
        run: str,
        turn: int,
        trigger: str,
        **more: Any,
    ) -> Situation:
        """Return the situation of a run that continues a conversation. `more`: the other fields, as given."""
        facts = {"turn": turn, "trigger": trigger}
        return cls(
            people=people,
            chat={"id": chat, "branch": branch, **facts},
            run={"id": run, **facts},
            messages=said_names(said, people),
            **more,
        )

    def names(self) -> dict[str, Any]:
        said = list(self.messages)
        names: dict[str, Any] = {
            **self.more,
            "user": dict(self.people["user"]),
            "char": dict(self.people["char"]),
            "chat": dict(self.chat),
            "chat_history": said,
            "messages": said,
            "text": self.text,
            "rag": {},
            "now": rfc3339(self.now_us),
            "run": dict(self.run),
        }
        if self.reply is not None:
            name = str(self.people["char"].get("name", ""))
            reply = {"role": "assistant", "content": self.reply, "name": name}
            names["messages"] = [*said, reply]
            names["reply"] = self.reply
        return names


def said_names(messages: Iterable[ChatMessage], people: Mapping[str, Any]) -> list[Mapping[str, str]]:
    """Messages of a conversation as names, with who said them."""
    who = {"user": str(people["user"].get("name", "")), "assistant": str(people["char"].get("name", ""))}
    return [{"role": one.role, "content": one.text, "name": who.get(one.role, one.role)} for one in messages]


def rfc3339(at_us: int) -> str:
    """A time in microseconds since 1970 as RFC 3339 text, in UTC, to the second."""
    try:
        moment = datetime.fromtimestamp(at_us // 1_000_000, UTC)
    except (OverflowError, ValueError, OSError):  # a clock of a test may show any number
        moment = datetime.fromtimestamp(0, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
