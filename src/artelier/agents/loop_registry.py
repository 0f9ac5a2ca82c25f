"""Going on with runs of a built-in loop in any process, from what their first event says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from artelier.agents.autonomous import LOOP, AutonomousAgent, by_name, slug
from artelier.agents.launch import tools_of
from artelier.agents.loop import AgentLoop
from artelier.agents.run_config import Job, agent_result
from artelier.chat.turn.turn_config import LOOP as TURN
from artelier.chat.turn.turn_config import chat_of
from artelier.context import CompactionStrategy, ContextBuilder
from artelier.errors import InvalidRequest, NotFound, RunSuspended
from artelier.kernel import AgentResult, Run, run_row
from artelier.kernel.history.drift import FORK_ON_DRIFT, newest_drift
from artelier.kernel.history.fork_effects import effects_of
from artelier.kernel.history.fork_lineage import changes_of, lineage
from artelier.kernel.queries.content import blob_json
from artelier.kernel.queries.runs import DueLook, RunRow
from artelier.kernel.run.context import is_final
from artelier.kernel.run.services import Services
from artelier.kernel.tenants.registry import TenantRef, TenantScope, TenantScopes
from artelier.loops.cycle import check_host_tools, check_origin, check_tools, check_workspace
from artelier.memory.sqlite import keep_beside
from artelier.ports.memory import MemoryStore
from artelier.ports.tool import ToolPort


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltIn:
    """A loop of a package that this one must not import, as far as going on with its runs needs it."""

    resume: Callable[[TenantScopes, TenantRef, str, str], Awaitable[AgentResult]]
    """`(kernel, tenant, run_id, on_wait)`: drive a run that has not ended."""
    replay: Callable[[Run, dict[str, Any]], Awaitable[None]]
    """`(run, settings)`: drive a replay."""
    needs: Callable[[TenantScopes, TenantRef, str], Awaitable[InvalidRequest | None]]
    """`(kernel, tenant, run_id)`: why only the program that started a run can go on with it, if so."""
    due: Callable[[Services, DueLook], Awaitable[list[tuple[str, str]]]] | None = None
    """`(services, look)`: runs as (tenant, run id) that `due_runs` does not find, begun or not."""
    begin: Callable[[TenantScopes, TenantRef, str, str], Awaitable[AgentResult | None]] | None = None
    """As `resume`, for what has not begun; None if there is no such thing."""


_LOOPS: dict[str, BuiltIn] = {}


def register_loop(name: str, loop: BuiltIn) -> None:
    """Make runs of a loop known to `resume_run`, `replay_run` and workers."""
    _LOOPS[name] = loop


def registered_loops() -> Mapping[str, BuiltIn]:
    return _LOOPS


def kit_of(
    services: Services, tenant: str, workspace: str, *own: ToolPort, host_tools: Sequence[str] = ()
) -> dict[str, ToolPort]:
    """Return the tools of a run by name: the workspace's, else the kernel's, and `own` of its loop.

    Errors: those of `tools_of`.
    """
    given = tools_of(services, tenant, workspace, host_tools=host_tools)
    return by_name([*(services.tools.values() if given is None else given), *own])


async def settings_of(kernel: TenantScopes, tenant: TenantRef, run_id: str) -> dict[str, Any]:
    """Return what a loop was asked to do. Errors: `NotFound`; `InvalidRequest` for other runs."""
    runs = kernel.for_tenant(tenant)
    row = await run_row(runs.services.store, runs.id, run_id)
    if row.loop == TURN:
        raise InvalidRequest(
            f"run {run_id!r} is a turn of chat {chat_of(run_id)!r}",
            hint=f"Go on with the chat: `artelier chat {chat_of(run_id)}`.",
        )
    if row.loop != LOOP and row.loop not in _LOOPS:
        raise InvalidRequest(
            f"run {run_id!r} is driven by code of its own",
            hint="Run that code again: `artelier run FILE:FUNCTION --run-id RUN`.",
        )
    return await blob_json(runs.services, runs.id, row.settings) or {}


async def model_of(kernel: TenantScopes, tenant: TenantRef, run_id: str) -> str:
    """The model that a run of a built-in loop asks, empty for a loop without any; a fork may have got another
    than its origin's.

    Errors: as of `settings_of`, turns of chats apart.
    """
    runs = kernel.for_tenant(tenant)
    row = await run_row(runs.services.store, runs.id, run_id)
    if row.loop == TURN:
        settings: dict[str, Any] = await blob_json(runs.services, runs.id, row.settings) or {}
    else:
        settings = await settings_of(kernel, tenant, run_id)
    changes = await changes_of(runs.services, await lineage(runs.services, runs.id, run_id))
    return changes.get("model") or settings.get("model", "")


async def resume_run(
    kernel: TenantScopes, tenant: TenantRef, run_id: str, *, on_wait: str = "await", replay: str = "strict"
) -> AgentResult:
    """Drive a run of a built-in loop to its end, or return its result if it has ended.

    `replay`: what to do where it would ask for something else than was recorded; agents only.
    Errors: `NotFound`; `InvalidRequest` for a hand-written run, a child of a run that has not ended, and
    where code is needed.
    """
    if (begun := await _begin(kernel, tenant, run_id, on_wait)) is not None:
        return begun
    runs = kernel.for_tenant(tenant)
    if replay == FORK_ON_DRIFT:
        run_id = await newest_drift(runs.services, runs.id, run_id)
    if replay != "strict" and (await run_row(runs.services.store, runs.id, run_id)).loop != LOOP:
        raise InvalidRequest(
            f"run {run_id!r} is replayed strictly, as its loop wants it",
            expected="replay 'strict'",
            got=repr(replay)[:80],
        )
    if await _is_turn(kernel, tenant, run_id):
        return await _resumed_turn(kernel, tenant, run_id, on_wait=on_wait)
    settings = await settings_of(kernel, tenant, run_id)
    row = await run_row(runs.services.store, runs.id, run_id)
    if is_final(row.status):
        return await agent_result(runs.services, runs.id, run_id)
    await _check_own(runs, row)
    if (built_in := _LOOPS.get(row.loop)) is not None:
        return await built_in.resume(kernel, tenant, run_id, on_wait)
    job = Job.from_stored(settings)
    await _check_here(runs.services, runs.id, run_id, job, tools=row.tools)
    try:
        await check_workspace(runs.services, runs.id, run_id, job.workspace)
    except RunSuspended:
        if on_wait != "return":
            raise
        return await agent_result(runs.services, runs.id, run_id)
    builder = ContextBuilder.from_stored(
        job.context, memory_store=memory_of(kernel, job.context.get("memory"))
    )
    agent = AutonomousAgent(
        kernel=kernel,
        context_builder=builder,
        tools=tools_of(runs.services, runs.id, job.workspace, host_tools=job.host_tools),
        compaction=CompactionStrategy.from_stored(job.compaction),
        acceptance=job.acceptance,
        max_iterations=job.max_iterations,
        stuck_after=job.stuck_after or None,
        agent_id=row.agent,
    )
    return await agent.run(
        run_id=run_id,
        tenant=tenant,
        model=job.model,
        prompt=job.prompt,
        output_schema=job.output_schema,
        on_wait=on_wait,
        artifact=await _artifact_of(runs, job.artifact, row),
        workspace=job.workspace,
        replay=replay,
    )


async def _begin(kernel: TenantScopes, tenant: TenantRef, run_id: str, on_wait: str) -> AgentResult | None:
    """The result of what a schedule has fired, a chat was asked, or a registered loop can begin, under this
    id; None if the run exists."""
    from artelier.agents.schedules.dispatcher import begin

    runs = kernel.for_tenant(tenant)
    try:
        await run_row(runs.services.store, runs.id, run_id)
    except NotFound:
        if (result := await begin(kernel, tenant, run_id, on_wait)) is not None:
            return result
        from artelier.chat.session.turns import drive_unbegun  # with the forms of profiles

        if await drive_unbegun(runs, run_id, on_wait="suspend" if on_wait == "return" else on_wait):
            return await agent_result(runs.services, runs.id, run_id)
        for loop in _LOOPS.values():
            if loop.begin is not None and (result := await loop.begin(kernel, tenant, run_id, on_wait)):
                return result
        raise
    return None


async def _check_own(runs: TenantScope, row: RunRow) -> None:
    """Errors: `InvalidRequest` if the run is its parent's to drive."""
    if row.parent is None:
        return
    parent = await run_row(runs.services.store, runs.id, row.parent)
    if row.loop not in _LOOPS or not is_final(parent.status):
        raise InvalidRequest(
            f"run {row.run!r} is a child", hint=f"Resume its parent: artelier resume {row.parent}"
        )


async def _is_turn(kernel: TenantScopes, tenant: TenantRef, run_id: str) -> bool:
    """Return True if a run is a turn of a chat with operations."""
    runs = kernel.for_tenant(tenant)
    return (await run_row(runs.services.store, runs.id, run_id)).loop == TURN


async def _resumed_turn(kernel: TenantScopes, tenant: TenantRef, run_id: str, *, on_wait: str) -> AgentResult:
    """Errors: `InvalidRequest` for a fork: a turn's variant belongs to its own run."""
    from artelier.chat.turn.turn_runner import drive

    runs = kernel.for_tenant(tenant)
    row = await run_row(runs.services.store, runs.id, run_id)
    if not is_final(row.status) and row.origin is not None:
        raise InvalidRequest(
            f"run {run_id!r} is a fork of a turn of a chat, which has its variant already",
            hint="Regenerate the turn, or make a branch of the chat.",
        )
    turn = await drive(runs, run_id, on_wait="suspend" if on_wait == "return" else on_wait)
    result = await agent_result(runs.services, runs.id, run_id)
    # What people see of the reply, of one that was continued with what it goes on from.
    return replace(result, text=turn.text or result.text)


async def code_needed(kernel: TenantScopes, tenant: TenantRef, run_id: str) -> InvalidRequest | None:
    """Return why only the program that started a run of a built-in loop can go on with it; None if anybody
    can.

    Errors: `NotFound`; `InvalidRequest` for a hand-written run.
    """
    runs = kernel.for_tenant(tenant)
    is_turn = await _is_turn(kernel, tenant, run_id)
    loop = (await run_row(runs.services.store, runs.id, run_id)).loop
    if (built_in := _LOOPS.get(loop)) is not None:
        return await built_in.needs(kernel, tenant, run_id)
    job = None if is_turn else Job.from_stored(await settings_of(kernel, tenant, run_id))
    row = await run_row(runs.services.store, runs.id, run_id)
    try:
        if job is None:
            from artelier.chat.turn.turn_runner import check_tools as check_tools_of_turn

            await check_tools_of_turn(runs, run_id)
        else:
            await _check_here(runs.services, runs.id, run_id, job, tools=row.tools)
    except InvalidRequest as error:
        return error
    return None


async def _check_here(services: Services, tenant: str, run_id: str, job: Job, *, tools: str | None) -> None:
    """Errors: `InvalidRequest` if the run needs what only its own program has."""
    if job.context.get("code") or job.context.get("skills", ()) is None:
        raise InvalidRequest(
            f"the context of run {run_id!r} is built by code that is not loaded here",
            hint="Resume it from the program that started it.",
        )
    await _check_origin(services, tenant, run_id, job)
    check_host_tools(services, job.host_tools, what=f"run {run_id!r}")
    if not job.workspace:
        await check_tools(services, tenant, run_id, tools=tools, own=BUILT_IN_TOOLS, what="run")


async def _check_origin(services: Services, tenant: str, run_id: str, job: Job) -> None:
    """Errors: `InvalidRequest` if a file from elsewhere would decide which files of this machine are used."""
    context = job.context
    stored: list[Any] = context.get("rules") or []
    memory: dict[str, Any] = context.get("memory") or {}
    reaches = bool(
        job.workspace
        or context.get("skills")
        or memory.get("sqlite")
        or any(not isinstance(rule, str) for rule in stored)
    )
    if not reaches:
        return
    await check_origin(
        services,
        tenant,
        run_id,
        what="run",
        hint="Drive it from a program that says which: AutonomousAgent(...).run(run_id=...).",
    )


BUILT_IN_TOOLS = frozenset(
    (
        "read_artifact",
        "core_memory_append",
        "core_memory_replace",
        "core_memory_search",
        "remember",
        "recall",
        "forget",
        "history_search",
        "load_skill",
        "use_skill",
        "unload_skill",
        "read_skill_file",
        "search_skills",
    )
)
"""Tools that the loop brings itself."""


def memory_of(kernel: TenantScopes, settings: Mapping[str, Any] | None) -> MemoryStore | None:
    """The memory store of recorded settings: a file of its own, or the kernel's log."""
    if settings is None:
        return None
    from artelier.memory import LogMemoryStore, SQLiteMemoryStore

    options: dict[str, Any] = {"embedder": str(settings.get("embedder") or "hashing")}
    if settings.get("blocks"):
        options["blocks"] = settings["blocks"]
    if path := settings.get("sqlite"):
        memories = SQLiteMemoryStore(db_path=str(path), **options)
        keep_beside(kernel.for_tenant().services, memories)
        return memories
    services = kernel.for_tenant().services
    return LogMemoryStore(services.store, services.clock, **options)


async def _artifact_of(runs: TenantScope, artifact: str, row: RunRow) -> str:
    """Return where the result goes. A fork without a folder of its own puts it beside its origin's."""
    if not artifact or row.origin is None:
        return artifact
    fork = await effects_of(runs.services, runs.id, row.run)
    is_placed = fork is not None and bool(fork.folder)
    return artifact if is_placed else f"{artifact}/{slug(row.run)}"[:128]


async def replay_run(run: Run, settings: dict[str, Any]) -> None:
    """Drive a replay: every step returns what was recorded, nothing is called.

    Errors: `InvalidRequest` if the context of the run was built by code.
    """
    loop = (await run_row(run.core.services.store, run.tenant_id, run.id)).loop
    if (built_in := _LOOPS.get(loop)) is not None:
        return await built_in.replay(run, settings)
    if loop == TURN:
        from artelier.chat.turn.turn_loop import replay_turn

        return await replay_turn(run, settings)
    job = Job.from_stored(settings)
    if job.context.get("code"):
        raise InvalidRequest(
            f"the context of run {run.id!r} is built by code that is not loaded here",
            hint="Replay it from that program: kernel.for_tenant(t).replay(run_id, agent.drive).",
        )
    row = await run_row(run.core.services.store, run.tenant_id, run.id)
    memory = _RecordedMemory(job.context["memory"]) if job.context.get("memory") else None
    builder = ContextBuilder.from_stored(job.context, memory_store=memory)
    await AgentLoop(run, job, builder, agent_id=row.agent).drive()


class _RecordedMemory:
    """Stands for a memory store in a replay: what was read is in the log, and nothing asks here."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = dict(settings)

    def for_agent(self, tenant: str, agent_id: str) -> NoReturn:
        raise AssertionError("a replay has asked a memory store")

    def settings(self) -> dict[str, Any]:
        return self._settings
