"""The words of a person: stored by a tool of memory when asked to, told again when asked about, and
extracts of a conversation.

Nothing is inferred or rephrased: an answer is the sentence that holds the words of the question.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from artelier.errors import OfflineCannot
from artelier.ports.model import ModelRequest
from artelier_offline.conversation import Desk, asked_at, body_of, sections, system_texts
from artelier_offline.words import STOP_WORDS, folded, stem

STATEMENTS_MAX = 8
TEXT_CHARS_MAX = 2_000
TURN_CHARS_MAX = 4_000
FACTS_MAX = 4_000
FACT_CHARS_MAX = 500
QUESTION_CHARS_MAX = 600

HERE, CORE, RECALLED, PAST = "this conversation", "core memory", "memory", "the summary of past events"

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_POLITE = (
    r"(?:(?:please|also|and|then|ok|okay|hi|hello|hey|thanks|actually|well|no|by the way|sorry)[,.!]?\s+)*"
)
_STORE = re.compile(
    rf"(?is){_POLITE}(?:can you |could you )?(?:(?:remember|memori[sz]e|keep in mind|don't forget)"
    r"(?:\s*:|\s+that|\s+this:|,)?|(?:note|save|store|write down)(?:\s+in(?:to)? (?:your )?memory)?"
    r"(?:\s*:|\s+that|\s+this:))"
    r"\s+(?P<what>.{2,})"
)
_NAMED = re.compile(rf"{_POLITE}(?P<what>(?:my name is|i am called|i'm called|call me)\s+.+)", re.I)
_RECALLS = re.compile(r"(?:what|who|when|where|which|how|if|whether|me\b|to\s+(?:ask|tell))", re.I)
_DECLARES = re.compile(
    r"(?i)(?:(?:actually|well|ok|okay|no|so|and|also|by the way)[,.]?\s+)*"
    r"(?:the|my|our|we|i|it|this|these|that|those|he|she|they|there|today|yesterday|fyi|turn|fact)\b[^?]*"
    r"\b(?:is|are|was|were|am|has|have|had|will|do|did|care|like|love|prefer|want|need|work|live|use|moved|"
    r"decided|agreed|uses|costs|belongs|starts|ends|\w+ed)\b[^?]*"
)
_WORD = re.compile(r"[^\W\d_][\w'-]{0,39}|\d[\w.-]{0,39}")
_FENCE = re.compile(r"</?[A-Za-z][^>\n]{0,200}>")
_BULLET = re.compile(r"^\s*(?:[-*+]\s+)?(?:\[[^\]\n]{1,80}\]\s*)?")
_SAID = re.compile(r"^(?:the\s+)?user(?:\s+said|\s+says)?:\s*", re.I)
_STORES = re.compile(
    r"^(?:please\s+|also\s+)*(?:remember|note|keep in mind|don't forget|do not forget)(?:\s+that|:)?\s+", re.I
)
_STOP = STOP_WORDS | frozenset(
    "remember recall know told said ask asked again earlier before about user users hi hello".split()
)
_PERSONAL = re.compile(
    r"(?i)\b(?:my|mine|am i|do i|did i|about me|i'm|i've|"
    r"i (?:am|care|like|love|prefer|want|work|live|said|told|use|need|have|hate))\b"
)
_ASKS = re.compile(
    r"(?i)\b(?:what|who|which|where|when|whose|how|why|remind me|tell me|"
    r"do you (?:know|remember|recall)|can you (?:recall|remember))\b"
)
_CALLED = re.compile(r"\b(?:who am i|am i called|i am called|i'm called|call me)\b")
_ALL = re.compile(
    r"\bwhat (?:do|did|can) you (?:know|remember|recall|have)(?: \w+){0,3} (?:about )?(?:me|memory)\b", re.I
)


@dataclass(frozen=True, slots=True)
class Known:
    """A sentence that may answer a question, and where it stands."""

    text: str
    source: str


def statements(text: str) -> list[str]:
    """Return the sentences that state something."""
    found = [one.strip() for one in _SENTENCE.split(text[:TURN_CHARS_MAX])]
    return [one[:FACT_CHARS_MAX] for one in found if one and not one.endswith("?") and " " in one]


def is_statement(text: str) -> bool:
    """Return True if a message states something and asks for nothing."""
    plain = " ".join(text[:TURN_CHARS_MAX].split())
    return len(text) <= TURN_CHARS_MAX and "?" not in plain and _DECLARES.fullmatch(plain) is not None


def is_personal(question: str) -> bool:
    """Return True if a question is about the person who asks."""
    text = question[:QUESTION_CHARS_MAX]
    return bool(_ASKS.search(text) and _PERSONAL.search(text)) or asks_for_all(text)


def asks_for_all(question: str) -> bool:
    """Return True if all is asked for that is known of a person."""
    return _ALL.search(question[:QUESTION_CHARS_MAX]) is not None


# Storing


def stated_in(text: str) -> tuple[list[str], str]:
    """Return what a message asks to remember, in the words of the person, and the rest of it."""
    found: list[str] = []
    rest: list[str] = []
    for sentence in map(str.strip, _SENTENCE.split(text.strip()) if len(text) <= 20_000 else [text]):
        match = None if sentence.endswith("?") else _NAMED.fullmatch(sentence) or _STORE.fullmatch(sentence)
        if match is not None and not _RECALLS.match(match["what"]) and len(found) < STATEMENTS_MAX:
            found.append(match["what"][:TEXT_CHARS_MAX])
        elif sentence:
            rest.append(sentence)
    return found, " ".join(rest) if found else text


def stored(statement: str, request: ModelRequest, desk: Desk) -> str:
    """Return whether one statement is stored, in a sentence. Errors: `Wanted` until the tool has answered."""
    shown, content = statement.rstrip("."), f"User: {statement}"
    lines = core_lines(request)
    made = [
        one for one in desk.calls if one.tool in ("core_memory_append", "core_memory_replace", "remember")
    ]
    if not made and any(folded(statement) in folded(line) for line in lines):
        return f"That is in memory already: {shown}."
    reason = ""
    for tool, arguments in _calls(statement, content, lines, desk):
        try:
            answer = desk.ask(tool, **arguments)
        except OfflineCannot as failure:
            reason = failure.message
            continue
        fields = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
        if any(fields.get(name) is False for name in ("ok", "stored", "saved", "appended", "success")):
            reason = f"{tool} answered {str(fields)[:200]}"
            continue
        return f"Stored in memory: {shown}."
    if reason:
        return f"Not stored, {reason}: {shown}."
    return f"Understood, for this conversation only (no tool to store it was offered): {shown}."


def _calls(
    statement: str, content: str, lines: Sequence[str], desk: Desk
) -> list[tuple[str, dict[str, Any]]]:
    """Return the calls that would store it, the best first: a line on the same thing is replaced."""
    found = [(one.tool, dict(one.arguments)) for one in desk.calls if one.arguments.get("new") == content]
    head = re.match(r"(.{3,60}? (?:is|are))\s", statement)
    if not found and head and len(head[1].split()) > 2:
        older = [one for one in lines if folded(head[1]) in folded(one) and one != content]
        found += [("core_memory_replace", {"old": one, "new": content}) for one in older[-1:]]
    found += [("core_memory_append", {"content": content}), ("remember", {"text": content})]
    return [one for one in found if desk.has(one[0])]


# Telling


def recalled(question: str, request: ModelRequest, desk: Desk) -> list[str]:
    """Return the sentences that answer a question about a person, each with its source; none if nothing does.

    Errors: `Wanted` until the tools of memory have answered.
    """
    known = known_in(request)
    if asks_for_all(question):
        found = [*_searched(question, desk), *known]
        return [f"{said(one)} (From {one.source}.)" for one in dict.fromkeys(found)]
    one = best(question, known) or best(question, _searched(question, desk))
    return [f"{said(one)}\n\nFrom {one.source}."] if one is not None else []


def _searched(question: str, desk: Desk) -> list[Known]:
    found: list[Known] = []
    for tool, source in (("core_memory_search", CORE), ("recall", RECALLED)):
        if desk.has(tool):
            try:
                found += _texts_in(desk.ask(tool, query=question[:300]), source)
            except OfflineCannot:
                continue  # a memory that cannot be searched tells nothing
    return found


def _texts_in(answer: object, source: str) -> list[Known]:
    """Return the texts in the result of a search, wherever they stand, the best last."""
    found: list[str] = []
    waiting: list[Any] = [answer]
    while waiting and len(found) < 200:
        value = waiting.pop(0)
        if isinstance(value, str):
            found += _lines(value.splitlines()[:50])
        elif isinstance(value, list):
            waiting += cast("list[Any]", value)[:200]
        elif isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            texts = [fields[one] for one in ("text", "content", "snippet", "message") if one in fields]
            waiting += [*texts, *(one for one in fields.values() if isinstance(one, list | dict))][:50]
    return [Known(text, source) for text in reversed(found)]


def known_in(request: ModelRequest) -> list[Known]:
    """Return what the request itself tells, the oldest first. Cost: linear."""
    found = [
        Known(text, PAST)
        for past in system_texts(request.messages, past=True)
        for text in _lines(past.splitlines())
    ]
    found += [Known(text, CORE) for text in core_lines(request)]
    last = max(0, asked_at(request.messages))
    for one in request.messages[last:]:
        tail = one.text[len(body_of(one.text)) :] if one.role in ("user", "tool") else ""
        titled = [lines for title, lines in sections(tail) if re.search(r"memor|recall", title, re.I)]
        found += [Known(line, RECALLED) for lines in titled for line in _lines(lines)]
    found += [
        Known(text, HERE)
        for one in request.messages[:last]
        if one.role == "user"
        for text in statements(body_of(one.text))
    ]
    return found[-FACTS_MAX:]


def core_lines(request: ModelRequest) -> list[str]:
    """Return the lines of the core memory in the system text."""
    texts = system_texts(request.messages)
    titled = [
        lines
        for text in texts
        for title, lines in sections(text)
        if "memory" in title.lower() and "skill" not in title.lower()
    ]
    return [line for lines in titled for line in _lines(lines)][:FACTS_MAX]


def _lines(lines: Sequence[str]) -> list[str]:
    """Return lines of memory without headings, fences and bullets; only those in fences if there are any."""
    found: dict[bool, list[str]] = {True: [], False: []}
    is_inside = has_fence = False
    for line in lines[:FACTS_MAX]:
        if "<" in line and _FENCE.search(line[:300]):
            is_inside, has_fence = "</" not in line, True
            line = _FENCE.sub("", line[: FACT_CHARS_MAX * 2])
        text = _BULLET.sub("", line[: FACT_CHARS_MAX * 2]).strip()[:FACT_CHARS_MAX]
        if text and not line.lstrip().startswith("#"):
            found[is_inside].append(text)
    return found[has_fence]


def best(question: str, known: Sequence[Known]) -> Known | None:
    """Return the newest sentence with the most of the question's words; None if it has too few."""
    wanted = _content(question)
    needed = len(wanted) if len(wanted) <= 2 else 0.66 * len(wanted)
    chosen: tuple[int, Known] | None = None
    for one in known:
        words = _content(one.text)
        hits = len(wanted & words)
        if wanted and hits >= needed and words - wanted and (chosen is None or hits >= chosen[0]):
            chosen = hits, one
    return chosen[1] if chosen else None


def _content(text: str) -> frozenset[str]:
    lower = _CALLED.sub("name", text[:1_000].lower())
    return frozenset(
        stem(word)
        for word in _WORD.findall(lower)
        if word not in _STOP and word.removesuffix("'s") not in _STOP
    )


def said(known: Known) -> str:
    """Return a known sentence as an answer, in the second person if a person said it of themselves."""
    text = _STORES.sub("", _SAID.sub("", known.text)).strip()
    changed = re.sub(r"\bI am\b|\bI'm\b", "you are", text)
    changed = re.sub(r"\bI was\b", "you were", changed)
    changed = re.sub(r"\bI\b", "you", re.sub(r"\bI've\b", "you have", changed))
    for mine, yours in (("my", "your"), ("mine", "yours"), ("me", "you"), ("our", "your"), ("we", "you")):
        changed = re.sub(rf"\b{mine}\b", yours, changed, flags=re.I)
    return f'"{text}"' if changed == text else changed[:1].upper() + changed[1:].rstrip(".") + "."
