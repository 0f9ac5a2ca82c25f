"""The evidence of a task: its tool calls as the conversation of a question, and the calls still missing.

The rules that answer questions ask a `Desk` for the answers of tools. Here the decisions of a task and their
results become such a conversation, and the answers that are missing become the next call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from artelier.errors import OfflineCannot
from artelier.models.offline.answer import parts_for
from artelier.models.offline.conversation import Ask, Desk, Wanted, sql_ask
from artelier.models.offline.excerpt import excerpt_of
from artelier.models.offline.missions import summaries
from artelier.models.offline.missions.prompt import Prompt, Turn, value_in
from artelier.models.offline.missions.stacked import STACKED_MAX, answers_in, stacked, statements_in
from artelier.models.offline.parts import Part
from artelier.models.offline.previews import READER
from artelier.models.offline.rows import rows_from
from artelier.ports.model import ChatMessage, ModelRequest, ToolCall, ToolSchema

QUERY, DESCRIBE = "query_sql", "describe_tables"
COLUMNS = (
    "SELECT table_name, column_name, data_type FROM information_schema.columns\n"
    "WHERE table_schema = 'main' ORDER BY table_name, ordinal_position"
)
"""Tells what tables there are where `describe_tables` is off."""

AHEAD_MAX = 3
"""Rounds of queries that are foreseen."""

STACKED_ROWS_MAX = 10_000
"""What `query_sql` returns at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """A call and its answer."""

    tool: str
    arguments: Mapping[str, Any]
    answer: Any
    """JSON data."""

    @property
    def failed(self) -> bool:
        return self.fields.get("error") is not None

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of an answer that is an object; none of any other."""
        answer: Any = self.answer
        return cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """The call that brings an answer nearer, and how many questions it settles."""

    tool: str
    arguments: dict[str, Any]
    count: int


@dataclass(kw_only=True)
class _Supposed:
    """Answers to queries as if the data held nothing but rows of one year."""

    year: int
    calls: list[Called] = field(default_factory=list[Called])

    def of(self, ask: Ask) -> dict[str, Any]:
        years = str(ask.arguments["sql"]).startswith("SELECT year(")
        return {"columns": ["year", "hits"] if years else [], "rows": [[self.year, 1]] if years else []}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """An artifact as far as it was read."""

    text: str
    next_offset: int | None
    """Where to read on; None at its end, or if it cannot be read."""


def _described(call: Called) -> Called:
    """A query for the columns of all tables as what `describe_tables` would have told.

    Errors: `OfflineCannot` if the answer has another shape.
    """
    tables: dict[str, list[dict[str, str]]] = {}
    rows = [row for row in rows_from(call.answer).rows if len(row) == 3]
    for table, column, kind in ([str(cell) for cell in row] for row in rows):
        tables.setdefault(table, []).append({"name": column, "type": kind})
    told = [{"name": name, "columns": columns} for name, columns in tables.items()]
    return Called(tool=DESCRIBE, arguments={}, answer={"tables": told})


def calls_of(turns: Sequence[Turn]) -> list[Called]:
    """Return what was called by the decisions of a task, stacked queries one by one."""
    found: list[Called] = []
    for turn in turns:
        tool, given = turn.decision.get("tool"), turn.decision.get("input")
        if turn.decision.get("action") != "use_tool" or not isinstance(tool, str):
            continue
        arguments = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
        answer = value_in(turn.result)
        if answer is None:
            answer = {"error": {"message": " ".join(turn.result.split())[:300] or "no result"}}
        sql = arguments.get("sql")
        statements = statements_in(sql) if tool == QUERY and isinstance(sql, str) else []
        answers = answers_in(answer, len(statements)) if len(statements) > 1 else None
        if answers is None:
            call = Called(tool=tool, arguments=arguments, answer=answer)
            is_columns = sql == COLUMNS and not call.failed
            found.append(_described(call) if is_columns else call)
            continue
        for statement, one in zip(statements, answers, strict=True):
            found.append(Called(tool=tool, arguments=sql_ask(statement).arguments, answer=one))
    return found


class Evidence:
    """The calls of one task, asked again and again by the rules that answer questions."""

    def __init__(self, prompt: Prompt) -> None:
        self.calls = calls_of(prompt.turns)
        self._tools = prompt.tools
        self._model = prompt.request.model

    def has(self, *tools: str) -> bool:
        return all(tool in self._tools for tool in tools)

    @property
    def can_look(self) -> bool:
        """True if any tool is listed, or has answered, by which tables or texts are looked into."""
        known = self._known()
        return QUERY in known or "read_file" in known

    def answer_of(self, tool: str) -> Any:
        """Return what a tool answered last, if it did; None if not."""
        found = [one.answer for one in self.calls if one.tool == tool and not one.failed]
        return found[-1] if found else None

    def pages_of(self, ref: str) -> Pages:
        """Return what `read_artifact` has told of an artifact so far."""
        text, offset = "", 0
        for one in self.calls:
            fields = one.fields
            page = fields.get("text")
            if one.tool != READER or one.arguments.get("ref") != ref or not isinstance(page, str):
                continue
            if fields.get("offset", 0) != offset:
                continue
            text += page
            following = fields.get("next_offset")
            if not isinstance(following, int) or following <= offset:
                return Pages(text=text, next_offset=None)
            offset = following
        failed = any(one.tool == READER and one.failed for one in self.calls)
        return Pages(text=text, next_offset=None if failed else offset)

    def why(self, call: Next) -> str:
        """One sentence on what is missing before a call."""
        path = call.arguments.get("path")
        said = {
            DESCRIBE: "It is not known yet which tables there are.",
            "list_dir": "It is not known yet which files there are.",
            "read_file": f"{path} has not been read yet.",
            "search_text": "It is open in which files the words of the question stand.",
            QUERY: "The figures that the question asks for are missing.",
        }
        if call.arguments.get("sql") == COLUMNS:
            return "It is not known yet which tables there are, and describe_tables is not listed."
        if call.tool == QUERY and not any(one.tool == QUERY for one in self.calls):
            return "The figures are missing, and it is open which words are names in the data."
        return said.get(call.tool, f"What {call.tool} answers is missing.")

    def parts(self, question: str, extra: Sequence[Called] = ()) -> list[Part]:
        """The answer to a question.

        Errors: `Wanted` while answers of tools are missing; `OfflineCannot` with the reason.
        """
        given = excerpt_of(question)
        if given is not None:
            return [given]
        if what := summaries.wanted(question):
            return summaries.summary_parts(what, self._desk(question, [*self.calls, *extra]))
        return parts_for(question, self._desk(question, [*self.calls, *extra]))

    def next(self, question: str, wanted: Wanted) -> Next:
        """The one call to make now: queries stacked, with those that will most likely follow them.

        Errors: `OfflineCannot` if a call that is needed failed before.
        """
        queries = [ask for ask in wanted.asks if ask.tool == QUERY]
        if len(queries) < len(wanted.asks):
            first = next(ask for ask in wanted.asks if ask.tool != QUERY)
            if first.tool == DESCRIBE and not self.has(DESCRIBE):
                return Next(tool=QUERY, arguments=dict(sql_ask(COLUMNS).arguments), count=1)
            return Next(tool=first.tool, arguments=dict(first.arguments), count=1)
        return self._stack([*queries, *self._ahead(question, queries)])

    def next_of(self, waiting: Sequence[tuple[str, Wanted]]) -> Next:
        """The one call for several questions: what all of them need first, at once."""
        asks: list[Ask] = []
        for question, wanted in waiting:
            queries = [ask for ask in wanted.asks if ask.tool == QUERY]
            if len(queries) < len(wanted.asks):
                return self.next(question, wanted)
            asks += [*queries, *self._ahead(question, queries)]
        return self._stack(asks)

    def _stack(self, asks: Sequence[Ask]) -> Next:
        statements = list(dict.fromkeys(str(ask.arguments["sql"]) for ask in asks))[:STACKED_MAX]
        if len(statements) > 1 and self._stacking_failed():
            statements = statements[:1]
        arguments = dict(sql_ask(stacked(statements)).arguments)
        if len(statements) > 1:
            rows = (int(arguments["max_rows"]) + 1) * len(statements)
            arguments["max_rows"] = min(rows, STACKED_ROWS_MAX)
        return Next(tool=QUERY, arguments=arguments, count=len(statements))

    def _stacking_failed(self) -> bool:
        return any(
            one.tool == QUERY and len(statements_in(str(one.arguments.get("sql")))) > 1 for one in self.calls
        )

    def _ahead(self, question: str, queries: Sequence[Ask]) -> list[Ask]:
        """Queries that will be asked next, whatever the first ones answer, or if they find nothing.

        Two suppositions are followed side by side; what both of them lead to does not depend on them. A query
        that looks for words of the question among the cells mostly finds none. Guessed wrong, an answer is
        not used.
        """
        found: list[Ask] = []
        ways = [_Supposed(year=2000), _Supposed(year=2001)]
        pending = [list(queries), list(queries)]
        for _ in range(AHEAD_MAX):
            following = [
                self._following(question, way, asks) for way, asks in zip(ways, pending, strict=True)
            ]
            common = [ask for ask in following[0] if ask in following[1]]
            if not common:
                break
            found += [ask for ask in common if ask not in found]
            pending = following
        return found

    def _following(self, question: str, way: _Supposed, asks: Sequence[Ask]) -> list[Ask]:
        """Return what is asked once some queries were answered as supposed."""
        way.calls += [Called(tool=QUERY, arguments=ask.arguments, answer=way.of(ask)) for ask in asks]
        try:
            self.parts(question, way.calls)
        except Wanted as wanted:
            return [ask for ask in wanted.asks if ask.tool == QUERY]
        except OfflineCannot:
            return []
        return []

    def _desk(self, question: str, calls: Sequence[Called]) -> Desk:
        messages = [ChatMessage(role="user", content=question)]
        for number, one in enumerate(calls, start=1):
            call = ToolCall(id=f"call_{number}", name=one.tool, arguments=dict(one.arguments))
            content = json.dumps(one.answer, ensure_ascii=False)
            messages.append(ChatMessage(role="assistant", tool_calls=(call,)))
            messages.append(ChatMessage(role="tool", content=content, tool_call_id=call.id))
        return Desk(
            ModelRequest(model=self._model, messages=tuple(messages), tools=tuple(self._known().values()))
        )

    def _known(self) -> dict[str, ToolSchema]:
        """The tools that are listed, and those whose answers are there although they are off by now."""
        known = dict(self._tools)
        answered = [one.tool for one in self.calls if not one.failed]
        answered += [DESCRIBE] if QUERY in (*known, *answered) else []
        for tool in answered:
            known.setdefault(tool, ToolSchema(name=tool, description="", parameters={}))
        return known
