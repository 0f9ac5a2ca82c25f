"""The known facts of a person: said in earlier turns, written in core memory, recalled, or summarised.

A question about them is answered with the sentence that holds its words, turned to the second person where
it begins in the first; nothing is inferred.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from artelier.models.offline import lexicon
from artelier.models.offline.past import ENTRY
from artelier.models.offline.turns import asked_at, body_of, past_texts, sections, system_texts, tail_of
from artelier.models.offline.words import stem
from artelier.ports.model import ModelRequest

TURNS_MAX = 4_000
TURN_CHARS_MAX = 4_000
FACTS_MAX = 4_000
FACT_CHARS_MAX = 500
QUESTION_CHARS_MAX = 600

HERE, CORE, RECALLED, PAST = ("this conversation", "core memory", "memory", "the summary of past events")

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD = re.compile(r"[^\W\d_][\w'-]{0,39}|\d[\w.-]{0,39}")
_FENCE = re.compile(r"</?[A-Za-z][^>\n]{0,200}>")
_BULLET = re.compile(r"^\s*(?:[-*+]\s+)?(?:\[[^\]\n]{1,80}\]\s*)?")
_SAID = re.compile(r"^(?:the\s+)?user(?:\s+said|\s+says)?:\s*", re.IGNORECASE)
_STORES = re.compile(
    r"^(?:please\s+|also\s+)*(?:remember|note|keep in mind|don't forget|do not forget)(?:\s+that|:)?\s+", re.I
)
_STOP = lexicon.FUNCTION_WORDS | frozenset(
    "remember recall know tell told say said ask asked please again earlier before is am was called"
    " does did you your yours can could would will should about user user's users hi hello".split()
)
_PERSONAL = re.compile(
    r"\b(?:my|mine|am i|do i|did i|about me|i'm|i've|"
    r"i (?:am|care|like|love|prefer|want|work|live|said|told|use|need|have|hate))\b",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"\b(?:what|who|which|where|when|whose|how|why|remind me|tell me|"
    r"do you (?:know|remember|recall)|can you (?:recall|remember))\b",
    re.IGNORECASE,
)
_CALLED = re.compile(r"\b(?:who am i|am i called|i am called|i'm called|call me)\b")
_ALL = re.compile(
    r"\bwhat (?:do|did|can) you (?:know|remember|recall|have)(?: \w+){0,3} (?:about )?(?:me|memory)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A sentence that may answer a question."""

    text: str
    source: str


def is_personal(question: str) -> bool:
    """Return True if a question is about the person who asks."""
    text = question[:QUESTION_CHARS_MAX]
    return bool(_ASKS.search(text) and _PERSONAL.search(text)) or bool(_ALL.search(text))


def asks_for_all(question: str) -> bool:
    return bool(_ALL.search(question[:QUESTION_CHARS_MAX]))


def known_in(request: ModelRequest) -> list[Known]:
    """All that the request itself tells, the oldest first. Cost: linear."""
    found = [
        Known(text=text, source=PAST) for past in past_texts(request.messages) for text in _people_in(past)
    ]
    found += [Known(text=text, source=CORE) for text in core_lines(request)]
    last = asked_at(request.messages)
    tails = [one.text for one in request.messages[max(0, last) :] if one.role in ("user", "tool")]
    for text in tails[-20:]:
        for section in sections(tail_of(text)):
            if re.search(r"memor|recall", section.title, re.IGNORECASE):
                found += [Known(text=line, source=RECALLED) for line in _lines(section.lines)]
    spoken = [one for one in request.messages[: max(0, last)] if one.role in ("user", "assistant")]
    for turn in spoken[-TURNS_MAX:]:
        if turn.role == "user":
            found += [Known(text=text, source=HERE) for text in statements(body_of(turn.text))]
    return found[-FACTS_MAX:]


def core_lines(request: ModelRequest) -> list[str]:
    """The lines of the core memory in the system text."""
    return [
        line
        for text in system_texts(request.messages)
        for section in sections(text)
        if "memory" in section.title.lower() and "skill" not in section.title.lower()
        for line in _lines(section.lines)
    ][:FACTS_MAX]


def known_from(answer: Any, source: str) -> list[Known]:
    """The texts in the result of a search in memory, the best last."""
    found: list[str] = []
    waiting: list[Any] = [answer]
    while waiting and len(found) < 200:
        value = waiting.pop(0)
        if isinstance(value, str):
            found += _lines(value.splitlines()[:200])
        elif isinstance(value, list):
            waiting += cast("list[Any]", value)[:200]
        elif isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            texts = [fields.get(name) for name in ("text", "content", "snippet", "message")]
            told = [one for one in texts if isinstance(one, str)]
            found += [line for one in told for line in _lines(one.splitlines()[:50])]
            waiting += [one for one in fields.values() if isinstance(one, list | dict)][:50]
    return [Known(text=text, source=source) for text in reversed(found)]


def best(question: str, known: Sequence[Known]) -> Known | None:
    """The newest sentence among those that hold the most of the question's words; None if too few do."""
    wanted = _content(question)
    if not wanted:
        return None
    pairs = _pairs(question)
    needed = len(wanted) if len(wanted) <= 2 else 0.66 * len(wanted)
    chosen: tuple[float, Known] | None = None
    for one in known:
        words = _content(one.text)
        score = float(len(wanted & words))
        if score < needed or not _is_new(one.text, question):
            continue
        score += 0.5 * bool(pairs & _pairs(one.text))
        if chosen is None or score >= chosen[0]:
            chosen = (score, one)
    return chosen[1] if chosen else None


def told(known: Known) -> str:
    """A known sentence as an answer, in the second person if a person said it of himself."""
    text = _STORES.sub("", _SAID.sub("", known.text)).strip()
    changed = re.sub(r"\bI am\b|\bI'm\b", "you are", text)
    changed = re.sub(r"\bI was\b", "you were", changed)
    changed = re.sub(r"\bI\b", "you", re.sub(r"\bI've\b", "you have", changed))
    for mine, yours in (("my", "your"), ("mine", "yours"), ("me", "you"), ("our", "your"), ("we", "you")):
        changed = re.sub(rf"\b{mine}\b", yours, changed, flags=re.IGNORECASE)
    if changed == text:
        return f'"{text}"'
    return changed[:1].upper() + changed[1:].rstrip(".") + "."


def statements(text: str) -> list[str]:
    """The sentences of a turn that state something."""
    found = [one.strip() for one in _SENTENCE.split(text[:TURN_CHARS_MAX])]
    return [one[:FACT_CHARS_MAX] for one in found if one and not one.endswith("?") and " " in one]


def _people_in(past: str) -> list[str]:
    found: list[str] = []
    for line in past.splitlines()[:FACTS_MAX]:
        match = ENTRY.match(line)
        if match is not None and match[2] == "user":
            found += statements(line[match.end() :])
        elif match is None and " " in line.strip():
            found.append(_FENCE.sub("", line).strip()[:FACT_CHARS_MAX])
    return found


def _lines(lines: Iterable[str]) -> list[str]:
    """Lines of memory without headings, fences and bullets; only those in fences if there are any."""
    found: list[str] = []
    fenced: list[str] = []
    is_inside = has_fence = False
    for line in list(lines)[:FACTS_MAX]:
        if "<" in line and _FENCE.search(line[:300]):
            is_inside = "</" not in line
            has_fence = True
            line = _FENCE.sub("", line[: FACT_CHARS_MAX * 2])
        if line.lstrip().startswith("#"):
            continue
        text = _BULLET.sub("", line[: FACT_CHARS_MAX * 2]).strip()[:FACT_CHARS_MAX]
        if text:
            (fenced if is_inside else found).append(text)
    return fenced if has_fence and fenced else ([] if has_fence else found)


def _content(text: str) -> frozenset[str]:
    lower = re.sub(
        r"\b(?:who am i|am i called|i am called|i'm called|call me)\b", "name", text[:1_000].lower()
    )
    words = [word.removesuffix("'s") for word in _WORD.findall(lower)]
    return frozenset(
        stem(word) if word.isalpha() else word for word in words if word not in _STOP and len(word) > 1
    )


def _pairs(text: str) -> frozenset[str]:
    """`my name`, `my city`: what belongs to whom."""
    return frozenset(re.findall(r"\b(?:my|our|user's) ([\w-]{1,40})", text[:1_000].lower()))


def _is_new(text: str, question: str) -> bool:
    """Return True if a sentence says more than the question asks."""
    return bool(_content(text) - _content(question)) or bool(re.search(r"\d", text))
