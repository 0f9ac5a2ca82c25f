"""`genesis_store`: artifacts by words, kind and owner, as the caller may find them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from artelier.artifacts import Call, Tree, Working
from artelier.artifacts.write.space_session import Door
from artelier.world.clock import TickClock
from artelier.world.services.arguments import Arguments, arguments
from artelier.world.stores.entries import store_of
from artelier.world.tick.search import list_found
from artelier.world.tick.world_state import WorldStage

LIMIT_MAX = 50

Text = Annotated[str, Meta(max_length=500)]


class _StoreSearchArguments(Arguments, frozen=True, kw_only=True):
    text: Text = ""
    kind: Text | None = None
    owner: Text | None = None
    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX)] = 20


class ArtifactStore:
    """`{text, kind, owner, limit}` gives `{artifacts: [{id, kind, version, owner, prices}]}`, newest first.

    It finds what stood at the end of the tick before.
    """

    def units(self, args: Mapping[str, Any], /) -> int:
        arguments(args, _StoreSearchArguments)
        return 1

    async def run(self, working: Working, call: Call, tree: Tree, /) -> dict[str, Any]:
        given = arguments(call.args, _StoreSearchArguments)
        door = Door(
            store_of(working),
            TickClock.at(working.at_us),
            working.tenant,
            working.space,
            call.caller,
            tree.interpreter,
            tree.decisions,
            WorldStage,
        )
        found = await list_found(door, text=given.text, kind=given.kind, owner=given.owner, limit=given.limit)
        return {"artifacts": found}
