"""`artelier tasks`: what agents work on, how far they are, and what was judged."""

from __future__ import annotations

from collections.abc import Sequence
from os.path import abspath
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from artelier.cli import display
from artelier.cli.call import CliCall
from artelier.cli.command import command, group

if TYPE_CHECKING:
    from artelier.app import TenantKernel
    from artelier.kernel.queries.reports import OpenQuestion
    from artelier.missions.reports import JudgedOutput, TaskDetail, TaskIteration, TaskReport
    from artelier.missions.task.verdict import CheckResult

app = group("tasks", help="Look at tasks and their verdicts, make tasks, end them.")

TaskId = Annotated[str, typer.Argument(metavar="TASK", help="Id of the task.")]

WIDTH_CHARS = 80
"""Of a list, so that each task has one line on any terminal; only an id is never cut."""

GOAL_CHARS_MIN = 12
"""A goal that has less room is left out: `tasks show` tells it."""


@command(app, name="list", example="artelier tasks list --mission q3-report")
async def list_tasks(
    call: CliCall,
    mission: Annotated[
        str | None, typer.Option("--mission", metavar="ID", help="Only those of this mission.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="ID", help="Only those of this agent.")
    ] = None,
    status: Annotated[
        str | None,
        typer.Option(
            "--status", metavar="STATUS", help="pending, active, blocked, done, failed or cancelled."
        ),
    ] = None,
    after: Annotated[
        int, typer.Option("--after", metavar="N", help="Go on behind this place of the list.")
    ] = 0,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most so many.")] = 100,
) -> None:
    """List tasks in the order of their making."""
    async with call.kernel() as kernel:
        found = await kernel.for_tenant(call.tenant).tasks.list(
            mission=mission, agent=agent, status=status, after=after, limit=limit
        )
    if call.print_json(found):
        return
    columns, rows = _table_of(found["items"])
    call.screen.table(columns, rows, empty="no tasks")
    if found["next"] is not None:
        call.screen.note(f"more with --after {found['next']}")


@command(app, name="show", example="artelier tasks show q3-report/figures")
async def show(call: CliCall, task: TaskId) -> None:
    """Show a task, what was decided, and how it was judged."""
    async with call.kernel() as kernel:
        found = await kernel.for_tenant(call.tenant).tasks.show(task)
    _print(call, found)


@command(
    app,
    name="create",
    example="artelier tasks create 'List the late orders' --criteria 'Names each order' --agent m1/analyst",
)
async def create(
    call: CliCall,
    goal: Annotated[str, typer.Argument(metavar="GOAL", help="What is to be found or made.")],
    criteria: Annotated[str, typer.Option("--criteria", metavar="TEXT", help="What its output must fulfil.")],
    agent: Annotated[str | None, typer.Option("--agent", metavar="ID", help="Who works on it.")] = None,
    mission: Annotated[
        str, typer.Option("--mission", metavar="ID", help="A mission at work that it belongs to.")
    ] = "",
    task_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Its name; else made of the goal.")
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="REF", help="An artifact that it needs; repeatable."),
    ] = None,
    depends_on: Annotated[
        list[str] | None,
        typer.Option("--after", metavar="TASK", help="A task that must be done first; repeatable."),
    ] = None,
    max_iterations: Annotated[int, typer.Option("--max-iterations", metavar="N", help="1 to 20.")] = 5,
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="If its agent names none.")] = "",
    workspace: Annotated[
        str, typer.Option("--workspace", metavar="DIR", help="Folder that its tools may use.")
    ] = "",
) -> None:
    """Make a task. A worker, or `artelier resume TASK`, begins with it."""
    async with call.kernel() as kernel:
        tasks = kernel.for_tenant(call.tenant).tasks
        found = await tasks.create(
            goal=goal,
            success_criteria=criteria,
            assigned_agent_id=agent,
            mission=mission,
            id=task_id,
            inputs=inputs or (),
            depends_on=depends_on or (),
            max_iterations=max_iterations,
            model=model or call.settings.model,
            workspace=workspace and abspath(workspace),
            by=call.person,
        )
    if call.print_json(found):
        return
    call.screen.line(found["id"])
    if not mission or not agent:
        _note_way_on(call, found)


@command(app, name="assign", example="artelier tasks assign tasks/late-orders --agent m1/analyst")
async def assign(
    call: CliCall,
    task: TaskId,
    agent: Annotated[str, typer.Option("--agent", metavar="ID", help="Who works on it.")],
) -> None:
    """Give a task that nobody works on to an agent."""
    async with call.kernel() as kernel:
        tasks = kernel.for_tenant(call.tenant).tasks
        found = await tasks.change(task, assigned_agent_id=agent, by=call.person)
    _print_task(call, found)
    if not call.as_json and not found["mission"]:
        _note_way_on(call, found)


def _note_way_on(call: CliCall, task: TaskReport) -> None:
    """Say what has a task worked on."""
    if task["assigned_agent_id"]:
        call.screen.note(f"work on it: {call.command_line('resume', task['id'])}")
    else:
        call.screen.note(
            f"nobody has it: {call.command_line('tasks', 'assign', task['id'], '--agent', 'ID')}"
        )


@command(app, name="retry", example="artelier tasks retry q3-report/figures")
async def retry(
    call: CliCall,
    task: TaskId,
    max_iterations: Annotated[
        int | None,
        typer.Option("--max-iterations", metavar="N", help="Allow so many from now on, at most 20."),
    ] = None,
) -> None:
    """Let a task be worked on again.

    It must have failed, or have been blocked, or cancelled before it began; one of a mission can be retried
    when that has ended.
    """
    async with call.kernel() as kernel:
        tasks = kernel.for_tenant(call.tenant).tasks
        found = await tasks.retry(task, max_iterations=max_iterations, by=call.person)
    _print_task(call, found)
    if not call.as_json:
        call.screen.note(f"work on it: {call.command_line('resume', task)}")


@command(app, name="cancel", example="artelier tasks cancel q3-report/figures")
async def cancel(
    call: CliCall,
    task: TaskId,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="Why; kept in the log.")] = "",
) -> None:
    """End a task for good. What waits for it is blocked."""
    async with call.kernel() as kernel:
        desk: TenantKernel = kernel.for_tenant(call.tenant)
        found = await desk.tasks.cancel(task, by=call.person, note=note)
    _print_task(call, found)


Output = Annotated[str | None, typer.Option("--output", metavar="REF", help="Which output; else the newest.")]


@command(app, name="accept", example="artelier tasks accept q3-report/figures --note 'Checked by hand'")
async def accept(
    call: CliCall,
    task: TaskId,
    output: Output = None,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="Why; kept in the log.")] = "",
) -> None:
    """Accept an output of a task that has ended.

    The task is done then, whatever an evaluator has said.
    """
    await _judge(call, task, accepted=True, output=output, note=note)


@command(app, name="reject", example="artelier tasks reject q3-report/figures --note 'Bergen is missing'")
async def reject(
    call: CliCall,
    task: TaskId,
    output: Output = None,
    note: Annotated[
        str, typer.Option("--note", metavar="TEXT", help="Why; its agent reads it when it is retried.")
    ] = "",
) -> None:
    """Reject an output of a task that has ended.

    The task has failed then, and can be retried.
    """
    await _judge(call, task, accepted=False, output=output, note=note)
    if not call.as_json:
        call.screen.note(f"have it done again: {call.command_line('tasks', 'retry', task)}")


async def _judge(call: CliCall, task: str, *, accepted: bool, output: str | None, note: str) -> None:
    async with call.kernel() as kernel:
        tasks = kernel.for_tenant(call.tenant).tasks
        found = await tasks.judge(task, accepted=accepted, output=output, note=note, by=call.person)
    _print_task(call, found)


def _table_of(tasks: Sequence[TaskReport]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows. What has no room is left out, goals first, then agents."""
    rows = [
        [
            task["id"],
            _standing(task, named=False),
            _agent(task),
            f"{task['iteration_count']}/{task['last_iteration']}",
        ]
        for task in tasks
    ]
    columns = ["task", "status", "agent", ">iteration"]
    room = WIDTH_CHARS - _width(columns, rows) - 2
    if room >= GOAL_CHARS_MIN:
        goals = [display.line(task["goal"], chars_max=room) for task in tasks]
        return [*columns, "goal"], [[*row, goal] for row, goal in zip(rows, goals, strict=True)]
    if room < -2:
        del columns[2]
        for row in rows:
            del row[2]
    return columns, rows


def _width(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    names = [name.removeprefix(">") for name in columns]
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    return sum(widths) + 2 * (len(widths) - 1)


def _agent(task: TaskReport) -> str:
    """Return the agent by its name within the mission of the task."""
    agent = str(task["assigned_agent_id"] or "")
    return agent.removeprefix(f"{task['mission']}/") if task["mission"] else agent


def _print_task(call: CliCall, task: TaskReport) -> None:
    if not call.print_json(task):
        call.screen.line(f"{task['id']} is {_standing(task)}")


def _standing(task: TaskReport, *, named: bool = True) -> str:
    """`named`: with what it is blocked by."""
    by = f": {task['blocked_by']}" if named and task["blocked_by"] else ""
    reason = task["reason"] if task["reason"] != task["status"] else ""
    return f"{task['status']} ({reason}{by})" if reason else task["status"]


def _print(call: CliCall, task: TaskDetail) -> None:
    if call.print_json(task):
        return
    from artelier.money import format_usd

    call.screen.facts(
        [
            ("task", task["id"]),
            ("status", _standing(task)),
            ("because", display.line(task["message"], chars_max=600)),
            *(("waits for", _asked(one)) for one in task["approvals"]),
            ("agent", task["assigned_agent_id"]),
            ("mission", task["mission"]),
            ("goal", task["goal"]),
            ("done when", task["success_criteria"]),
            ("inputs", ", ".join(task["inputs"])),
            ("after", ", ".join(task["depends_on"])),
            ("iterations", f"{task['iteration_count']} of {task['last_iteration']}"),
            ("outputs", ", ".join(task["outputs"])),
            *(("judged", _by_person(one)) for one in task["judged"]),
            ("cost", f"{format_usd(task['cost_microusd'])} USD"),
        ]
    )
    for one in task["iterations"]:
        what = " ".join(filter(None, (one["action"], one["tool"], one["artifact"])))
        call.screen.line()
        call.screen.line(f"{one['iteration']}. {what}{_format_verdict(one)}", "bold")
        call.screen.line(f"   {display.line(str(one['reason']), chars_max=300)}")
        for line in _evidence(one["verdict"], task["checks"]):
            call.screen.line(f"   {line}")


def _asked(asked: OpenQuestion) -> str:
    return f"{display.line(asked['question'], chars_max=300)} ({asked['step']})"


def _format_verdict(iteration: TaskIteration) -> str:
    if iteration["is_error"]:
        return f": failed ({iteration['code']})"
    if iteration["passed"] is None:
        return ""
    void = f" (void: {iteration['void']})" if iteration["void"] else ""
    return ": passed" if iteration["passed"] else f": not passed{void}"


def _by_person(judged: JudgedOutput) -> str:
    word = "accepted" if judged["accepted"] else "rejected"
    note = f": {display.line(judged['note'], chars_max=300)}" if judged["note"] else ""
    return f"{judged['output']} {word} by {judged['by']}{note}"


def _expectations(results: Sequence[CheckResult], checks: Sequence[Any]) -> list[str]:
    """Return what each result of a check was to be, as far as it does not say so itself.

    Tools are asked last, whatever the order in the definition.
    """
    defined = sorted(cast("Sequence[dict[str, Any]]", checks), key=lambda one: one.get("kind") == "tool")
    defined = defined[: len(results)]
    if [one.get("kind") for one in defined] != [one.kind for one in results]:
        return [""] * len(results)
    said = [str(one.get("pattern") or one.get("tool") or "") for one in defined]
    return [f" {display.line(one, chars_max=200)}" if one else "" for one in said]


def _evidence(verdict: object, checks: Sequence[Any]) -> list[str]:
    """Return what was judged: what broke a rule, the task's checks, and each criterion with its quotes."""
    from artelier.missions.task.verdict import read_verdict

    if (told := read_verdict(verdict)) is None:
        return []
    lines: list[str] = []
    for fault in told.faults:
        found = display.line("; ".join(fault.found), chars_max=600)
        lines.append(f"{fault.rule} in {fault.ref}: {found}")
    for check, expected in zip(told.checks, _expectations(told.checks, checks), strict=True):
        word = "passed" if check.passed else "not passed"
        lines.append(f"check {check.kind}{expected} {word}: {display.line(check.found, chars_max=400)}")
    for finding in told.findings:
        word = {True: "a fault", False: "no fault", None: "passed over"}[finding.is_fault]
        found = display.line("; ".join(finding.found), chars_max=200)
        why = f": {display.line(finding.why, chars_max=200)}" if finding.why else ""
        lines.append(f"{finding.rule} in {finding.ref} ({found}): {word}{why}")
    for one in told.criteria:
        mark = "met" if one.met else "not met"
        lines.append(f"{mark}: {display.line(one.criterion, chars_max=200)}")
        for quote in one.evidence:
            lines.append(f"    {quote.ref}: “{display.line(quote.quote, chars_max=200)}”")
        if not one.met and one.missing:
            lines.append(f"    missing: {display.line(one.missing, chars_max=200)}")
    return lines
