"""The operations of a tenant's kernel on agents: list, show, export, import, and their compactions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from artelier.errors import NotFound
from artelier.kernel import receipts_of
from artelier.kernel.export.archive import SIZE_BYTES_MAX
from artelier.kernel.queries.content import shown_json

if TYPE_CHECKING:
    from artelier.agents.export.transfer import Carried, KeepsMemory
    from artelier.agents.schedules.api import Schedules
    from artelier.context import CompactionStrategy
    from artelier.kernel import Services, TenantState
    from artelier.kernel.export.transfer import KeyStore
    from artelier.log import EventData


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
        from artelier.agents.agent_directory import list_agents

        return await list_agents(self.services, self.id, after=after, limit=limit)

    async def show_agent(self: AgentKernel, agent_id: str) -> dict[str, Any]:
        """A row of `agents` with `sub_agents`, the `card` as an export would write it now, its ref as
        `written` (None if it never was), `blocks`, and `skills` with the status they have here.

        Errors: `NotFound`.
        """
        from artelier.agents.agent_directory import show_agent

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
