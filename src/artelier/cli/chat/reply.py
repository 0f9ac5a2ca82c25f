"""One turn on the screen: the reply as it is written, and under it what the operations did."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from artelier.cli.display import line, safe
from artelier.cli.screen import Screen
from artelier.money import format_usd

if TYPE_CHECKING:
    from artelier.chat import Session, TurnResult


class StateChange(TypedDict):
    """The change of an artifact by a turn."""

    tag: str
    added: NotRequired[int]
    """Entries that a feed has got."""
    version: NotRequired[int]
    """The new version of another artifact."""


class TurnFacts(TypedDict):
    """The facts that are told of a turn beside its result."""

    planned: tuple[str, ...]
    """Ids of operations."""
    changes: list[StateChange]
    codes: dict[str, str]
    """Why operations ended as they did, by id."""
    parts: list[dict[str, str]]
    """Parts of the reply on other channels than `text`."""


_WORDS = (
    ("done", "ran"),
    ("skipped", "skipped"),
    ("error", "failed"),
    ("aborted", "aborted"),
    ("running", "unfinished"),
)


class ReplyScreen:
    """Shows the reply of one turn, on a terminal piece by piece, elsewhere once it stands."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._streams = sys.stdout.isatty() and not screen.as_json
        self._text = ""
        """What has come."""
        self._came = 0
        """Characters of it as they were written, with placeholders."""
        self._shown = 0
        """Characters of it on the screen."""

    def take(self, event: Any, seen: dict[str, Any]) -> None:
        """A `RunEvent` of the turn, and its data as it may be seen here."""
        if event.type == "main_llm.delta":
            if event.data["offset"] < self._came:  # asked again: it begins anew
                self._end_line()
                self._text, self._shown, self._came = "", 0, 0
            self._came += len(event.data["text"])
            self._text += seen["text"]
            self._show(len(self._text) - self._text.endswith("\r"))
        elif event.type == "approval.requested":
            self._end_line()
            self._screen.note(f"? {seen.get('question', 'an answer is wanted')}", "yellow")

    def _show(self, upto: int) -> None:
        if self._streams and upto > self._shown:
            sys.stdout.write(safe(self._text[self._shown : upto]))
            sys.stdout.flush()
            self._shown = upto

    def _end_line(self) -> None:
        if self._shown:
            print(flush=True)

    def end(self, text: str) -> None:
        """`text` is the reply as people see it: after it was written, operations may have changed it."""
        self._show(len(self._text))
        self._end_line()
        if not text or (self._shown and text.endswith(self._text)):
            return
        if self._shown and text.startswith(self._text):
            text = text[len(self._text) :].strip("\n")
        elif self._shown:
            self._screen.note("the reply was changed; it now reads:", "dim")
        self._screen.line(text)


def print_turn(screen: Screen, session: Session, result: TurnResult, facts: TurnFacts) -> None:
    """A turn that has ended, as a JSON object, or as a quiet line below the reply."""
    if screen.as_json:
        screen.json(plain_turn(session, result, facts), indent=-1)
        return
    for part in facts["parts"]:
        screen.line(f"[{part['channel']}] {part['text']}", "dim")
    if result.failed is not None:
        failed = result.failed
        where = f"{failed['failed_type']}, {failed['operation']}".rstrip(", ")
        screen.note(f"the turn failed ({where}): {line(str(failed['message']), chars_max=400)}", "red")
        screen.note("/regenerate tries it again, /explain says why", "dim")
    elif "error" in result.operations.values():
        screen.note("/explain says why an operation failed", "dim")
    elif result.status == "cancelled":
        screen.note("cancelled", "yellow")
    screen.note(summary(result, facts), "dim")


def summary(result: TurnResult, facts: TurnFacts) -> str:
    """`turn 2: ran lore, dice; skipped guard; world_state v2, combat_log +1; 0.01 USD`."""
    words: list[str] = []
    for status, word in _WORDS:
        names = [id_ for id_ in facts["planned"] if result.operations.get(id_) == status]
        if names:
            words.append(f"{word} {', '.join(_with_codes(names, facts['codes']))}")
    if facts["changes"]:
        words.append(", ".join(map(_change, facts["changes"])))
    if result.is_cut:
        words.append("cut at its limit of tokens, /continue goes on")
    words.append(f"{format_usd(result.cost_microusd)} USD")
    variant = f", variant {result.variant}" if result.variant > 1 else ""
    return line(f"turn {result.turn}{variant}: {'; '.join(words)}", chars_max=600)


def _with_codes(names: Iterable[str], codes: dict[str, str]) -> list[str]:
    return [f"{name} ({codes[name]})" if name in codes else name for name in names]


def _change(change: StateChange) -> str:
    if "added" in change:
        return f"{change['tag']} +{change['added']}"
    return f"{change['tag']} v{change.get('version')}"


def plain_turn(session: Session, result: TurnResult, facts: TurnFacts) -> dict[str, Any]:
    """A turn as JSON data."""
    return {
        "chat_id": session.chat_id,
        "branch": session.branch_name,
        "turn": result.turn,
        "variant": result.variant,
        "run_id": result.run_id,
        "status": result.status,
        "finish_reason": result.finish_reason,
        "speaker": result.speaker,
        "text": result.text,
        "parts": facts["parts"],
        "operations": dict(result.operations),
        "changes": facts["changes"],
        "failed": dict(result.failed) if result.failed is not None else None,
        "is_cut": result.is_cut,
        "cost_microusd": result.cost_microusd,
    }


async def facts_of(session: Session, result: TurnResult) -> TurnFacts:
    """Return what else there is to tell of a turn.

    Artifacts that people may not see are not in it; neither are their names.
    """
    shown = await session.show(result.run_id)
    visible = await session.arts()
    changes: dict[str, StateChange] = {}
    for report in shown["reports"]:
        tag = report.get("tag", "")
        if report["status"] != "applied" or not report.get("version") or tag not in visible:
            continue
        if visible[tag]["append"]:
            before = changes.get(tag)
            changes[tag] = {"tag": tag, "added": (before.get("added", 0) if before else 0) + 1}
        else:
            changes[tag] = {"tag": tag, "version": report["version"]}
    codes = {one["operation_id"]: code for one in shown["operations"] if (code := one.get("code"))}
    return {
        "planned": tuple(dict.fromkeys(one["operation_id"] for one in shown["plan"])),
        "changes": list(changes.values()),
        "codes": codes,
        "parts": await _beside(session, result),
    }


async def _beside(session: Session, result: TurnResult) -> list[dict[str, str]]:
    """Parts of the reply on other channels than `text`."""
    if not result.variant:
        return []
    turn = await session.turn(result.turn)
    return [
        {"channel": part["channel"], "text": part["text"]}
        for variant in turn.variants
        if variant.number == result.variant
        for part in variant.parts
        if part["channel"] != "text"
    ]
