"""The offline model: a `ModelPort` that replies by fixed rules.

A reply is a pure function of the request: no clock, no chance, no files, no state. The model acts by tool
calls only, and never guesses: what it does not fully understand it refuses with `OfflineCannot`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, cast

from artelier.clock import Clock, SystemClock
from artelier.errors import InvalidConfig, OfflineCannot
from artelier.models.params import output_text
from artelier.models.scripted import complete_reply
from artelier.ports.model import FREE, Delta, ModelReply, ModelRequest, Price
from artelier_offline import chat, memory, mission, state, verdict, world
from artelier_offline.conversation import Desk, Prompt, Wanted, chars_max, desk_of, question_of, tool_call
from artelier_offline.question import answers_to
from artelier_offline.report import reply as report
from artelier_offline.report import structured
from artelier_offline.words import LABEL

PACE_MAX_S = 60
PIECE_CHARS = 64
READERS = ("describe_tables", "query_sql", "list_dir", "read_file")
NO_DATA = "No data was looked at: no tool that reads tables or files was offered, so there are no figures."
NOT_KNOWN = "I do not know: neither this conversation nor the memory that I can see says it."

_WRITES = "# Write an artifact"
"""A line of the system text by which a mission asks for content."""
_FORMS: dict[str, tuple[set[str], Callable[[Prompt], dict[str, Any]]]] = {
    "Plan": ({"agents", "tasks"}, mission.plan),
    "Decision": ({"action", "reason", "artifact_type"}, mission.decide),
    "Verdict": ({"criteria", "summary"}, verdict.judge),
}
"""Titles of the schemas of a mission, with the fields by which they are told from others of that name."""


class OfflineModel:
    """The built-in deterministic stand-in for a language model.

    Needs the tools `describe_tables` and `query_sql` for tables, `list_dir` and `read_file` for texts. Uses
    tools of memory where a message asks to remember something. Errors: `OfflineCannot` with the reason, and
    a question that is answered instead.
    """

    price: Price | None = FREE

    def __init__(self, *, pace_s: float = 0.0, clock: Clock | None = None) -> None:
        """`pace_s`: seconds that each reply takes, for demonstrations; half of them before its first piece
        if it is streamed. What is replied stays the same. `clock` is what waits; the machine's by default.

        Errors: `InvalidConfig` for a pace below 0 or above a minute.
        """
        if not 0 <= pace_s <= PACE_MAX_S:
            raise InvalidConfig(
                "not a pace of the offline model", expected=f"0 to {PACE_MAX_S} seconds", got=repr(pace_s)
            )
        self._pace_s = pace_s
        self._clock: Clock = clock or SystemClock()

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        reply = reply_to(request)
        await self._wait(self._pace_s)
        return reply

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[Delta | ModelReply]:
        """Yield the text in pieces, then the whole reply."""
        reply = reply_to(request)
        starts = range(0, len(reply.text), PIECE_CHARS)
        await self._wait(self._pace_s / 2 if starts else self._pace_s)
        for start in starts:
            yield Delta(text=reply.text[start : start + PIECE_CHARS])
            await self._wait(self._pace_s / 2 / len(starts))
        yield reply

    async def _wait(self, seconds: float) -> None:
        if seconds > 0:
            await self._clock.sleep(seconds)


def reply_to(request: ModelRequest) -> ModelReply:
    """Return the reply that the rules give. Errors: `OfflineCannot`."""
    made = _of_mission(request)
    if made is None and world.is_wanted(request):
        made = ModelReply(text=world.decide(request))
    if made is None and (text := state.written(request)) is not None:
        made = ModelReply(text=text)
    if made is None and chat.is_wanted(request):
        asked = question_of(request.messages)
        known = memory.recalled(asked, request, Desk((), ())) if memory.is_personal(asked) else []
        made = ModelReply(text=chat.reply(request, known))
    return complete_reply(made or _answer(request), request)


def _of_mission(request: ModelRequest) -> ModelReply | None:
    """Return the reply to a mission's request; None for any other."""
    schema = request.output_schema
    if schema is None:
        systems = [one.text[:4_000] for one in request.messages if one.role == "system"]
        writes = any(line.strip() == _WRITES for text in systems for line in text.splitlines())
        return ModelReply(text=mission.write(Prompt(request))) if writes else None
    wanted, make = _FORMS.get(str(schema.get("title")), (set[str](), None))
    properties: object = schema.get("properties")
    if (
        make is None
        or not isinstance(properties, dict)
        or not wanted <= set(cast("dict[str, Any]", properties))
    ):
        return None
    value = make(Prompt(request))
    return ModelReply(text=output_text(value), output=value)


def _answer(request: ModelRequest) -> ModelReply:
    """Return the reply to what a person asks: what is stored, recalled or found, or the call of a tool that
    is missing.

    Errors: `OfflineCannot`.
    """
    desk = desk_of(request)
    asked, can_read = question_of(request.messages), any(map(desk.has, READERS))
    try:
        statements, rest = memory.stated_in(asked)
        confirmed = [memory.stored(one, request, desk) for one in statements]
        if confirmed and not rest.strip():
            return _told(confirmed, request)
        if talk := chat.small_talk(rest):
            return _told([*confirmed, talk], request)
        if memory.is_personal(rest):
            found = memory.recalled(rest, request, desk)
            if found or desk.has("recall") or desk.has("core_memory_search") or not can_read:
                return _told([*confirmed, *(found or [NOT_KNOWN])], request)
        if not can_read:
            if request.output_schema is None and (confirmed or memory.is_statement(rest)):
                return _told([*confirmed, NO_DATA if confirmed else chat.UNDERSTOOD], request)
            raise OfflineCannot(" ".join([*confirmed, NO_DATA]))
        made = report(answers_to(rest, desk), request)
        if confirmed and made.output is None:
            made = ModelReply(text="\n\n".join([*confirmed, made.text]))
        return made
    except Wanted as wanted:
        return ModelReply(tool_calls=(tool_call(wanted, request),), finish_reason="tool_calls")
    except OfflineCannot as failure:
        if request.output_schema is None:
            raise
        gap = f"It could not be answered: {failure.message.rstrip('.')}."
        return structured(request.output_schema, gap=gap, topic=asked)


def _told(sentences: list[str], request: ModelRequest) -> ModelReply:
    """Return a few sentences as the reply, signed if there is room."""
    if request.output_schema is not None:
        return structured(request.output_schema, gap=" ".join(sentences), topic=question_of(request.messages))
    text, limit = "\n".join(sentences), chars_max(request)
    signed = f"{text}\n\n{LABEL}"
    return ModelReply(text=signed if limit is None or len(signed) <= limit else text[: max(1, limit)])
