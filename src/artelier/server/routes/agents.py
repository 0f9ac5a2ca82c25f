"""`/agents`: those that have runs or a memory in this tenant."""

from __future__ import annotations

from artelier.server.deps import Desk
from artelier.server.routes import resource
from artelier.server.wire import agents as wire
from artelier.server.wire.forms import After, Limit, Page

router = resource("agents")


@router.get("", operation_id="agents_list")
async def list_(desk: Desk, after: After = None, limit: Limit = 100) -> Page[wire.AgentLine]:
    """Agents by id, with their runs and what they cost."""
    found = await desk.agents(after=after, limit=limit)
    return Page[wire.AgentLine].model_validate(found)


@router.get("/{id}", operation_id="agents_show")
async def show(desk: Desk, id: str) -> wire.AgentShown:
    """One agent with its card, sub-agents and skills."""
    return wire.AgentShown.model_validate(await desk.show_agent(id))
