"""Commands to a run: appended to its control stream by anyone, turned into effects by its writer.

If a process drives the run, it reads the command and writes the effect. If none does, the command's own
process takes the lease, writes the effect and gives the lease back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import cast

import msgspec

from artelier.errors import (
    Conflict,
    InvalidRequest,
    LeaseHeld,
    NotFound,
    OutputInvalid,
    SequenceConflict,
    StoreClosed,
    StoreUnavailable,
)
from artelier.kernel import events as ev
from artelier.kernel.budget import abandon
from artelier.kernel.commands import REFUSALS, VERBS, CommandStanding, Given, decide
from artelier.kernel.history.fork_lineage import key_of, lineage
from artelier.kernel.prompt.manifest import encode_json
from artelier.kernel.queries.runs import RunRow, children_of, is_imported, run_row, used_below
from artelier.kernel.queries.steps import (
    asked_steps,
    has_undone_since_end,
    run_steps,
    step_records,
    unsettled_calls,
)
from artelier.kernel.run.context import RunCore
from artelier.kernel.run.services import Services
from artelier.kernel.run.status import FINAL, RunStatus
from artelier.kernel.run.writer import Actor
from artelier.kernel.run_limits import (
    RESETS,
    UsedMeanwhile,
    announce_cap,
    cap_guard,
    completed_cycles,
    limits_of,
)
from artelier.kernel.steps.failures import steps_before
from artelier.kernel.steps.step_keys import SingleStep, beside
from artelier.log import (
    Batch,
    Blob,
    Draft,
    Event,
    EventData,
    Fence,
    Stream,
    StreamAppend,
    Tx,
    control_stream,
    prepared_blob,
    run_stream,
)
from artelier.log.queries import event_caused_by, is_leased, stream_events

# The driver's side


READ_AGAIN_S = 0.5
"""The time until commands are read again that a store which was away could not tell."""


async def obey(core: RunCore) -> None:
    """Read new commands of a run that this process drives, and write their effects.

    A store that cannot be read for now ends no drive: tools at work go on, and commands are read later.
    """
    core.unread = None
    try:
        await _obey(core)
    except StoreClosed:
        raise
    except StoreUnavailable as error:
        if core.actor is None or core.actor.failure is not None:  # what could not be written is lost
            raise
        core.unread = error
        core.loop.call_later(READ_AGAIN_S, core.nudge)


async def _obey(core: RunCore) -> None:
    if core.stepping.holding:
        await _hold(core)
    events = await core.store.read(core.control, after=core.control_seq, limit=100)
    for given in events:
        writer = core.actor
        if given.seq <= core.control_seq or writer is None:
            continue
        core.control_seq = given.seq
        command = cast(ev.CommandGiven, given.decode())
        try:
            standing = await _standing(
                core.services, core.tenant.id, core.run_id, driven=True, is_undoing=core.lifecycle.is_undoing
            )
        except StoreUnavailable:
            core.control_seq = min(core.control_seq, given.seq - 1)  # it is read again
            raise
        effect = decide(standing, command, given.seq)
        if isinstance(effect, ev.ApprovalGiven | ev.ToolReconciled):
            if effect.key in core.deciding:  # its time ran out, or a probe told, while it was on its way
                is_answer = isinstance(effect, ev.ApprovalGiven)
                code = "no_such_approval" if is_answer else "no_such_unknown_outcome"
                effect = ev.CommandRefused(command=given.seq, code=code)
            else:
                core.deciding.add(effect.key)
        if isinstance(effect, ev.LimitSet):
            await _write_cap(core, writer, effect, command=given)
        else:
            await _write(core, writer, effect, command=given)
    if len(events) == 100:
        core.nudged = True


async def _hold(core: RunCore) -> None:
    """The cycle is done that a `step` asked for: the run is paused again, and so are its children."""
    seq = core.stepping.holding
    given = (await core.store.read(core.control, after=seq - 1, limit=1))[0]
    writer = core.actor
    # Somebody may have decided otherwise meanwhile.
    if writer is not None and core.stepping.holding == seq and core.cancelled_reason is None:
        await _write(core, writer, ev.RunPaused(command=seq), command=given)


async def _write(core: RunCore, writer: Actor, effect: EventData, *, command: Event) -> None:
    """Record what a command leads to, for the run and for its children, and let it take effect."""
    by = command.actor
    told = await _to_children(core.services, core.tenant.id, core.run_id, effect, by=by)
    for append in told:
        writer.note_aside(append, [])
    if isinstance(effect, ev.RunCancelled):
        # Before it is durable: what the run's code asks for from now on would stand after the end of the run.
        core.cancelled_reason = "cancelled"
    seq = await writer.commit(effect, actor=by, cause=f"{core.control.local}@{command.seq}")
    _take_effect(core, effect, seq=seq, by=by)
    await _wake(core.services, told)
    await _tell_newborn(core, effect, told, by=by)


async def _write_cap(core: RunCore, writer: Actor, effect: ev.LimitSet, *, command: Event) -> None:
    """Record a cap that says all that was used before it, and have it hold in the runs at work here."""
    services, tenant = core.services, core.tenant.id
    if effect.unit == "ms":  # counts nothing, and whoever asked for it looks at the time that is left
        heed_cap(services, tenant, effect, started_us=core.started_us)
    with announce_cap(services, tenant, effect):
        while True:
            try:
                seq = await writer.commit(
                    effect,
                    refusable=True,
                    guard=cap_guard(tenant, core.run_id, effect),
                    actor=command.actor,
                    cause=f"{core.control.local}@{command.seq}",
                )
                break
            except UsedMeanwhile as error:
                effect = msgspec.structs.replace(effect, used=error.facts["used"])
        heed_cap(services, tenant, effect, started_us=core.started_us)
    _take_effect(core, effect, seq=seq, by=command.actor)


def _take_effect(core: RunCore, effect: EventData, *, seq: int, by: str) -> None:
    if isinstance(effect, ev.RunPaused):
        core.paused = True
        core.stepping = SingleStep()
        if effect.stopped:
            core.stopping = True
            core.calls.interrupt(everything=True)
    elif isinstance(effect, ev.RunResumed):
        core.paused = core.stopping = False
        core.stepping = SingleStep()
        if effect.stepping:
            core.stepping = SingleStep(command=effect.command, since=core.done)
    elif isinstance(effect, ev.RunCancelled):
        core.lifecycle.become(RunStatus.CANCELLED)
        core.calls.interrupt(everything=False)
    elif isinstance(effect, ev.NoteInjected):
        core.notes.append((seq, effect.text))
    elif isinstance(effect, ev.SignalReceived):
        core.signals.append((seq, effect.name, effect.data))
    elif isinstance(effect, ev.LimitSet):
        core.came_back()
    elif isinstance(effect, ev.ApprovalGiven):
        core.answers[effect.key] = (effect, by, core.clock.now_us())
    elif isinstance(effect, ev.ToolReconciled):
        core.reconciled[effect.key] = effect
    core.announce()


def heed_cap(services: Services, tenant: str, effect: ev.LimitSet, *, started_us: int) -> None:
    """Tell every run at work here that counts in the scope: the run itself and those below it."""
    pair = (effect.scope, effect.unit)
    for core in tuple(services.active.values()):
        if core.tenant.id != tenant or effect.scope not in core.scopes:
            continue
        core.counted = core.counted - {pair} if effect.cap is None else core.counted | {pair}
        if effect.unit == "ms":
            times = {key: at for key, at in core.deadlines.items() if key != effect.scope}
            if effect.cap is not None:
                times[effect.scope] = started_us + effect.cap * 1000
            core.deadlines = times
        with suppress(RuntimeError):  # its loop was closed: nothing waits there
            core.loop.call_soon_threadsafe(core.announce)


async def _standing(
    services: Services, tenant: str, run_id: str, *, driven: bool, is_undoing: bool = False
) -> CommandStanding:
    """`is_undoing`: who drives it undoes what it has done, and is not at work on any call of its code."""
    row = await run_row(services.store, tenant, run_id)
    store = services.store
    asked = await asked_steps(store, row.id, now_us=services.clock.now_us())
    is_failed_loop = bool(row.loop) and row.status == "failed"
    places = await lineage(services, tenant, run_id) if is_failed_loop else []
    is_left = row.status in FINAL and (is_undoing or not driven)
    unresolved = await unsettled_calls(store, row.id, has_ended=is_left)
    return CommandStanding(
        run_id=run_id,
        used=await used_below(services.store, tenant, run_id),
        status=row.status,
        driven=driven,
        stepping=bool(row.stepping),
        open_approvals=frozenset(asked),
        unresolved=frozenset(call.step.key for call in unresolved),
        failed=await _fatal_steps(services, row) if row.status == "failed" else (),
        reason=row.reason if is_failed_loop else "",
        cycle=await completed_cycles(services, places) if is_failed_loop else 0,
        compensated=row.status == "failed" and await has_undone_since_end(store, row.id),
        has_open_children=row.status in FINAL
        and bool(await children_of(store, tenant, run_id, open_only=True)),
    )


async def _fatal_steps(services: Services, row: RunRow) -> tuple[str, ...]:
    """Failed steps that the run's failure names, else those after which its code asked for nothing more."""
    run = row.id
    # A reply that does not fit is a step's failure, too: there is one to ask again.
    ended_by_count = bool(row.loop) and row.reason in RESETS and row.reason != OutputInvalid.code
    steps = await run_steps(services.store, run, status="failed")
    failed = sorted(((step.key, step.completed or 0) for step in steps), key=lambda one: one[1])
    if not failed:
        return ()
    for ended in await stream_events(services.store, run, ev.RunFailed.KIND, newest=1):
        named = ended.read(ev.RunFailed).steps
        if any(key in named for key, _ in failed):
            return _with_models_before(named, failed)
    later = [(step.key, step.requested) for step in await run_steps(services.store, run, after=failed[0][1])]
    fatal = [
        key
        for key, seq in failed
        if not any(asked > seq and not beside(key, other) for other, asked in later)
    ]
    return _with_models_before(fatal or ([] if ended_by_count else [failed[-1][0]]), failed)


def _with_models_before(fatal: Sequence[str], failed: Sequence[tuple[str, int]]) -> tuple[str, ...]:
    """Return those failed steps, and the models of a list that had failed before them."""
    wanted = {*fatal, *(before for key in fatal for before in steps_before(key))}
    return tuple(key for key, _ in failed if key in wanted)


# The asker's side

NOTHING = Batch(appends=())
"""No appends beside the commands."""


async def give(
    services: Services,
    tenant: str,
    run_id: str,
    verb: str,
    *,
    by: str,
    key: str = "",
    choice: str = "",
    payload: object = None,
) -> EventData:
    """Give a command and return its effect.

    Errors: `NotFound`; `Conflict` if the run refuses it; `LeaseHeld` if another process drives the run
    and does not react within five seconds (the command stands and is obeyed when it does).
    """
    given = Given(verb=verb, key=key, choice=choice, payload=payload)
    return (await give_in_order(services, tenant, run_id, [given], by=by))[0]


async def _given_by(services: Services, stream: Stream, request: str) -> int | None:
    """Return the first command that a request has given a run; None for none.

    Cost: O(commands of the run).
    """
    after = 0
    while events := await services.store.read(stream, after=after, limit=1_000):
        for one in events:
            if cast(ev.CommandGiven, one.decode()).request == request:
                return one.seq
        after = events[-1].seq
    return None


async def give_in_order(
    services: Services, tenant: str, run_id: str, wanted: Sequence[Given], *, by: str, beside: Batch = NOTHING
) -> list[EventData]:
    """Give commands that belong together, and return their effects.

    They are written at once, so whoever takes the run up hears all of them before its first step. What is
    `beside` them is written with them, and not if the run would refuse the first.
    Errors: those of `give`, for the first one that is refused; those of the guard of `beside`.
    """
    for one in wanted:
        if one.verb not in VERBS:
            raise InvalidRequest("unknown command", expected=", ".join(sorted(VERBS)), got=one.verb)
    await finish_cancelled(services, tenant, run_id)
    row = await run_row(services.store, tenant, run_id)
    if await is_imported(services.store, tenant, run_id):
        raise Conflict(
            f"run {run_id!r} was driven in another store, and takes no commands here",
            hint="Fork it; the fork is a run of this store.",
        )
    drafts: list[Draft] = []
    blobs: list[Blob] = [*beside.blobs]
    for one in wanted:
        ref = None
        if one.payload is not None:
            data_key = await key_of(services, await lineage(services, tenant, run_id))
            ref, blob = await prepared_blob(tenant, data_key, encode_json(one.payload))
            blobs.append(blob)
        command = ev.CommandGiven(
            verb=one.verb, key=one.key, choice=one.choice, payload=ref, request=one.request
        )
        drafts.append(Draft(command, services.clock.now_us(), by))
    stream = control_stream(tenant, run_id)
    first = await _given_by(services, stream, wanted[0].request) if wanted[0].is_repeat else None
    while first is None:
        head: int | None = None
        if beside is not NOTHING:
            head = (await services.store.head(stream))[0]
            standing = await _standing(services, tenant, run_id, driven=False)
            refused = decide(standing, cast(ev.CommandGiven, drafts[0].data), 0)
            if isinstance(refused, ev.CommandRefused):
                raise conflict_of_refusal(run_id, refused, status=row.status)
        appends = [StreamAppend(stream, drafts, expected_seq=head), *beside.appends]
        try:
            receipt = await services.store.append(Batch(appends=appends, blobs=blobs, guard=beside.guard))
        except SequenceConflict as error:
            if head is None or error.facts.get("stream") != stream.local:
                raise
            continue  # another command came first, and the run may refuse this one now
        first = receipt.seqs[0] - len(drafts) + 1
    if not services.nudge(tenant, run_id):
        await apply_if_idle(services, tenant, run_id)
    effects: list[EventData] = []
    for number in range(len(drafts)):
        effect = await _effect(services, tenant, run_id, first + number)
        if isinstance(effect, ev.LimitSet):
            await _caps_heeded(services, tenant, effect)
        elif isinstance(effect, ev.RunCancelled | ev.RunPaused | ev.RunResumed):
            await _family_obeys(services, tenant, run_id)
        effects.append(effect)
    for effect in effects:
        if isinstance(effect, ev.CommandRefused):
            raise conflict_of_refusal(run_id, effect, status=row.status)
    return effects


def conflict_of_refusal(run_id: str, effect: ev.CommandRefused, *, status: str) -> Conflict:
    hint = None
    if effect.code == "run_ended" and status == "failed":
        hint = (
            "`resume` with a note or a raised limit reopens it, `retry` tries its failed step again: "
            f"artelier resume {run_id} --note TEXT"
        )
    return Conflict(f"run {run_id}: {REFUSALS.get(effect.code, effect.code)}", refusal=effect.code, hint=hint)


async def apply_if_idle(services: Services, tenant: str, run_id: str) -> None:
    """Take the lease, write the effects of all unread commands, give the lease back."""
    stream = run_stream(tenant, run_id)
    head, _ = await services.store.head(stream)  # before what is decided by: see `append_if_idle`
    row = await run_row(services.store, tenant, run_id)
    standing = await _standing(services, tenant, run_id, driven=False)
    events = await services.store.read(control_stream(tenant, run_id), after=row.control_seq, limit=100)
    drafts: list[Draft] = []
    told: list[StreamAppend] = []
    seen, effect = 0, None
    for given in events:
        seen = given.seq
        effect = decide(standing, cast(ev.CommandGiven, given.decode()), given.seq)
        now_us = services.clock.now_us()
        if isinstance(effect, ev.RunCancelled):
            for unpaid in await return_held_money(services, row):
                drafts.append(Draft(unpaid, now_us, given.actor))
        drafts.append(Draft(effect, now_us, given.actor, f"control:{run_id}@{given.seq}"))
        if not isinstance(effect, ev.CommandRefused | ev.NoteInjected | ev.SignalReceived):
            told = await _to_children(services, tenant, run_id, effect, by=given.actor)
            break  # what follows depends on the new status: decided in the next round
    if not drafts:
        return
    if isinstance(effect, ev.LimitSet):
        is_written = await _cap_if_idle(services, row, effect, drafts, head=head)
    else:
        is_written = await append_if_idle(services, stream, drafts, head=head, told=told)
    if not is_written:
        return
    await _wake(services, told)
    if events[-1].seq > seen:
        await apply_if_idle(services, tenant, run_id)


async def _cap_if_idle(
    services: Services, row: RunRow, effect: ev.LimitSet, drafts: list[Draft], *, head: int
) -> bool:
    """Append drafts, of which a cap is the last, to an idle run. What is below it may be at work."""
    with announce_cap(services, row.tenant, effect):
        while True:
            guard = cap_guard(row.tenant, row.run, effect)
            stream = run_stream(row.tenant, row.run)
            try:
                is_written = await append_if_idle(services, stream, drafts, head=head, guard=guard)
                break
            except UsedMeanwhile as error:
                effect = msgspec.structs.replace(effect, used=error.facts["used"])
                drafts = [*drafts[:-1], drafts[-1]._replace(data=effect)]
        if is_written:
            heed_cap(services, row.tenant, effect, started_us=row.started_us)
    return is_written


async def append_if_idle(
    services: Services,
    stream: Stream,
    drafts: list[Draft],
    *,
    head: int,
    told: Sequence[StreamAppend] = (),
    guard: Callable[[Tx], None] | None = None,
) -> bool:
    """Append to a run's stream under its lease; False if somebody drives it, or was faster.

    `head` is where the stream stood before anything was read that the drafts depend on.
    Errors: those of `guard`.
    """
    key = (stream.tenant, stream.id)

    def is_dead(holder: str) -> bool:
        return services.is_dead(holder) or (holder == services.holder and key in services.orphans)

    request = replace(services.lease(stream, holder=f"{services.holder}/command"), is_dead=is_dead)
    try:
        await services.store.append(
            Batch(
                appends=[StreamAppend(stream, drafts, expected_seq=head), *told],
                acquire=request,
                release=Fence(stream=stream, token=0),
                guard=guard,
            )
        )
    except (LeaseHeld, Conflict):
        return False
    return True


async def give_back(services: Services, row: RunRow) -> None:
    """Release what the calls of a cancelled run hold, and its lease, if its process died before it did."""
    now_us = services.clock.now_us()
    stream = run_stream(row.tenant, row.run)
    head, _ = await services.store.head(stream)
    drafts = [Draft(data, now_us, "kernel") for data in await return_held_money(services, row)]
    leased = await is_leased(services.store, stream)
    if drafts or leased:
        await append_if_idle(services, stream, drafts, head=head)


async def return_held_money(services: Services, row: RunRow) -> list[EventData]:
    """Money comes back that is held for model calls of a run which ends while nobody drives it."""
    asked = await step_records(services.store, row.id, "model", status="requested")
    if not asked:
        return []
    _, capped = await limits_of(services, row.tenant, row.run, extra=())
    return [
        abandon(cast(ev.ModelRequested, one.request.decode()), key=one.step.key, capped=capped)
        for one in asked
    ]


async def _caps_heeded(services: Services, tenant: str, effect: ev.LimitSet) -> None:
    """Wait until runs at work here reserve under a cap that stands in the log: who set it goes on then."""
    pair = (effect.scope, effect.unit)
    while True:
        active = tuple(services.active.values())
        if not any(core.tenant.id == tenant and pair in core.pending_caps for core in active):
            return
        await asyncio.sleep(0.001)


async def _effect(services: Services, tenant: str, run_id: str, seq: int) -> EventData:
    """Wait until a command was obeyed. Errors: `LeaseHeld` after five seconds."""
    stream = run_stream(tenant, run_id)
    cause = f"control:{run_id}@{seq}"
    deadline_us = services.clock.now_us() + 5_000_000
    while True:
        row = await run_row(services.store, tenant, run_id)
        if row.control_seq >= seq:
            effect = await event_caused_by(services.store, row.id, cause)
            if effect is not None:
                return effect.decode()
            raise NotFound(f"the effect of command {seq} on {stream.local} is missing")
        if services.clock.now_us() >= deadline_us:
            raise LeaseHeld(
                f"run {run_id} is driven by a process that has not reacted yet",
                hint="The command is recorded and takes effect at its next step.",
            )
        if services.driver(tenant, run_id) is None:
            await apply_if_idle(services, tenant, run_id)
        await asyncio.sleep(0.02)


# Children end, pause, stop and go on with their parent


async def _to_children(
    services: Services, tenant: str, run_id: str, effect: EventData | None, *, by: str
) -> list[StreamAppend]:
    """The same command for each open child, to be written in the batch of the parent's effect.

    Who obeys it writes those for its own children; so none is lost, whoever dies in between.
    """
    if isinstance(effect, ev.RunPaused):
        verb = "stop" if effect.stopped else "pause"
    elif isinstance(effect, ev.RunCancelled):
        verb = "cancel"
    elif isinstance(effect, ev.RunResumed):
        verb = "step" if effect.stepping else "resume"
    else:
        return []
    told: list[StreamAppend] = []
    for child in await children_of(services.store, tenant, run_id, open_only=True):
        stream = control_stream(tenant, child.run)
        if verb in ("resume", "step") and child.status != "paused":
            head, _ = await services.store.head(stream)
            if head <= child.control_seq:
                continue  # nothing is on its way that could pause it
        command = ev.CommandGiven(verb=verb)
        told.append(StreamAppend(stream, [Draft(command, services.clock.now_us(), by)]))
    return told


async def _tell_newborn(core: RunCore, effect: EventData, told: Sequence[StreamAppend], *, by: str) -> None:
    """Children that were opened here after their parent's batch was made hear of its effect as well.

    Those that are opened from now on see it by themselves (`OpenRun`).
    """
    if not isinstance(effect, ev.RunPaused | ev.RunCancelled):
        return
    verb = "cancel" if isinstance(effect, ev.RunCancelled) else "pause"
    verb = "stop" if isinstance(effect, ev.RunPaused) and effect.stopped else verb
    heard = {append.stream.id for append in told}
    for child in tuple(core.services.active.values()):
        is_own = child.tenant.id == core.tenant.id and child.scopes[1:2] == core.scopes[:1]
        if is_own and child.run_id not in heard:
            await tell(core.services, core.tenant.id, child.run_id, verb, by=by)


async def tell(services: Services, tenant: str, run_id: str, verb: str, *, by: str) -> None:
    """Give a command without waiting for its effect."""
    draft = Draft(ev.CommandGiven(verb=verb), services.clock.now_us(), by)
    stream = control_stream(tenant, run_id)
    await services.store.append(Batch(appends=[StreamAppend(stream, [draft])]))
    await _wake(services, [StreamAppend(stream, [draft])])


async def cancel_left(services: Services, tenant: str, run_id: str) -> None:
    """Cancel what a cancelled run has left open, and wait until that has obeyed."""
    await tell_left(services, tenant, run_id)
    await _family_obeys(services, tenant, run_id)


async def tell_left(services: Services, tenant: str, run_id: str) -> list[str]:
    """Tell the children that a cancelled run has left open to end; return those that are open.

    A child whose opening the cancel cut short was not there to be told, and nobody would ever drive it.
    """
    children = await children_of(services.store, tenant, run_id, open_only=True)
    for child in children:
        head, _ = await services.store.head(control_stream(tenant, child.run))
        if head <= child.control_seq:
            await tell(services, tenant, child.run, "cancel", by="kernel")
    return [child.run for child in children]


async def finish_cancelled(services: Services, tenant: str, run_id: str) -> None:
    """Finish a cancelled run that its process left half done: cancel its children, release its money.

    Idempotent; does nothing for any other run, and while a living process drives the run. Errors: `NotFound`.
    """
    row = await run_row(services.store, tenant, run_id)
    if row.status != "cancelled" or services.driver(tenant, run_id) is not None:
        return
    for child in await tell_left(services, tenant, run_id):
        if services.driver(tenant, child) is None:
            await apply_if_idle(services, tenant, child)
    # A child whose process died between its end and its last word is cancelled, and may still hold money.
    for child in await children_of(services.store, tenant, run_id):
        if child.status == "cancelled":
            await finish_cancelled(services, tenant, child.run)
    await give_back(services, row)


async def _wake(services: Services, told: Sequence[StreamAppend]) -> None:
    """Have commands obeyed that were written: by their drivers, or here if there is none."""
    for append in told:
        tenant, run_id = append.stream.tenant, append.stream.id
        if not services.nudge(tenant, run_id):
            await apply_if_idle(services, tenant, run_id)


async def _family_obeys(services: Services, tenant: str, run_id: str) -> None:
    """Wait until the open children have obeyed what their parent told them; five seconds at most.

    The commands stand; a child whose process does not react obeys at its next step.
    """
    for _ in range(250):
        if await _has_obeyed(services, tenant, run_id):
            return
        await asyncio.sleep(0.02)


async def _has_obeyed(services: Services, tenant: str, run_id: str) -> bool:
    for child in await children_of(services.store, tenant, run_id, open_only=True):
        head, _ = await services.store.head(control_stream(tenant, child.run))
        if head > child.control_seq:
            if services.driver(tenant, child.run) is None:
                await apply_if_idle(services, tenant, child.run)
            return False
        if not await _has_obeyed(services, tenant, child.run):
            return False
    return True
