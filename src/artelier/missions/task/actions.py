"""The execution of a decision: a thought, a call of a tool, a claim, a part handed to another agent.

Writing is in `artifact_writer.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, cast

from artelier.artifacts import Artifacts
from artelier.context import fence
from artelier.errors import ArtelierError, NotFound, RunStopped, ToolFailed
from artelier.ids import OPERATOR
from artelier.kernel import Run, RunCore, ToolResult, find_driver
from artelier.kernel.prompt.manifest import encode_json
from artelier.kernel.tenants.scope import TenantScope
from artelier.log import Batch
from artelier.loops.cycle import go_below
from artelier.missions.definition import TEXT_CHARS_MAX, Decision, TaskContent, template, validate_form
from artelier.missions.task.loop_state import TaskOutput, ToolSourceResult
from artelier.missions.task.task_config import TaskJob, TaskResult
from artelier.ports.tool import ToolContext
from artelier.tools import Tool

CODE_CHARS_MAX = 64
READ = "read_artifact"
MADE_MAX = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Acted:
    """The outcome of a decision."""

    said: tuple[str, ...]
    """Of the message that shows it."""
    led_to: str
    """Digest of it: equal for what brings nothing new."""
    step: str = ""
    is_error: bool = False
    code: str = ""
    source: ToolSourceResult | None = None
    output: TaskOutput | None = None


def digest(*parts: str | bytes) -> str:
    found = sha256()
    for part in parts:
        content = part if isinstance(part, bytes) else part.encode("utf-8", "replace")
        found.update(f"{len(content)}:".encode() + content)
    return found.hexdigest()[:32]


def equal_mark(decision: Decision) -> str:
    """Two decisions are equal if action, tool, input and target are; the reason may differ."""
    input_ = encode_json(decision.input) if decision.input is not None else b""
    return digest(decision.action, decision.tool or "", input_, decision.target or "")


def analysis_outcome() -> Acted:
    return Acted(said=(template("analyzed-1"),), led_to=digest("analyzed"))


def claim_outcome() -> Acted:
    return Acted(said=(template("claimed-1"),), led_to=digest("claimed"))


def lacks(decision: Decision, outputs: Collection[object]) -> bool:
    """Return True if a claim without any output names what is missing: such a claim can mean nothing else."""
    named = (decision.target or "").strip()
    return decision.action == "complete_task" and bool(named) and not outputs


async def used(run: Run, decision: Decision, *, key: str, trust: str) -> Acted:
    """Call the tool of a decision, if it is one that is on; what it says is data.

    Errors: Flow; whatever is wrong with the call is a result that the model reads.
    """
    name = decision.tool or ""
    result = await run.step_tool(name, decision.input or {}, key=key)
    shown = (result.shown or result.content).decode("utf-8", "replace")
    told = template("tool-failed-1" if result.is_error else "tool-said-1")
    source = None
    made = () if result.is_error else _outputs_of(name, result.value)
    if not result.is_error:
        given, _ = run.core.keep_json(decision.input or {})  # stored with the call
        content = run.core.keep(result.content)[0]
        source = ToolSourceResult(name[:200], result.key, content, given, made)
    # A call that was cut off before it did anything says nothing of the decision, which may be made again.
    torn = result.key if result.is_error and result.settled_by else ""
    return Acted(
        said=(told, fence(shown, source=name, trust=trust)),
        led_to=digest(name, result.content, *([torn] if torn else [])),
        step=result.key,
        is_error=result.is_error,
        code=_code(result) if result.is_error else "",
        source=source,
    )


def reads_own(decision: Decision, own: Collection[str]) -> bool:
    """Return True if a call reads on in what the task itself has made."""
    return read_id(decision) in own


def read_id(decision: Decision) -> str:
    """Id of the artifact that a call reads on in; empty for any other call."""
    if decision.tool != READ or not decision.input:
        return ""
    return str(decision.input.get("ref", "")).partition("@")[0].partition("#")[0]


def _outputs_of(name: str, value: Any) -> tuple[str, ...]:
    """Whatever a tool calls itself, these are read with the agent's own rights."""
    if name != DELEGATE or not isinstance(value, dict):
        return ()
    outputs: Any = cast("dict[str, Any]", value).get("outputs")
    listed = cast("list[Any]", outputs) if isinstance(outputs, list) else []
    return tuple(ref for ref in listed[:MADE_MAX] if isinstance(ref, str) and len(ref) <= 256)


def _code(result: ToolResult) -> str:
    value: Any = result.value
    error: Any = cast("dict[str, Any]", value).get("error") if isinstance(value, dict) else None
    code: Any = cast("dict[str, Any]", error).get("code") if isinstance(error, dict) else None
    return str(code or "error")[:CODE_CHARS_MAX]


def refusal_outcome(error: ArtelierError) -> Acted:
    """A decision that could not be carried out, in words for the model."""
    return Acted(
        said=(template("not-written-1"), fence(str(error), source="task")),
        is_error=True,
        led_to=digest(error.code, str(error)),
        code=error.code,
    )


DELEGATE = "delegate_task"

Drive = Callable[..., Awaitable[TaskResult]]
"""As `task_runner.drive_task`, which this module must not import: a task's run has this tool."""

TEXT_CHARS = 4_000
"""Of the child's newest output that the answer holds; the whole of it becomes an input."""


def delegate_tool(desk: TenantScope, job: TaskJob, *, drive: Drive) -> Tool[..., Any]:
    """`delegate_task(goal, success_criteria)` for a task's run; `drive` ends the child."""

    async def delegate(goal: str, success_criteria: str, ctx: ToolContext) -> dict[str, Any]:
        core = find_driver(desk.services, ctx.tenant_id, ctx.run_id)
        if core is None:
            raise NotFound(f"run {ctx.run_id!r} is not driven here, so it takes no children")
        if max(len(goal), len(success_criteria)) > TEXT_CHARS_MAX or not goal.strip():
            raise ToolFailed("a task needs a goal", expected=f"1-{TEXT_CHARS_MAX} characters")
        step = ctx.idempotency_key.rpartition(":")[2]
        number = step.partition("/")[0].removeprefix("c")
        child = _child_of(job, f"{ctx.run_id}/{number}", goal, success_criteria)
        await _make_artifact(desk, child)
        return await _drive_child(desk, child, core, step, drive=drive)

    # It may be entered again: the child's own log says what is done already.
    return Tool(
        delegate,
        name=DELEGATE,
        description=template("delegate-1"),
        side_effect=True,
        idempotent=True,
        risk="low",
        trust="untrusted",
        acts_in_store=True,
    )


def _child_of(job: TaskJob, task: str, goal: str, criteria: str) -> TaskJob:
    """The same agent, at a part of its work, with what its parent began with."""
    content = validate_form(
        TaskContent,
        {
            "goal": goal,
            "success_criteria": criteria,
            "assigned_agent_id": job.agent,
            "parent": job.task,
            "max_iterations": job.content().max_iterations,
            "inputs": job.content().inputs,
        },
        what="a task that is delegated",
    )
    return replace(job, task=task, definition=content.model_dump(mode="json"), mission="")


async def _make_artifact(desk: TenantScope, child: TaskJob) -> None:
    """The child's artifact, unless an earlier entry has made it."""
    from artelier.missions.plan.launch import task_made

    artifacts: Artifacts = desk.as_principal(OPERATOR).artifacts
    try:
        await artifacts.read(child.task)
    except NotFound:
        append, blobs = await task_made(desk, child.task, child.content(), mission="", by=child.agent)
        await desk.services.store.append(Batch(appends=(append,), blobs=blobs))


async def _drive_child(
    desk: TenantScope, child: TaskJob, core: RunCore, step: str, *, drive: Drive
) -> dict[str, Any]:
    """Return what came of the child. Errors: `ToolFailed`; `RunSuspended` while it has no end."""

    def begin() -> Awaitable[TaskResult]:
        return drive(desk, child.task, child, on_wait=core.on_wait, parent=Run(core), parent_step=step)

    try:
        result = await go_below(core, child.task, begin)
    except RunStopped:
        await core.boundary()  # the task itself was cancelled, or only this part of it
        raise ToolFailed("the task was cancelled by a person") from None
    if result.status != "done":
        raise ToolFailed(
            f"the task is not done: it is {result.status}",
            got=result.reason or None,
            hint=result.text[:500] or None,
        )
    return {"task": child.task, "outputs": list(result.outputs), "text": result.text[:TEXT_CHARS]}
