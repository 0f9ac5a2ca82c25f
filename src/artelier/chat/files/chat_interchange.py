"""Chats from and to the files of other programs: turns and variants, nothing of what Artelier adds to them.

The whole chat, with its runs and artifacts, travels as a file of our own: `transfer.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from artelier.chat.rows.branches import VARIANTS_MAX
from artelier.chat.session.chat_reader import ChatReader
from artelier.chat.session.settings import checked_text
from artelier.chat.turn.transcript import Turn
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
    warnings: tuple[str, ...]
    """What was changed or left out."""


def parse_chat(source: Source) -> TakenChat:
    """A chat from a JSONL file, or from its bytes.

    Errors: `InvalidImport` naming every line that cannot be read; `NotFound` for no such file.
    """
    chat = chat_log.read_chat(source)
    warnings = list(chat.warnings)
    turns = [turn for one in chat.turns if (turn := _turn(one, warnings)) is not None]
    system = sum(len(one.system) for one in chat.turns)
    if system:
        warnings.append(f"left out: {system} messages of the system")
    return TakenChat(
        user=chat.user, char=chat.char, turns=tuple(turns), warnings=tuple(dict.fromkeys(warnings))
    )


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
    return {**plain, "hidden": hidden} if hidden else plain


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
        messages.append(chat_log.ChatLogMessage(role="user", name=user, variants=said, hidden=turn.is_hidden))
    if turn.variants:
        numbers = [one.number for one in turn.variants]
        messages.append(
            chat_log.ChatLogMessage(
                role="assistant",
                name=char,
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
        for text in (self.user or "", *self.variants):
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
            expected="a list of {user: text or null, variants: [text], selected: index, hidden: [role]}",
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
