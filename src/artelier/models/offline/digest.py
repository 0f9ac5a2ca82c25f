"""Summaries of compacted events: an extract of a transcript in its order, within the room that is given.

Nothing is rephrased. Kept are what people said that matters, calls with their results where these fit, then
names and numbers of all that was left out, and how often each call was made: a model that goes on from the
summary must neither lose an identifier nor repeat a call for ever. An extract of extracts works alike.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from artelier.models.offline.mentions import mentions
from artelier.models.offline.past import CALLS, ENTRY, LABEL, MADE, Told, calls_in, counts_in
from artelier.models.offline.previews import is_preview
from artelier.models.offline.summary import points_of, sentences
from artelier.ports.model import ModelRequest

TASK = "Task: summarise past events."
"""The line of a system message that asks for it."""

HEADING = "Extract, entries word for word (offline model: rules, no language model):"
NAMED = "Also named:"
READ_CHARS_MAX = 2_000_000
"""Of the transcript; what lies behind is left out."""
ROOM_CHARS, ROOM_CHARS_MAX = 6_000, 24_000
"""Of a summary whose room is not given, and at most."""
RESULT_CHARS_MAX = 2_000
"""Of a tool's result that is kept whole."""
CALL_CHARS_MAX = 240
COUNTED_MAX = 60
"""Calls whose number is kept."""

Kind = Literal["text", "call", "result"]


@dataclass(slots=True, kw_only=True)
class _Entry:
    number: str
    role: str
    kind: Kind
    text: str
    key: str = ""
    """Of a result: that of its call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    at: int
    points: int
    line: str


def is_wanted(request: ModelRequest) -> bool:
    """Return True if a request asks to summarise past events for compaction."""
    return any(
        line.strip() == TASK
        for message in request.messages
        if message.role == "system"
        for line in message.text[:50_000].splitlines()
    )


def extract(request: ModelRequest) -> str:
    """The summary. Cost: linear in the transcript."""
    room = _room(request)
    texts = [message.text for message in request.messages if message.role == "user"]
    text = "\n".join(texts)[:READ_CHARS_MAX]
    entries = _entries(text)
    items = _items(entries, room)
    made = _made_line(text, max(room // 6, min(room // 2, 400)))
    heading = [HEADING] if room >= 5 * len(HEADING) else []
    main = room - sum(map(len, heading)) - len(made) - 2
    kept = _kept(items, main * 3 // 4 if len(text) > main else main)
    lines = [*heading, *(item.line for item in kept)]
    left = room - sum(len(line) + 1 for line in lines) - len(made) - 1
    named = _named_line(text, "\n".join(lines), left)
    summary = "\n".join([*lines, *([named] if named else []), *([made] if made else [])])
    return (summary or " ".join(text[:ROOM_CHARS].split()))[:room]


def _room(request: ModelRequest) -> int:
    tokens = request.params.get("max_output_tokens")
    if isinstance(tokens, bool) or not isinstance(tokens, int):
        return ROOM_CHARS
    return max(1, min(tokens * 4, ROOM_CHARS_MAX))


def _entries(text: str) -> list[_Entry]:
    """The entries of a transcript; lines that begin none belong to the one before."""
    found: list[_Entry] = []
    parts: list[str] = []
    head: tuple[str, str, Kind] = ("", "text", "text")
    key = ""
    calls_of: tuple[int, list[str]] = (0, [])

    def close() -> None:
        body = "\n".join(parts).strip()
        if body:
            found.append(_Entry(number=head[0], role=head[1], kind=head[2], text=body, key=key))
        parts.clear()

    for line in text.splitlines():
        match = ENTRY.match(line)
        if match is not None:
            close()
            head = (match[1], match[2], "result" if match[2] == "tool" else "text")
            at = int(match[1]) - calls_of[0] - 1
            label = LABEL.search(match[3])
            key = calls_of[1][at] if match[2] == "tool" and 0 <= at < len(calls_of[1]) else ""
            key = label[1] if label else ("" if line.startswith("- ") else key)
            line = line[match.end() :]
        elif line.startswith((MADE, NAMED, HEADING)):
            close()
            head = ("", "text", "text")
            continue
        if head[1] == "assistant" and (calls := CALLS.match(line)):
            close()
            head = (head[0], head[1], "call")
            told = calls_in(line[calls.end() :])
            calls_of = (int(head[0]), [call.key for call in told])
            parts.append(line[calls.end() :])
            close()
            head = (head[0], head[1], "text")
            continue
        parts.append(line)
    close()
    return found


def _items(entries: Iterable[_Entry], room: int) -> list[_Item]:
    """Return what may be kept of each entry, with its weight. A text is taken apart into sentences."""
    found: list[_Item] = []
    seen: set[str] = set()
    result_max = min(RESULT_CHARS_MAX, room // 2)
    for entry in entries:
        label = f"- [{entry.number}] {entry.role}" if entry.number else f"- {entry.role}"
        if entry.kind == "call":
            for told in calls_in(entry.text):
                line = f"{label} calls {_call(told)}"
                found.append(_Item(at=len(found), points=4, line=line))
            continue
        label += f" #{entry.key}" if entry.key else ""
        if entry.kind == "result" and (whole := _result(entry.text, result_max)):
            found.append(_Item(at=len(found), points=4, line=f"{label}: {whole}"))
            continue
        extra = 2 if entry.role == "user" else 0
        for sentence in sentences(entry.text):
            if sentence.lower() in seen:
                continue
            seen.add(sentence.lower())
            cut = " …" if entry.kind == "result" else ""
            line = f"{label}: {sentence}{cut}"
            found.append(_Item(at=len(found), points=points_of(sentence) + extra, line=line))
    return found


def _call(told: Told) -> str:
    """A call, whole or cut with the key of what it was."""
    flat = " ".join(told.text.split())
    if len(flat) <= CALL_CHARS_MAX or not told.key:
        return flat[: 2 * CALL_CHARS_MAX]
    return f"{flat[: CALL_CHARS_MAX - 60]}… #{told.key})"


def _result(text: str, chars_max: int) -> str:
    """A result on one line if it fits; of a preview its ref and size; else nothing."""
    flat = " ".join(text.split())
    if '"total_chars"' in flat and '"head"' in flat and len(flat) < 100_000:
        try:
            value: Any = json.JSONDecoder().raw_decode(flat)[0]
        except (ValueError, RecursionError):
            value = None
        if is_preview(value):
            return json.dumps({**value, "head": "", "tail": ""})
    return flat if len(flat) <= chars_max else ""


def _kept(items: list[_Item], room: int) -> list[_Item]:
    """The weightiest items that fit, newer ones first among equals, in their order."""
    chosen: list[_Item] = []
    used = 0
    for item in sorted(items, key=lambda one: (-one.points, -one.at)):
        if item.points > 0 and used + len(item.line) + 1 <= room:
            chosen.append(item)
            used += len(item.line) + 1
    if not chosen and items and len(items[-1].line) < room:
        chosen.append(items[-1])
    return sorted(chosen, key=lambda one: one.at)


def _named_line(text: str, kept: str, room: int) -> str:
    """The names and numbers of the transcript that nothing kept holds, as many as fit."""
    if room < len(NAMED) + 10:
        return ""
    known = {mention for _, mention in mentions(kept)}
    by_rank: dict[str, int] = {}
    for rank, mention in mentions(text):
        if mention not in known:
            by_rank.setdefault(mention, rank)
    used = len(NAMED)
    chosen: set[str] = set()
    for mention, _ in sorted(by_rank.items(), key=lambda pair: pair[1]):
        if used + len(mention) + 2 > room:
            break
        chosen.add(mention)
        used += len(mention) + 2
    listed = [mention for mention in by_rank if mention in chosen]
    return f"{NAMED} {', '.join(listed)}" if listed else ""


def _made_line(text: str, room: int) -> str:
    """Return how often each call was made, those of earlier summaries included; the most repeated first."""
    names: dict[str, str] = {}
    counts: Counter[str] = Counter()
    nested: Counter[str] = Counter()
    told: Counter[str] = Counter()
    for line in text.splitlines():
        if line.startswith(MADE):
            for name, key, count in counts_in(line):
                names.setdefault(key, name)
                told[key] += count
            continue
        match = ENTRY.match(line)
        at = match.end() if match is not None and match[2] == "assistant" else 0
        calls = CALLS.match(line, at) if match is None or at else None
        for call in calls_in(line[calls.end() :]) if calls else ():
            if call.key:
                names.setdefault(call.key, call.tool)
                (nested if line.startswith("- ") else counts)[call.key] += 1
    for key in {*nested, *told}:
        counts[key] += max(nested[key], told[key])
    parts: list[str] = []
    used = len(MADE)
    order = {key: at for at, key in enumerate(names)}
    for key, count in sorted(counts.items(), key=lambda one: (-one[1], order[one[0]]))[:COUNTED_MAX]:
        part = f"{names[key]}#{key} x{count}"
        if used + len(part) + 2 > room:
            break
        parts.append(part)
        used += len(part) + 2
    return f"{MADE} {', '.join(parts)}" if parts else ""
