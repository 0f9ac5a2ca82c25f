"""The streams that an export may hold, and the events that may stand in them.

Views act on events by their kind. So a kind must stand where its handler expects it: a `tenant.updated` in
the stream of a run would change the tenant that imports it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from artelier.artifacts import GROUPING, check_principal
from artelier.artifacts import MOVING as ARTIFACT_EVENTS
from artelier.errors import InvalidExport, InvalidRequest
from artelier.ids import check_artifact_id, check_run_id
from artelier.kernel import events as ev
from artelier.kernel.prompt.manifest import decode_head
from artelier.log import EventData

_ELSEWHERE: tuple[type[EventData], ...] = (*ev.OF_TENANTS, ev.CommandGiven)

KINDS: dict[str, set[str]] = {
    "run": {
        cls.KIND
        for cls in vars(ev).values()
        if isinstance(cls, type) and issubclass(cls, EventData) and cls not in _ELSEWHERE
    }
    - {""},
    "control": {ev.CommandGiven.KIND},
    "artifact": {cls.KIND for cls in (*ARTIFACT_EVENTS, *GROUPING)},
}
"""Kinds of events by type of stream. A package that records its own in runs adds them here."""

BESIDE: dict[str, set[str]] = {"membrane": {cls.KIND for cls in GROUPING}}
"""Kinds of events that stand beside the versions of an artifact, by its kind; added to like `KINDS`."""

ABOUT: dict[str, str] = {cls.KIND: "group" for cls in GROUPING}
"""Which field names the artifact in whose stream an event of this kind stands, where that is not `id`."""


def check_stream(local: str) -> tuple[str, str]:
    """Type and id of a stream that may be exported. Errors: `InvalidExport`."""
    kind, _, id_ = local.partition(":")
    try:
        if kind == "artifact":
            return kind, check_artifact_id(id_)
        if kind in ("run", "control"):
            return kind, check_run_id(id_)
    except InvalidRequest as error:
        raise InvalidExport(f"a stream has no legal name: {error}") from None
    raise InvalidExport(
        "this stream is nothing that runs are made of",
        expected="run:..., control:... or artifact:...",
        got=local[:120],
    )


def check_place(local: str, seq: int, kind: str, data: EventData, *, more: Collection[str] = ()) -> None:
    """An event stands in a stream of its kind; `more` kinds may stand in those of artifacts.

    What events of `more` kinds say is checked by whoever named them. Errors: `InvalidExport`.
    """
    type_, id_ = check_stream(local)
    where = f"event {seq} of {local[:120]}"
    if type_ == "artifact" and kind in more:
        return
    if kind not in KINDS[type_]:
        raise InvalidExport(f"{where}: {kind[:80]} does not belong in such a stream")
    if isinstance(data, ev.LimitSet) and data.scope != f"run:{id_}":
        raise InvalidExport(f"{where} sets a cap of somebody else", got=data.scope[:120])
    if isinstance(data, ev.RunStarted | ev.RunForked) != (type_ == "run" and seq == 1):
        raise InvalidExport(f"{where}: a run's stream begins with its start, and nowhere else")
    if type_ == "artifact" and getattr(data, ABOUT.get(kind, "id"), None) != id_:
        raise InvalidExport(f"{where} is about another artifact")
    if isinstance(data, GROUPING):
        try:
            check_principal(getattr(data, "principal", None))
        except InvalidRequest as error:
            raise InvalidExport(f"{where}: {error}") from None


def head_refs(content: bytes) -> Iterator[str]:
    """Return what the head of a manifest refers to. Errors: `CorruptStore` if it is none."""
    head = decode_head(content)
    yield from (ref for ref in (head.tools, head.output_schema) if ref is not None)
    yield from (part.blob for part in head.parts if part.blob is not None)
