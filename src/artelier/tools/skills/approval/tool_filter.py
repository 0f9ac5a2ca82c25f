"""The tools that a tenant may use: `allowed-tools` is cut down to them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from artelier.kernel.policy import is_granted
from artelier.log import Store
from artelier.ports.tool import ToolPort


async def usable_tools(store: Store, tenant: str, tools: Mapping[str, ToolPort]) -> frozenset[str]:
    """Names of tools that are there and that the tenant's grants cover; a run may have fewer."""
    rows = await store.query("SELECT grants FROM tenants WHERE tenant = ?", (tenant,))
    grants: list[str] = msgspec.json.decode(rows[0][0], type=list[str]) if rows else []
    return frozenset(
        name for name, tool in tools.items() if is_granted(grants, tool.grant or f"tools:{name}")
    )
