"""The names that operations see: people, the conversation, artifacts, the run. Data, equal on a replay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from artelier.ports.model import ChatMessage


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
