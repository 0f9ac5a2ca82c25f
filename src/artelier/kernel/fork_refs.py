"""The refs that a fork replaces: each must be one that the origin's history used, by one that exists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from artelier.artifacts.substitution import artifact_exists
from artelier.errors import ArtelierError, InvalidRequest, MissingKey, NotFound
from artelier.ids import MAIN_SPACE
from artelier.kernel import events as ev
from artelier.kernel.ancestry import Place
from artelier.kernel.fork_effects import plain_ref
from artelier.kernel.prompts import Renderer
from artelier.kernel.queries import shown_json
from artelier.kernel.services import Services
from artelier.log.event import decode_data
from artelier.tokens import canonical_name

SKILL_TOOLS = frozenset(("load_skill", "use_skill", "unload_skill", "read_skill_file"))
"""Tools whose arguments name skills."""

ASSIGNED = frozenset(("agent", "task", "membrane", "steering"))
"""Kinds of artifacts that a run reads when it is started; what they said is in its settings."""

REF_CHARS_MAX = 300
"""Of a text in settings, arguments and results that may be a ref."""


async def check_refs(
    services: Services, tenant: str, places: Sequence[Place], refs: Mapping[str, str]
) -> None:
    """Refuse a replacement that would do nothing.

    Errors: `NotFound` for a ref that the origin, all of its history and the runs below it never used, and
    for one that does not exist; `InvalidRequest` for what the run was assigned when it began.
    Cost: O(the origin's history), if there are refs.
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
        await _check_kind(services, tenant, old)
        if not await _exists(services, tenant, old, new, used):
            raise NotFound(f"there is no {new!r} to use in place of {old!r}")


class _Used:
    """What a history used, by kind."""

    def __init__(self) -> None:
        self.models: set[str] = set()
        self.tools: set[str] = set()
        self.skills: set[str] = set()
        self.texts: set[str] = set()
        """What may be a ref of an artifact: sources of prompts, texts in arguments and settings."""
        self.listed: set[str] = set()
        """Texts in recorded results: names of skills that were there to be used, among others."""


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
            sources = {source.partition(" (")[0] for source in part.src}
            found.skills |= {plain_ref(one) for one in sources if one.startswith("skill:")}
            found.texts |= {plain_ref(one) for one in sources}
    elif isinstance(data, ev.ModelRequested):
        found.models.add(data.model)
    elif isinstance(data, ev.ToolRequested):
        found.tools.add(data.name)
        texts = set(_texts(await shown_json(services, tenant, data.arguments)))
        (found.skills if data.name in SKILL_TOOLS else found.texts).update(texts)
    elif isinstance(data, ev.RunStarted):
        found.models |= {canonical_name(data.model)} if data.model else set()
        tools: Any = await shown_json(services, tenant, data.tools)
        listed = cast("list[dict[str, Any]]", tools) if isinstance(tools, list) else []
        found.tools |= {str(one.get("name", "")) for one in listed}
        found.texts |= set(_texts(await shown_json(services, tenant, data.settings)))
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
    if old in used.tools or old in used.skills or canonical_name(old) in used.models:
        return True
    if not await artifact_exists(services.store, tenant, old):
        return False
    # Some prompts name an artifact without its version: then it must at least have this one.
    id_, mark, _ = old.partition("@")
    is_named = old in used.texts or id_ in used.texts
    return is_named or (not mark and any(one.startswith(f"{old}@") for one in used.texts))


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
    if old in used.skills:
        return new in used.skills or new in used.listed
    return await artifact_exists(services.store, tenant, new)


async def _check_kind(services: Services, tenant: str, old: str) -> None:
    """Errors: `InvalidRequest` for what a run was assigned: a fork has it in its settings."""
    rows = await services.store.query(
        "SELECT kind FROM artifacts WHERE tenant = ? AND space = ? AND id = ?",
        (tenant, MAIN_SPACE, old.partition("@")[0]),
    )
    if rows and rows[0][0] in ASSIGNED:
        raise InvalidRequest(
            f"{old!r} is what the run was assigned when it began", expected="a ref that it reads later",
            got=f"an artifact of kind {rows[0][0]}", hint="Make a new task, or change its steering.",
        )  # fmt: skip


_TREE = (
    "WITH RECURSIVE tree(id, run) AS (SELECT id, run FROM runs WHERE id = ?1 UNION ALL"
    " SELECT r.id, r.run FROM tree t JOIN runs r ON r.tenant = ?2 AND r.parent = t.run)"
    " SELECT id, run FROM tree"
)
_EVENTS = (
    "SELECT kind, version, data FROM events WHERE stream = ? AND kind IN ('run.started',"
    " 'context.assembled', 'model.requested', 'tool.requested', 'step.completed') ORDER BY seq"
)
