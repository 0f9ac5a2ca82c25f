"""The tool with which a model reads on in an artifact that it was shown only a preview of."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from artelier.artifacts import Artifact, Artifacts, Provenance
from artelier.errors import AccessDenied, ArtelierError, NotFound, ToolFailed
from artelier.ids import MAIN_SPACE, fresh_secret
from artelier.kernel import RunCore, result_id
from artelier.kernel.run.context import find_driver
from artelier.kernel.run.services import Services
from artelier.ports.tool import ToolContext
from artelier.tools import Tool, tool

if TYPE_CHECKING:
    from artelier.kernel.history.step_history import ForkEffects


READ_ON = "read_artifact"
"""Name of the tool."""

LIMIT_MAX = 20_000
"""Characters of one answer: well below what becomes an artifact itself."""


def read_artifact_tool(services: Services, *, principal: str = "") -> Tool[..., Any]:
    """`read_artifact(ref, offset, limit)`; access is that of the principal, the calling run unless said."""

    @tool(side_effect=False, name=READ_ON, reads_store=True)
    async def read_artifact(
        ref: str, ctx: ToolContext, offset: int = 0, limit: int = 10_000
    ) -> dict[str, Any]:
        """Read a part of an artifact (a large tool result, a report) by its ref."""
        space = Artifacts(
            services.store, services.clock, ctx.tenant_id, MAIN_SPACE, principal or f"run:{ctx.run_id}"
        )
        core = find_driver(services, ctx.tenant_id, ctx.run_id)
        try:
            artifact = await _read(space, ref, None if core is None else core.effects)
        except ArtelierError as error:
            raise ToolFailed(error.message, got=ref[:200]) from None
        text = artifact.content if isinstance(artifact.content, str) else repr(artifact.content)
        start = max(0, offset)
        end = start + max(1, min(limit, LIMIT_MAX))
        return {
            "ref": ref,
            "text": text[start:end],
            "offset": start,
            "total_chars": len(text),
            "next_offset": end if end < len(text) else None,
        }

    return read_artifact


async def _read(space: Artifacts, ref: str, fork: ForkEffects | None) -> Artifact:
    """Read an artifact; a fork's own, written under its folder, comes before its origin's.

    Errors: those of `Artifacts.read`.
    """
    if fork is not None and "@" not in ref:
        with suppress(NotFound):
            return await space.read(fork.own_id(ref))
    return await space.read(ref)


# Large results of tools as artifacts


async def keep_result(
    artifacts: Artifacts, core: RunCore, key: str, content: bytes, *, media_type: str = "", **more: Any
) -> str:
    """The ref of a new document that holds a step's result; it comes with the batch of the step's event.

    `media_type`: of an image, a sound, a PDF; text has none. `more`: what else the document has, such as
    `access`.
    """
    id_ = result_id(core.run_id, key)
    if core.effects is not None:
        id_ = core.effects.own_id(id_)
    wish: dict[str, Any] = {
        "kind": "document",
        "content": content if media_type else content.decode(),
        "metadata": {"type": media_type} if media_type else None,
        "provenance": Provenance(run_id=core.run_id, step=key),
        "key": core.shared_key,
        **more,
    }
    try:
        append, blobs, artifact = await artifacts.plan_write(id_, **wish)
    except (AccessDenied, NotFound):  # somebody else has or had the name: take another
        id_ = f"{id_}.{fresh_secret(6).hex()}"
        append, blobs, artifact = await artifacts.plan_write(id_, **wish)
    core.writer.note_aside(append, blobs)
    return f"{artifact.id}@{artifact.version}"
