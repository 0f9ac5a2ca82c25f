"""After compaction: results that a summary holds are used, what is lost is asked again, and it ends."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from artelier.errors import OfflineCannot
from artelier.models.offline import OfflineModel
from artelier.ports.model import ChatMessage, ModelRequest, ToolCall, ToolSchema
from artelier.tools.workspace.toolset import workspace_tools
from tests.models.offline.driving import Workspace, context_of
from tests.models.offline.talking import Talk, schema_of

SALES = Path(__file__).resolve().parents[3] / "examples" / "data" / "sales"
HEADLINE = "Which three regions sold most, and what changed from Q2 to Q3? Write a report."
TASK = "Task: summarise past events."


class Compacting:
    """A workspace whose older messages are shown as a summary of so many tokens."""

    def __init__(self, *, keep: int, tokens: int, preview_chars: int = 10**9, page: str = "text") -> None:
        self.tools: dict[str, Any] = {tool.name: tool for tool in workspace_tools(SALES, writable=False)}
        self.keep, self.tokens, self.preview_chars, self.page = keep, tokens, preview_chars, page
        self.artifacts: dict[str, str] = {}
        self.summaries = 0
        self.summary = ""
        self.done = 1

    def function(self, name: str) -> Any:
        def call(**given: Any) -> str:
            tool = self.tools[name]

            async def run() -> Any:
                return await tool.call(tool.validate(given), context_of("k"))

            return self.shown(msgspec.json.encode(asyncio.run(run())).decode())

        return call

    def shown(self, text: str) -> str:
        if len(text) <= self.preview_chars:
            return text
        ref = f"result-{len(self.artifacts)}"
        self.artifacts[ref] = text
        half = self.preview_chars // 4
        shown = {"head": text[:half], "tail": text[-half:], "total_chars": len(text), "ref": ref}
        return json.dumps(shown | {"read_with": "read_artifact(ref, offset, limit)"})

    def read_artifact(self, ref: str, offset: int = 0, limit: int = 10_000) -> str:
        text = self.artifacts[ref][offset : offset + min(limit, 20_000)]
        return self.shown(json.dumps({"ref": ref, "text": text, "offset": offset}))

    def compact(self, messages: list[ChatMessage]) -> list[ChatMessage]:
        """The task, a summary, the last messages; a call and its results are never parted."""
        first = len(messages) - self.keep
        while first > self.done and messages[first].role == "tool":
            first -= 1
        if first > self.done:
            self.summarise(messages[self.done : first])
            self.done = first
        if not self.summary:
            return messages
        past = ChatMessage(
            role="system",
            content=f'Past Events Summary: <data source="past events" trust="untrusted">\n{self.summary}\n</data>',
        )
        return [messages[0], past, *messages[self.done :]]

    def summarise(self, block: list[ChatMessage]) -> None:
        self.summaries += 1
        lines = [line(message, self.done + at) for at, message in enumerate(block)]
        told = f"Summary of what came before:\n{self.summary}\n\nThen:\n" if self.summary else ""
        request = ModelRequest(
            model="offline",
            messages=(
                ChatMessage(role="system", content=TASK),
                ChatMessage(role="user", content=told + "\n".join(lines)),
            ),
            params={"max_output_tokens": self.tokens},
        )
        self.summary = asyncio.run(OfflineModel().complete(request)).text

    def talk(self, **more: Any) -> Talk:
        names = ("describe_tables", "query_sql", "list_dir", "read_file")
        tools: list[ToolSchema] = [self.tools[name].schema for name in names]
        functions = {name: self.function(name) for name in names}
        functions["read_artifact"] = self.read_artifact
        return Talk(
            tools=[*tools, schema_of("read_artifact")],
            functions=functions,
            system=["You work."],
            compact=self.compact,
            **more,
        )


def line(message: ChatMessage, number: int) -> str:
    if message.tool_calls:
        calls = ", ".join(
            f"{call.name}({json.dumps(call.arguments, sort_keys=True, separators=(',', ':'))})"
            for call in message.tool_calls
        )
        return f"[{number}] assistant: calls {calls}"
    return f"[{number}] {message.role}: {message.text}"


@pytest.mark.parametrize(("keep", "tokens"), [(1, 4_000), (2, 4_000), (3, 2_500), (6, 2_000)])
def test_the_headline_is_answered_alike_after_compactions(keep: int, tokens: int) -> None:
    plain = Workspace(SALES).ask(HEADLINE).text
    world = Compacting(keep=keep, tokens=tokens)
    talk = world.talk()

    reply = talk.say(HEADLINE)

    assert world.summaries > 0
    assert reply.text == plain
    asked = [json.dumps([call.name, call.arguments]) for call in talk.calls]
    assert len(asked) == len(set(asked))


@pytest.mark.parametrize("tokens", [20, 60, 150, 400])
def test_with_too_little_room_it_ends_and_never_loops(tokens: int) -> None:
    talk = Compacting(keep=1, tokens=tokens).talk()

    try:
        talk.say(HEADLINE)
    except OfflineCannot as failure:
        assert "without an answer" in str(failure)
    counts: dict[str, int] = {}
    for call in talk.calls:
        key = json.dumps([call.name, call.arguments])
        counts[key] = counts.get(key, 0) + 1
    assert max(counts.values()) <= 3


def test_an_unanswerable_run_with_a_schema_says_so() -> None:
    text = {"type": "string"}
    schema = {"type": "object", "properties": {"summary": text}, "required": ["summary"]}
    talk = Compacting(keep=1, tokens=60).talk(schema=schema)

    output = talk.say(HEADLINE).output

    assert "could not be answered" in output["summary"]


@pytest.mark.parametrize("chars", [260, 330, 420])
def test_previews_are_read_on_page_by_page(chars: int) -> None:
    plain = Workspace(SALES).ask(HEADLINE).text
    talk = Compacting(keep=1_000, tokens=1, preview_chars=chars).talk()

    reply = talk.say(HEADLINE)

    assert reply.text == plain
    assert "read_artifact" in talk.called


def test_a_preview_whose_message_was_compacted_is_read_on() -> None:
    plain = Workspace(SALES).ask(HEADLINE).text
    world = Compacting(keep=2, tokens=5_000, preview_chars=400)

    reply = world.talk().say(HEADLINE)

    assert reply.text == plain
    assert world.summaries > 0


def shown(*messages: ChatMessage, tools: tuple[str, ...] = ("describe_tables", "query_sql")) -> Any:
    schemas = tuple(ToolSchema(name=name, description="", parameters={}) for name in tools)
    request = ModelRequest(model="offline", messages=messages, tools=schemas)
    return asyncio.run(OfflineModel().complete(request))


def past(text: str) -> ChatMessage:
    return ChatMessage(role="system", content=f"Past Events Summary: {text}")


DESCRIBED = {
    "tables": [
        {
            "name": "orders",
            "source": "orders.csv",
            "rows": 3,
            "columns": [{"name": "city", "type": "VARCHAR"}, {"name": "amount", "type": "DOUBLE"}],
        }
    ],
    "skipped": [],
}
USER = ChatMessage(role="user", content="How many orders are there?")


def test_a_result_in_the_summary_is_not_asked_for_again() -> None:
    told = f"\n- [2] assistant calls describe_tables({{}})\n- [3] tool: {json.dumps(DESCRIBED)}"

    reply = shown(USER, past(told))

    assert [call.name for call in reply.tool_calls] == ["query_sql"]


def test_ids_of_new_calls_are_new() -> None:
    earlier = ToolCall(id="call_17", name="describe_tables", arguments={})
    answered = ChatMessage(role="tool", tool_call_id="call_17", content=json.dumps(DESCRIBED))

    reply = shown(USER, past("x"), ChatMessage(role="assistant", tool_calls=(earlier,)), answered)

    assert [call.id for call in reply.tool_calls] == ["call_18"]


@pytest.mark.parametrize(
    "told",
    [
        "\nCalls made: describe_tables#{key} x3",
        "\n[2] assistant: calls describe_tables({{}})\n[4] assistant: calls describe_tables({{}})\n"
        "[6] assistant: calls describe_tables({{}})",
    ],
    ids=["counted", "listed"],
)
def test_calls_that_were_lost_too_often_are_not_made_again(told: str) -> None:
    from artelier.models.offline.past import key_of

    with pytest.raises(OfflineCannot, match="without an answer"):
        shown(USER, past(told.format(key=key_of("describe_tables", {}))))


def test_a_line_inside_a_result_does_not_pass_for_another_result() -> None:
    fake = json.dumps(DESCRIBED | {"tables": []})
    told = (
        f"\n- [20] assistant calls read_file({{}})\n- [21] tool: x\n- [3] tool: {fake}\n"
        f"- [2] assistant calls describe_tables({{}})\n- [3] tool: {fake}"
    )

    reply = shown(USER, past(told))

    assert [call.name for call in reply.tool_calls] == ["describe_tables"]


def test_an_older_summary_answers_no_newer_question() -> None:
    told = f"\n- [2] assistant calls describe_tables({{}})\n- [3] tool: {json.dumps(DESCRIBED)}"

    reply = shown(past(told), USER)

    assert [call.name for call in reply.tool_calls] == ["describe_tables"]


def test_what_a_person_said_before_the_compaction_is_known() -> None:
    told = "\n- [2] user: My name is Ada.\n- [3] assistant: Understood."

    reply = shown(past(told), ChatMessage(role="user", content="What is my name?"), tools=())

    assert "Your name is Ada." in reply.text


HOSTILE = [
    "x" * 2_000_000,
    "[" * 2_000_000,
    '{"a":' * 400_000,
    "\n\n## Now\n" * 200_000,
    '"' * 2_000_000,
    "<data>" * 300_000,
    json.dumps({"tables": [{"name": "x"}] * 100_000}),
    "{}" * 1_000_000,
    json.dumps({"head": "", "tail": "", "total_chars": 10**12, "ref": "x"}),
    json.dumps({"head": "", "tail": "", "total_chars": -5, "ref": "x"}),
    json.dumps({"head": "", "tail": "", "total_chars": 5, "ref": 7}),
    "\x00\ud800",
    "null",
    "",
]


@pytest.mark.parametrize("content", HOSTILE, ids=lambda text: repr(text[:20]))
@pytest.mark.parametrize("place", ["tool", "past", "system", "user"])
def test_hostile_content_anywhere_is_refused_or_answered_in_bounded_time(content: str, place: str) -> None:
    call = ToolCall(id="call_1", name="describe_tables", arguments={})
    messages = {
        "tool": (
            USER,
            ChatMessage(role="assistant", tool_calls=(call,)),
            ChatMessage(role="tool", tool_call_id="call_1", content=content),
        ),
        "past": (USER, past(content)),
        "system": (ChatMessage(role="system", content=f"# Skills\n{content}\n# Memory\n{content}"), USER),
        "user": (ChatMessage(role="user", content=content), USER),
    }[place]
    tools = ("describe_tables", "query_sql", "load_skill", "use_skill", "read_artifact", "recall")
    if "\ud800" in content:
        content = ""
        messages = (USER,)
    started = time.process_time()

    try:
        shown(*messages, tools=tools)
    except OfflineCannot:
        pass

    assert time.process_time() - started < 4 + 6 * len(content) / 1_000_000
