"""Summaries of a conversation: an extract of its own sentences, chosen by rules and left as they are.

Kept are sentences that later work depends on: numbers, names, paths, identifiers, decisions, open
questions. Nothing is rephrased, so nothing can be made up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from artelier.models.offline.turns import system_texts
from artelier.ports.model import ChatMessage, ModelRequest

SENTENCES_MAX = 40
CHARS_MAX = 6_000
SENTENCE_CHARS_MAX = 400
READ_CHARS_MAX = 2_000_000
"""Of the whole conversation; what lies behind is left out, and the extract says so."""

HEADING = "Extract of the conversation, sentences word for word (offline model: rules, no language model):"

_ASKED = re.compile(r"\bsummar(?:y|i[sz]e|i[sz]ing)\b", re.IGNORECASE)
_SENTENCE = re.compile(r"[^\n.!?]+(?:[.!?](?!\s|$)[^\n.!?]*)*[.!?]?")
_DECISION = re.compile(
    r"\b(?:decid|agree|chose|must|will|shall|should|never|always|todo|fail|error|approv|den(?:y|ied)|"
    r"because|deadline|prefer|promis|plan|next step|open question|conclu|result|total)",
    re.IGNORECASE,
)
_IDENTIFIER = re.compile(r"(?<![\w-])[\w-]+[/_][\w./-]+|\b\w+\.\w{2,4}\b|\b[A-Z]+-\d+\b|@\w+")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][\w'-]+")


def is_wanted(request: ModelRequest) -> bool:
    """Return True if a request is for a summary of messages: it has no tools and says so."""
    if request.tools or request.output_schema is not None:
        return False
    last = next((one for one in reversed(request.messages) if one.role == "user"), None)
    told = system_texts(request.messages)
    told += [last.text[:500]] if last is not None else []
    return any(_ASKED.search(text) for text in told) and bool(_material(request))


def extract(request: ModelRequest) -> str:
    """The chosen sentences in their order, each with who said it."""
    limit = request.params.get("max_output_tokens")
    room = min(CHARS_MAX, limit * 4) if isinstance(limit, int) else CHARS_MAX
    scored: list[tuple[int, int, str]] = []
    seen: set[str] = set()
    read = 0
    for role, text in _material(request):
        if read >= READ_CHARS_MAX:
            break
        text = text[: READ_CHARS_MAX - read]
        read += len(text)
        for sentence in sentences(text):
            if sentence.lower() in seen:
                continue
            seen.add(sentence.lower())
            points = points_of(sentence) + (2 if role == "user" else 0)
            scored.append((points, len(scored), f"- {role}: {sentence}"))
    best = sorted(scored, key=lambda one: (-one[0], one[1]))[:SENTENCES_MAX]
    lines = [HEADING]
    used = len(HEADING)
    kept: list[tuple[int, str]] = []
    for points, at, line in best:
        if points > 0 and used + len(line) + 1 <= room:
            kept.append((at, line))
            used += len(line) + 1
    return "\n".join([*lines, *(line for _, line in sorted(kept))])


def _material(request: ModelRequest) -> list[tuple[str, str]]:
    """Return what is to be summarised: the messages before the instruction, or the text that follows it."""
    messages = [one for one in request.messages if one.role != "system"]
    if not messages:
        return []
    last = messages[-1]
    before = [(one.role, _text(one)) for one in messages[:-1]]
    if last.role != "user":
        return [*before, (last.role, _text(last))]
    if before:
        return before
    _, _, rest = last.text.partition("\n")
    body = rest if _ASKED.search(last.text.partition("\n")[0]) else last.text
    return [("text", body)] if body.strip() else []


def _text(message: ChatMessage) -> str:
    calls = " ".join(f"Called {call.name}." for call in message.tool_calls)
    return f"{message.text}\n{calls}" if calls else message.text


def sentences(text: str) -> Iterable[str]:
    """Sentences on one line each, without control characters, long ones cut. Cost: linear."""
    for match in _SENTENCE.finditer(text):
        flat = "".join(one if one.isprintable() else " " for one in match.group())
        sentence = " ".join(flat.split())
        if 12 <= len(sentence):
            yield (
                sentence if len(sentence) <= SENTENCE_CHARS_MAX else sentence[: SENTENCE_CHARS_MAX - 1] + "…"
            )


def points_of(sentence: str) -> int:
    """Return how much later work may depend on a sentence: numbers, names, decisions, open questions."""
    return (
        2 * bool(re.search(r"\d", sentence))
        + 2 * bool(_IDENTIFIER.search(sentence))
        + 3 * bool(_DECISION.search(sentence))
        + bool(_NAME.search(sentence))
        + sentence.endswith("?")
    )
