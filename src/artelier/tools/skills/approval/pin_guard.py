"""A tool from outside, callable only while its definition is the one that this tenant may use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from artelier.errors import ToolFailed
from artelier.ports.model import ToolSchema
from artelier.ports.tool import Compensate, Reversible, Risk, ToolContext, ToolPort
from artelier.tools.skills.approval.pins import pin_of
from artelier.tools.skills.catalog_runtime import CatalogPlace


class GatedTool:
    """The tool of a server under the name that models use.

    Its pin is read before every call: what was loaded while it was approved is not called any more after it
    has changed or was refused. Its results are untrusted, whatever it says. Whoever holds it sees the tool as
    of the last listing.
    """

    def __init__(self, tool: ToolPort, *, name: str, source: str, hash: str, place: CatalogPlace) -> None:
        self.name = name
        self.trust = "untrusted"
        self._source = source
        self._place = place
        self.become(tool, hash=hash)

    def become(self, tool: ToolPort, *, hash: str) -> None:
        """Take the definition that a listing has found now."""
        self.description = tool.description
        self.side_effect: bool = tool.side_effect
        self.idempotent: bool = tool.idempotent
        self.grant: str | None = tool.grant
        self.timeout_s: float | None = tool.timeout_s
        self.heartbeat_timeout_s: float | None = tool.heartbeat_timeout_s
        self.risk: Risk = tool.risk
        self._tool = tool
        self._hash = hash
        # Kept, so that what is shown, pinned and checked is one definition.
        schema = tool.schema
        self._schema = ToolSchema(
            name=self.name, description=schema.description, parameters=schema.parameters
        )

    @property
    def schema(self) -> ToolSchema:
        return self._schema

    def validate(self, arguments: Any) -> dict[str, Any]:
        """Validate the arguments like the tool itself."""
        return self._tool.validate(arguments)

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Call the tool itself. Errors: `ToolFailed`, before anything happened, for a parked definition."""
        tool, hash = self._tool, self._hash  # a listing may change both while the pin is read
        await self._check(context.tenant_id, tool.name, hash)
        return await tool.call(arguments, context)

    @property
    def probe(self) -> Callable[[str, dict[str, Any]], Awaitable[Any]] | None:
        """The probe of the tool itself: asking what happened needs no new approval."""
        return self._tool.probe

    @property
    def compensate(self) -> Compensate | None:
        """The compensation of the tool itself: a completed call may be undone under any definition."""
        return self._tool.compensate if isinstance(self._tool, Reversible) else None

    async def _check(self, tenant: str, name: str, hash: str) -> None:
        pin = await pin_of(self._place.services.store, tenant, self._source, name)
        if pin is None or pin.status != "active" or pin.hash != hash:
            raise ToolFailed(
                f"the skill `{self.name}` may not be used as it is now",
                hint="Its definition waits for a person. Go on without it.",
            )
