"""The agents of a tenant, the known facts of one, and what a kernel does with them.

Facts are read from views. The operations: list, show, export, import, and compactions.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from artelier.agents.export.card import card_id, card_of, memory_id
from artelier.errors import NotFound
from artelier.ids import MAIN_SPACE
from artelier.kernel import Services, receipts_of
from artelier.kernel.export.archive import SIZE_BYTES_MAX
from artelier.kernel.queries.content import shown_json
from artelier.memory.memory_handle import check_agent
from artelier.tools.skills.view import pins_of

if TYPE_CHECKING:
    from artelier.agents.export.transfer import Carried, KeepsMemory
    from artelier.agents.schedules.api import Schedules
    from artelier.context import CompactionStrategy
    from artelier.kernel import TenantState
    from artelier.kernel.export.transfer import KeyStore
    from artelier.log import EventData


PAGE_MAX = 1_000

_ROSTER = (
    "WITH known(agent) AS ("
    " SELECT agent FROM runs WHERE tenant = ? AND agent <> ''"
    " UNION SELECT agent FROM memory_stores WHERE tenant = ? AND space = ?)"
    " SELECT k.agent, count(r.id), coalesce(sum(r.cost), 0), max(r.id), max(r.started_us),"
    " (SELECT m.entries FROM memory_stores m"
    "  WHERE m.tenant = ? AND m.space = ? AND m.agent = k.agent)"
    " FROM known k LEFT JOIN runs r ON r.tenant = ? AND r.agent = k.agent"
)


async def _rows(
    services: Services, tenant: str, where: str, *parameters: object, limit: int
) -> list[dict[str, Any]]:
    store = services.store
    rows = await store.query(
        f"{_ROSTER} WHERE {where} GROUP BY k.agent ORDER BY k.agent LIMIT ?",
        (tenant, tenant, MAIN_SPACE, tenant, MAIN_SPACE, tenant, *parameters, limit),
    )
    found: list[dict[str, Any]] = []
    for agent, runs, cost, newest, started_us, entries in rows:
        last = await store.query("SELECT run FROM runs WHERE id = ?", (newest,))
        found.append(
            {
                "agent": agent,
                "runs": runs,
                "last_run": last[0][0] if last else None,
                "last_us": started_us,
                "entries": entries,
                "cost_microusd": cost,
            }
        )
    return found


async def list_agents(
    services: Services, tenant: str, *, after: str | None = None, limit: int = 100
) -> dict[str, Any]:
    """`{items, next}` by agent id. `entries` is None for an agent without a memory."""
    limit = max(1, min(limit, PAGE_MAX))
    items = await _rows(services, tenant, "k.agent > ?", after or "", limit=limit + 1)
    more = len(items) > limit
    return {"items": items[:limit], "next": items[limit - 1]["agent"] if more else None}


async def show_agent(services: Services, tenant: str, agent: str) -> dict[str, Any]:
    """See `AgentsHandle.show_agent`."""
    check_agent(agent)
    found = await _rows(services, tenant, "k.agent = ?", agent, limit=1)
    if not found:
        raise NotFound(
            f"no agent {agent!r:.80} in tenant {tenant}",
            hint="`artelier agents list` names those that have runs or a memory.",
        )
    below = await _rows(
        services, tenant, "substr(k.agent, 1, ?) = ?", len(agent) + 1, f"{agent}/", limit=PAGE_MAX
    )
    card = await card_of(services, tenant, agent, memory=services.store)
    pins = {(pin.source, pin.name): pin for pin in await pins_of(services.store, tenant)}
    return {
        **found[0],
        "sub_agents": [row["agent"] for row in below],
        "card": card.content,
        "written": await _newest_card(services, tenant, agent),
        "changes": await _changes(services, tenant, agent),
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
    rows = await services.store.query(
        "SELECT version FROM artifacts WHERE tenant = ? AND space = ? AND id = ? AND deleted = 0",
        (tenant, MAIN_SPACE, card_id(agent)),
    )
    return f"{card_id(agent)}@{rows[0][0]}" if rows else None


async def _changes(services: Services, tenant: str, agent: str) -> int:
    """Return how often its memory was changed."""
    rows = await services.store.query(
        "SELECT count(*) FROM memory_changes c JOIN memory_stores m ON m.id = c.store"
        " WHERE m.tenant = ? AND m.space = ? AND m.artifact = ?",
        (tenant, MAIN_SPACE, memory_id(agent)),
    )
    return rows[0][0]


class AgentKernel(Protocol):
    """The kernel bound to one tenant, as far as this needs it."""

    @property
    def id(self) -> str: ...

    @property
    def services(self) -> Services: ...

    @property
    def keys(self) -> KeyStore: ...

    async def state(self) -> TenantState: ...

    async def signal(
        self, run_id: str, name: str, data: Any = None, *, by: str = "operator"
    ) -> EventData: ...

    async def compactions(self, run_id: str) -> list[dict[str, Any]]: ...


class AgentsHandle:
    """Methods of `TenantKernel`."""

    async def agents(self: AgentKernel, *, after: str | None = None, limit: int = 100) -> dict[str, Any]:
        """`{items: [{agent, runs, last_run, last_us, entries, cost_microusd}], next}`, by id.

        Agents that have a run or a memory in this store. Cost: O(runs of the tenant).
        """
        return await list_agents(self.services, self.id, after=after, limit=limit)

    async def show_agent(self: AgentKernel, agent_id: str) -> dict[str, Any]:
        """A row of `agents` with `sub_agents`, the `card` as an export would write it now, its ref as
        `written` (None if it never was), `blocks`, and `skills` with the status they have here.

        Errors: `NotFound`.
        """
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
        from artelier.agents.export.transfer import export_agent

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
        from artelier.agents.export.transfer import import_agent

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
        from artelier.agents.compaction import ASKED, checked_wish

        if not any(one["kind"] == "context.compacted" for one in await self.compactions(run_id)):
            raise NotFound(f"run {run_id!r} was never compacted")
        return await self.signal(run_id, ASKED, checked_wish(undo=True, policy=policy), by=by)
