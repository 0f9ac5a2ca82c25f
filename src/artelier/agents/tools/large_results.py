"""Large results of tools as artifacts."""

from __future__ import annotations

from typing import Any

from artelier.artifacts import Artifacts, Provenance
from artelier.errors import AccessDenied, NotFound
from artelier.ids import fresh_secret
from artelier.kernel import RunCore, result_id


async def keep_result(artifacts: Artifacts, core: RunCore, key: str, content: bytes, **more: Any) -> str:
    """The ref of a new document that holds a step's result; it comes with the batch of the step's event.

    `more`: what else the document has, such as `access`.
    """
    id_ = result_id(core.run_id, key)
    if core.effects is not None:
        id_ = core.effects.own_id(id_)
    wish: dict[str, Any] = {
        "kind": "document",
        "content": content.decode(),
        "provenance": Provenance(run_id=core.run_id, step=key),
        "key": core.key,
        **more,
    }
    try:
        append, blobs, artifact = await artifacts.plan_write(id_, **wish)
    except (AccessDenied, NotFound):  # somebody else has or had the name: take another
        id_ = f"{id_}.{fresh_secret(6).hex()}"
        append, blobs, artifact = await artifacts.plan_write(id_, **wish)
    core.writer.note_aside(append, blobs)
    return f"{artifact.id}@{artifact.version}"
