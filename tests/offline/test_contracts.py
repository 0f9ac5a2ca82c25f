"""The offline model beside questions: its pace, structured output, memory, talk, plans and verdicts."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from artelier import AutonomousAgent, ContextBuilder, Kernel
from artelier.errors import InvalidConfig, OfflineCannot
from artelier.memory import SQLiteMemoryStore
from artelier.plugins import MODELS, Plugins, own_members
from artelier.ports.model import ChatMessage, ModelReply, ModelRequest
from artelier.testing import ManualClock
from artelier_offline import OfflineModel
from artelier_offline.conversation import Prompt
from artelier_offline.mission import goal_from, plan
from artelier_offline.verdict import Output, ruling
from tests.offline.workspace import Workspace

SALES = Path(__file__).resolve().parents[2] / "examples" / "data" / "sales"
REPORT = "# Regions\n\nThe highest revenue is in **North** (42983.02).\n\nSources: `sales.csv`.\n"


def said(*texts: tuple[Any, str], schema: dict[str, Any] | None = None, **more: Any) -> ModelReply:
    messages = tuple(ChatMessage(role=role, content=text) for role, text in texts)
    request = ModelRequest(model="offline", messages=messages, output_schema=schema, **more)
    return asyncio.run(OfflineModel().complete(request))


def test_it_is_a_member_that_is_allowed_by_default_and_its_old_name_warns() -> None:
    (own,) = [one for one in own_members() if (one.group, one.name) == (MODELS, "offline")]
    assert own.value == "artelier_offline:OfflineModel" and not Plugins().allow
    with pytest.warns(DeprecationWarning, match="is now artelier_offline"):
        assert importlib.import_module("artelier.models.offline").OfflineModel is OfflineModel


def test_what_came_with_a_task_is_no_question() -> None:
    """The question stands before it, and is answered as without it."""
    shown = ("user", "What came with the task:\nThe fleet came home.")
    assert said(("user", "hello"), shown).text == said(("user", "hello")).text


def test_its_pace_waits_by_the_clock_and_changes_no_reply() -> None:
    clock = ManualClock()
    request = ModelRequest(model="offline", messages=(ChatMessage(role="user", content="hello"),))

    async def both() -> tuple[ModelReply, ModelReply]:
        slow = asyncio.ensure_future(OfflineModel(pace_s=3, clock=clock).complete(request))
        while not slow.done():
            await asyncio.sleep(0)
            clock.advance(1)
        return await slow, await OfflineModel().complete(request)

    slow, quick = asyncio.run(both())
    assert slow.canonical() == quick.canonical()
    with pytest.raises(InvalidConfig):
        OfflineModel(pace_s=61)


def field(kind: str) -> dict[str, Any]:
    return {"type": kind}


def schema(**fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields)}


def test_structured_output_holds_computed_facts_alone() -> None:
    wanted = schema(title=field("string"), summary=field("string"), total=field("number"))

    output = Workspace(SALES).ask("What is the total revenue?", schema=wanted).reply.output

    assert output["total"] == pytest.approx(111082.97) and "111082.97" in output["summary"]
    with pytest.raises(OfflineCannot, match="`mood` of the output schema cannot be filled"):
        Workspace(SALES).ask("What is the total revenue?", schema=schema(mood=field("string")))


def test_structured_output_without_data_says_so() -> None:
    wanted = schema(title=field("string"), summary=field("string"))

    output = said(("user", "Analyze the Q3 sales data and write a report."), schema=wanted).output

    assert "No data was looked at" in output["summary"]
    with pytest.raises(OfflineCannot):
        said(("user", "Analyze the Q3 sales data."), schema=schema(total=field("number")))


def test_a_report_is_cut_to_the_room_of_the_request_or_refused() -> None:
    short = Workspace(SALES).ask("total revenue by region", params={"max_output_tokens": 120}).text

    assert len(short) <= 480 and "**North**" in short
    with pytest.raises(OfflineCannot, match="does not fit"):
        Workspace(SALES).ask("total revenue by region", params={"max_output_tokens": 5})


def test_what_it_was_asked_to_remember_is_stored_and_told_in_the_next_run(tmp_path: Path) -> None:
    async def scenario() -> list[str]:
        with Kernel.open(tmp_path / "s.db") as kernel, SQLiteMemoryStore(tmp_path / "m.db") as store:
            builder = ContextBuilder(identity="You help one person.", memory_store=store)
            agent = AutonomousAgent(kernel=kernel, agent_id="helper", context_builder=builder)
            prompts = (
                "Remember that my favourite colour is teal.",
                "What is my favourite colour?",
                "What is my shoe size?",
            )
            runs = [
                await agent.run(run_id=f"r{number}", model="offline", prompt=prompt)
                for number, prompt in enumerate(prompts)
            ]
            return [run.text for run in runs]

    stored, told, unknown = asyncio.run(scenario())
    assert stored.startswith("Stored in memory: my favourite colour is teal.")
    assert told.startswith("Your favourite colour is teal.")
    assert unknown.startswith("I do not know")


@pytest.mark.parametrize(
    ("texts", "reply"),
    [
        ([("user", "hi")], "Hello."),
        ([("system", "You are Mira, in a conversation with Bo."), ("user", "Sum it up.")], "Sum it up."),
        ([("system", "You are Mira, in a conversation with Bo."), ("user", "Give me a summary.")], "summary"),
        (
            [("system", "You are Mira, in a conversation with Bo."), ("user", "Are you a robot?")],
            "offline model",
        ),
        (
            [("system", "You are Mira, in a conversation with Bo."), ("user", "We ride north.")],
            "We ride north.",
        ),
        (
            [("user", "My name is Ada."), ("assistant", "Hello."), ("user", "What is my name?")],
            "Your name is Ada.",
        ),
    ],
)
def test_talk_takes_up_what_was_said_and_hides_nothing(texts: Sequence[tuple[Any, str]], reply: str) -> None:
    assert reply in said(*texts).text


def test_without_tools_a_question_about_data_is_refused() -> None:
    with pytest.raises(OfflineCannot, match="No data was looked at"):
        said(("user", "Which region sold most?"))


@pytest.mark.parametrize(
    ("text", "question", "form"),
    [
        ("Which region sold most? Write a report.", "Which region sold most?", "report"),
        ("Write a report that answers: Which region sold most?", "Which region sold most?", "report"),
        (
            "What do the notes say about gaps? Quote the sentence.",
            "What do the notes say about gaps?",
            "findings",
        ),
        ("Which region sold most?", "Which region sold most?", "findings"),
    ],
)
def test_a_goal_is_taken_apart_into_question_and_form(text: str, question: str, form: str) -> None:
    goal = goal_from(text)

    assert (goal.question, goal.form) == (question, form)


def planned(goal: str, *tools: str) -> dict[str, Any]:
    listed = "\n".join(f"### {tool}" for tool in tools)
    content = f"## Goal\n{goal}\n\n## Workspace\n- notes.md (80 bytes)\n\n## Tools\n{listed}"
    return plan(Prompt(ModelRequest(model="offline", messages=(ChatMessage(role="user", content=content),))))


def test_a_plan_has_a_task_for_tables_and_one_for_texts_before_the_one_that_writes() -> None:
    tools = ("describe_tables", "query_sql", "list_dir", "read_file", "read_artifact")
    made = planned("What do the notes say about gaps? Which region sold most? Write a report.", *tools)

    assert [one["slug"] for one in made["tasks"]] == ["figures", "passages", "report"]
    assert made["tasks"][-1]["depends_on"] == ["figures", "passages"]
    assert [one["slug"] for one in made["agents"]] == ["analyst", "reader", "writer"]
    with pytest.raises(OfflineCannot, match="no tool is there"):
        planned("Which region sold most?", "calculator")


@pytest.mark.parametrize(
    ("criterion", "is_met"),
    [
        ("Answers the question: Which region has the highest revenue?", True),
        ("Names the sources.", True),
        ("Says that `North` is first.", True),
        ("Gives the figures of the regions.", True),
        ("Explains the hiring plan for engineers.", False),
        ("Says what `Atlantis` sold.", False),
        ("Contains a table.", False),
        ("Answers the question: How many employees work in Oslo?", False),
    ],
)
def test_a_criterion_is_met_only_with_a_quote_that_stands_there(criterion: str, is_met: bool) -> None:
    made = ruling(criterion.replace("first", "highest"), [Output(ref="m/o@1", text=REPORT)])

    assert bool(made.quote) is is_met
    assert made.quote in REPORT and bool(made.missing) is not is_met
    assert not ruling(criterion, [Output(ref="m/o@1", text="To be written.")]).quote
