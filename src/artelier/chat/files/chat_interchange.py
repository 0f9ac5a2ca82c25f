"""Chats from and to the files of other programs: turns and variants, nothing of what Artelier adds to them.

The whole chat, with its runs and artifacts, travels as a file of our own: `transfer.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from artelier.chat.session.queries import ChatReader
from artelier.chat.tree.branches import VARIANTS_MAX
from artelier.chat.turn.transcript import Turn
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
        warnings.append(f"left out: {system} messages of the system, or hidden from prompts")
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
    return {"user": turn.user, "variants": variants, "selected": selected}


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
        messages.append(chat_log.ChatLogMessage(role="user", name=user, variants=said))
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
            )
        )
    return chat_log.ChatLogTurn(messages=tuple(messages))


def _date(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
