"""A principal's access to a world between ticks: the same handle as outside, over the world's own stream."""

from __future__ import annotations

from typing import Any, Protocol

from artelier.artifacts import Artifacts, Space, Working
from artelier.operations.profile.profile_reader import register_profiles
from artelier.world.actions.effects.money import check_account
from artelier.world.clock import TickClock
from artelier.world.events import reader_of, world_space
from artelier.world.kernel_adapter import Host
from artelier.world.mind_artifacts import register_minds
from artelier.world.services import search_memory, shipped_services
from artelier.world.stores import register_stores
from artelier.world.tick.world_state import WorldStage


class Looking(Protocol):
    """A store that can be asked without waiting."""

    def look(self, sql: str, parameters: Any = ..., /) -> list[Any]: ...


def space_of(host: Host, store: Looking, world: str, principal: str) -> Space:
    """The handle of one principal in a world. Its events are dated with the tick that passed last."""
    register_minds()
    register_profiles()
    register_stores()
    tenant, space = host.id, world_space(world)

    def tick() -> int:
        rows = store.look("SELECT tick FROM worlds WHERE tenant = ? AND id = ?", (tenant, world))
        return rows[0][0] if rows else 0

    clock = TickClock(tick)
    artifacts = Artifacts(
        host.services.store,
        clock,
        tenant,
        space,
        principal,
        main=host.as_principal(reader_of(world)).artifacts,
        interpreter=host.sandbox,
        services=shipped_services(),
        search_memory=search_memory,
        stages=WorldStage,
    )

    async def check_recipient(to: str) -> None:
        stage = WorldStage(host.services.store, tenant=tenant, space=space, at_us=tick())
        await check_account(Working(stage), stage, to, is_known=await stage.is_owner(to))

    return Space(host.services.store, clock, tenant, space, principal, artifacts, check_recipient)
