"""The conversation so far: the question, and what tools have answered to which call.

A plan is written as if every tool answered at once: it asks the `Desk`, and the first answer that is not
there yet ends the attempt with `Wanted`, which becomes the tool calls of the reply. The next request holds
the answers, and the plan runs again from its start. So the model needs no state.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, cast

import msgspec

from artelier.errors import OfflineCannot
from artelier.ports.model import ChatMessage, ModelRequest, ToolCall

REPEATS_MAX = 3
"""A call that was made so often without a readable answer will not be answered."""

ROWS_MAX = 200
"""Rows asked of one query; more are reported as cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A tool call that a plan needs the answer of."""

    tool: str
    arguments: Mapping[str, Any]


_PREVIEW = frozenset(("head", "tail", "total_chars", "ref", "read_with"))
_READER = "read_artifact"
PAGE_CHARS = 20_000
WHOLE_CHARS_MAX = 1_000_000
"""Of a large result that is read page by page."""


class Wanted(Exception):
    """Answers are missing: the calls to make now, in order."""

    def __init__(self, asks: Sequence[Ask]) -> None:
        super().__init__(f"{len(asks)} tool calls")
        self.asks = tuple(asks)


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """What `query_sql` returned."""

    columns: list[str]
    rows: list[list[Any]]
    types: list[str] = []
    row_count: int | None = None
    truncated: bool = False


class _Page(msgspec.Struct):
    text: str


def question_text(messages: Sequence[ChatMessage]) -> str:
    """The text of the last message of the user, or nothing."""
    for message in reversed(messages):
        if message.role == "user":
            return message.text
    return ""


class Desk:
    """Answers of this task's tool calls; what is not answered yet is raised as `Wanted`."""

    def __init__(self, request: ModelRequest) -> None:
        self._tools = frozenset(tool.name for tool in request.tools)
        after = _after_question(request.messages)
        self._calls = [call for message in after for call in message.tool_calls]
        self._answers = {
            message.tool_call_id: message.text
            for message in after
            if message.role == "tool" and message.tool_call_id
        }
        self.made = sum(len(message.tool_calls) for message in request.messages)
        """How many calls the whole conversation holds; ids of new ones count on from here."""

    def has(self, tool: str) -> bool:
        return tool in self._tools

    def require(self, *tools: str) -> None:
        """Errors: `OfflineCannot` that names the tools which are not there."""
        lacking = [tool for tool in tools if tool not in self._tools]
        if lacking:
            raise OfflineCannot(
                f"the offline model needs the tool {' and '.join(lacking)}",
                expected=", ".join(tools),
                got=", ".join(sorted(self._tools)) or "no tools",
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
        return [_rows(answer) for answer in self.ask(*asks)]

    def _matching(self, ask: Ask) -> list[ToolCall]:
        return [
            call
            for call in self._calls
            if call.name == ask.tool and _fits(call.arguments, ask.arguments)
        ]

    def _answered(self, ask: Ask) -> bool:
        calls = self._matching(ask)
        if any(call.id in self._answers for call in calls):
            return True
        if len(calls) >= REPEATS_MAX:
            raise OfflineCannot(
                f"the tool {ask.tool} was called {len(calls)} times without an answer"
            )
        return False

    def _answer(self, ask: Ask) -> Any:
        call = next(call for call in reversed(self._matching(ask)) if call.id in self._answers)
        value: Any = _parsed(self._answers[call.id], ask.tool)
        if not isinstance(value, dict):
            return value
        fields = cast(dict[str, Any], value)
        if fields.get("error") is not None:
            raise OfflineCannot(f"the tool {ask.tool} failed: {_message(fields['error'])}")
        if set(fields) <= _PREVIEW and "total_chars" in fields and "head" in fields:
            return _parsed(self._whole(fields, ask.tool), ask.tool)
        return fields

    def _whole(self, preview: dict[str, Any], tool: str) -> str:
        """The text of a large result, of which the message shows only head and tail."""
        ref, size = preview.get("ref"), preview["total_chars"]
        if not isinstance(ref, str) or not isinstance(size, int) or not self.has(_READER):
            raise OfflineCannot(
                f"the result of {tool} is cut, and no tool {_READER} is there to read on"
            )
        if size > WHOLE_CHARS_MAX:
            raise OfflineCannot(
                f"the result of {tool} is too large",
                expected=f"at most {WHOLE_CHARS_MAX} characters",
                got=f"{size} characters",
            )
        starts = range(0, size, PAGE_CHARS)
        asks = [
            Ask(tool=_READER, arguments={"ref": ref, "offset": start, "limit": PAGE_CHARS})
            for start in starts
        ]
        try:
            pages = msgspec.convert(self.ask(*asks), list[_Page])
        except msgspec.ValidationError as error:
            raise OfflineCannot(
                f"the result of {_READER} has another shape than expected: {error}"
            ) from None
        return "".join(page.text for page in pages)


def sql_ask(statement: str) -> Ask:
    return Ask(tool="query_sql", arguments={"sql": statement, "max_rows": ROWS_MAX})


def _after_question(messages: Sequence[ChatMessage]) -> Sequence[ChatMessage]:
    last = max((at for at, one in enumerate(messages) if one.role == "user"), default=-1)
    return messages[last + 1 :]


def _fits(arguments: Any, wanted: Mapping[str, Any]) -> bool:
    """Whether a call has the wanted arguments; defaults that were filled in do not matter."""
    if not isinstance(arguments, Mapping):
        return False
    given = cast(Mapping[str, Any], arguments)
    return all(given.get(name) == value for name, value in wanted.items())


def _parsed(text: str, tool: str) -> Any:
    """The first JSON value of a tool message; fences and facts around it are left out."""
    starts = [at for at in (text.find("{"), text.find("[")) if at >= 0]
    for start in ([0] if not text.lstrip().startswith("<") else []) + sorted(starts):
        try:
            return json.JSONDecoder().raw_decode(text, start)[0]
        except (ValueError, RecursionError):
            continue
    raise OfflineCannot(
        f"the result of {tool} is not JSON",
        expected="the JSON text of the result",
        got=repr(text[:80]),
    )


def _message(error: Any) -> str:
    if isinstance(error, dict):
        facts = cast(dict[str, Any], error)
        code, message = facts.get("code"), facts.get("message", "")
        return f"{message} ({code})"[:500] if code else str(message)[:500]
    return str(error)[:500]


def _rows(answer: Any) -> Rows:
    try:
        return _with_numbers(msgspec.convert(answer, Rows))
    except msgspec.ValidationError as error:
        raise OfflineCannot(
            f"the result of query_sql has another shape than expected: {error}",
            expected='{"columns": [...], "rows": [[...]]}',
        ) from None


_EXACT = ("DECIMAL", "HUGEINT", "UHUGEINT", "UBIGINT", "BIGINT", "NUMERIC")


def _with_numbers(found: Rows) -> Rows:
    """Numbers that JSON could not hold exactly came as text; the type says so.

    Errors: `OfflineCannot` if a row has not one cell per column.
    """
    if any(len(row) != len(found.columns) for row in found.rows):
        raise OfflineCannot("the result of query_sql has rows of another length than its columns")
    exact = [at for at, kind in enumerate(found.types) if kind.upper().startswith(_EXACT)]
    if not any(isinstance(row[at], str) for row in found.rows for at in exact if at < len(row)):
        return found
    rows = [list(row) for row in found.rows]
    for row in rows:
        for at in exact:
            if isinstance(row[at], str):
                row[at] = _decimal(row[at])
    return msgspec.structs.replace(found, rows=rows)


def _decimal(text: str) -> Decimal | int | str:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    return int(number) if "." not in text else number


def gather(desks: Iterable[Wanted]) -> Wanted:
    """One `Wanted` of several, each call once."""
    asks: list[Ask] = []
    for wanted in desks:
        asks.extend(ask for ask in wanted.asks if ask not in asks)
    return Wanted(asks)
