"""The agents of a tenant, the known facts of one, and what a kernel does with them.

Facts are read from views. The operations: list, show, export, import, and compactions.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

import msgspec

from artelier.agents.card import card_id, card_of, memory_id
from artelier.artifacts.queries import newest_version
from artelier.errors import NotFound
from artelier.ids import MAIN_SPACE
from artelier.kernel import Services, receipts_of
from artelier.kernel.export.archive import SIZE_BYTES_MAX
from artelier.kernel.queries.content import shown_json
from artelier.kernel.queries.tenants import AgentUsage, agent_usage, usage_of
from artelier.kernel.tenants.registry import TenantScope
from artelier.log import EventData, Store
from artelier.memory.memory_handle import check_agent
from artelier.memory.queries import count_changes, memory_size, memory_sizes
from artelier.tools.skills.view import pins_of

if TYPE_CHECKING:
    from artelier.agents.schedules.api import Schedules
    from artelier.agents.transfer import Carried, KeepsMemory
    from artelier.context import CompactionStrategy


PAGE_MAX = 1_000


class KnownAgent(TypedDict):
    """An agent with its runs and its memory. Reports are dictionaries, because callers index them."""

    agent: str
    runs: int
    last_run: str | None
    last_us: int | None
    """Start of its newest run."""
    entries: int | None
    """Of its memory; None for an agent without one."""
    cost_microusd: int


class KnownAgentPage(TypedDict):
    """A page of agents by id."""

    items: list[KnownAgent]
    next: str | None
    """The `after` of the next page; None for the last."""


class CardSkill(TypedDict):
    """A skill on an agent's card, with the status that it has in this tenant."""

    skill: str
    source: str | None
    origin: str | None
    hash: str
    status: str
    """`active`, `parked`, `refused`, `other` for another definition, `unknown`."""


class AgentProfile(KnownAgent):
    """An agent with its card."""

    sub_agents: list[str]
    card: dict[str, Any]
    """The card as an export would write it now."""
    written: str | None
    """Ref of the card as it was written last; None if it never was."""
    changes: int
    """Number of changes of its memory."""
    memory_file: str | None
    skills: list[CardSkill]


def _known_agent(agent: str, usage: AgentUsage | None, entries: int | None) -> KnownAgent:
    return {
        "agent": agent,
        "runs": 0 if usage is None else usage.runs,
        "last_run": None if usage is None else usage.last_run,
        "last_us": None if usage is None else usage.last_us,
        "entries": entries,
        "cost_microusd": 0 if usage is None else usage.cost_microusd,
    }


async def _known_agents(
    store: Store, tenant: str, *, after: str = "", below: str = "", limit: int
) -> list[KnownAgent]:
    """Return agents that have runs or a memory, by id: behind `after`, with names that begin with `below`."""
    used = {one.agent: one for one in await agent_usage(store, tenant, after=after, below=below, limit=limit)}
    sizes = dict(await memory_sizes(store, tenant, after=after, below=below, limit=limit))
    ids = sorted({*used, *sizes}, key=str.encode)[:limit]
    return [_known_agent(one, used.get(one), sizes.get(one)) for one in ids]


async def show_agent(services: Services, tenant: str, agent: str) -> AgentProfile:
    """See `AgentsHandle.show_agent`."""
    check_agent(agent)
    usage = await usage_of(services.store, tenant, agent)
    entries = await memory_size(services.store, tenant, agent)
    if usage is None and entries is None:
        raise NotFound(
            f"no agent {agent!r:.80} in tenant {tenant}",
            hint="`artelier agents list` names those that have runs or a memory.",
        )
    below = await _known_agents(services.store, tenant, below=f"{agent}/", limit=PAGE_MAX)
    card = await card_of(services, tenant, agent, memory=services.store)
    pins = {(pin.source, pin.name): pin for pin in await pins_of(services.store, tenant)}
    return {
        **_known_agent(agent, usage, entries),
        "sub_agents": [row["agent"] for row in below],
        "card": card.content,
        "written": await _newest_card(services, tenant, agent),
        "changes": await count_changes(services.store, tenant, memory_id(agent)),
        "memory_file": card.memory_file or None,
        "skills": [
            {
                "skill": one.skill,
                "source": one.source,
                "origin": one.origin,
                "hash": one.hash,
                "status": pin.status
                if (pin := pins.get((one.source, one.name))) and pin.hash == one.hash
                else "other"
                if pin
                else "unknown",
            }
            for one in card.skills
        ],
    }


async def _newest_card(services: Services, tenant: str, agent: str) -> str | None:
    """Ref of the card as it was written last."""
    newest = await newest_version(services.store, tenant, MAIN_SPACE, card_id(agent))
    return None if newest is None or newest.deleted else f"{card_id(agent)}@{newest.version}"


class AgentKernel(TenantScope, Protocol):
    """The kernel bound to one tenant, with what is read of compactions."""

    async def compactions(self, run_id: str) -> list[dict[str, Any]]: ...


class AgentsHandle:
    """Methods of `TenantKernel`."""

    async def agents(self: AgentKernel, *, after: str | None = None, limit: int = 100) -> KnownAgentPage:
        """Return agents that have a run or a memory in this store, by id. Cost: O(runs of the tenant)."""
        limit = max(1, min(limit, PAGE_MAX))
        found = await _known_agents(self.services.store, self.id, after=after or "", limit=limit + 1)
        return {"items": found[:limit], "next": found[limit - 1]["agent"] if len(found) > limit else None}

    async def show_agent(self: AgentKernel, agent_id: str) -> AgentProfile:
        """Return an agent with its card. Errors: `NotFound`."""
        return await show_agent(self.services, self.id, agent_id)

    async def export_agent(
        self: AgentKernel,
        agent_id: str,
        path: str | Path,
        *,
        memory: KeepsMemory | None = None,
        without_memory: bool = False,
        by: str = "operator",
    ) -> Carried:
        """Write an agent into one verifiable file: its runs with all that belongs to them, its memory, its
        card (written as the artifact `agents/<agent id>` if it says something new) and its skills.

        Sub-agents (`<agent id>/...`) come along. `memory` is the store of its memory if that is not this
        kernel's log. The file is complete or not there, and only its owner may read it.
        Errors: `NotFound`; `InvalidRequest` if its memory is in a file that was not given; `CorruptStore`,
        `InvalidExport`, `StoreUnavailable` as for `export`; `AccessDenied` if its card's id is taken.
        """
        from artelier.agents.transfer import export_agent

        return await export_agent(
            self.services, self.id, agent_id, path, memory=memory, without_memory=without_memory, by=by
        )

    async def import_agent(
        self: AgentKernel, path: str | Path, *, size_max_bytes: int = SIZE_BYTES_MAX, by: str = "operator"
    ) -> Carried:
        """Take an agent into this tenant: its runs as records, its memory alive in this kernel's log, its
        skills parked until somebody approves them.

        Units:  `size_max_bytes` bounds the unpacked size.
        Errors: `InvalidExport` that names what is wrong; `Conflict` if such an agent, run or artifact is
        here; `NotFound`. Nothing is imported by a refusal.
        """
        from artelier.agents.transfer import import_agent

        await self.state()
        return await import_agent(
            self.services, self.keys, self.id, path, size_max_bytes=size_max_bytes, by=by
        )

    @property
    def schedules(self: AgentKernel) -> Schedules:
        """The schedules of the tenant: `desk.schedules.add(...)`."""
        from artelier.agents.schedules.api import Schedules

        return Schedules(self)

    # Compactions of their conversations

    async def compactions(self: AgentKernel, run_id: str) -> list[dict[str, Any]]:
        """Receipts of compactions and of their undoing, newest first; see `docs/events.md` for their fields.

        Each has `step` and `kind`; a compaction also `loss`, what its summary no longer says.
        Errors: `NotFound`.
        """
        found: list[dict[str, Any]] = []
        for key, event in await receipts_of(self.services, self.id, run_id):
            facts = {"step": key, "kind": event.KIND, **msgspec.to_builtins(event)}
            for name in ("summary", "loss"):
                facts[name] = await shown_json(self.services, self.id, facts.get(name))
            found.append(facts)
        return found

    async def undo_compaction(
        self: AgentKernel, run_id: str, *, policy: CompactionStrategy | None = None, by: str = "operator"
    ) -> EventData:
        """Show the messages again that the newest compaction summarised, from the run's next cycle on.

        With a `policy`, that strategy decides from then on when and how to compact.
        Errors: `NotFound`, also for a run that was never compacted.
        """
        from artelier.agents.compaction import ASKED, CompactionWish

        if not any(one["kind"] == "context.compacted" for one in await self.compactions(run_id)):
            raise NotFound(f"run {run_id!r} was never compacted")
        wish = CompactionWish(undo=True, policy=None if policy is None else asdict(policy))
        return await self.signal(run_id, ASKED, msgspec.to_builtins(wish), by=by)
