"""What the log tells of calls that were left in a question, in histories of earlier versions too."""

from __future__ import annotations

import pytest

from artelier.kernel import events as ev
from artelier.kernel.tool_calls.tool_questions import ToolQuestions
from artelier.log import EventData


def asked(key: str, *, before_acting: bool = True) -> EventData:
    return ev.ApprovalRequested(key=f"{key}/ask/1", question="b:1", before_acting=before_acting)  # type: ignore[arg-type]


def given(key: str, *, queued: bool = False) -> EventData:
    return ev.ApprovalGiven(key=f"{key}/ask/1", decision="approve", queued=queued)


def left(status: str = "pending", reason: str = "a/ask/1", *unheard: str) -> EventData:
    return ev.RunSuspendedEvent(status=status, reason=reason, unheard=unheard)


SIGNAL = ev.SignalReceived(name="go")
GAVE_UP = ev.ToolQuestionLeft(key="b/ask/1")
CUT_OFF = ev.StepCancelled(key="b", kind="tool")
RETRIED = ev.ToolRetried(key="b", by="kernel")
REQUESTED = ev.ToolRequested(key="b", name="pay", arguments="b:1", side_effect=True)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("then", "untouched"),
    [
        ([], "ab"),
        ([given("b")], "a"),
        ([given("b", queued=True)], "ab"),
        ([given("b", queued=True), RETRIED], "a"),
        ([RETRIED, given("b")], "a"),
        ([given("a"), left()], "ab"),
        ([given("b"), left("waiting_approval", "a/ask/1", "b/ask/1")], "ab"),
        ([given("b"), left("waiting_approval")], "a"),
        ([given("b"), left()], "ab"),  # of a version that named one question only
        ([given("b"), left("pending", "interrupted")], "a"),
        ([given("b"), SIGNAL, left()], "a"),  # the signal may be what the drive did not hear
        ([given("a"), given("b"), left()], "a"),  # the answer to b may have been heard
        ([given("b"), left("waiting_approval"), given("a"), left()], "a"),
        ([given("b", queued=True), RETRIED, left("pending", "interrupted", "b/ask/1")], "ab"),
        ([asked("b", before_acting=False)], "a"),
        ([given("b"), asked("b")], "ab"),
        ([REQUESTED], "a"),
        ([GAVE_UP], "a"),
        ([GAVE_UP, given("b")], "a"),
        ([GAVE_UP, left("pending", "interrupted")], "a"),
        ([GAVE_UP, left("pending", "interrupted", "b/ask/1")], "ab"),  # cut off in it with the drive
        ([GAVE_UP, CUT_OFF], "ab"),
        ([GAVE_UP, RETRIED], "ab"),
        ([GAVE_UP, asked("b")], "ab"),
    ],
)
def test_a_call_has_done_nothing_until_an_answer_has_reached_it(
    then: list[EventData], untouched: str
) -> None:
    questions = ToolQuestions()
    for event in (asked("a"), asked("b"), *then):
        questions.fold(event)

    assert questions.untouched() == set(untouched)
