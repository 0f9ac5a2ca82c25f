"""The autonomous agent: a model, its tools, and the cycle until an answer, a limit or a person ends it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from artelier.agents.artifact_tools import READ_ON, read_artifact_tool
from artelier.agents.loop import AgentLoop, Sink
from artelier.agents.run_config import (
    STUCK_AFTER,
    Job,
    Wanted,
    agent_result,
    save_if_new,
    template,
    wanted_turn,
    with_verbatim_task,
)
from artelier.artifacts.media.inspection import inspect_attachments
from artelier.context import CompactionStrategy, ContextBuilder
from artelier.errors import Conflict, InvalidRequest, NotFound, RunStopped, RunSuspended
from artelier.kernel import AgentResult, Limits, Run, TenantState, run_row
from artelier.kernel.policy import is_granted
from artelier.kernel.queries.content import blob_json
from artelier.kernel.queries.tenants import run_key
from artelier.kernel.run.context import is_final
from artelier.kernel.run.services import Services
from artelier.kernel.steps.failures import check_models
from artelier.kernel.tenants.registry import TenantRef, TenantScope, TenantScopes
from artelier.loops.cycle import go, has_ended, host_tools
from artelier.memory.sqlite import keep_beside
from artelier.ports.model_params import check_params
from artelier.ports.tool import ToolPort
from artelier.tokens import Window

if TYPE_CHECKING:
    from artelier.chat.session.agent_conversation import AgentEvent, AgentTurn, Chat
    from artelier.operations.profile.operation_profile import OperationProfile
    from artelier.tools.skills import Listing, SkillCatalog

LOOP = "agent"
"""Name of this loop in `run.started`."""

ITERATIONS, ITERATIONS_BOUNDED = 20, 1_000
"""Cycles of a run for which nobody says how many: alone what bounds it, or beside a limit of money or
time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit:
    """The tools of one agent: what may be called, and what is offered natively."""

    ports: Mapping[str, ToolPort]
    native: frozenset[str] | None = None
    """None: all of them."""
    listing: Listing | None = None
    """The skills as they are at the beginning of this drive."""


class AutonomousAgent:
    """An agent that works on a prompt until it is done.

    `context_builder`: what stands in its prompts (`identity` is short for a builder of just that).
    `compaction`: when and how the conversation is summarised. `tools`: ports for this agent's runs; None
    takes the kernel's. `acceptance`: names of tools whose last call must have passed before a run may end.
    `agent_id`: whose memory it has; a slug of the identity unless given. Its ends are honest: `completed`,
    `cancelled`, `failed` with a reason, or a resumable status.
    """

    def __init__(
        self,
        *,
        kernel: TenantScopes,
        context_builder: ContextBuilder | None = None,
        compaction: CompactionStrategy | None = None,
        identity: str | None = None,
        tools: Iterable[ToolPort] | None = None,
        max_iterations: int | None = None,
        stuck_after: int | None = STUCK_AFTER,
        acceptance: Sequence[str] = (),
        agent_id: str | None = None,
        profile: OperationProfile | str | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> None:
        """`profile`: operations around each step, or the ref of a stored one. `params`: those of its model
        calls, such as `{"temperature": 0.2, "thinking": "high"}`; a run may have others.

        `max_iterations`: cycles of a run; None for 1,000 where a limit of money or time bounds it (its
        own, its parents' or its tenant's), else 20. `stuck_after`: equal calls with equal results in a row
        that end a run, those of tools with `poll=True` apart; None for any number.
        Errors: `InvalidRequest` that names the argument.
        """
        if context_builder is not None and identity:
            raise InvalidRequest(
                "an agent has one identity",
                expected="ContextBuilder(identity=...) or identity=...",
                got="both",
            )
        _check_arguments(context_builder, compaction, acceptance)
        _check_count("max_iterations", max_iterations, least=1)
        _check_count("stuck_after", stuck_after, least=2)
        builder = context_builder or ContextBuilder(identity=identity or "")
        said = builder.identity
        if not said:
            builder = copy(builder)  # the caller's stays as it was
            builder.identity = template("identity-1")
        self._kernel = kernel
        self.builder = builder
        self.compaction = compaction or CompactionStrategy()
        self._tools = None if tools is None else check_tools(tools)
        self.max_iterations = max_iterations
        self.stuck_after = stuck_after
        self.acceptance = tuple(acceptance)
        self.agent_id = agent_id or (agent_slug(said) if said else "agent")
        keep_beside(kernel.for_tenant().services, builder.memory_store)
        self.profile = profile
        self.params = check_params(params or {})
        self._catalogs: dict[int, SkillCatalog] = {}

    async def run(
        self,
        *,
        run_id: str,
        tenant: TenantRef = None,
        model: str | None = None,
        llm_model: str | None = None,
        models: Sequence[str] = (),
        prompt: str,
        output_schema: object = None,
        on_wait: str = "await",
        limits: Limits | None = None,
        artifact: str = "",
        workspace: str = "",
        parent: Run | None = None,
        grants: Iterable[str] | None = None,
        replay: str = "strict",
        subject: str = "",
        params: Mapping[str, Any] | None = None,
        attachments: Sequence[bytes] = (),
    ) -> AgentResult:
        """Start the run, or go on where it stopped; a finished run returns its result at once.

        `llm_model` is another name of `model`; `models`, in its place, are those that are asked in turn until
        one answers. `on_wait="return"` gives a result with a resumable status
        instead of waiting in process. `parent` makes it a child: it shares the parent's budget and deadline.
        `replay` as of `kernel.run`: under `fork_on_drift` the result may be that of a fork, which it names.
        `subject`: whom it is about; what it stores, remembers and writes is erased with that.
        `params`: those of its model calls, laid over the agent's. `attachments`: images, sounds, PDFs and
        texts that a new run is shown with its task.
        Errors: those at the door (`UnknownModel`, `InvalidRequest`, `LeaseHeld`, ...); what goes wrong
        later is the result's `reason`.
        """
        first, *fallbacks = check_models(model or llm_model, models) if models else ("",)
        wanted = Wanted(
            run_id=run_id,
            tenant=tenant,
            model=first if models else _model(model, llm_model),
            fallbacks=tuple(fallbacks),
            prompt=prompt,
            output_schema=output_schema,
            on_wait=on_wait,
            limits=limits,
            artifact=artifact,
            workspace=workspace,
            parent=parent,
            grants=grants,
            replay=replay,
            subject=subject,
            params=params,
            attachments=tuple(attachments),
        )
        return await self.start(wanted)

    async def resume(
        self,
        run_id: str,
        *,
        tenant: TenantRef = None,
        note: str = "",
        limits: Limits | None = None,
        max_iterations: int | None = None,
        stuck_after: int | None = None,
        output_schema: object = None,
        by: str = "operator",
        **more: Any,
    ) -> AgentResult:
        """Go on with a run of this agent, and return its result: one that a crash or a person stopped,
        that is out of budget, or that failed.

        With a `note`, which the model reads next, or a raised limit a failed run is reopened; see
        `TenantKernel.resume` for what they mean. It keeps what it has done and paid for. A completed run
        returns its result. `more`: as of `run`. `output_schema`: the type that the result's output shall
        have; it was chosen at the start.
        Errors: `NotFound`; `Conflict` for a run that takes neither; those of `run`.
        """
        runs = self._kernel.for_tenant(tenant)
        row = await run_row(runs.services.store, runs.id, run_id)
        settings: dict[str, Any] = await blob_json(runs.services, runs.id, row.settings) or {}
        if row.loop != LOOP:
            raise _other_loop(run_id)
        job = Job.from_stored(settings)
        is_asked = note.strip() or limits or max_iterations is not None or stuck_after is not None
        if is_asked or row.status == "paused":
            await runs.resume(
                run_id,
                note=note,
                limits=limits,
                max_iterations=max_iterations,
                stuck_after=stuck_after,
                by=by,
            )
        wanted = Wanted(
            run_id=run_id,
            tenant=tenant,
            model=job.model,
            prompt=job.prompt,
            is_chat=job.is_chat,
            output_schema=output_schema or job.output_schema,
            **more,
        )
        return await self.start(wanted)

    def stream(
        self, *, run_id: str, prompt: str, tenant: TenantRef = None, model: str | None = None, **more: Any
    ) -> AsyncIterator[AgentEvent]:
        """Like `run`, yielding what happens: `Delta`s of text and of reasoning, events of the log once they
        are durable, and the `AgentResult` last.

        Every event is an `Event`. Those of tools, replies, questions and notes hold their content:
        `ToolCalled`, `ToolReturned`, `ModelAnswered`, `ApprovalAsked`, `ApprovalAnswered`, `NoteGiven`, as
        the log has it. What others name by `b:...` is read with `TenantKernel.content`.
        """
        from artelier.agents.stream import stream_of

        wanted = Wanted(
            run_id=run_id,
            tenant=tenant,
            prompt=prompt,
            model=_model(model, more.pop("llm_model", None)),
            **more,
        )
        return stream_of(self, wanted)

    def chat(self, session: str, *, model: str, tenant: TenantRef = None, **more: Any) -> Chat:
        """A conversation over many runs, one a turn: `await chat.send("...")`.

        Errors: `InvalidRequest` for a session id that no run could be named after.
        """
        from artelier.chat.session.agent_conversation import Chat

        return Chat(self, session, model=model, tenant=tenant, **more)

    async def take_turn(self, turn: AgentTurn) -> AgentResult:
        """Start the run of a turn of a chat, and return its result. Errors: those of `run` at the door."""
        return await self.start(wanted_turn(turn))

    def stream_turn(self, turn: AgentTurn) -> AsyncIterator[AgentEvent]:
        """Like `take_turn`, yielding what happens and the result last."""
        from artelier.agents.stream import stream_of

        return stream_of(self, wanted_turn(turn))

    # For this package

    @property
    def kernel(self) -> TenantScopes:
        return self._kernel

    async def start(self, wanted: Wanted, *, sink: Sink | None = None) -> AgentResult:
        """`run`, with its wishes as one value. Errors: as there."""
        runs = self._kernel.for_tenant(wanted.tenant)
        services = runs.services
        await services.turn_to_open(runs.id)
        tenant = await runs.state()  # with its own settings, before anything is recorded of it
        await self._check_erasable(services, wanted)
        if wanted.grants is not None:
            wanted = replace(wanted, grants=tuple(wanted.grants))
        recorded = await _recorded_settings(runs, wanted)
        if recorded is None and wanted.parent is None and not wanted.is_chat:
            # It stands in prompts as what is known; a conversation and a parent have looked already.
            wanted = replace(wanted, prompt=services.escape_placeholders(runs.id, wanted.prompt))
        if not await has_ended(services, runs.id, wanted.run_id):
            _check_models(services, wanted)
        shown = await inspect_attachments(wanted.attachments) if recorded is None else []
        profile = await save_if_new(runs, self.profile)
        job = self._job(services, _window_for(services, wanted.model, recorded), wanted, profile, tenant)
        kit = await self.kit(runs)
        self._check_acceptance(kit)
        opened = runs.run(
            wanted.run_id,
            loop=LOOP,
            agent=self.agent_id,
            model=wanted.model,
            goal=wanted.prompt,
            settings=job.settings(),
            attachments=tuple(shown),
            from_snapshot=True,
            limits=wanted.limits,
            tools=kit.ports,
            on_wait="suspend" if wanted.on_wait == "return" else wanted.on_wait,
            principal=f"agent:{self.agent_id}",
            parent=wanted.parent,
            parent_step=wanted.parent_step,
            grants=wanted.grants,
            replay=wanted.replay,
            subject=wanted.subject,
            key_id=wanted.key_id,
            params=self.params | check_params(wanted.params or {}),
            conversation=wanted.run_id.rpartition("/")[0] if wanted.is_chat else "",
        )
        message, foreign, run_id = "", False, wanted.run_id

        async def drive() -> None:
            nonlocal foreign, run_id
            async with opened as run:
                run_id = run.id
                stored = await settings_of_run(run) or {}
                foreign = not opened.is_new and not _is_asked(runs, stored, wanted)
                if not is_final(run.status):
                    if foreign:  # somebody was faster, and died: the run is theirs to go on with
                        raise RunSuspended(run.id, status="pending", reason="begun by another")
                    # What an existing run was asked to do is in its log, whatever is asked for now.
                    own = replace(Job.from_stored(stored), output_schema=job.output_schema)
                    loop = self.loop(run, own, kit, sink=sink, desk=runs)
                    try:
                        await loop.drive(opened.snapshot)
                    finally:
                        run_id = run.id  # it may have gone on as a fork of itself

        try:
            message = await go(services, runs.id, wanted.run_id, drive())
        except (RunSuspended, RunStopped) as flow:
            if wanted.parent is not None and isinstance(flow, RunSuspended):
                raise  # the parent waits with its child
        if foreign:
            raise _asked_otherwise(wanted)
        return await agent_result(services, runs.id, run_id, message=message, output=wanted.output_schema)

    async def _check_erasable(self, services: Services, wanted: Wanted) -> None:
        """Errors: `InvalidRequest` for a subject whose memories no erasure would reach."""
        store, parent = self.builder.memory_store, wanted.parent
        if store is None or "sqlite" not in store.settings():
            return
        key_id = wanted.key_id
        if parent is not None:
            key_id = await run_key(services.store, parent.tenant_id, parent.id)
        if wanted.subject or key_id is not None:
            raise InvalidRequest(
                "a run about a subject remembers in the kernel's own store, where that can be erased",
                expected="memory='log', or no memory",
                got="a memory in a file of its own",
            )

    async def drive(self, run: Run) -> None:
        """Drive a replay of one of this agent's runs: `kernel.for_tenant(t).replay(run_id, agent.drive)`."""
        settings = await settings_of_run(run)
        if settings is None:
            raise InvalidRequest(f"run {run.id!r} is not one of an autonomous agent")
        await self.loop(run, Job.from_stored(settings), None).drive()

    def loop(
        self, run: Run, job: Job, kit: Kit | None, *, sink: Sink | None = None, desk: Any = None
    ) -> AgentLoop:
        return AgentLoop(
            run,
            job,
            self.builder,
            agent_id=self.agent_id,
            listing=kit.listing if kit is not None else None,
            native=kit.native if kit is not None else None,
            sink=sink,
            desk=desk,
        )

    def _check_acceptance(self, kit: Kit) -> None:
        """Errors: `InvalidRequest` for a gate that waits for a tool which the agent does not have."""
        if missing := [name for name in self.acceptance if name not in kit.ports]:
            raise InvalidRequest(
                "a gate waits for a tool that the agent does not have",
                got=", ".join(missing)[:200],
                expected=", ".join(sorted(kit.ports))[:500],
            )

    def _job(
        self, services: Services, window: Window, wanted: Wanted, profile: str, tenant: TenantState
    ) -> Job:
        default = ITERATIONS_BOUNDED if _is_bounded(tenant, wanted) else ITERATIONS
        own = {tool.name for tool in self._tools or ()}
        given = [name for name in host_tools(services) if name in own]
        job = Job(
            prompt=wanted.prompt,
            model=wanted.model,
            output_schema=wanted.output_schema,
            max_iterations=default if self.max_iterations is None else self.max_iterations,
            stuck_after=self.stuck_after or 0,
            artifact=wanted.artifact,
            workspace=wanted.workspace,
            host_tools=tuple(given) if wanted.workspace else (),
            context=self.builder.settings(),
            compaction=self.compaction.settings(),
            window_tokens=window.context_tokens,
            max_output_tokens=window.max_output_tokens,
            is_output_assumed=window.is_assumed,
            fallbacks=wanted.fallbacks,
            fits_budget=True,
            acceptance=self.acceptance,
            is_chat=wanted.is_chat,
            earlier=wanted.earlier,
            profile=profile,
            waiting_turns=wanted.waiting.runs,
            news=wanted.waiting.news,
            session=wanted.run_id.rpartition("/")[0] if wanted.is_chat and profile else "",
        )
        return with_verbatim_task(job, can_read_on=_can_read_on(tenant, wanted))

    async def kit(self, runs: TenantScope) -> Kit:
        """The tools of this agent at the beginning of a drive; sources of skills are asked anew each time."""
        services = runs.services
        given = services.tools.values() if self._tools is None else self._tools
        own: list[ToolPort] = [read_artifact_tool(services)]
        store = self.builder.memory_store
        if store is not None:
            own += store.for_agent(runs.id, self.agent_id).tools(runs=services.store)
        if not self.builder.progressive_skills:
            if self.builder.skills:
                raise InvalidRequest(
                    "skills are only shown with progressive_skills=True",
                    hint="Set it on the ContextBuilder, or hand functions over as tools.",
                )
            return Kit(ports=by_name([*given, *own]))
        catalog = self._catalog(services, given)
        listing = await catalog.listing(services, runs.id)
        own += catalog.meta_tools(services)
        ports = by_name([*own, *catalog.ports().values()])
        return Kit(ports=ports, native=frozenset(tool.name for tool in own), listing=listing)

    def _catalog(self, services: Services, given: Iterable[ToolPort]) -> SkillCatalog:
        from artelier.tools.skills import SkillCatalog

        key = id(services)
        if key not in self._catalogs:
            self._catalogs[key] = SkillCatalog([*given, *self.builder.skills])
        return self._catalogs[key]


def _check_arguments(builder: object, compaction: object, acceptance: object) -> None:
    """Errors: `InvalidRequest` that names the argument, before anything begins."""
    for name, value, kind in (
        ("context_builder", builder, ContextBuilder),
        ("compaction", compaction, CompactionStrategy),
    ):
        if value is not None and not isinstance(value, kind):
            raise InvalidRequest(name, expected=f"a {kind.__name__}", got=repr(value)[:80])
    if isinstance(acceptance, str) or not isinstance(acceptance, Sequence):
        raise InvalidRequest("acceptance", expected="a list of names of tools", got=repr(acceptance)[:80])


def _check_count(name: str, value: object, *, least: int) -> None:
    """Errors: `InvalidRequest` that names the argument."""
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidRequest(name, expected=f"a whole number from {least}, or None", got=repr(value)[:80])


def check_tools(tools: Iterable[object]) -> tuple[ToolPort, ...]:
    """Errors: `InvalidRequest` for what is no tool."""
    found: list[ToolPort] = []
    for item in () if isinstance(tools, str) else tools:
        if not (hasattr(item, "schema") and hasattr(item, "validate") and hasattr(item, "call")):
            raise InvalidRequest(
                "not a tool", expected="functions with @tool, or other ToolPorts", got=repr(item)[:80]
            )
        found.append(cast(ToolPort, item))
    if isinstance(tools, str):
        raise InvalidRequest("tools", expected="a list of tools", got=repr(tools)[:80])
    return tuple(found)


def _check_models(services: Services, wanted: Wanted) -> None:
    """Say here what is wrong with a model, before a run begins. Errors: `UnknownModel`, `MissingKey`."""
    for name in (wanted.model, *wanted.fallbacks):
        services.model(name)


def _model(model: str | None, llm_model: str | None) -> str:
    if model and llm_model and model != llm_model:
        raise InvalidRequest("two models were named", got=f"{model!r} and {llm_model!r}")
    chosen = model or llm_model
    if not chosen:
        raise InvalidRequest("a run needs a model", expected='model="openai:gpt-5-mini" or "offline"')
    return chosen


def by_name(tools: Iterable[ToolPort]) -> dict[str, ToolPort]:
    """Tools by name; the first of a name is kept: a developer's own before ours."""
    table: dict[str, ToolPort] = {}
    for tool in tools:
        table.setdefault(tool.name, tool)
    return table


def _is_bounded(tenant: TenantState, wanted: Wanted) -> bool:
    """Return whether money or time bounds a run, by a limit of its own or of what it belongs to."""
    limits, parent = wanted.limits, wanted.parent
    if tenant.budget is not None or (
        limits is not None and (limits.usd is not None or limits.wall_s is not None)
    ):
        return True
    if parent is None:
        return False
    return bool(parent.core.deadlines) or any(unit == "usd" for _, unit in parent.core.counted)


def _can_read_on(tenant: TenantState, wanted: Wanted) -> bool:
    """Return whether a run may read artifacts that it was shown a part of."""
    held: list[Iterable[str]] = [tenant.grants]
    if wanted.grants is not None:
        held.append(wanted.grants)
    if wanted.parent is not None:
        held.append(wanted.parent.core.grants)
    return all(is_granted(grants, f"tools:{READ_ON}") for grants in held)


def _window_for(services: Services, model: str, stored: Mapping[str, Any] | None) -> Window:
    """Return the window of a new run's model; of a recorded run, the one that it was started with.

    A resume asks no table: loading the bundled one costs more than reading 10,000 steps.
    """
    if stored is None:
        return services.window_of(model)
    recorded = Job.from_stored(stored)
    return Window(context_tokens=recorded.window_tokens, max_output_tokens=recorded.max_output_tokens)


async def _recorded_settings(runs: TenantScope, wanted: Wanted) -> dict[str, Any] | None:
    """Return what the run was started with; None if it is new.

    Errors: `Conflict` if it exists and was asked something else: its result is no answer to this.
    """
    try:
        row = await run_row(runs.services.store, runs.id, wanted.run_id)
    except NotFound:
        return None
    if row.loop != LOOP:
        raise _other_loop(wanted.run_id)
    stored: dict[str, Any] = await blob_json(runs.services, runs.id, row.settings) or {}
    if not _is_asked(runs, stored, wanted):
        raise _asked_otherwise(wanted)
    if wanted.parent is not None and row.parent != wanted.parent.id:
        raise Conflict(
            f"run {wanted.run_id!r} exists and is no child of {wanted.parent.id!r}",
            got=f"a run below {row.parent!r}" if row.parent else "a run of its own",
        )
    return stored


def _other_loop(run_id: str) -> Conflict:
    return Conflict(
        f"run {run_id!r} exists and is driven by code of its own", hint="Give this one another run_id."
    )


def _is_asked(runs: TenantScope, stored: Mapping[str, Any], wanted: Wanted) -> bool:
    """Return True if a run that exists is what is wanted now: asked the same, and not to be a new one."""
    return not wanted.must_be_new and runs.services.is_stored(
        runs.id, "prompt", wanted.prompt, as_=stored.get("prompt")
    )


def _asked_otherwise(wanted: Wanted) -> Conflict:
    return Conflict(
        f"run {wanted.run_id!r} exists and was asked something else",
        got=repr(wanted.prompt[:120]),
        hint="Say it again: the next turn is free."
        if wanted.must_be_new
        else "Give a new task a run_id of its own.",
    )


async def settings_of_run(run: Run) -> dict[str, Any] | None:
    """Return what a run of this loop was started with; None for a run of another loop."""
    row = await run_row(run.core.services.store, run.tenant_id, run.id)
    if row.loop != LOOP:
        return None
    return await blob_json(run.core.services, run.tenant_id, row.settings) or {}


def agent_slug(identity: str) -> str:
    """The id of an agent that was given none; two identities never share one, nor its memory."""
    made = slug(identity)
    told = re.sub(r"[^\w]+", "-", identity.lower()).strip("-")
    if made == told:
        return made
    return f"{made[:40]}-{sha256(identity.encode('utf-8', 'replace')).hexdigest()[:8]}"


def slug(text: str) -> str:
    """A short id made of a text."""
    return "-".join(re.findall(r"[a-z0-9]+", text.lower()))[:48].strip("-") or "agent"
