"""The agents of a tenant, and the known facts of one. Read-only, from views."""

from __future__ import annotations

from typing import Any

from artelier.agents.export.agent_namespace import card_id, memory_id
from artelier.agents.export.card import card_of
from artelier.errors import NotFound
from artelier.ids import MAIN_SPACE
from artelier.kernel import Services
from artelier.memory.memory_handle import check_agent
from artelier.tools.skills.view import pins_of

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
