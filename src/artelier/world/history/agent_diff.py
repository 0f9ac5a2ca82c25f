"""The differences between the agents of two worlds: what each has, owns and did."""

from __future__ import annotations

from typing import Any

from artelier.artifacts import account_of
from artelier.log import Store
from artelier.money import SCRIP
from artelier.world.events import world_space
from artelier.world.history.world_hash import Contents

Place = tuple[Store, str, str]
"""A store, a tenant, a world."""


async def differing(
    a: Place, b: Place, contents: list[Contents], actions: list[dict[tuple[str, str], int]]
) -> dict[str, dict[str, Any]]:
    """Return the current differences by agent: `balance`, `state`, `actions`, `owned`, `versions`.

    Each is `{a, b}`; for `owned` the ids that only one side has, for `actions` and `versions` such pairs by
    name. An agent without differences is left out.
    """
    sides = [await _agents(one) for one in (a, b)]
    artifacts = [await _artifacts(one) for one in (a, b)]
    did = [_by_agent(one) for one in actions]
    found: dict[str, dict[str, Any]] = {}
    for agent in sorted(sides[0].keys() | sides[1].keys()):
        facts: dict[str, Any] = {}
        rows = [side.get(agent) for side in sides]
        for n, name in enumerate(("balance", "state", "active")):
            _put(facts, name, [row[n] if row is not None else None for row in rows])
        pairs = _pairs([one.get(agent, {}) for one in did])
        if pairs:
            facts["actions"] = pairs
        owned = [{id_ for id_, row in one.items() if row[0] == agent and not row[3]} for one in artifacts]
        if owned[0] != owned[1]:
            facts["owned"] = {"a": sorted(owned[0] - owned[1]), "b": sorted(owned[1] - owned[0])}
        versions = await _versions(owned[0] | owned[1], artifacts, contents)
        if versions:
            facts["versions"] = versions
        if facts:
            found[agent] = facts
    return found


def _put(facts: dict[str, Any], name: str, pair: list[Any]) -> None:
    if pair[0] != pair[1]:
        facts[name] = {"a": pair[0], "b": pair[1]}


def _pairs(counted: list[dict[str, int]]) -> dict[str, dict[str, int]]:
    first, second = counted
    return {
        name: {"a": first.get(name, 0), "b": second.get(name, 0)}
        for name in sorted(first.keys() | second.keys())
        if first.get(name, 0) != second.get(name, 0)
    }


def _by_agent(actions: dict[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (agent, action), count in actions.items():
        found.setdefault(agent, {})[action] = count
    return found


async def _agents(place: Place) -> dict[str, tuple[int, str | None, bool]]:
    """Balance, state and whether it acts, by agent."""
    store, tenant, world = place
    space = world_space(world)
    rows = await store.query(
        "SELECT agent, state, active FROM world_agents WHERE tenant = ? AND space = ?", (tenant, space)
    )
    money = dict(
        await store.query(
            "SELECT account, balance FROM accounts WHERE tenant = ? AND space = ? AND asset = ?",
            (tenant, space, SCRIP),
        )
    )
    return {agent: (money.get(account_of(agent), 0), state, bool(active)) for agent, state, active in rows}


async def _artifacts(place: Place) -> dict[str, tuple[str, int, str, bool]]:
    """Owner, version, content and whether it is deleted, by id."""
    store, tenant, world = place
    rows = await store.query(
        "SELECT a.id, a.owner, a.version, v.content, a.deleted FROM artifacts a"
        " JOIN artifact_versions v ON v.tenant = a.tenant AND v.space = a.space AND v.id = a.id"
        " AND v.version = a.version WHERE a.tenant = ? AND a.space = ?",
        (tenant, world_space(world)),
    )
    return {id_: (owner, version, ref, bool(gone)) for id_, owner, version, ref, gone in rows}


async def _versions(
    ids: set[str], artifacts: list[dict[str, tuple[str, int, str, bool]]], contents: list[Contents]
) -> dict[str, dict[str, int]]:
    """Artifacts of both sides whose newest version differs, in number or in content."""
    found: dict[str, dict[str, int]] = {}
    for id_ in sorted(ids):
        rows = [side.get(id_) for side in artifacts]
        a, b = rows
        if a is None or b is None:
            continue
        if a[1] == b[1]:
            names = [await one.digest(row[2]) for one, row in zip(contents, (a, b), strict=True)]
            if names[0] == names[1]:
                continue
        found[id_] = {"a": a[1], "b": b[1]}
    return found
