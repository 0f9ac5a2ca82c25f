"""The refs that a fork replaces: each must be one that the origin's history used, by one that exists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from artelier.artifacts.substitution import artifact_exists
from artelier.errors import ArtelierError, MissingKey, NotFound
from artelier.kernel import events as ev
from artelier.kernel.ancestry import Place
from artelier.kernel.fork_effects import plain_ref
from artelier.kernel.prompts import Renderer
from artelier.kernel.queries import shown_json
from artelier.kernel.services import Services
from artelier.log.event import decode_data
from artelier.tokens import canonical_name

REF_CHARS_MAX = 300
"""Of a text in settings, arguments and results that may be a ref."""


async def check_refs(
    services: Services, tenant: str, places: Sequence[Place], refs: Mapping[str, str]
) -> None:
    """Refuse a replacement that would do nothing.

    Errors: `NotFound` for a ref that the origin, all of its history and the runs below it never used, and for
    one that does not exist. Cost: O(the origin's history), if there are refs.
    """
    if not refs:
        return
    used = await _used(services, tenant, places)
    for old, new in refs.items():
        if not await _is_used(services, tenant, old, used):
            raise NotFound(
                f"run {places[0].run_id!r} never used {old!r}, so that a fork cannot replace it",
                expected="an artifact, skill, memory block, tool or model of its history",
                hint=f"`artelier runs steps {places[0].run_id}` and `artelier manifest show` name them.",
            )
        if not await _exists(services, tenant, old, new, used):
            raise NotFound(f"there is no {new!r} to use in place of {old!r}")


class _Used:
    """What a history used, by kind."""

    def __init__(self) -> None:
        self.models: set[str] = set()
        self.tools: set[str] = set()
        self.others: set[str] = set()
        self.listed: set[str] = set()
        """Names in results and settings: what was there to be used."""


async def _used(services: Services, tenant: str, places: Sequence[Place]) -> _Used:
    found = _Used()
    runs = dict[int, str]()
    for place in places:
        runs |= dict(await services.store.query(_TREE, (place.stream_id, tenant)))
    for stream, run_id in runs.items():
        renderer = await Renderer.open(services, tenant, run_id, forgiving=True)
        rows = await services.store.query(_EVENTS, (stream,))
        for kind, version, data in rows:
            await _note(
                services, tenant, found, decode_data(kind, version, data.encode()), renderer
            )
    return found


async def _note(
    services: Services, tenant: str, found: _Used, data: Any, renderer: Renderer
) -> None:
    if isinstance(data, ev.ContextAssembled):
        for part in (await renderer.manifest(data.key)).parts:
            found.others |= {plain_ref(source.partition(" (")[0]) for source in part.src}
    elif isinstance(data, ev.ModelRequested):
        found.models.add(data.model)
    elif isinstance(data, ev.ToolRequested):
        found.tools.add(data.name)
        for text in _texts(await shown_json(services, tenant, data.arguments)):
            found.others.add(plain_ref(text))
    elif isinstance(data, ev.RunStarted):
        found.models |= {canonical_name(data.model)} if data.model else set()
        tools: Any = await shown_json(services, tenant, data.tools)
        listed = cast("list[dict[str, Any]]", tools) if isinstance(tools, list) else []
        found.tools |= {str(one.get("name", "")) for one in listed}
        found.others |= set(_texts(await shown_json(services, tenant, data.settings)))
    elif isinstance(data, ev.StepCompleted):
        found.listed |= set(_texts(await shown_json(services, tenant, data.result)))


def _texts(value: Any) -> Iterator[str]:
    """Yield the short texts in JSON data."""
    left: list[Any] = [value]
    while left:
        one = left.pop()
        if isinstance(one, str) and len(one) <= REF_CHARS_MAX:
            yield one
        elif isinstance(one, dict):
            left.extend(cast("dict[str, Any]", one).values())
        elif isinstance(one, list):
            left.extend(cast("list[Any]", one))


async def _is_used(services: Services, tenant: str, old: str, used: _Used) -> bool:
    if old in used.tools or old in used.others or canonical_name(old) in used.models:
        return True
    id_, mark, _ = old.partition("@")
    if not mark:
        return any(one.startswith(f"{old}@") for one in used.others)
    # Some prompts name an artifact without its version: then it must at least have had this one.
    return id_ in used.others and await artifact_exists(services.store, tenant, old)


async def _exists(services: Services, tenant: str, old: str, new: str, used: _Used) -> bool:
    """Return True if the new ref can stand for the old: a tool for a tool, a model for a model."""
    if old in used.tools:
        return new in services.tools or new in used.tools
    if canonical_name(old) in used.models:
        try:
            services.model(new)
        except MissingKey:
            return True  # its steps may be driven by a process that has the key
        except ArtelierError:
            return False
        return True
    return new in used.others | used.listed or await artifact_exists(services.store, tenant, new)


_TREE = (
    "WITH RECURSIVE tree(id, run) AS (SELECT id, run FROM runs WHERE id = ?1 UNION ALL"
    " SELECT r.id, r.run FROM tree t JOIN runs r ON r.tenant = ?2 AND r.parent = t.run)"
    " SELECT id, run FROM tree"
)
_EVENTS = (
    "SELECT kind, version, data FROM events WHERE stream = ? AND kind IN ('run.started',"
    " 'context.assembled', 'model.requested', 'tool.requested', 'step.completed') ORDER BY seq"
)
