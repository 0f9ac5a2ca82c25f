"""The conversation so far: the question, and what tools have answered to which call.

A plan is written as if every tool answered at once: it asks the `Desk`, and the first answer that is not
there yet ends the attempt with `Wanted`, which becomes the tool calls of the reply. The next request holds
the answers, and the plan runs again from its start. So the model needs no state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from artelier.errors import OfflineCannot
from artelier.models.offline.past import Past, key_of
from artelier.models.offline.previews import READER, is_preview, parsed, whole
from artelier.models.offline.rows import Rows, rows_from
from artelier.models.offline.skills import LOAD, SEARCH, UNLOAD, USE, Skills, is_loading, plain, unwrapped
from artelier.models.offline.turns import asked_at, body_of, past_texts
from artelier.ports.model import ChatMessage, ModelRequest, ToolCall

REPEATS_MAX = 3
"""A call that was made so often without a readable answer will not be answered."""

LOST_MAX = 2
"""A call whose answer was compacted away is made once more; lost again, its answer does not fit."""

ROWS_MAX = 200
"""Rows asked of one query; more are reported as cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A tool call that a plan needs the answer of."""

    tool: str
    arguments: Mapping[str, Any]


_NUMBERED = re.compile(r"call_(\d{1,9})")


class Wanted(Exception):
    """Answers are missing: the calls to make now, in order."""

    def __init__(self, asks: Sequence[Ask]) -> None:
        super().__init__(f"{len(asks)} tool calls")
        self.asks = tuple(asks)


def question_text(messages: Sequence[ChatMessage]) -> str:
    """Return what the last message of the user asks, without the facts below it; or nothing."""
    at = asked_at(messages)
    return body_of(messages[at].text) if at >= 0 else ""


class Desk:
    """Answers of this task's tool calls; what is not answered yet is raised as `Wanted`."""

    def __init__(self, request: ModelRequest) -> None:
        self._tools = {tool.name: tool for tool in request.tools}
        messages = request.messages
        self._texts = {
            message.tool_call_id: message.text
            for message in messages
            if message.role == "tool" and message.tool_call_id
        }
        self._values: dict[str, Any] = {}
        """Answers as parsed; a large one is asked for several times."""
        self.skills = self._skills(request)
        after = messages[asked_at(messages) + 1 :]
        self._calls: dict[str, list[ToolCall]] = {}
        for call in (call for message in after for call in message.tool_calls):
            tool, arguments = self.skills.behind(call)
            meant = ToolCall(id=call.id, name=tool, arguments=arguments)
            self._calls.setdefault(plain(tool), []).append(meant)
        self._past = Past(past_texts(after))
        self.made = _made(messages)
        """How many calls the whole conversation holds; ids of new ones count on from here."""

    def _skills(self, request: ModelRequest) -> Skills:
        skills = Skills(request)
        calls = [call for message in request.messages for call in message.tool_calls]
        calls = [call for call in calls if call.name in (LOAD, USE, UNLOAD, SEARCH)]
        answers: dict[str, Any] = {}
        for call in calls:
            if call.id in self._texts:
                try:
                    answers[call.id] = self._value(call.id, call.name)
                except OfflineCannot:
                    continue
        skills.learn(calls, answers)
        return skills

    def has(self, tool: str) -> bool:
        """Return True if a tool can be called, natively or as a skill."""
        return tool in self._tools or self.skills.skill_of(tool) is not None

    def parameters(self, tool: str) -> Mapping[str, Any]:
        """The JSON schema of a tool's arguments, as far as it is known by now."""
        native = self._tools.get(tool)
        return native.parameters if native is not None else self.skills.parameters(tool)

    def require(self, *tools: str) -> None:
        """Errors: `OfflineCannot` that names the tools which are not there."""
        lacking = [tool for tool in tools if not self.has(tool)]
        searches = [Ask(tool=name, arguments=given) for name, given in self.skills.search_for(lacking)]
        unsearched = [ask for ask in searches if not self._answered(ask)]
        if unsearched:
            raise Wanted(unsearched)
        if lacking:
            skills = [*self._tools, *self.skills.described]
            raise OfflineCannot(
                f"the offline model needs the tool {' and '.join(lacking)}",
                expected=", ".join(tools),
                got=", ".join(sorted(skills)[:50]) or "no tools",
                hint="Give the agent the workspace tools.",
            )

    def ask(self, *asks: Ask) -> list[Any]:
        """The answers in order, as parsed JSON.

        Errors: `Wanted` for those that are missing; `OfflineCannot` if a tool failed, answered something
        that is not JSON, or does not answer at all.
        """
        self.require(*dict.fromkeys(ask.tool for ask in asks))
        missing = [ask for ask in asks if not self._answered(ask)]
        if missing:
            raise Wanted(missing)
        return [self._answer(ask) for ask in asks]

    def query(self, *statements: str) -> list[Rows]:
        """Rows of several queries, asked in parallel. Errors: as `ask`."""
        asks = [sql_ask(statement) for statement in statements]
        return [rows_from(answer) for answer in self.ask(*asks)]

    def text_of(self, ask: Ask) -> str:
        """The answer as text, for tools that answer in prose; JSON is left as it is.

        Errors: `Wanted` if it is missing; `OfflineCannot` if the tool does not answer.
        """
        self.require(ask.tool)
        if not self._answered(ask):
            raise Wanted([ask])
        call = self._answering(ask)
        return body_of(self._texts[call.id]) if call is not None else self._past.answers[_key(ask)]

    def was_called(self, ask: Ask) -> bool:
        """Return True if a call was made, answered or not; one that only loaded a skill does not count."""
        return self._count(ask) > self._loadings(ask)

    def calls_of(self, tool: str) -> list[Mapping[str, Any]]:
        """The arguments of the calls of a tool that this task made."""
        found: list[Any] = [call.arguments for call in self._calls.get(plain(tool), ())]
        return [given for given in found if isinstance(given, Mapping)]

    def want(self, asks: Sequence[Ask]) -> NoReturn:
        """Errors: `Wanted` for these; `OfflineCannot` if a tool is not there."""
        self.require(*dict.fromkeys(ask.tool for ask in asks))
        raise Wanted(asks)

    def once(self, ask: Ask) -> Any:
        """The answer of a call that must not be made twice; None if it was made and the answer is gone.

        A text that is not JSON is given as it is. Errors: `Wanted` if it was not made; `OfflineCannot` if
        it failed.
        """
        self.require(ask.tool)
        if self._answering(ask) is None and _key(ask) not in self._past.answers:
            if self.was_called(ask):
                return None
            raise Wanted([ask])
        try:
            return self._answer(ask)
        except OfflineCannot as failure:
            if not failure.facts.get("is_text"):
                raise
            return self.text_of(ask)

    def calls_for(self, asks: Sequence[Ask]) -> tuple[ToolCall, ...]:
        """The calls that bring these answers nearer: each once, skills loaded before they are used."""
        wanted: list[tuple[str, dict[str, Any]]] = []
        for ask in asks:
            skill = None if ask.tool in self._tools else self.skills.skill_of(ask.tool)
            call = (ask.tool, dict(ask.arguments))
            if skill is not None:
                call = self.skills.call_of(skill, ask.arguments)
            if call not in wanted:
                wanted.append(call)
        for tool, arguments in wanted:
            if tool == LOAD:
                self._check_repeats(Ask(tool=tool, arguments=arguments))
        return tuple(
            ToolCall(id=f"call_{self.made + at}", name=tool, arguments=arguments)
            for at, (tool, arguments) in enumerate(wanted, start=1)
        )

    def _matching(self, ask: Ask) -> list[ToolCall]:
        return [call for call in self._calls.get(plain(ask.tool), ()) if _fits(call.arguments, ask.arguments)]

    def _answering(self, ask: Ask) -> ToolCall | None:
        """The last call that was answered by a result rather than by a skill's instructions."""
        for call in reversed(self._matching(ask)):
            if call.id in self._texts and not is_loading(self._loose(call)):
                return call
        return None

    def _answered(self, ask: Ask) -> bool:
        if self._answering(ask) is not None or _key(ask) in self._past.answers:
            return True
        self._check_repeats(ask)
        return False

    def _count(self, ask: Ask) -> int:
        return len(self._matching(ask)) + self._past.count(ask.tool, dict(ask.arguments))

    def _loadings(self, ask: Ask) -> int:
        """Return how many calls were answered with a skill's instructions instead."""
        calls = [call for call in self._matching(ask) if call.id in self._texts]
        return sum(is_loading(self._loose(call)) for call in calls)

    def _check_repeats(self, ask: Ask) -> None:
        """Errors: `OfflineCannot` if another call would help as little as those before."""
        count = self._count(ask)
        lost = self._past.count(ask.tool, dict(ask.arguments))
        if count >= (LOST_MAX if lost else REPEATS_MAX):
            hint = "The results do not fit the model's window." if lost else None
            raise OfflineCannot(
                f"the tool {ask.tool} was called {count} times without an answer that is still there",
                hint=hint,
            )

    def _answer(self, ask: Ask) -> Any:
        value = self._shown(ask)
        if not isinstance(value, dict):
            return value
        fields = cast(dict[str, Any], value)
        if fields.get("error") is not None:
            raise OfflineCannot(f"the tool {ask.tool} failed: {_message(fields['error'])}")
        if is_preview(fields):
            return parsed(whole(fields, tool=ask.tool, read=self._read), ask.tool)
        return fields

    def _shown(self, ask: Ask) -> Any:
        """An answer as it stands in its message; of a large one that is a preview."""
        call = self._answering(ask)
        if call is None:
            return unwrapped(parsed(self._past.answers[_key(ask)], ask.tool))
        return unwrapped(self._value(call.id, ask.tool))

    def _read(self, *pages: Mapping[str, Any]) -> list[Any]:
        """Pages of an artifact as they are shown. Errors: as `ask`."""
        if not self.has(READER):
            raise OfflineCannot(f"a result is cut, and no tool {READER} is there to read on")
        asks = [Ask(tool=READER, arguments=page) for page in pages]
        missing = [ask for ask in asks if not self._answered(ask)]
        if missing:
            raise Wanted(missing)
        return [self._shown(ask) for ask in asks]

    def _value(self, call_id: str, tool: str) -> Any:
        if call_id not in self._values:
            self._values[call_id] = parsed(self._texts[call_id], tool)
        return self._values[call_id]

    def _loose(self, call: ToolCall) -> Any:
        try:
            return self._value(call.id, call.name)
        except OfflineCannot:
            return None


def _key(ask: Ask) -> str:
    return key_of(ask.tool, dict(ask.arguments))


def _made(messages: Sequence[ChatMessage]) -> int:
    """Return the number of calls, or the highest number in their ids: compacted calls had ids as well."""
    calls = [call for message in messages for call in message.tool_calls]
    numbers = [int(match[1]) for call in calls if (match := _NUMBERED.fullmatch(call.id))]
    return max(len(calls), *numbers, 0) if numbers else len(calls)


def sql_ask(statement: str) -> Ask:
    return Ask(tool="query_sql", arguments={"sql": statement, "max_rows": ROWS_MAX})


def _fits(arguments: Any, wanted: Mapping[str, Any]) -> bool:
    """Return True if a call has the wanted arguments; defaults that were filled in do not matter."""
    if not isinstance(arguments, Mapping):
        return False
    given = cast(Mapping[str, Any], arguments)
    return all(given.get(name) == value for name, value in wanted.items())


def _message(error: Any) -> str:
    if isinstance(error, dict):
        facts = cast(dict[str, Any], error)
        code, message = facts.get("code"), facts.get("message", "")
        return f"{message} ({code})"[:500] if code else str(message)[:500]
    return str(error)[:500]


def gather(desks: Iterable[Wanted]) -> Wanted:
    """One `Wanted` of several, each call once."""
    asks: list[Ask] = []
    for wanted in desks:
        asks.extend(ask for ask in wanted.asks if ask not in asks)
    return Wanted(asks)
