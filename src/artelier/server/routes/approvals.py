"""The inbox: what all runs ask people."""

from __future__ import annotations

from artelier.server.deps import Desk
from artelier.server.routes import resource
from artelier.server.wire.runs import ApprovalList

router = resource("approvals")


@router.get("")
async def list_(desk: Desk) -> ApprovalList:
    """Every open question of the tenant; `POST /runs/{id}/approve` answers one."""
    return ApprovalList.model_validate({"items": await desk.approvals()})
