"""The autonomous agent: a model, its tools, and the cycle until an answer, a limit or a person ends it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import Any, Protocol, cast

from artelier.agents.state import STUCK_AFTER, AgentState
from artelier.artifacts import Artifacts, Provenance
from artelier.context import Section, assemble
from artelier.cycle import Outcome, Parts, cycle
from artelier.errors import (
    ArtelierError,
    Conflict,
    InvalidRequest,
    NotFound,
    OutputInvalid,
    Refused,
    RunStopped,
    RunSuspended,
)
from artelier.ids import MAIN_SPACE
from artelier.kernel import (
    AgentResult,
    Conversation,
    Limits,
    ModelResult,
    OpenRun,
    Prompt,
    Renderer,
    Run,
    ToolResult,
    run_row,
)
from artelier.kernel.core import is_final
from artelier.kernel.queries import blob_json
from artelier.kernel.services import Services
from artelier.ports.model import Usage
from artelier.ports.tool import ToolPort

LOOP = "agent"
"""Name of this loop in `run.started`."""

REPAIRS_MAX = 2
"""Turns in a row in which a model may correct a reply that does not fit its schema."""

SHOWN_MAX, SHOWN_STEP = 120, 40
"""Messages of the conversation in a prompt; the beginning moves in steps, so that prefixes stay equal."""


class TenantRuns(Protocol):
    """The kernel bound to one tenant, as this package needs it."""

    @property
    def id(self) -> str: ...

    @property
    def services(self) -> Services: ...

    def run(self, run_id: str, **opening: Any) -> OpenRun: ...


class Kernels(Protocol):
    """Something that gives kernels bound to a tenant."""

    def for_tenant(self, tenant: Any = None) -> TenantRuns: ...


def template(name: str) -> str:
    """The text of a shipped template."""
    return (files("artelier.agents") / "templates" / name).read_text("utf-8").strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What one run of the loop is asked to do; stored with the run, so that any process can go on."""

    prompt: str
    model: str
    identity: str
    max_iterations: int
    output_schema: Any = None
    artifact: str = ""
    """Id of the artifact that the final text becomes; empty for none."""
    workspace: str = ""
    """Root of the workspace tools; empty if the tools come from code."""

    def settings(self, run: Run | None = None) -> dict[str, Any]:
        from artelier.kernel.outputs import schema_of

        return {
            "prompt": self.prompt,
            "model": self.model,
            "identity": self.identity,
            "max_iterations": self.max_iterations,
            "output_schema": schema_of(self.output_schema),
            "artifact": self.artifact,
            "workspace": self.workspace,
        }


class AutonomousAgent:
    """An agent that works on a prompt until it is done.

    `tools`: ports for this agent's runs; None takes the kernel's. Its ends are honest: `completed`,
    `cancelled`, `failed` with a reason, or a resumable status.
    """

    def __init__(
        self,
        *,
        kernel: Kernels,
        identity: str | None = None,
        tools: Iterable[ToolPort] | None = None,
        max_iterations: int = 20,
        agent_id: str | None = None,
    ) -> None:
        self._kernel = kernel
        self.identity = identity or template("identity-1.md")
        self._tools = None if tools is None else {tool.name: tool for tool in tools}
        self.max_iterations = max_iterations
        self.agent_id = agent_id or (slug(identity) if identity else "agent")

    async def run(
        self,
        *,
        run_id: str,
        tenant: Any = None,
        model: str,
        prompt: str,
        output_schema: Any = None,
        on_wait: str = "await",
        limits: Limits | None = None,
        artifact: str = "",
        workspace: str = "",
    ) -> AgentResult:
        """Start the run, or go on where it stopped; a finished run returns its result at once.

        `on_wait="return"` gives a result with a resumable status instead of waiting in process.
        Errors: those at the door (`UnknownModel`, `InvalidRequest`, `LeaseHeld`, ...); what goes wrong
        later is the result's `reason`.
        """
        job = Job(
            prompt=prompt, model=model, identity=self.identity, output_schema=output_schema,
            max_iterations=self.max_iterations, artifact=artifact, workspace=workspace,
        )  # fmt: skip
        runs = self._kernel.for_tenant(tenant)
        if not await _has_ended(runs, run_id):
            runs.services.model(model)  # a missing key is said at the door, and no run fails of it
        opened = runs.run(
            run_id, loop=LOOP, agent=self.agent_id, model=model, goal=prompt,
            settings=job.settings(), from_snapshot=True, limits=limits, tools=self._tools,
            on_wait="suspend" if on_wait == "return" else on_wait, principal=f"agent:{self.agent_id}",
        )  # fmt: skip
        message = ""
        try:
            async with opened as run:
                if not is_final(run.status):
                    await drive(run, job, snapshot=opened.snapshot)
        except (RunSuspended, RunStopped):
            pass
        except ArtelierError as error:
            if not await _has_ended(runs, run_id):
                raise
            message = str(error)
        return await agent_result(runs, run_id, message=message)


async def _has_ended(runs: TenantRuns, run_id: str) -> bool:
    """Whether the log has an end for the run: then the failure is its result, not the caller's."""
    try:
        row = await run_row(runs.services, runs.id, run_id)
    except ArtelierError:
        return False
    return is_final(row["status"])


async def drive(run: Run, job: Job, *, snapshot: Mapping[str, Any] | None = None) -> None:
    """The loop itself: cycles until the state says that it ended. Also drives a replay."""
    state = AgentState.restored(snapshot)
    conversation = run.conversation()
    if state.messages:
        first = _first_shown(state.messages)
        renderer = await Renderer.open(run.core.services, run.tenant_id, run.id)
        messages = await renderer.messages(conversation.name, first, state.messages)
        conversation.restore(first, messages)
    parts = _parts(run, job, conversation)
    while state.status == "running":
        if state.cycle >= job.max_iterations:
            run.fail("max_iterations", f"no answer after {state.cycle} cycles")
            return
        state = await cycle(state, parts)
    if state.status == "failed":
        run.fail(state.reason)


def _parts(run: Run, job: Job, conversation: Conversation) -> Parts[AgentState, list[ToolResult]]:
    async def sections(state: AgentState) -> Prompt:
        for note in await run.notes(key=f"c{state.cycle + 1}/notes"):
            conversation.append({"role": "user", "content": note})
        count = len(conversation)
        shown = None
        if count:
            shown = conversation.aligned(_first_shown(count), count)
        return assemble(
            (
                Section(tag="identity", text=job.identity, pinned=True),
                Section(tag="task", text=job.prompt, role="user", pinned=True),
                Section(tag="conversation", range=shown, pinned=True),
            )
        )

    async def model(state: AgentState, prompt: Prompt) -> ModelResult:
        key = f"c{state.cycle + 1}/model"
        try:
            return await run.step_model(
                model=job.model, messages=prompt, tools=None, output=job.output_schema, key=key
            )
        except OutputInvalid as error:
            if state.repairs >= REPAIRS_MAX:
                raise
            return await _invalid(run, job, prompt, key, error)

    async def act(state: AgentState, result: ModelResult) -> Outcome[list[ToolResult]]:
        if not result.tool_calls:
            return Outcome()
        key = f"c{state.cycle + 1}/tool"
        calls = [
            run.step_tool(call.name, call.arguments, key=f"{key}/{index}", call=call)
            for index, call in enumerate(result.tool_calls)
        ]
        if len(calls) == 1:
            return Outcome(value=[await calls[0]])
        return Outcome(value=await run.parallel(*calls))

    async def transition(
        state: AgentState, result: ModelResult | None, outcome: Outcome[list[ToolResult]]
    ) -> AgentState:
        assert result is not None
        return await _next_state(run, job, conversation, state, result, outcome.value)

    def commit(state: AgentState) -> None:
        # The cycle that ends the run is committed by the end itself: a resume between the two, or a fork
        # from there, finds the reply in the log and ends the run anew.
        if state.status == "running":
            run.complete_cycle(state.cycle, state.stored())

    return Parts(assemble=sections, model=model, act=act, transition=transition, commit=commit)


async def _invalid(
    run: Run, job: Job, prompt: Prompt, key: str, error: OutputInvalid
) -> ModelResult:
    """The recorded reply that did not fit, marked so that the next cycle asks to repair it."""
    reply = error.facts.get("reply")
    return ModelResult(
        text=getattr(reply, "text", ""), finish_reason="invalid", key=key, reply=reply,
        output=str(error),
    )  # fmt: skip


async def _next_state(
    run: Run,
    job: Job,
    conversation: Conversation,
    state: AgentState,
    result: ModelResult,
    results: list[ToolResult] | None,
) -> AgentState:
    conversation.append(result)
    seen, repeated, repairs, status = "", 0, 0, "running"
    if results is not None:
        for tool_result in results:
            conversation.append(tool_result)
        seen = _digest(result, results)
        repeated = state.repeated + 1 if seen == state.seen else 1
    elif result.finish_reason == "invalid":
        repairs = state.repairs + 1
        text = f"{template('repair-1.md')}\n\n{result.output}"
        conversation.append({"role": "user", "content": text})
    else:
        status = "completed"
        await _finish(run, job, result)
    stuck = repeated >= STUCK_AFTER
    return AgentState(
        cycle=state.cycle + 1, messages=len(conversation), repairs=repairs, repeated=repeated,
        seen=seen, status="failed" if stuck else status, reason="stuck" if stuck else "",
    )  # fmt: skip


async def _finish(run: Run, job: Job, result: ModelResult) -> None:
    """Set the result; the text becomes an artifact in the same batch as the end of the run."""
    output = result.output
    if hasattr(output, "model_dump"):
        output = output.model_dump(mode="json")
    outcome: dict[str, Any] = {"text": result.text, "output": output, "artifact": ""}
    core = run.core
    if job.artifact and core.actor is not None:
        space = Artifacts(core.store, core.clock, core.tenant.id, MAIN_SPACE, core.actor.name)
        try:
            append, blobs, artifact = await space.plan_write(
                job.artifact, kind="document", content=result.text,
                provenance=Provenance(run_id=run.id, step=result.key),
            )  # fmt: skip
        except (Conflict, InvalidRequest, NotFound, Refused):
            pass  # the id is somebody else's: the result stands without an artifact
        else:
            core.actor.note_aside(append, blobs)
            outcome["artifact"] = f"{artifact.id}@{artifact.version}"
    elif job.artifact:
        outcome["artifact"] = await _written(run, result.key)
    run.finish(outcome)


async def _written(run: Run, step: str) -> str:
    """On replay: the artifact that the recorded run wrote at this step."""
    rows = await run.core.store.query(
        "SELECT id, version FROM artifact_versions WHERE tenant = ? AND space = ? AND run_id = ?"
        " AND step = ?",
        (run.tenant_id, MAIN_SPACE, run.id, step),
    )
    return f"{rows[0][0]}@{rows[0][1]}" if rows else ""


def _digest(result: ModelResult, results: list[ToolResult]) -> str:
    digest = sha256()
    for call in result.tool_calls:
        digest.update(f"{call.name}\0{call.arguments!r}\0".encode())
    for tool_result in results:
        digest.update(tool_result.content)
    return digest.hexdigest()[:32]


def _first_shown(count: int) -> int:
    """Number of the first message that a prompt shows of so many."""
    if count <= SHOWN_MAX:
        return 1
    return (count - SHOWN_MAX + SHOWN_STEP - 1) // SHOWN_STEP * SHOWN_STEP + 1


def slug(text: str) -> str:
    """A short id made of a text."""
    return "-".join(re.findall(r"[a-z0-9]+", text.lower()))[:48].strip("-") or "agent"


async def agent_result(runs: TenantRuns, run_id: str, *, message: str = "") -> AgentResult:
    """How a run of this loop stands, from the log. Errors: `NotFound`."""
    row = await run_row(runs.services, runs.id, run_id)
    result: Any = await blob_json(runs.services, runs.id, row["result"])
    failure = await blob_json(runs.services, runs.id, row["message"])
    fields = cast(dict[str, Any], result) if isinstance(result, dict) else {}
    text = fields.get("text") or (failure if isinstance(failure, str) else "") or message
    return AgentResult(
        status=row["status"], reason=row["reason"], output=fields.get("output"), text=text,
        run_id=run_id, cost_microusd=row["cost"], artifact=fields.get("artifact") or "",
        usage=Usage(
            input_tokens=row["input_tokens"], cached_input_tokens=row["cached_input_tokens"],
            output_tokens=row["output_tokens"],
        ),
    )  # fmt: skip
