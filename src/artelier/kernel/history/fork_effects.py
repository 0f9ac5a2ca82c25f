"""The permissions of a fork, and of every run below it, to act outside, and the place of its artifacts.

Under `recorded`, a side-effecting call that equals one of the origin's returns that call's outcome, and each
recorded call is used once. Used calls are named in the fork's own events, so that none is used again after a
crash. See docs/decisions/0029-forks.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from artelier.errors import InvalidRequest, ToolFailed
from artelier.kernel import events as ev
from artelier.kernel.history.fork_lineage import OPEN_END, Place, changes_of, lineage
from artelier.kernel.history.recorded_calls import ForkEffects, RecordedCall
from artelier.kernel.queries.runs import run_row
from artelier.kernel.queries.steps import calls_below, find_step
from artelier.kernel.run.services import Services
from artelier.kernel.steps.step_keys import id_part
from artelier.log import run_stream
from artelier.ports.tool import ToolPort

RECORD = "record"
"""As `settled_by`: the outcome is that of a recorded call, and nothing was dispatched."""


OWN_NAMES = frozenset(("model", "steering"))
"""What a fork changes that is no ref."""


def check_effects(effects: object) -> ev.Effects:
    """Return a valid mode. Errors: `InvalidRequest`."""
    if effects not in ev.EFFECTS:
        raise InvalidRequest(
            "what a fork may do outside", expected=f"one of: {', '.join(ev.EFFECTS)}", got=repr(effects)[:80]
        )
    return effects


def acts_outside(tool: ToolPort) -> bool:
    """Return True if a call changes something beyond this store.

    Delegation leaves events here, and the run below is held to the fork's mode itself. A memory belongs to
    its agent and outlives the run, so that writing to it counts as any other effect.
    """
    return tool.side_effect and not getattr(tool, "acts_in_store", False)


def stub_result(name: str) -> ToolFailed:
    """Return what a model reads instead of a result under `stub`."""
    return ToolFailed(
        f"{name!r} was not called: this run is a fork that does nothing outside",
        expected="a way to go on without it",
    )


def refs_of(changes: Mapping[str, Any]) -> dict[str, str]:
    """Return the refs among what a fork changes. Errors: `InvalidRequest` for one that is no text."""
    refs: dict[str, str] = {}
    for old, new in changes.items():
        if old in OWN_NAMES:
            continue
        if not isinstance(new, str) or not new or not old:
            raise InvalidRequest(
                "a fork replaces one ref by another",
                expected="REF=REF, both as text",
                got=f"{old[:80]!r}: {new!r}"[:160],
            )
        refs[plain_ref(old)] = plain_ref(new)
    return refs


def plain_ref(ref: str) -> str:
    """Return a ref as code asks for it: manifests say `skill:NAME` and `profile:ID@VERSION`."""
    for prefix in ("skill:", "profile:"):
        ref = ref.removeprefix(prefix)
    return ref


def fork_folder(run_id: str) -> str:
    """Return what ids of a fork's artifacts begin with."""
    return f"forks/{id_part(run_id)}"


async def effects_of(services: Services, tenant: str, run_id: str) -> ForkEffects | None:
    """Return what holds for a run: what the nearest fork at or above it says; None if there is none."""
    name: str | None = run_id
    while name is not None:
        row = await run_row(services.store, tenant, name)
        if row.origin is not None:
            found = services.fork_effects.get((tenant, name))
            if found is None:
                forked = await _read_fork_event(services, tenant, name)
                # One from before there were folders was made when nobody resolved refs.
                changes = await changes_of(services, await lineage(services, tenant, name))
                found = ForkEffects(
                    services.store,
                    tenant,
                    name,
                    read_unused=partial(_read_unused_calls, services, tenant, name),
                    forked=forked,
                    replaced=refs_of(changes) if forked.folder else {},
                )
                services.fork_effects[tenant, name] = found
            return found
        name = row.parent
    return None


async def _read_fork_event(services: Services, tenant: str, run_id: str) -> ev.RunForked:
    began = (await services.store.read(run_stream(tenant, run_id), limit=1))[0].decode()
    assert isinstance(began, ev.RunForked)
    return began


# The record


async def _read_unused_calls(services: Services, tenant: str, run_id: str) -> list[RecordedCall]:
    """Return the calls behind the branch that are not used yet, the nearest origin's first, oldest first.

    Calls that an origin itself might still return belong to them, if it is a fork that does not act.
    """
    places = await lineage(services, tenant, run_id)
    before = (await services.store.read(places[0].stream, limit=1))[0].position
    used: set[tuple[str, str]] = set()
    found: dict[tuple[str, str], RecordedCall] = {}
    is_record = True
    for place in places:
        for one in await _calls(services, tenant, place):
            id_ = (one.call.run_id, one.call.key)
            if one.is_shared and one.is_returned:
                used.add(id_)
            elif not one.is_shared and is_record and one.position < before:
                found.setdefault(id_, one.call)
        if place not in (places[0], places[-1]):
            is_record = (
                is_record and (await _read_fork_event(services, tenant, place.run_id)).effects != "live"
            )
    return [call for id_, call in found.items() if id_ not in used]


class _FoundCall(NamedTuple):
    position: int
    """Of the outcome, in the log."""
    is_shared: bool
    """Whether it is before the branch, or the fork's own."""
    is_returned: bool
    """Whether nothing was dispatched: a fork returned a recorded call."""
    call: RecordedCall


async def _calls(services: Services, tenant: str, place: Place) -> list[_FoundCall]:
    """Return the completed tool calls of a run of the lineage, and of all runs below it."""
    shared: dict[str, bool] = {}
    found: list[_FoundCall] = []
    for run, step, seq, asked_for, outcome in await calls_below(services.store, tenant, place.stream_id):
        request = asked_for.decode()
        if not isinstance(request, ev.ToolRequested) or request.undoes:
            continue
        end = outcome.decode()
        asked = (request.arguments, *([] if request.asked is None else [request.asked]))
        first = end.recorded if isinstance(end, ev.ToolCompleted) else None
        call = RecordedCall(
            run_id=run if first is None else first.run,
            key=request.key if first is None else first.key,
            step=request.key if step is None else "",
            name=request.name,
            asked=asked,
            result=getattr(end, "result", None),
            is_error=_is_error(end),
            artifact=getattr(end, "artifact", ""),
            preview=getattr(end, "preview", False),
        )
        if step is not None and step not in shared:
            shared[step] = await _is_shared(services, place, step)
        is_shared = seq <= place.upto if step is None else shared[step]
        found.append(_FoundCall(outcome.position, is_shared, first is not None, call))
    return found


def _is_error(end: object) -> bool:
    if isinstance(end, ev.ToolReconciled):
        return end.answer == "failed"
    return isinstance(end, ev.ToolCompleted) and end.is_error


async def _is_shared(services: Services, place: Place, step: str) -> bool:
    """Return True if a fork shares the outcome of the step that led to a child: it starts no other one."""
    if place.upto == OPEN_END:
        return True
    found = await find_step(services.store, place.stream_id, step)
    if found is None or found.status != "completed":
        return False
    return found.completed is not None and found.completed <= place.upto
