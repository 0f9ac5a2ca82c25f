"""Agents as tools: a call runs a child with a budget, memory and grants below its parent's.

The child is a run of its own with its own log, so whatever stops it (a crash, a person, a budget) stops its
parent as resumably, and neither repeats a step. Only a child that has ended is an outcome for the parent.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from artelier.agents.autonomous import AutonomousAgent, check_tools
from artelier.agents.run_config import Wanted, template
from artelier.context import CompactionStrategy, ContextBuilder
from artelier.errors import ArtelierError, InvalidRequest, NotFound, RunSuspended, ToolFailed
from artelier.ids import check_run_id
from artelier.kernel import AgentResult, Limits, Run, RunCore, run_row
from artelier.kernel.queries.runs import children_of
from artelier.kernel.run.context import find_driver, is_final
from artelier.kernel.tenants.registry import TenantScopes
from artelier.loops.cycle import go_below
from artelier.ports.memory import MemoryStore
from artelier.ports.tool import ToolContext, ToolPort
from artelier.tools import Tool
from artelier.tools.function import DESCRIPTION_CHARS_MAX

if TYPE_CHECKING:
    from artelier.operations.profile.operation_profile import OperationProfile

DEPTH_MAX = 4
"""Generations below the first run."""

CHILDREN_MAX = 64
"""Children of one run in all its life."""

RUN_ID_CHARS_MAX = 512
AGENT_CHARS_MAX = 480
"""Of a child's agent id; a longer one is cut and ends in a hash."""

AGENTS_MAX = 256
"""Parents for which one factory keeps a child ready; the least recently used makes room."""

LINE_CHARS = 60
"""What is surely seen of a description where a list of skills has one line for it."""

WORDS_CHARS = 500
"""Of a failed child's last words."""

NOBODY = "agent"
"""Stands for the agent of a parent whose run has none: one that was written by hand."""


class SubAgentFactory:
    """Makes tools whose call runs a child agent.

    What is said here holds for all its children unless `create` says otherwise. `memory_store`: the
    children's own memories are kept there, as `<parent's agent>/<name>`. `tools`: what children may use, the
    kernel's for None; the parent's grants bound them in any case. `limits` caps each child, on top of what
    its parent has left. `parent_id` names the parent's agent if it shall not be the calling run's.
    """

    def __init__(
        self,
        *,
        kernel: TenantScopes,
        parent_id: str | None = None,
        model: str | None = None,
        tools: Iterable[ToolPort] | None = (),
        memory_store: MemoryStore | None = None,
        compaction: CompactionStrategy | None = None,
        limits: Limits | None = None,
        grants: Iterable[str] | None = None,
        max_iterations: int | None = None,
        depth_max: int = DEPTH_MAX,
        children_max: int = CHILDREN_MAX,
    ) -> None:
        self._kernel = kernel
        self._parent_id = parent_id
        self._model = model
        self._tools = None if tools is None else check_tools(tools)
        self._memory_store = memory_store
        self._compaction = compaction
        self._limits = limits
        self._grants = None if grants is None else tuple(grants)
        self._max_iterations = max_iterations
        self._depth_max = depth_max
        self._children_max = children_max

    def create(
        self,
        *,
        name: str,
        description: str,
        system_prompt: str = "",
        model: str | None = None,
        output_schema: object = None,
        tools: Iterable[ToolPort] | None = None,
        context_builder: ContextBuilder | None = None,
        limits: Limits | None = None,
        grants: Iterable[str] | None = None,
        max_iterations: int | None = None,
        acceptance: Sequence[str] = (),
        profile: OperationProfile | str | None = None,
    ) -> Tool[..., Any]:
        """A tool `name(prompt)`; its result is the child's output, or its text.

        `profile`: operations around each step of a child, whose artifacts are kept for that child alone.

        A child that waits, is out of budget or was interrupted goes on when its parent does. One that failed
        or was cancelled is an error that the parent's model can read. The tool has no timeout:
        `limits=Limits(wall_s=...)` is one.
        Errors: `InvalidRequest` without a model, for a name that no tool can have, and for `tools` that are
        names.
        """
        chosen = model or self._model
        if not chosen:
            raise InvalidRequest(f"sub-agent {name!r} needs a model", expected='model="..."')
        child = _SubAgent(
            kernel=self._kernel,
            name=name,
            model=chosen,
            output_schema=output_schema,
            builder=self._builder(name, system_prompt, context_builder),
            compaction=self._compaction,
            parent_id=self._parent_id,
            tools=self._tools if tools is None else check_tools(tools),
            limits=limits or self._limits,
            grants=self._grants if grants is None else tuple(grants),
            max_iterations=self._max_iterations if max_iterations is None else max_iterations,
            acceptance=tuple(acceptance),
            depth_max=self._depth_max,
            children_max=self._children_max,
            profile=profile,
        )

        async def delegate(prompt: str, ctx: ToolContext) -> Any:
            return await child.call(prompt, ctx)

        # It may be entered again: the child's own log says what is done already. What the child says is read
        # there: it has passed the child's own door, and holds no placeholder that was made up.
        return Tool(
            delegate,
            name=name,
            description=_describe(description),
            side_effect=True,
            idempotent=True,
            risk="low",
            trust="untrusted",
            reads_store=True,
            acts_in_store=True,
        )

    def _builder(self, name: str, system_prompt: str, given: ContextBuilder | None) -> ContextBuilder:
        """Errors: `InvalidRequest` for two identities."""
        if given is None:
            return ContextBuilder(identity=system_prompt, memory_store=self._memory_store)
        if given.identity and system_prompt and given.identity != system_prompt:
            raise InvalidRequest(
                f"sub-agent {name!r} has one identity",
                expected="system_prompt=... or ContextBuilder(identity=...)",
                got="both",
            )
        builder = copy(given)
        builder.identity = given.identity or system_prompt
        builder.memory_store = given.memory_store or self._memory_store
        return builder


@dataclass(frozen=True, slots=True, kw_only=True)
class _SubAgent:
    """One sub-agent, whichever run calls it."""

    kernel: TenantScopes
    name: str
    model: str
    output_schema: Any
    builder: ContextBuilder
    compaction: CompactionStrategy | None
    parent_id: str | None
    tools: tuple[ToolPort, ...] | None
    limits: Limits | None
    grants: tuple[str, ...] | None
    max_iterations: int | None
    acceptance: tuple[str, ...]
    depth_max: int
    children_max: int
    profile: OperationProfile | str | None
    agents: OrderedDict[str, AutonomousAgent] = field(default_factory=OrderedDict[str, AutonomousAgent])
    """By agent id: memory, and the tools that change it, belong to one."""

    async def call(self, prompt: str, ctx: ToolContext) -> object:
        """The child's result. Errors: `ToolFailed`; `RunSuspended` while the child has no end."""
        if not prompt.strip():
            raise ToolFailed(f"{self.name} is not called: it was told nothing", expected="a prompt")
        core = self._driver(ctx)
        run_id = child_id(ctx)
        await self._check_room(core, run_id)
        agent = self._agent(self.parent_id or await _agent_of(core))
        wanted = Wanted(
            run_id=run_id,
            tenant=ctx.tenant_id,
            model=self.model,
            prompt=prompt,
            output_schema=self.output_schema,
            limits=self.limits,
            parent=Run(core),
            grants=self.grants,
            parent_step=_step_of(ctx),
            on_wait=core.on_wait,
        )
        return _answer(self.name, await _drive(agent, wanted, core))

    def _driver(self, ctx: ToolContext) -> RunCore:
        services = self.kernel.for_tenant(ctx.tenant_id).services
        core = find_driver(services, ctx.tenant_id, ctx.run_id)
        if core is None:
            raise NotFound(f"run {ctx.run_id!r} is not driven here, so it takes no children")
        return core

    def _agent(self, parent: str) -> AutonomousAgent:
        """This sub-agent below one parent."""
        agent_id = child_agent(parent, self.name)
        agent = self.agents.pop(agent_id, None)
        if agent is None:
            agent = AutonomousAgent(
                kernel=self.kernel,
                context_builder=self.builder,
                compaction=self.compaction,
                tools=self.tools,
                max_iterations=self.max_iterations,
                acceptance=self.acceptance,
                agent_id=agent_id,
                profile=self.profile,
            )
        self.agents[agent_id] = agent
        while len(self.agents) > AGENTS_MAX:
            self.agents.popitem(last=False)
        return agent

    async def _check_room(self, core: RunCore, run_id: str) -> None:
        """Count the child among its parent's, unless it is there already.

        Errors: `ToolFailed` if the tree is too deep or too broad.
        """
        if core.children is None:
            rows = await children_of(core.store, core.tenant.id, core.run_id)
            # A sibling may have been counted while we read: from here on nothing waits.
            core.children = {row.run for row in rows} | (core.children or set())
        if run_id in core.children:
            return
        depth = sum(scope.startswith("run:") for scope in core.scopes)
        if core.depth_max == 0:
            raise ToolFailed(
                f"{self.name} is not called: this run may delegate nothing", hint="Do it without this tool."
            )
        if depth > self.depth_max:
            raise ToolFailed(
                f"{self.name} is not called: agents are nested too deep",
                expected=f"at most {self.depth_max} generations below the first run",
                got=depth,
                hint="Do it without this tool.",
            )
        if len(core.children) >= self.children_max:
            raise ToolFailed(
                f"{self.name} is not called: this run has too many children",
                expected=f"at most {self.children_max}",
                got=len(core.children) + 1,
                hint="Do it without this tool.",
            )
        core.children.add(run_id)


async def _drive(agent: AutonomousAgent, wanted: Wanted, core: RunCore) -> AgentResult:
    """The child's result.

    Errors: `RunSuspended` if the child has not ended, whatever went wrong: then there is nothing yet that a
    parent could record as the outcome of its call.
    """
    try:
        return await go_below(core, wanted.run_id, lambda: agent.start(wanted))
    except ArtelierError:
        await _check_counted(core, wanted.run_id)
        raise


async def _check_counted(core: RunCore, run_id: str) -> None:
    """A child that never began is counted no more."""
    try:
        await run_row(core.services.store, core.tenant.id, run_id)
    except NotFound:
        if core.children is not None:
            core.children.discard(run_id)


async def _agent_of(core: RunCore) -> str:
    row = await run_row(core.services.store, core.tenant.id, core.run_id)
    return row.agent or NOBODY


def _describe(description: str) -> str:
    """Return what the tool says of itself: that it is an agent, and what every caller of one must know."""
    said, more = " ".join(description.split()), template("sub-agent-1")
    if "agent" not in said[:LINE_CHARS].lower():
        said = f"Agent: {said}"
    return f"{said[: DESCRIPTION_CHARS_MAX - len(more) - 1]} {more}"


def child_agent(parent: str, name: str) -> str:
    """`<parent's agent>/<name>`: whose memory a child has."""
    whole = f"{parent}/{name}"
    if len(whole) <= AGENT_CHARS_MAX:
        return whole
    digest = sha256(whole.encode()).hexdigest()[:32]
    return f"{whole[: AGENT_CHARS_MAX - 33]}.{digest}"


def child_id(ctx: ToolContext) -> str:
    """`<parent>::sub_agent::<idempotency key>`; the key's hash where no id could be made of it."""
    whole = f"{ctx.run_id}::sub_agent::{ctx.idempotency_key}"
    try:
        return check_run_id(whole)
    except InvalidRequest:  # too long, or a step's key with other characters
        digest = sha256(ctx.idempotency_key.encode("utf-8", "replace")).hexdigest()[:32]
        return f"{ctx.run_id[: RUN_ID_CHARS_MAX - 50]}::sub_agent::{digest}"


def _step_of(ctx: ToolContext) -> str:
    """Key of the parent's step: what follows the run in the idempotency key."""
    return ctx.idempotency_key.removeprefix(f"{ctx.tenant_id}/{ctx.run_id}:")


def _answer(name: str, result: AgentResult) -> object:
    """Return what the parent's model is told. Errors: `ToolFailed` for a child that did not complete."""
    if not is_final(result.status):
        raise RunSuspended(result.run_id, status=result.status, reason=result.reason)
    if result.status != "completed":
        words = re.sub(r"\s+", " ", result.text).strip()
        raise ToolFailed(
            f"{name} has no result: it {_END[result.status]}",
            got=result.reason or None,
            hint=words[:WORDS_CHARS] or None,
        )
    output = result.output
    if hasattr(output, "model_dump"):
        return output.model_dump(mode="json")
    return msgspec.to_builtins(output) if output is not None else result.text


_END = {"failed": "failed", "cancelled": "was cancelled by a person"}
