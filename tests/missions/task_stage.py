"""A stage for tasks: a store, a task as missions make it, and models that follow a script."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from artelier import Kernel, ModelRequest, tool
from artelier.app import TenantKernel
from artelier.kernel import Run, run_row
from artelier.kernel.queries.content import blob_json
from artelier.log import Batch, Draft, StreamAppend
from artelier.missions import events as ev
from artelier.missions.definition import TaskContent
from artelier.missions.task.loop_state import TaskJob, TaskResult
from artelier.missions.task.task_runner import drive_task, replay_task
from artelier.testing import ScriptedModel

T = TypeVar("T")

TASK, AGENT = "m/figures", "m/analyst"
GOAL = "Find out what Oslo sold in 2025 and write it down."
CRITERIA = "- It names the amount that Oslo sold."
REPORT = "# Sales of Oslo\n\nOslo sold goods for 4711 kroner in 2025, says sales_of."


def play(scenario: Coroutine[Any, Any, T], *, within_s: float = 60.0) -> T:
    """Run a scenario to its end; one that hangs is a failure."""

    async def bounded() -> T:
        async with asyncio.timeout(within_s):
            return await scenario

    return asyncio.run(bounded())


@tool(side_effect=False)
async def sales_of(city: str) -> dict[str, Any]:
    "What a city sold in 2025."
    return {"city": city, "year": 2025, "sold": 4711}


# What models say


def decide(action: str, **more: Any) -> dict[str, Any]:
    return {"action": action, "reason": "It is next.", **more}


def look(city: str = "Oslo") -> dict[str, Any]:
    return decide("use_tool", tool="sales_of", input={"city": city})


def write(title: str = "Report", media: str = "markdown") -> dict[str, Any]:
    return decide("create_artifact", artifact_type=media, target=title)


DONE = decide("complete_task")
THINK = decide("analyze")


def outputs_in(request: ModelRequest) -> list[tuple[str, str]]:
    """`(ref, text)` of the outputs that an evaluator is shown."""
    text = request.messages[-1].text
    found: list[tuple[str, str]] = []
    for part in text.split('<data source="')[1:]:
        ref, _, rest = part.partition('" trust="untrusted">\n')
        found.append((ref, rest.partition("\n</data>")[0]))
    return found


def approve(request: ModelRequest) -> dict[str, Any]:
    """An evaluator that always says yes, and quotes what is there."""
    evidence = [
        {"ref": ref, "quote": next((one for one in text.splitlines() if one.strip()), text)[:200]}
        for ref, text in outputs_in(request)
    ]
    return verdict(True, evidence=evidence)


def verdict(met: bool, *, evidence: Sequence[Mapping[str, Any]] = (), missing: str = "") -> Any:
    one = {"criterion": "It is good.", "met": met, "evidence": list(evidence), "missing": missing}
    return {"criteria": [one], "summary": "judged"}


def reject(request: ModelRequest) -> dict[str, Any]:
    return verdict(False, missing="The amount is missing.")


def title_of(request: ModelRequest) -> str:
    """Which of its questions a model is asked: `Decision`, `Verdict` or `content`."""
    return str((request.output_schema or {}).get("title", "content"))


class Actor:
    """A model that decides, writes and judges by three scripts; functions of the request are asked."""

    def __init__(
        self,
        *decisions: Any,
        content: Any = REPORT,
        judge: Callable[[ModelRequest], Any] | Sequence[Any] = approve,
    ) -> None:
        self.decisions = list(decisions)
        self.contents = list(content) if isinstance(content, list) else [content]
        self.judge = judge if callable(judge) else list(judge)
        self.asked: list[tuple[str, ModelRequest]] = []
        self.model = ScriptedModel(self._answer)

    def _answer(self, request: ModelRequest) -> Any:
        title = title_of(request)
        self.asked.append((title, request))
        if title == "Verdict":
            return self.judge(request) if callable(self.judge) else _next(self.judge)
        return _next(self.contents if title == "content" else self.decisions)

    def requests(self, title: str = "Decision") -> list[ModelRequest]:
        return [request for name, request in self.asked if name == title]


def _next(script: list[Any]) -> Any:
    """The next of a script; its last word is repeated."""
    return script.pop(0) if len(script) > 1 else script[0]


# The stage


def opened(folder: Path, actor: Actor, *, tools: Sequence[Any] = (sales_of,), **more: Any) -> Kernel:
    return Kernel.open(folder / "s.db", models={"m": actor.model}, tools=tools, environ={}, **more)


async def make_task(
    desk: TenantKernel, *, task: str = TASK, agent: str = AGENT, mission: str = "m", **fields: Any
) -> TaskJob:
    """The artifact of a task with its `task.created`, and the job that its run is given."""
    job_fields = {
        name: fields.pop(name)
        for name in ("role", "steering", "memory", "tools", "window_tokens", "max_output_tokens", "scopes")
        if name in fields
    }
    content = TaskContent(
        **{"goal": GOAL, "success_criteria": CRITERIA, "assigned_agent_id": agent, **fields}
    )
    artifacts = desk.as_principal("operator").artifacts
    append, blobs, _ = await artifacts.plan_write(
        task, kind="task", content=content.model_dump(mode="json"), access={"allow": {"read": [agent]}}
    )
    created = ev.TaskCreated(
        task=task,
        mission=mission,
        agent=agent,
        depends_on=tuple(content.depends_on),
        inputs=tuple(content.inputs),
        max_iterations=content.max_iterations,
    )
    draft = Draft(created, desk.services.clock.now_us(), "operator")
    append = StreamAppend(append.stream, (*append.events, draft), append.expected_seq)
    await desk.services.store.append(Batch(appends=(append,), blobs=blobs))
    return TaskJob(
        task=task,
        definition=content.model_dump(mode="json"),
        agent=agent,
        name="Ana",
        model="m",
        mission=mission,
        **{"role": "You are a careful analyst.", **job_fields},
    )


async def work(
    desk: TenantKernel, job: TaskJob | None = None, *, on_wait: str = "return", **fields: Any
) -> TaskResult:
    """Make the task if there is no job, and drive it."""
    job = job or await make_task(desk, **fields)
    return await drive_task(desk, job.task, job, on_wait=on_wait)


async def replayed(desk: TenantKernel, task: str = TASK) -> Any:
    async def drive(run: Run) -> None:
        row = await run_row(run.core.services.store, run.tenant_id, run.id)
        settings = await blob_json(run.core.services, run.tenant_id, row.settings)
        await replay_task(run, settings)

    return await desk.replay(task, drive)


async def kinds(kernel: Kernel, task: str = TASK) -> list[str]:
    return [event.kind for event in await events(kernel, task)]


async def events(kernel: Kernel, task: str = TASK) -> list[Any]:
    return [event async for event in kernel.events() if event.stream.local == f"run:{task}"]


async def read(desk: TenantKernel, ref: str, *, by: str = "operator") -> Any:
    return (await desk.as_principal(by).artifacts.read(ref)).content


def text_of(request: ModelRequest) -> str:
    return "\n".join(message.text for message in request.messages)


def as_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
