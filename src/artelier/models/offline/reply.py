"""One reply: a summary, calls of tools while answers are missing, or the answer in the form that is asked.

This file decides in which way a request is met; each way has a file of its own. What none of them can do
with certainty is refused, or, where a schema must be filled, said in the output.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from artelier.errors import OfflineCannot
from artelier.models.offline import character, chat, delegation, digest, memory, notebook, summary, world
from artelier.models.offline.answer import parts_for
from artelier.models.offline.conversation import Ask, Desk, Wanted, question_text
from artelier.models.offline.excerpt import excerpt_of
from artelier.models.offline.fitting import fitted, limit_of, noted
from artelier.models.offline.matching import bounded
from artelier.models.offline.missions import answer as mission
from artelier.models.offline.parts import Part
from artelier.models.offline.past import ENTRY
from artelier.models.offline.question import clean, question_from
from artelier.models.offline.recollection import HERE, Known, asks_for_all, best, is_personal, known_in, told
from artelier.models.offline.report import LABEL
from artelier.models.offline.story import NO_DATA, Story
from artelier.models.offline.turns import asked_at, body_of, held_by, note_at, past_texts
from artelier.models.scripted_reply import complete_reply
from artelier.ports.model import ModelReply, ModelRequest

ALL_SHOWN_MAX = 40
SAID_CHARS_MAX = 500
READERS = ("describe_tables", "query_sql", "read_file", "list_dir")

_SAID_BEFORE = re.compile(
    r"\bwhat (?:did i|was my) (?:just |last |previous )*(?:say|ask|tell you|message|question|write)"
    r"(?: (?:just|before|last|earlier|you))*\s*\??\s*$",
    re.IGNORECASE,
)
_FOLLOWS = re.compile(r"(?:and|what about|how about|same for|also)\b[\s,]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    parts: Sequence[Part]
    is_plain: bool = False
    """Whether it is said in a line or two rather than as a report."""


def reply_to(request: ModelRequest, *, quick: bool = False) -> ModelReply:
    """The reply that the rules give.

    Errors: `OfflineCannot` with the reason; if it is `quick`, `TooMuchAtOnce` where a schema makes more work
    than an event loop has time for.
    """
    with bounded(quick=quick):
        return _reply_to(request)


def _reply_to(request: ModelRequest) -> ModelReply:
    if (found := mission.reply(request)) is not None:
        return complete_reply(found, request)
    if world.is_wanted(request):
        return complete_reply(ModelReply(text=world.decide(request)), request)
    if (written := notebook.written(request)) is not None:
        return complete_reply(ModelReply(text=written), request)
    if character.is_wanted(request):
        return complete_reply(ModelReply(text=character.reply(request)), request)
    if digest.is_wanted(request):
        return complete_reply(ModelReply(text=digest.extract(request)), request)
    if summary.is_wanted(request):
        return complete_reply(ModelReply(text=summary.extract(request)), request)
    if character.is_talk(request):
        return complete_reply(ModelReply(text=character.reply(request)), request)
    return complete_reply(_reply(request), request)


def _reply(request: ModelRequest) -> ModelReply:
    desk = Desk(request)
    try:
        try:
            _check_held(request, desk)
            return _met(request, desk)
        except Wanted as wanted:
            calls = desk.calls_for(wanted.asks)
            return ModelReply(tool_calls=calls, finish_reason="tool_calls")
    except OfflineCannot as failure:
        at = note_at(request.messages)
        if at >= 0:  # what was said in between is no question of its own: go on with the work
            messages = (*request.messages[:at], *request.messages[at + 1 :])
            return _reply(msgspec.structs.replace(request, messages=messages))
        return _unanswered(request, desk, failure)


def _check_held(request: ModelRequest, desk: Desk) -> None:
    """Call what must have passed before the end.

    Errors: `Wanted` for tools that were not called yet; `OfflineCannot` if they were, and did not pass.
    """
    said = held_by(request.messages)
    if not said:
        return
    named = [tool for tool in request.tools if re.search(rf"(?<!\w){re.escape(tool.name)}(?!\w)", said)]
    asks = [Ask(tool=tool.name, arguments=memory.with_required({}, tool.parameters)) for tool in named]
    fresh = [ask for ask in asks if not desk.was_called(ask)]
    if fresh:
        raise Wanted(fresh)
    names = ", ".join(tool.name for tool in named) or "tools that are not offered"
    raise OfflineCannot(f"the run may not end before {names} passed, and a call did not help")


def _met(request: ModelRequest, desk: Desk) -> ModelReply:
    """Errors: `Wanted` while answers are missing; `OfflineCannot`."""
    text = _question(request)
    asked = memory.request_in(text)
    confirmed = [memory.stored(one, request, desk) for one in asked.statements]
    if confirmed and not asked.rest.strip():
        return _said(_Answer(parts=[_spoken(confirmed)], is_plain=True), request, ())
    try:
        answer = _answer(asked.rest, request, desk)
    except OfflineCannot as failure:
        if request.output_schema is not None and confirmed:
            return _unanswered(request, desk, failure, confirmed=confirmed)
        if not confirmed:
            raise
        rest = f"The rest I could not answer: {failure.message}."
        return _said(_Answer(parts=[_spoken([*confirmed, rest])], is_plain=True), request, ())
    return _said(answer, request, confirmed)


def _question(request: ModelRequest) -> str:
    """Return what is asked; if no message of a person is left, the last one that a summary tells of."""
    if asked_at(request.messages) >= 0:
        return question_text(request.messages)
    for past in reversed(past_texts(request.messages)):
        for line in reversed(past.splitlines()):
            match = ENTRY.match(line)
            if match is not None and match[2] == "user":
                return line[match.end() :]
    return ""


def _answer(text: str, request: ModelRequest, desk: Desk) -> _Answer:
    tasks = delegation.handovers(text, request, desk)
    if tasks:
        return _Answer(parts=delegation.handed_over(tasks, desk))
    talk = chat.small_talk(text)
    if talk is not None:
        return _Answer(parts=[_spoken([talk])], is_plain=True)
    excerpt = excerpt_of(text)
    if excerpt is not None:
        return _Answer(parts=[excerpt], is_plain=True)
    personal = is_personal(text)
    if personal and (known := _remembered(text, request, desk)) is not None:
        return known
    try:
        parts = parts_for(text, desk)
        if personal and memory.can_search(desk) and all(part.passages for part in parts):
            raise OfflineCannot("no table tells it, and a passage of a file is not about who asks")
        return _Answer(parts=parts)
    except OfflineCannot as failure:
        other = _otherwise(text, request, desk, personal=personal)
        if other is None:
            raise failure
        return other


def _remembered(text: str, request: ModelRequest, desk: Desk) -> _Answer | None:
    """Return what the conversation or memory tells for a question about the person who asks."""
    known = known_in(request)
    if _SAID_BEFORE.search(text[:300]):
        at = asked_at(request.messages)
        before = [body_of(one.text) for one in request.messages[: max(at, 0)] if one.role == "user"]
        if before:
            return _known(Known(text=" ".join(before[-1].split())[:SAID_CHARS_MAX], source=HERE))
    if asks_for_all(text):
        if memory.can_search(desk):
            known = [*memory.searched(text, desk), *known]
        return _all_known(known)
    found = best(text, known)
    if found is None and memory.can_search(desk):
        found = best(text, memory.searched(text, desk))
    return _known(found) if found is not None else None


def _otherwise(text: str, request: ModelRequest, desk: Desk, *, personal: bool) -> _Answer | None:
    """Return what else can be said to a message that is no question on tables or texts."""
    if _FOLLOWS.match(text) and (followed := _followed(text, request, desk)) is not None:
        return followed
    found = best(text, known_in(request)) if not personal and len(text) <= 600 else None
    if found is not None and "?" in text:
        return _known(found)
    if personal and (memory.can_search(desk) or not any(map(desk.has, READERS))):
        unknown = "I do not know: neither this conversation nor the memory that I can see says it."
        return _Answer(parts=[_spoken([unknown])], is_plain=True)
    if request.output_schema is None and chat.is_statement(text):
        return _Answer(parts=[_spoken([chat.acknowledged()])], is_plain=True)
    return None


def _followed(text: str, request: ModelRequest, desk: Desk) -> _Answer | None:
    """`And in 2023?` after an earlier question: read as its continuation."""
    at = asked_at(request.messages)
    earlier = [body_of(one.text) for one in request.messages[: max(at, 0)] if one.role == "user"]
    if not earlier:
        return None
    try:
        before = clean(earlier[-1]).rstrip(" .?!")
        count = len(question_from(before).clauses)
        joined = f"{before}, and what about {_FOLLOWS.sub('', clean(text), count=1)}"
        parts = parts_for(joined, desk)
    except OfflineCannot:
        return None
    return _Answer(parts=parts[count:]) if len(parts) > count else None


def _known(known: Known) -> _Answer:
    return _Answer(parts=[_spoken([told(known)], source=known.source)], is_plain=True)


def _all_known(known: Sequence[Known]) -> _Answer:
    texts = list(dict.fromkeys(told(one) for one in reversed(known)))[:ALL_SHOWN_MAX]
    if not texts:
        return _Answer(parts=[_spoken(["Nothing is stored that I can see."])], is_plain=True)
    sources = ", ".join(dict.fromkeys(one.source for one in known))
    return _Answer(parts=[_spoken(list(reversed(texts)), source=sources)], is_plain=True)


def _spoken(sentences: Sequence[str], *, source: str = "") -> Part:
    return Part(
        title=sentences[0].rstrip("."), sentences=tuple(sentences), sources=(source,) if source else ()
    )


def _said(answer: _Answer, request: ModelRequest, confirmed: Sequence[str]) -> ModelReply:
    """The answer in the form that is asked for, below what was done about memory."""
    parts = list(answer.parts)
    if request.output_schema is not None:
        if confirmed:
            parts[-1] = replace(parts[-1], notes=(*parts[-1].notes, *confirmed))
        return noted(parts, request, prompt=question_text(request.messages))
    if not answer.is_plain:
        reply = fitted(parts, request)
        lead = " ".join(confirmed)
        limit = limit_of(request)
        if lead and (limit is None or len(reply.text) + len(lead) + 2 <= limit):
            reply = ModelReply(text=f"{lead}\n\n{reply.text}")
        return reply
    lines = [*confirmed, *(sentence for part in parts for sentence in part.sentences)]
    sources = [source for part in parts for source in part.sources]
    end = [f"From {', '.join(sources)}."] if sources else []
    text = "\n\n".join(["\n".join(lines), *end, LABEL])
    limit = limit_of(request)
    if limit is not None and len(text) > limit:
        text = "\n".join(lines)[:limit]
    return ModelReply(text=text)


def _unanswered(
    request: ModelRequest, desk: Desk, failure: OfflineCannot, *, confirmed: Sequence[str] = ()
) -> ModelReply:
    """Structured output that says why there is no answer.

    Errors: the failure itself, if no schema is asked for or its output could not say so.
    """
    if request.output_schema is None:
        raise failure
    prompt = question_text(request.messages)
    gap = NO_DATA
    can_read = any(map(desk.has, READERS))
    if can_read:
        gap = f"It could not be answered: {failure.message.rstrip('.')}"
    story = Story(prompt=prompt, gap=" ".join([*confirmed, gap]))
    return noted((), request, prompt=prompt, story=story, failure=failure if can_read else None)
