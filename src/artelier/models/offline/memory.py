"""Requests to remember something: stored once by a tool of memory, confirmed only if the tool did it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from artelier.errors import OfflineCannot
from artelier.models.offline.conversation import Ask, Desk, Wanted
from artelier.models.offline.instance import made
from artelier.models.offline.recollection import CORE, HERE, RECALLED, Known, core_lines, known_from
from artelier.models.offline.schemas import as_schema, listed
from artelier.models.offline.story import Story
from artelier.ports.model import ModelRequest

STATEMENTS_MAX = 8
TEXT_CHARS_MAX = 2_000

_APPEND, _REPLACE, _REMEMBER = "core_memory_append", "core_memory_replace", "remember"
_SEARCHES = (("core_memory_search", CORE), ("recall", RECALLED), ("history_search", HERE))
_HITS = 5
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_POLITE = (
    r"(?:(?:please|also|and|then|ok|okay|hi|hello|hey|thanks|actually|well|no|by the way|sorry)"
    r"[,.!]?\s+)*"
)
_STORE = re.compile(
    rf"{_POLITE}(?:can you |could you )?(?:(?:remember|memori[sz]e|keep in mind|bear in mind|don't forget|"
    r"do not forget)(?:\s*:|\s+that|\s+this:|,)?|(?:note|save|store|make a note|take note|write down)"
    r"(?:\s+in(?:to)? (?:your )?memory)?(?:\s*:|\s+that|\s+this:))\s+(.{2,})",
    re.IGNORECASE | re.DOTALL,
)
_NAMED = re.compile(rf"{_POLITE}((?:my name is|i am called|i'm called|call me)\s+.+)", re.IGNORECASE)
_RECALLS = re.compile(r"(?:what|who|when|where|which|how|if|whether|me\b|to\s+(?:ask|tell))", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A message taken apart."""

    statements: tuple[str, ...]
    """What shall be remembered, in the words of the person."""
    rest: str
    """What else is asked."""


def request_in(text: str) -> Request:
    """Return what a message asks to remember, and the rest of it."""
    found: list[str] = []
    rest: list[str] = []
    for sentence in _SENTENCE.split(text.strip()) if len(text) <= 20_000 else [text]:
        stated = _stated(sentence.strip())
        if stated and len(found) < STATEMENTS_MAX:
            found.append(stated)
        elif sentence.strip():
            rest.append(sentence)
    return Request(statements=tuple(found), rest=" ".join(rest) if found else text)


def _stated(sentence: str) -> str:
    if sentence.endswith("?"):
        return ""
    named = _NAMED.fullmatch(sentence)
    if named is not None:
        return named[1][:TEXT_CHARS_MAX]
    stored = _STORE.fullmatch(sentence)
    if stored is None or _RECALLS.match(stored[1]):
        return ""
    return stored[1][:TEXT_CHARS_MAX]


def stored(statement: str, request: ModelRequest, desk: Desk) -> str:
    """Return what to tell of one statement: that it is stored, or why it is not.

    Errors: `Wanted` until the tool has answered.
    """
    shown = statement.rstrip(".")
    content = f"User: {statement}"
    lines = core_lines(request)
    asks = [ask for ask in _asks(content, statement, lines, desk) if desk.has(ask.tool)]
    # Core memory stands in the prompt: after the call it holds what the call wrote.
    is_known = any(_plain(statement) in _plain(line) for line in lines)
    if is_known and not any(map(desk.was_called, asks)):
        return f"That is in memory already: {shown}."
    reason = ""
    for ask in asks:
        try:
            answer = desk.once(ask)
        except OfflineCannot as failure:
            reason = failure.message
            continue
        if answer is None:
            return f"I asked to store this, but the answer is not there any more: {shown}."
        if _is_refusal(answer):
            reason = f"{ask.tool} answered {str(answer)[:200]}"
            continue
        return f"Stored in memory: {shown}."
    if asks:
        return f"Not stored, {reason}: {shown}."
    return f"Understood, for this conversation only (no tool to store it was offered): {shown}."


def _asks(content: str, statement: str, lines: Sequence[str], desk: Desk) -> list[Ask]:
    """The calls that would store it, the best first."""
    made = [given for given in desk.calls_of(_REPLACE) if given.get("new") == content]
    asks = [Ask(tool=_REPLACE, arguments=given) for given in made]
    head = re.match(r"(.{3,60}? (?:is|are))\s", statement)
    older = [line for line in lines if head and _plain(head[1]) in _plain(line) and line != content]
    if (
        not made
        and not desk.calls_of(_APPEND)
        and older
        and head
        and len(head[1].split()) > 2
        and desk.has(_REPLACE)
    ):
        asks.append(Ask(tool=_REPLACE, arguments={"old": older[-1], "new": content}))
    for tool, name in ((_APPEND, "content"), (_REMEMBER, "text")):
        asks.append(Ask(tool=tool, arguments=with_required({name: content}, desk.parameters(tool))))
    return asks


def searched(question: str, desk: Desk) -> list[Known]:
    """Return what the tools of memory find for a question, all asked at once.

    Errors: `Wanted` until they have answered.
    """
    asks: list[tuple[Ask, str]] = []
    for tool, source in _SEARCHES:
        if desk.has(tool):
            parameters = desk.parameters(tool)
            given: dict[str, Any] = {"query": question[:300]}
            if "limit" in as_schema(parameters.get("properties")):
                given["limit"] = _HITS
            asks.append((Ask(tool=tool, arguments=with_required(given, parameters)), source))
    found: list[Known] = []
    wanted: list[Ask] = []
    for ask, source in reversed(asks):
        try:
            found += known_from(desk.ask(ask)[0], source)
        except Wanted as more:
            wanted = [*more.asks, *wanted]
        except OfflineCannot:
            continue  # a memory that cannot be searched tells nothing
    if wanted:
        raise Wanted(wanted)
    return found


def can_search(desk: Desk) -> bool:
    return any(desk.has(tool) for tool, _ in _SEARCHES)


def with_required(given: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments with the plainest value for each other parameter that a tool requires."""
    properties = as_schema(parameters.get("properties"))
    found = dict(given)
    for name in listed(parameters.get("required")):
        if name not in found and name in properties:
            inner = {**as_schema(properties[name]), "$defs": parameters.get("$defs", {})}
            found[name] = made(inner, Story(prompt="")).value
    return found


def _is_refusal(answer: Any) -> bool:
    fields = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    if fields.get("error"):
        return True
    return any(fields.get(name) is False for name in ("ok", "stored", "saved", "appended", "success"))


def _plain(text: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", text.lower()))
