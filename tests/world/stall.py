"""A stall that pays for work, for tests of agents that earn by what they think with."""

from __future__ import annotations

from typing import Any

from artelier.world import World
from tests.world.places import add

STALL = """
def run(quality):
    # Pays a visitor what the work was worth.
    pay(caller, quality * 3)
    return {"earned": quality * 3}"""


async def write(world: World, owner: str, id: str, content: Any, kind: str, **more: Any) -> None:
    await world.as_principal(owner).artifacts.write(id, kind=kind, content=content, **more)


async def open_stall(world: World, scrip: int = 200) -> None:
    """A tool of a patron that pays for work, and money on the account of the tool itself."""
    await add(world, patron={})
    interface = {
        "tools": [
            {
                "name": "stall",
                "description": "Takes work and pays for it.",
                "parameters": {
                    "type": "object",
                    "properties": {"quality": {"type": "integer"}},
                    "required": ["quality"],
                },
            }
        ]
    }
    await write(world, "patron", "stall", {"code": STALL}, "tool", interface=interface)
    await world.as_principal("patron").ledger.transfer(to="artifact:stall", amount=scrip, asset="scrip")
