"""Changed code under recorded runs: forks where it asks for something else, and versions of a change.

Under the replay policy `fork_on_drift`, a run whose code asks for something else than was recorded goes on
as a fork of itself that shares all before that step, in the same drive. The fork, the end of the run it
leaves and the lease come in one batch: a crash finds all of it or none.

The version of a change that a run goes by is an event and no step: it has no key among the run's keys, so
that the question can be put into code, and taken out of it, without moving anything.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import Protocol, cast

import msgspec

from artelier.errors import InvalidRequest, ReplayMismatch, RunStopped
from artelier.ids import check_run_id
from artelier.kernel import events as ev
from artelier.kernel.control_stream import cancel_left, return_held_money
from artelier.kernel.history.comparison import keyed_kinds
from artelier.kernel.history.fork import unheard
from artelier.kernel.history.fork_lineage import Place, earlier_events, key_owner_of, lineage
from artelier.kernel.history.step_history import History
from artelier.kernel.queries.runs import drift_forks, run_row
from artelier.kernel.queries.steps import StepRecord, step_of, step_records, untouched_calls
from artelier.kernel.queries.tenants import run_key
from artelier.kernel.run.context import RunCore
from artelier.kernel.run.services import Services
from artelier.kernel.steps.step_keys import SingleStep
from artelier.kernel.tool_calls.dispatches import entered_by
from artelier.ledger.queries import scope_limits
from artelier.log import Batch, Blob, Draft, EventData, LeaseEnd, StreamAppend, run_stream
from artelier.log.queries import stream_events

FORK_ON_DRIFT = "fork_on_drift"

_logger = logging.getLogger("artelier.kernel")

_NUMBERED = re.compile(r"\A(.+)\.drift-([0-9]{1,9})\Z", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftFork:
    """The fork in which a run goes on, whose lease is this process's."""

    run_id: str
    token: int
    lease_end: LeaseEnd


def untake(core: RunCore) -> None:
    """The messages that the step at hand was to record are new again."""
    for conversation in core.taken:
        conversation.untake()
        core.fresh[id(conversation)] = conversation
    core.taken = []


async def newest_drift(services: Services, tenant: str, run_id: str) -> str:
    """The run itself, or the newest fork in which it goes on under the policy."""
    base, _ = _parse_chain(run_id)
    forks = await drift_forks(services.store, tenant, f"{base}.drift-", f"{base}.drift-:")
    return max([run_id, *forks], key=lambda run: _parse_chain(run)[1])


def _parse_chain(run_id: str) -> tuple[str, int]:
    """The run that a chain of such forks began with, and the number of this one; 0 for the first."""
    found = _NUMBERED.match(run_id)
    return (found[1], int(found[2])) if found else (run_id, 0)


class SettleLeft(Protocol):
    """Has it known what a dispatched call did that the code does not ask for any more."""

    async def __call__(
        self, core: RunCore, key: str, request: ev.ToolRequested, /, *, again: bool
    ) -> None: ...


async def branch_off(
    core: RunCore, mismatch: ReplayMismatch, *, by: str, settle_left: SettleLeft
) -> DriftFork:
    """Make the fork that shares everything before the step at hand, and end the run that it leaves.

    `settle_left` is that of tool steps.
    Errors: the mismatch, where the run cannot go on elsewhere: beside other steps at work, and from an ended
    run whose side effect after that point has no known outcome; `RunSuspended` with `unknown_outcome` from
    one that has not ended.
    """
    services, tenant, key = core.services, core.tenant.id, mismatch.facts.get("key")
    if core.calls.tasks or sum(core.keys.in_flight.values()) > 1:
        mismatch.hint = "Steps beside each other cannot go on in a fork: run the code that recorded them."
        raise mismatch
    place, at = await _place_of(core, str(key), mismatch)
    if core.actor is not None:
        await core.writer.commit()
    for key_, request in await _find_open_effects(core, place, at):
        if core.actor is None:
            mismatch.hint = (
                f"What step {key_} did is not known, and a fork would forget it: have the run go on with"
                f" `artelier retry {core.run_id}`, and say what became of the step."
            )
            raise mismatch
        await _settle(core, key_, request, settle_left)
    if core.actor is not None:
        await core.quiet()
        core.ending = False
        if core.cancelled_reason is not None:
            raise RunStopped(core.run_id, reason=core.cancelled_reason)
        await core.writer.commit()
    newest = await newest_drift(services, tenant, core.run_id)
    base, number = _parse_chain(newest)
    name = check_run_id(f"{base}.drift-{number + 1}")
    if core.effects is None or core.effects.mode == "live":
        _logger.warning(
            "run %s goes on as %s from step %s: side effects after it are live, and what the old run did"
            " there may be done again",
            core.run_id,
            name,
            key,
        )
    now = services.clock.now_us()
    began, blobs = await _beginning(core, place, at, name, now_us=now, by=by)
    appends = [StreamAppend(run_stream(tenant, name), began, expected_seq=0)]
    if core.actor is not None:
        row = await run_row(services.store, tenant, core.run_id)
        section = str(mismatch.facts.get("section") or "")
        left: list[EventData] = list(await return_held_money(services, row))
        left.append(ev.RunDrifted(fork=name, key=str(key), section=section))
        appends.append(StreamAppend(core.stream, [Draft(data, now, by) for data in left]))
    lease = services.lease(run_stream(tenant, name))
    fence = core.actor.fence if core.actor is not None else None
    receipt = await services.store.append(Batch(appends=appends, blobs=blobs, fence=fence, acquire=lease))
    services.at("run.drifted")
    if core.actor is not None:
        core.came_back()
        await cancel_left(services, tenant, core.run_id)
    return DriftFork(run_id=name, token=receipt.lease_token or 0, lease_end=lease.end)


async def _place_of(core: RunCore, key: str, mismatch: ReplayMismatch) -> tuple[Place, int]:
    """Return where the step was recorded first, and the seq before it."""
    kinds = (ev.ContextAssembled.KIND, *keyed_kinds())
    for place in await lineage(core.services, core.tenant.id, core.run_id):
        found = await earlier_events(core.services, place, key, kinds=kinds)
        if found and found[0][0] > 1:
            return place, found[0][0] - 1
    raise mismatch


async def _find_open_effects(core: RunCore, place: Place, at: int) -> list[tuple[str, ev.ToolRequested]]:
    """Side effects without an outcome in the part that is left behind, by step."""
    places = await lineage(core.services, core.tenant.id, core.run_id)
    left = places[: [one.run_id for one in places].index(place.run_id) + 1]
    found: dict[str, tuple[StepRecord, int]] = {}
    for one in reversed(left):  # what a fork says of a step counts, and not what its origin said
        after = at if one.run_id == place.run_id else 0
        untouched = await untouched_calls(core.store, one.stream_id, upto=one.upto)
        for record in await step_records(
            core.store, one.stream_id, "tool", "undo", after=after, upto=one.upto
        ):
            if record.request.kind == ev.ToolRequested.KIND:
                found[record.step.key] = record, one.stream_id
                if record.step.status == "requested" and record.step.key in untouched:
                    del found[record.step.key]  # it has done nothing yet
    unsettled: list[tuple[str, ev.ToolRequested]] = []
    for key, (record, stream) in found.items():
        request = record.request.read(ev.ToolRequested)
        if record.step.status != "completed" and request.side_effect:
            process = await entered_by(core.store, stream, key)
            unsettled.append((key, msgspec.structs.replace(request, process=process)))
    return unsettled


async def _settle(core: RunCore, key: str, request: ev.ToolRequested, settle_left: SettleLeft) -> None:
    """Have it known what a step did that is left behind; it is entered again if a person has said so.

    Errors: `RunSuspended` if only a person can say; those of `boundary`.
    """
    own = await step_of(core.store, core.tenant.id, core.run_id, key)
    if own is not None and own.status == "unknown":
        raise core.suspend("unknown_outcome", key)
    core.owners[key] = await key_owner_of(core.services, core.tenant.id, core.run_id, key, request)
    if own is None:  # the origin has dispatched it, and here it can be settled
        core.writer.note(msgspec.structs.replace(request, counts=()))
    for step in await core.history.read_unasked():
        if step.key == key:
            core.charged[key] |= step.charged
    await settle_left(core, key, request, again=own is not None and own.status == "retry")


async def _beginning(
    core: RunCore, place: Place, at: int, name: str, *, now_us: int, by: str
) -> tuple[list[Draft], list[Blob]]:
    """The first events of the fork: it goes on under what is left of the caps, and hears what was said."""
    services, tenant = core.services, core.tenant.id
    ref, blobs = core.keep_json(dict(core.changes)) if core.changes else (None, list[Blob]())
    key_id = await run_key(services.store, tenant, core.run_id)
    effects: ev.Effects = "live" if core.effects is None else core.effects.mode
    forked = ev.RunForked(
        origin=place.run_id,
        at=at,
        changes=ref,
        drift=True,
        key_id=key_id,
        effects=effects,
        folder="" if core.effects is None else core.effects.folder,
    )
    drafts = [Draft(forked, now_us, by)]
    for _, unit, cap, _, used in await scope_limits(services.store, tenant, f"run:{core.run_id}"):
        if cap is None:
            continue
        if unit == "ms":
            cap = max(0, cap - (now_us - await _started_us(core)) // 1000)
        drafts.append(Draft(ev.LimitSet(scope=f"run:{name}", unit=unit, cap=cap, used=used), now_us, by))
    drafts += [
        Draft(data, now_us, actor, f"{place.stream.local}@{seq}")
        for seq, actor, data in await unheard(services, place, at, later=True)
    ]
    return drafts, blobs


async def _started_us(core: RunCore) -> int:
    return (await run_row(core.services.store, core.tenant.id, core.run_id)).started_us


def become(core: RunCore, run_id: str) -> None:
    """Make a run at work another one: the fork, all of whose shared history it has gone through."""
    core.run_id = run_id
    core.stream = run_stream(core.tenant.id, run_id)
    core.history = History(core.store, [])
    core.lifecycle.begin()
    core.closed_because, core.refused_step = "", None
    core.control_seq = 0
    core.joined = ()
    core.children = None
    core.held.clear()
    core.owners.clear()
    core.redispatched.clear()
    core.charged.clear()
    core.reconciled.clear()
    core.paused = core.stopping = False
    core.stepping = SingleStep()
    core.deciding.clear()
    core.answers.clear()
    core.questions.clear()


CHANGE_CHARS_MAX = 200


async def version(core: RunCore, change: str, *, latest: int, default: int) -> int:
    """Errors: see `Run.version`. Cost: one read of the run's events, the first time in a drive."""
    _check(change, latest, default)
    if core.pii is not None:
        core.pii.check_name(change)
    if core.versions is None:
        core.versions = await _read_recorded(core)
    if (known := core.versions.get(change)) is not None:
        return known
    is_old = core.actor is None or await core.history.expects_more()
    chosen = core.versions[change] = default if is_old else latest
    if core.actor is not None:
        core.actor.note(ev.VersionRecorded(change=change, version=chosen))
    return chosen


def _check(change: object, latest: object, default: object) -> None:
    is_name = isinstance(change, str) and 0 < len(change) <= CHANGE_CHARS_MAX
    if not is_name or not cast(str, change).isprintable():
        raise InvalidRequest(
            "a change needs a name",
            expected=f"1-{CHANGE_CHARS_MAX} printable characters",
            got=repr(change)[:80],
        )
    for name, number in (("latest", latest), ("default", default)):
        is_number = isinstance(number, int) and not isinstance(number, bool)
        if not is_number or not 0 <= cast(int, number) < 1 << 31:
            raise InvalidRequest(
                f"{name} version of {change!r}", expected="a number from 0", got=repr(number)[:80]
            )


async def _read_recorded(core: RunCore) -> dict[str, int]:
    """Return what the run, or the part of its origins that counts, has recorded; nothing for a new run."""
    if core.is_new:
        return {}
    found: dict[str, int] = {}
    for place in reversed(await lineage(core.services, core.tenant.id, core.run_id)):
        rows = await stream_events(core.store, place.stream_id, ev.VersionRecorded.KIND, upto=place.upto)
        for row in rows:
            event = row.read(ev.VersionRecorded)
            found.setdefault(event.change, event.version)
    return found
