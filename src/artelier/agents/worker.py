"""A worker: takes due timers, due schedules and runs that nobody drives any more, and drives them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any

from artelier.agents.loop_registry import registered_loops, resume_run
from artelier.agents.schedules.dispatcher import fire_due, waiting
from artelier.chat.queries.chats import left_unbegun
from artelier.errors import (
    ArtelierError,
    HistoryLost,
    InvalidRequest,
    LeaseHeld,
    StoreClosed,
    StoreUnavailable,
)
from artelier.kernel import AgentResult
from artelier.kernel.queries.runs import DueLook, Labels, due_runs
from artelier.kernel.run.crash_recovery import Leftovers, left_behind
from artelier.kernel.run.services import Services
from artelier.kernel.tenants.registry import TenantScopes
from artelier.log import run_stream
from artelier.log.queries import held_leases
from artelier.threads import content_owner

LOOK_S = 0.5
"""How often a worker looks for work; a due timer fires within this."""

SOON_S = 0.05
"""The time between two looks while more is due than a worker has slots: it looks when a slot is free."""

DUE_MAX = 1000
"""Runs of one look."""

SLOTS = 16
"""Runs that one worker drives side by side unless it is told how many."""

SLOTS_MAX = 1000
"""More than this share one event loop badly: start another worker."""

RESUMED_MAX = 4
"""Runs of processes that are gone that one look takes up: each reads its history before it goes on."""

ALONE_S = 30.0
"""The time for which a run whose last drive made no progress is driven before the next such run starts.

If it ends this process too, only it is counted, and not whoever would have been driven beside it.
"""

REFUSED_US = 60_000_000
"""For this long a run is left alone that could not be driven here."""

AWAY_US = 5_000_000
"""The same where the store was locked, full or away, which says nothing of the run."""

Report = Callable[[str, str, AgentResult | ArtelierError], None]


def _say_nothing(error: StoreUnavailable) -> None:
    return


class Worker:
    """Drives runs of built-in loops. Several workers may share a store: a lease decides who drives.

    A look takes no run that somebody else drives, or that could not be driven here lately, so that what is
    left is found however much of it there is.
    """

    def __init__(
        self,
        kernel: TenantScopes,
        services: Services,
        *,
        tenant: str | None = None,
        report: Report | None = None,
        slots: int = SLOTS,
        labels: Labels | None = None,
        spare: bool = False,
        on_away: Callable[[StoreUnavailable], None] = _say_nothing,
    ) -> None:
        """`slots`: runs that are driven side by side. `labels`: take only runs that have begun and say this
        of themselves; what has not begun yet is left to a worker without labels. `spare`: drive one run more
        of each tenant none of which is driven, since those of others may wait for models for hours.
        `on_away` is told of each look for which the store was locked, full or away.

        Errors: `InvalidRequest`.
        """
        if not 1 <= slots <= SLOTS_MAX:
            raise InvalidRequest("slots of a worker", expected=f"1 to {SLOTS_MAX}", got=slots)
        self._kernel = kernel
        self._services = services
        self._tenant = tenant
        self._report = report
        self._slots = slots
        self._labels = labels or Labels()
        self._spare = spare
        self._on_away = on_away
        self._freed = asyncio.Event()
        """Set whenever a drive ends."""
        self._has_more = False
        """True if the last look found more than there were slots for."""
        self._busy: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._refused: dict[tuple[str, str], int] = {}
        self._leftovers = Leftovers(services, tenant=tenant)
        self._paces = False
        """True while runs of processes that are gone are resumed a few at a time."""
        self._settled_us = 0
        """Until then none of them is."""
        self._found: set[tuple[str, str]] | None = None
        """Runs that waited when the worker began; those that come later are taken up at once."""
        self._unbegun: list[tuple[str, str]] | None = None
        """Turns of chats that a process which is gone had asked for; they are looked for once."""
        self._lost: HistoryLost | None = None
        """Why nothing can be driven here any more."""
        self._alone: tuple[tuple[str, str], int] | None = None
        """The run that is driven alone among those that have stalled, and until when."""

    async def due(self) -> list[tuple[str, str]]:
        """Runs that somebody should drive now, as (tenant, run id), in turns of their tenants.

        A child is its parent's to drive: for one that could go on, the run at the top of its tree is due.
        Other packages know of more: tasks that wait to be begun, children of runs that have ended. So do
        schedules: what they have fired and nobody has started.
        """
        services, now_us = self._services, self._services.clock.now_us()
        is_driving = services.driving_check()
        self._refused = {key: until for key, until in self._refused.items() if until > now_us}
        but = {one.stream for one in await held_leases(services.store) if is_driving(one.holder, one.end)}
        but.update(run_stream(*key).name for key in (*self._refused, *self._busy))
        labels, tenant = self._labels, self._tenant
        look = DueLook(now_us=now_us, limit=DUE_MAX, tenant=tenant, labels=labels, but=frozenset(but))
        found = await due_runs(services.store, look)
        if not labels:
            for loop in registered_loops().values():
                if loop.due is not None:
                    found += await loop.due(services, look)
            found += await waiting(services, DUE_MAX, tenant=tenant)
        return self._in_turns(key for key in found if run_stream(*key).name not in but)

    def _in_turns(self, keys: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Put runs of tenants first of whom least is driven; those of one tenant keep their order."""
        driven = self._driven()
        placed = list[tuple[int, tuple[str, str]]]()
        for key in keys:
            placed.append((driven[key[0]], key))
            driven[key[0]] += 1
        return [key for _, key in sorted(placed, key=itemgetter(0))]

    def _driven(self) -> Counter[str]:
        return Counter(tenant for tenant, _ in self._busy)

    async def once(self, *, until_us: int | None = None) -> int:
        """Start driving what is due and wait until it has ended; the number of runs driven.

        `until_us`: schedules fire only for times up to then, so that rounds of one call come to an end.
        """
        await self._start(until_us)
        count = len(self._busy)
        while self._busy:
            await asyncio.wait(self._busy.values())
            await asyncio.sleep(0)
        return count

    async def forever(self, *, settle_s: float = 0.0) -> None:
        """Work until cancelled; then the runs at hand stay resumable.

        Runs that waited when it began, and those of processes that are gone, are taken up a few at a time,
        after `settle_s`. A store that is away for now ends nothing: tools that are at work end meanwhile.
        Errors: `StoreClosed`; `HistoryLost`, after which this process writes nothing more.
        """
        self._paces = True
        self._settled_us = self._services.clock.now_us() + int(settle_s * 1_000_000)
        try:
            while True:
                try:
                    await self._start()
                except StoreClosed:
                    raise
                except StoreUnavailable as error:
                    self._on_away(error)
                await self._pause()
                if self._lost is not None:
                    raise self._lost
        finally:
            await self._give_back()

    async def _pause(self) -> None:
        """Wait for the next look: it comes as soon as a slot is free if there was not room for all."""
        clock = self._services.clock
        if not self._has_more:
            await clock.sleep(LOOK_S)
            return
        waits = (asyncio.ensure_future(self._freed.wait()), asyncio.ensure_future(clock.sleep(LOOK_S)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        await clock.sleep(SOON_S)

    async def drain(self, *, within_s: float) -> None:
        """Begin nothing more, let tools at work end for so long, then give the runs at hand back.

        Every run of the kernel stops before its next step, those of others too. They stay resumable.
        """
        try:
            await self._services.draining.quiet(self._services.clock, within_s=within_s)
        finally:
            await self._give_back()

    async def _give_back(self) -> None:
        for task in self._busy.values():
            task.cancel()
        await asyncio.gather(*self._busy.values(), return_exceptions=True)

    async def _start(self, until_us: int | None = None) -> None:
        draining = self._services.draining
        if draining.has_begun:
            return
        await self._leftovers.clear()
        if not self._labels:
            await fire_due(self._services, tenant=self._tenant, until_us=until_us)
        if self._unbegun is None:
            left = [] if self._labels else await left_unbegun(self._services, tenant=self._tenant)
            self._unbegun = [(one.tenant, one.run_id) for one in left]
        self._freed.clear()
        self._has_more = len(self._busy) >= self._slots
        if self._has_more and not self._spare:
            return
        due = await self._let_in([*self._unbegun, *await self.due()])
        served = set(self._driven())
        for key in due:
            if draining.has_begun:
                return
            if key in self._busy or key in self._refused:
                continue
            if len(self._busy) >= self._slots and (not self._spare or key[0] in served):
                self._has_more = True
                continue
            served.add(key[0])
            if key in self._unbegun:
                self._unbegun.remove(key)
            task = asyncio.get_running_loop().create_task(self._drive(*key))
            self._busy[key] = task
            task.add_done_callback(lambda _, key=key: self._end(key))

    def _end(self, key: tuple[str, str]) -> None:
        self._busy.pop(key, None)
        self._freed.set()

    async def _let_in(self, due: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the runs of a look that may be taken up now, in their order."""
        now_us = self._services.clock.now_us()
        if self._found is None:
            self._found = set(due) if now_us < self._settled_us else set()
        if not self._paces or not due:
            return due
        if self._alone is not None and (self._alone[0] not in self._busy or self._alone[1] <= now_us):
            self._alone = None
        left, room, chosen = await left_behind(self._services), RESUMED_MAX, list[tuple[str, str]]()
        for key in due:
            has_stalled = left.get(key, False)
            if key in self._busy or (key not in left and key not in self._found):
                chosen.append(key)
            elif now_us < self._settled_us or not room or (has_stalled and self._alone is not None):
                continue
            else:
                room -= 1
                chosen.append(key)
                self._found.discard(key)
                if has_stalled:
                    self._alone = key, now_us + int(ALONE_S * 1_000_000)
        return chosen

    async def _drive(self, tenant: str, run_id: str) -> None:
        outcome: Any
        content_owner.set(f"tenant {tenant}")
        try:
            outcome = await resume_run(self._kernel, tenant, run_id, on_wait="return")
        except LeaseHeld:
            return  # another worker was faster
        except ArtelierError as error:
            outcome = error
            # It cannot be driven here now: do not ask again at every look.
            wait_us = AWAY_US if isinstance(error, StoreUnavailable) else REFUSED_US
            if isinstance(error, HistoryLost):
                self._lost = error
            self._refused[tenant, run_id] = self._services.clock.now_us() + wait_us
        if self._report is not None:
            self._report(tenant, run_id, outcome)
