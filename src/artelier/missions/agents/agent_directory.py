"""All agents of a tenant in one list: those of missions, and those that just have runs or a memory."""

from __future__ import annotations

from typing import Any

from artelier.errors import ArtelierError, NotFound
from artelier.ids import MAIN_SPACE
from artelier.missions.agents.mission_agents import agent_line, agent_object
from artelier.missions.queries import agent_ids

CARDS = "agents/"
"""Below this the cards of agents are kept: artifacts of the same kind, and no agents."""

PLAIN: dict[str, Any] = {"runs": 0, "last_run": None, "last_us": None, "entries": None}


async def agent_page(
    desk: Any, *, mission: str | None = None, after: str | None = None, limit: int = 100
) -> dict[str, Any]:
    """`{items, next}` by id. An item has `{id, agent, runs, last_run, last_us, entries, cost_microusd}`, and
    of an agent that tasks can be assigned to what `mission_agents.agent_line` says; `is_assignable` tells
    which.

    With `mission` those that are named after it. Cost: that of `TenantKernel.agents`.
    """
    first = after or ""
    if mission is not None:
        ids = [one for one in await agent_ids(desk, mission) if one > first][: limit + 1]
        lines = {one: await _line(desk, one) for one in ids}
    else:
        ids = await _assignable(desk, after=first, limit=limit + 1)
        known = (await desk.agents(after=after, limit=limit + 1))["items"]
        lines = {one["agent"]: _plain(one) for one in known}
        lines |= {one: await _line(desk, one, lines.get(one)) for one in ids}
    names = sorted(lines)
    items = [line for name in names[:limit] if (line := lines[name]) is not None]
    return {"items": items, "next": names[limit - 1] if len(names) > limit else None}


async def agent_facts(desk: Any, agent: str) -> dict[str, Any]:
    """Return what is known of one agent, as `TenantKernel.show_agent` and `mission_agent` say it; what only
    one of them knows is missing for the others. Errors: `NotFound` if neither knows it.
    """
    try:
        known = _plain(await desk.show_agent(agent))
    except NotFound:
        known = None
    if not await _assignable(desk, agent):
        if known is None:
            raise NotFound(f"no agent {agent!r:.140}", hint="GET /api/v1/agents names those there are.")
        return known
    return _merge_facts(agent, known, await agent_object(desk, agent))


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "id": row["agent"], "is_assignable": False}


def _merge_facts(agent: str, known: dict[str, Any] | None, told: dict[str, Any]) -> dict[str, Any]:
    return {**PLAIN, **(known or {}), **told, "agent": agent, "is_assignable": True}


async def _line(desk: Any, agent: str, known: dict[str, Any] | None = None) -> dict[str, Any] | None:
    """None for one that people may not read, or that was deleted right now."""
    try:
        told = await agent_line(desk, agent)
    except ArtelierError:
        return known
    known = known or await _read_run_facts(desk, agent)
    return _merge_facts(agent, known, told)


async def _read_run_facts(desk: Any, agent: str) -> dict[str, Any]:
    """Return what runs say of an agent that stands beyond the page of those."""
    rows = await desk.services.store.query(
        "SELECT count(*), max(started_us), (SELECT r.run FROM runs r WHERE r.tenant = ?"
        " AND r.agent = ? ORDER BY r.id DESC LIMIT 1) FROM runs WHERE tenant = ? AND agent = ?",
        (desk.id, agent, desk.id, agent),
    )
    count, last_us, last = rows[0]
    return {"runs": count, "last_us": last_us, "last_run": last}


async def _assignable(desk: Any, agent: str | None = None, *, after: str = "", limit: int = 1) -> list[str]:
    """Ids of artifacts that tasks can be assigned to, one or those after an id."""
    which, value = ("id > ?", after) if agent is None else ("id = ?", agent)
    rows = await desk.services.store.query(
        f"SELECT id FROM artifacts WHERE tenant = ? AND space = ? AND {which} AND kind = 'agent'"
        " AND deleted = 0 AND substr(id, 1, ?) <> ? ORDER BY id LIMIT ?",
        (desk.id, MAIN_SPACE, value, len(CARDS), CARDS, limit),
    )
    return [id_ for (id_,) in rows]
