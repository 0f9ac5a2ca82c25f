"""Chats from and to the files of other programs: turns and variants, nothing of what Artelier adds to them.

The whole chat, with its runs and artifacts, travels as a file of our own: `transfer.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, cast

import msgspec

from artelier.chat.rows.nodes import VARIANTS_MAX
from artelier.chat.session.chat_reader import ChatReader, Turn
from artelier.chat.session.settings import MEMBERS_MAX, NOTE_DEPTH_MAX, checked_text
from artelier.errors import InvalidRequest
from artelier.operations.lore import chat_log
from artelier.operations.lore.untrusted_files import Source

PAGE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenChat:
    """A chat of another program, as `Session.import_turns` takes it."""

    user: str
    char: str
    turns: tuple[dict[str, Any], ...]
    group: tuple[str, ...] = ()
    """Names of the characters, if there are several."""
    note: dict[str, Any] = field(default_factory=dict[str, Any])
    """The author's note, as `Session.open` takes it; empty for none."""
    warnings: tuple[str, ...]
    """What was changed or left out."""


def parse_chat(source: Source) -> TakenChat:
    """Return a chat from a JSONL file, or from its bytes.

    Errors: `InvalidImport` naming every line that cannot be read; `NotFound` for no such file.
    """
    chat = chat_log.read_chat(source)
    warnings = list(chat.warnings)
    turns = [turn for one in chat.turns for turn in _as_turns(one, warnings)]
    metadata = chat.extensions.get("chat_metadata")
    note = _author_note(cast("dict[str, Any]", metadata) if isinstance(metadata, dict) else {}, warnings)
    warnings += _left_out(chat)
    return TakenChat(
        user=chat.user,
        char=chat.char,
        group=_speakers(chat),
        turns=tuple(turns),
        note=note,
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _speakers(chat: chat_log.ImportedChat) -> tuple[str, ...]:
    """The names of several characters in the order in which they spoke first; none of one alone."""
    said = [one.name for turn in chat.turns for one in turn.messages if one.role == "assistant" and one.name]
    names = list(dict.fromkeys(said))
    return tuple(names[:MEMBERS_MAX]) if len({one.casefold() for one in names}) == len(names) > 1 else ()


def _as_turns(turn: chat_log.ChatLogTurn, warnings: list[str]) -> Iterator[dict[str, Any]]:
    """Give a turn as data, and what a narrator says before or after it; nothing if it says nothing."""
    own = [at for at, one in enumerate(turn.messages) if one.role != "system"]
    first = own[0] if own else len(turn.messages)
    for one in turn.messages[:first]:
        yield from _narrated(one, warnings)
    if (said := _turn(turn, warnings)) is not None:
        yield said
    for one in turn.messages[first:]:
        yield from _narrated(one, warnings)


def _narrated(message: chat_log.ChatLogMessage, warnings: list[str]) -> Iterator[dict[str, Any]]:
    if message.role == "system" and not message.hidden and message.text.strip():
        warnings.append("messages of a narrator stand as replies")
        yield {"user": None, "variants": [message.text], "selected": 0}


def _turn(turn: chat_log.ChatLogTurn, warnings: list[str]) -> dict[str, Any] | None:
    """A turn as data; None if it says nothing."""
    variants, selected = list(turn.variants), turn.selected
    if len(variants) > VARIANTS_MAX:
        first = max(0, selected - VARIANTS_MAX + 1)
        variants, selected = variants[first : first + VARIANTS_MAX], selected - first
        warnings.append(f"of one turn {VARIANTS_MAX} variants are kept")
    if turn.user is None and not variants:
        return None
    hidden = [one.role for one in turn.messages if one.hidden and one.role != "system"]
    plain = {"user": turn.user, "variants": variants, "selected": selected}
    names = {
        key: one.name
        for key, role in (("persona", "user"), ("speaker", "assistant"))
        for one in turn.messages
        if one.role == role and one.name
    }
    return {**plain, **names, **({"hidden": hidden} if hidden else {})}


_NOTE_FIELDS = ("note_prompt", "note_depth", "note_role", "note_position", "note_interval")
_NOTE_ROLES = ("system", "user", "assistant")
_IN_CHAT = 1
"""The `note_position` of a note that stands among the messages."""
_HOUSEKEEPING = frozenset(("integrity", "chat_id_hash", "tainted", "lastInContextMessageId", *_NOTE_FIELDS))


def _author_note(metadata: Mapping[str, Any], warnings: list[str]) -> dict[str, Any]:
    """Return the author's note of a file's head; empty if there is none. What is not followed is named."""
    left = sorted(name for name, value in metadata.items() if value and name not in _HOUSEKEEPING)
    if left:
        warnings.append(f"left out of chat_metadata: {', '.join(left[:20])[:300]}")
    prompt, depth, role = (metadata.get(f"note_{name}") for name in ("prompt", "depth", "role"))
    if not isinstance(prompt, str) or not prompt.strip():
        return {}
    if metadata.get("note_position", _IN_CHAT) != _IN_CHAT:
        warnings.append("note_position: the author's note stands among the messages here")
    if metadata.get("note_interval", 1) != 1:
        warnings.append("note_interval: the author's note stands in every prompt here")
    is_depth = isinstance(depth, int) and not isinstance(depth, bool) and 0 <= depth <= NOTE_DEPTH_MAX
    return {"prompt": prompt, "depth": depth if is_depth else 4, "role": _role(role)}


def _role(number: object) -> str:
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < len(_NOTE_ROLES):
        return "system"
    return _NOTE_ROLES[number]


def _left_out(chat: chat_log.ImportedChat) -> list[str]:
    """Return what a file says of its messages and a chat here does not hold, each once."""
    messages = [one for turn in chat.turns for one in turn.messages]
    hidden = sum(one.role == "system" and (one.hidden or not one.text.strip()) for one in messages)
    thoughts = sum(bool(variant.reasoning) for one in messages for variant in one.variants)
    reworded = sum(one.role == "user" and len(one.variants) > 1 for one in messages)
    found: list[str] = []
    if hidden:
        found.append(f"left out: {hidden} messages of the system")
    if thoughts:
        found.append(f"left out: the reasoning of {thoughts} texts")
    if reworded:
        found.append(f"left out: other wordings of {reworded} messages of the person")
    if any(variant.sent_at for one in messages for variant in one.variants):
        found.append("left out: when messages were sent")
    return found


async def export_jsonl(session: ChatReader) -> bytes:
    """The conversation of a branch as JSONL, with all variants of each turn, as people see them."""
    settings, row = await session.settings(), await session.row()
    user = str(settings.user.get("name") or "User")
    char = str(settings.char.get("name") or "Assistant")
    found: list[Turn] = []
    before: int | None = None
    while page := await session.turns(before=before, limit=PAGE):
        found[:0] = page
        before = page[0].number
        if not before:
            break
    turns = tuple(_messages(turn, user=user, char=char) for turn in found)
    return chat_log.write_chat(
        chat_log.ImportedChat(user=user, char=char, turns=turns, created_at=_date(row.opened_us))
    )


def _messages(turn: Turn, *, user: str, char: str) -> chat_log.ChatLogTurn:
    messages: list[chat_log.ChatLogMessage] = []
    at = _date(turn.at_us)
    if turn.user:
        said = (chat_log.ChatLogVariant(text=turn.user, sent_at=at),)
        name = turn.persona or user
        messages.append(chat_log.ChatLogMessage(role="user", name=name, variants=said, hidden=turn.is_hidden))
    if turn.variants:
        numbers = [one.number for one in turn.variants]
        messages.append(
            chat_log.ChatLogMessage(
                role="assistant",
                name=turn.speaker or char,
                variants=tuple(
                    chat_log.ChatLogVariant(text=one.text, sent_at=_date(one.at_us)) for one in turn.variants
                ),
                selected=numbers.index(turn.selected) if turn.selected in numbers else 0,
                hidden=any(one.is_hidden for one in turn.variants if one.number == turn.selected),
            )
        )
    return chat_log.ChatLogTurn(messages=tuple(messages))


def _date(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# Turns of a conversation from elsewhere, as data: checked, and cut into pieces of bounded size


TURNS_MAX = 100_000
PAGE_NODES_MAX = 1_000
"""Turns and variants of one event; fewer than a chat's stream has numbers for."""
PAGE_CHARS_MAX = 8_000_000


class ForeignTurn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person's message and the replies to it."""

    user: str | None = None
    """None if the character began."""
    variants: tuple[str, ...] = ()
    selected: int = 0
    hidden: tuple[Literal["user", "assistant"], ...] = ()
    """Whose message prompts leave out."""
    persona: str = ""
    """What the person is called in it."""
    speaker: str = ""
    """What the one is called who replies."""

    def check(self) -> None:
        """Errors: `InvalidRequest`."""
        if len(self.variants) > VARIANTS_MAX:
            raise InvalidRequest(
                "variants of one turn", expected=f"at most {VARIANTS_MAX}", got=len(self.variants)
            )
        if self.variants and not 0 <= self.selected < len(self.variants):
            raise InvalidRequest("selected", expected=f"0 to {len(self.variants) - 1}", got=self.selected)
        if self.user is None and not self.variants:
            raise InvalidRequest("a turn needs words or replies", got="neither")
        for text in (self.user or "", *self.variants, self.persona, self.speaker):
            checked_text(text, what="text of a turn")

    @property
    def nodes(self) -> int:
        return 1 + len(self.variants)

    @property
    def chars(self) -> int:
        return len(self.user or "") + sum(map(len, self.variants))


def batches(turns: object) -> Iterator[Sequence[ForeignTurn]]:
    """Pages of turns, each for one event; nothing is given before all of them were checked.

    Errors: `InvalidRequest`.
    """
    if isinstance(turns, list | tuple) and len(turns) > TURNS_MAX:  # pyright: ignore[reportUnknownArgumentType] - any list
        raise InvalidRequest("turns of one import", expected=f"at most {TURNS_MAX}")
    try:
        checked = msgspec.convert(turns, tuple[ForeignTurn, ...], from_attributes=True)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InvalidRequest(
            f"turns of a conversation: {error}",
            expected="a list of {user: text or null, variants: [text], selected: index, hidden: [role],"
            " persona: name, speaker: name}",
        ) from None
    for turn in checked:
        turn.check()
    return _pages(checked)


def _pages(turns: Sequence[ForeignTurn]) -> Iterator[Sequence[ForeignTurn]]:
    page: list[ForeignTurn] = []
    nodes = chars = 0
    for turn in turns:
        if page and (nodes + turn.nodes > PAGE_NODES_MAX or chars + turn.chars > PAGE_CHARS_MAX):
            yield page
            page, nodes, chars = [], 0, 0
        page.append(turn)
        nodes, chars = nodes + turn.nodes, chars + turn.chars
    if page:
        yield page
