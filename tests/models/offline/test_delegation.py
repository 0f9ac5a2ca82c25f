"""Tools behind which other agents work: they get the task as it was said, and their answer is quoted."""

from __future__ import annotations

from typing import Any

import pytest

from artelier.errors import OfflineCannot
from tests.models.offline.talking import TEXT, Talk, schema_of

TOOLS = (
    schema_of("researcher", "Delegates a task to the agent `researcher`: finds facts.", prompt=TEXT),
    schema_of("report_writer", "Sub-agent that writes.", task=TEXT),
    schema_of("calculator", "Computes a formula.", prompt=TEXT),
)


class Team:
    def __init__(self, answer: Any = None) -> None:
        self.asked: list[tuple[str, str]] = []
        self.answer = answer

    def research(self, prompt: str) -> Any:
        self.asked.append(("researcher", prompt))
        return self.answer or {"status": "completed", "text": "Oslo has 717,710 inhabitants.", "run_id": "r"}

    def write(self, task: str) -> Any:
        self.asked.append(("report_writer", task))
        return {"status": "completed", "output": {"draft": "Oslo is growing."}}

    def talk(self, **more: Any) -> Talk:
        functions = {"researcher": self.research, "report_writer": self.write}
        return Talk(tools=TOOLS, functions=functions, **more)


@pytest.mark.parametrize(
    ("prompt", "task"),
    [
        ("Ask the researcher to find the population of Oslo.", "find the population of Oslo"),
        ("Please have the researcher look up Oslo", "look up Oslo"),
        ("Delegate the population of Oslo to the researcher.", "the population of Oslo"),
        ("Tell the researcher agent: find the population of Oslo", "find the population of Oslo"),
        ("Let `researcher` find the population of Oslo.", "find the population of Oslo"),
    ],
)
def test_a_task_is_handed_over_once_and_its_answer_quoted(prompt: str, task: str) -> None:
    team = Team()

    reply = team.talk().say(prompt)

    assert len(team.asked) == 1
    assert team.asked[0][1].rstrip(".") == task
    assert "717,710 inhabitants" in reply.text
    assert "researcher" in reply.text


def test_independent_tasks_go_out_together_and_dependent_ones_wait() -> None:
    team = Team()
    talk = team.talk()

    reply = talk.say("Ask the researcher to find Oslo, and then ask the report writer to draft it.")

    assert [name for name, _ in team.asked] == ["researcher", "report_writer"]
    assert "717,710" in team.asked[1][1]
    assert "Oslo is growing." in reply.text
    together = Team().talk()
    together.say("Ask the researcher to find Oslo, and ask the report writer to draft a letter.")
    assert len(next(one for one in together.messages if one.tool_calls).tool_calls) == 2


@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"code": "budget_exhausted", "message": "no money left"}},
        {"status": "failed", "text": "no money left"},
    ],
    ids=["error", "status"],
)
def test_a_failed_agent_is_reported_as_failed(answer: Any) -> None:
    team = Team(answer)

    reply = team.talk().say("Ask the researcher to find Oslo.")

    assert "did not do it" in reply.text
    assert "no money left" in reply.text
    assert len(team.asked) == 1


def test_the_answer_fills_structured_output() -> None:
    schema = {
        "type": "object",
        "required": ["summary", "findings"],
        "properties": {"summary": TEXT, "findings": {"type": "array", "items": TEXT}},
    }

    output = Team().talk(schema=schema).say("Ask the researcher to find Oslo.").output

    assert "717,710" in output["summary"]
    assert "717,710" in output["findings"][0]


def test_answers_in_prose_with_facts_below_are_quoted_without_them() -> None:
    team = Team("Oslo is large.\n\nIt grows.")

    reply = team.talk(tail="## Now\n\n2026-11-21").say("Ask the researcher to find Oslo.")

    assert "Oslo is large." in reply.text
    assert "2026-11-21" not in reply.text


def test_only_tools_that_delegate_are_meant() -> None:
    with pytest.raises(OfflineCannot):
        Team().talk().say("Ask the calculator to add numbers.")


@pytest.mark.parametrize(
    "answer", ['{"text": "half \\ud800 of it"}', '{"output": {"n": 123456789012345678901234567890}}']
)
def test_answers_that_json_can_hardly_hold_make_a_reply(answer: str) -> None:
    reply = Team(answer).talk().say("Ask the researcher to find Oslo.")

    assert reply.canonical()
    assert "answered" in reply.text


def test_a_huge_answer_is_quoted_in_part() -> None:
    reply = Team("x" * 2_000_000).talk().say("Ask the researcher to find Oslo.")

    assert len(reply.text) < 20_000
