"""Agents that were written into a world begin to act there, once, with the scrip of their files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from artelier.errors import InvalidRequest
from artelier.world.agent import check_agent_id
from artelier.world.events import world_space
from artelier_migrate.format.diagnostics import Note
from artelier_migrate.specification import Plan

if TYPE_CHECKING:
    from artelier_migrate.artifact_writer import Outcome

SCRIP = "starting_scrip"
"""Key of an agent's metadata: scrip that it begins with."""


def fail_reserved(plans: Sequence[Plan]) -> list[Plan]:
    """Fail the plans of agents whose id is a world's own: none of them could join."""
    return [_without_reserved(plan) for plan in plans]


def _without_reserved(plan: Plan) -> Plan:
    if plan.agent is None:
        return plan
    try:
        check_agent_id(plan.agent)
    except InvalidRequest as error:
        file = "agent.yaml" if plan.folder == "." else f"{plan.folder}/agent.yaml"
        note = Note(what="failed", file=file, key="id", text=str(error))
        return msgspec.structs.replace(plan, artifacts=(), notes=(*plan.notes, note))
    return plan


async def join_agents(
    kernel: Any,
    world: str,
    plans: Sequence[Plan],
    outcomes: Sequence[Outcome],
    *,
    dry_run: bool = False,
    by: str = "operator",
) -> list[Outcome]:
    """Let the agents of `outcomes` join a world: those that never were in it. The outcomes with `joined`.

    One that has left stays away. Without an amount of its own an agent gets the world's start balance.
    Errors: `NotFound` for a world that is not there.
    """
    from artelier.world.world import World

    opened = World.open(kernel, world)
    start = (await opened.config()).start_balance
    rows = await opened.host.services.store.query(
        "SELECT agent FROM world_agents WHERE tenant = ? AND space = ?", (opened.host.id, world_space(world))
    )
    known = {row[0] for row in rows}
    amounts: dict[str, int] = {}
    for outcome, plan in zip(outcomes, plans, strict=True):
        if outcome.status in ("skipped", "failed") or outcome.agent in (None, *known):
            continue
        amounts[str(outcome.agent)] = starting_scrip(plan, default=start)
    if not dry_run:
        for amount in sorted(set(amounts.values())):
            names = [agent for agent, scrip in amounts.items() if scrip == amount]
            await opened.join(*names, scrip=amount, by=by)
    return [msgspec.structs.replace(one, joined=amounts.get(one.agent or "")) for one in outcomes]


def starting_scrip(plan: Plan, *, default: int) -> int:
    """Return what the file of an agent gives it."""
    own = [made.metadata.get(SCRIP) for made in plan.artifacts if made.id == plan.agent]
    return own[0] if own and isinstance(own[0], int) else default
