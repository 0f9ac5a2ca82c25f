"""One decision of a task: the call that is missing, the artifact that can be written, or an honest end."""

from __future__ import annotations

from typing import Any

from artelier.models.offline.missions.goal import Form, short
from artelier.models.offline.missions.prompt import Prompt, Turn
from artelier.models.offline.missions.work import Work, work_of

REASON_CHARS_MAX = 1_000
VERSIONS_MAX = 2
"""An output that was judged insufficient is written once more, as fully as can be."""

MISSING = "data that answers"
"""What is missing if something cannot be answered."""

_TITLES: dict[Form, str] = {
    "report": "Report",
    "letter": "Letter",
    "email": "E-mail",
    "memo": "Memo",
    "summary": "Summary",
    "table": "Table",
    "json": "Data",
    "list": "List",
    "findings": "Findings",
}


def decide(prompt: Prompt) -> dict[str, Any]:
    """The decision as JSON data. What cannot be done is said in its reason; nothing is made up."""
    now, most = prompt.iteration
    written = [turn for turn in prompt.turns if is_written(turn)]
    work = work_of(prompt, iterations_left=most - now + 1)
    if work.next is not None:
        return _decision("use_tool", work.why, tool=work.next.tool, input=dict(work.next.arguments))
    if not work.is_ready:
        return _cannot(prompt, work)
    if len(written) >= VERSIONS_MAX:
        return _given_up(prompt)
    reason = "Everything that was asked for has been looked up, so the answer can be written."
    if work.inputs:
        reason = "What was found out is there, so what was asked for can be written from it."
    if written:
        reason = "The output was not enough, so it is written again, as fully as the data allows."
    return _decision(
        "create_artifact",
        reason,
        target=title_of(work),
        artifact_type="json" if work.goal.form == "json" else "markdown",
    )


def is_written(turn: Turn) -> bool:
    """Return True if a decision led to an artifact."""
    is_creation = turn.decision.get("action") == "create_artifact"
    return is_creation and not turn.result.lstrip().startswith("Nothing was written")


def title_of(work: Work) -> str:
    """Return what the artifact of a task is called: its form and what it is about."""
    return f"{_TITLES[work.goal.form]}: {short(work.goal.question or work.goal.text)}"


def _cannot(prompt: Prompt, work: Work) -> dict[str, Any]:
    """The claim that names what is missing: no output stands for what is not known."""
    why = work.failure.message if work.failure is not None else "nothing is there to write from"
    hint = work.failure.hint if work.failure is not None else ""
    said = f"This cannot be answered with what is there: {why.rstrip('.')}. {hint or ''}".strip()
    if any(is_written(turn) for turn in prompt.turns):
        return _end(prompt, said)
    return _decision("complete_task", said, target=f"{MISSING}: {short(work.goal.text)}")


def _given_up(prompt: Prompt) -> dict[str, Any]:
    return _end(prompt, "The output holds all that could be found out; nothing more can be added.")


def _end(prompt: Prompt, said: str) -> dict[str, Any]:
    """A thought and a claim in turn: two equal decisions would bring nothing new."""
    last = prompt.turns[-1].decision.get("action") if prompt.turns else ""
    return _decision("complete_task" if last == "analyze" else "analyze", said)


def _decision(action: str, reason: str, **fields: Any) -> dict[str, Any]:
    return {
        "action": action,
        "reason": reason[:REASON_CHARS_MAX],
        "tool": fields.get("tool"),
        "artifact_type": fields.get("artifact_type", "none"),
        "input": fields.get("input"),
        "target": fields.get("target"),
    }
