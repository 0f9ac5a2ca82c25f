"""Rates and quotas: how often a provider may be called, and how much of a server one tenant may take.

Rates are those of the policy and of a tenant; pure but for the event and its view. The order of waiting
calls stands below, the windows in `log/rate_table.py`. Quotas are settings of whoever runs
the server; what a tenant has stored is counted from its content. A tenant at a quota may still read, delete
and end work.

The order of calls to a provider: calls that wait for a window are served fairly.

Tenants take turns, and within a tenant its runs do (start-time fair queueing): a run with a hundred calls
does not keep one with a single call waiting. What the first call in that order needs, later ones may not
take, so a large call is not starved by small ones. One task per event loop asks the store for all that wait
there; the store counts for all processes (`log/rate_table.py`). Without rates nothing here runs.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TypedDict, cast

from artelier.clock import Clock
from artelier.errors import (
    ArtelierError,
    InvalidConfig,
    InvalidRequest,
    LimitReached,
    QueueFull,
    QuotaReached,
)
from artelier.ids import check_tenant
from artelier.kernel.queries.tenants import RateRow
from artelier.kernel.tenants.events import RatesChanged, StoredRate
from artelier.log import Asked, Claim, Store
from artelier.log.queries import content_size
from artelier.tokens.model_info import canonical_name, split_name

RATES_MAX = 100
"""Entries of one policy or tenant: each call looks at all of them. A guess."""

RATE_MAX = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """At most so much in any minute; None for as much as there is. Tokens count input and output."""

    requests: int | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        """Errors: `InvalidRequest`."""
        if self.requests is None and self.tokens is None:
            raise InvalidRequest(
                "a rate that limits nothing", expected="requests=, tokens= or both, a minute"
            )
        for name in ("requests", "tokens"):
            given: object = getattr(self, name)
            if given is None:
                continue
            if not isinstance(given, int) or isinstance(given, bool) or not 0 < given <= RATE_MAX:
                raise InvalidRequest(
                    f"{name} a minute", expected="a whole number above 0", got=repr(given)[:80]
                )

    def plain(self) -> dict[str, int | None]:
        return {"requests": self.requests, "tokens": self.tokens}


Rates = Mapping[str, Rate]
"""By provider (`openai`), or by pattern of model names (`openai:gpt-5*`, `*`). Each entry is a window of
its own, and a call counts in all that fit it."""

NO_RATES: Rates = MappingProxyType({})


def check_rates(given: object) -> Rates:
    """Errors: `InvalidRequest` for what is no mapping from names to `Rate`."""
    if not isinstance(given, Mapping):
        raise InvalidRequest(
            "rates are a mapping", expected='such as {"openai": Rate(requests=60)}', got=type(given).__name__
        )
    found: dict[str, Rate] = {}
    for name, rate in cast("Mapping[object, object]", given).items():
        if not isinstance(name, str) or not 0 < len(name) <= 200 or not name.isprintable():
            raise InvalidRequest(
                "a rate is of a provider", expected="such as 'openai' or '*'", got=repr(name)[:80]
            )
        if not isinstance(rate, Rate):
            raise InvalidRequest(f"the rate of {name!r}", expected="a Rate", got=type(rate).__name__)
        found[name.strip().lower() if ":" not in name else name.strip()] = rate
    if len(found) > RATES_MAX:
        raise InvalidRequest("too many rates", expected=f"at most {RATES_MAX}", got=len(found))
    return MappingProxyType(dict(sorted(found.items())))


def claims_of(
    model: str, tokens: int, *, rates: Rates, tenant: str, tenant_rates: Rates
) -> tuple[Claim, ...]:
    """Return what a call of `model` takes of which windows if it uses at most `tokens`.

    Errors: `LimitReached` if a whole minute's worth is less than this one call.
    """
    found: list[Claim] = []
    for owner, held in (("provider", rates), (f"tenant:{tenant}", tenant_rates)):
        for name, rate in held.items():
            if name != split_name(model)[0] and not (
                fnmatchcase(model, name) or fnmatchcase(model, canonical_name(name))
            ):
                continue
            scope = f"{owner}/{name}"
            for unit, amount, cap in (("requests", 1, rate.requests), ("tokens", tokens, rate.tokens)):
                if cap is None:
                    continue
                if amount > cap:
                    raise LimitReached(
                        f"one call of {model!r} may need more {unit} than a whole minute has",
                        expected=f"at most {cap} {unit} a minute for {scope}",
                        got=amount,
                        hint="Raise the rate, or give the call a lower max_output_tokens"
                        " or a shorter prompt.",
                        scope=scope,
                        unit=unit,
                        cap=cap,
                        used=0,
                        asked=amount,
                        reserved=0,
                    )
                found.append(Claim(scope, unit, amount, cap))
    return tuple(found)


def rates_changed(rates: Rates) -> RatesChanged:
    """The event that says so."""
    stored = tuple(StoredRate(name, rate.requests, rate.tokens) for name, rate in rates.items())
    return RatesChanged(rates=stored)


def stored_rates(rows: Sequence[RateRow]) -> Rates:
    """The rates of a tenant from its rows."""
    if not rows:
        return NO_RATES
    return MappingProxyType({name: Rate(requests=requests, tokens=tokens) for name, requests, tokens in rows})


GIB = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The quotas of one tenant."""

    stored_bytes_max: int = 20 * GIB
    """Of content: messages, artifacts, results. Compression is not counted off (the figure is a guess)."""
    streams_max: int = 500
    """Live streams at one time."""
    ticks_max: int = 100_000
    """Ticks of a world that one request may pass."""
    uploads_max: int = 8
    """Uploads at one time: each is held in memory."""

    def __post_init__(self) -> None:
        """Errors: `InvalidConfig`."""
        for name, value in asdict(self).items():
            if type(value) is not int or value < 0:
                raise InvalidConfig(f"quota {name}", expected="a whole number from 0", got=repr(value))


class QuotaUse(TypedDict):
    """The amounts that a tenant has stored, and its quotas."""

    stored_bytes: int
    """Of its content, by now."""
    stored_bytes_max: int
    streams_max: int
    """Live streams at one time."""
    ticks_max: int
    """Of a world, in one request."""
    uploads_max: int
    """At one time."""


class Quotas:
    """The quotas of all tenants."""

    def __init__(self, default: Quota | None = None, *, tenants: Mapping[str, Quota] | None = None) -> None:
        """`tenants` have their own; every other one has `default`."""
        self._default = default or Quota()
        self._tenants: dict[str, Quota] = {
            check_tenant(tenant): quota for tenant, quota in (tenants or {}).items()
        }
        self._counted: dict[str, tuple[int, int]] = {}
        """Of each tenant: the last blob that was counted, and the bytes up to it."""

    def of(self, tenant: str) -> Quota:
        return self._tenants.get(tenant, self._default)

    async def stored_bytes(self, store: Store, tenant: str, *, anew: bool = False) -> int:
        """Return the size of a tenant's content. Cost: a look at what is new; `anew` counts all of it."""
        seen, total = (0, 0) if anew else self._counted.get(tenant, (0, 0))
        last, size = await content_size(store, tenant, after=seen)
        counted = (last or seen, total + size)
        self._counted[tenant] = counted
        return counted[1]

    async def check_stored(self, store: Store, tenant: str, *, more: int = 0) -> None:
        """Errors: `QuotaReached` if a tenant has stored what it may, or would with `more` bytes."""
        most = self.of(tenant).stored_bytes_max
        if await self.stored_bytes(store, tenant) + more <= most:
            return
        stored = await self.stored_bytes(store, tenant, anew=True)  # some may have been erased
        if stored + more > most:
            raise QuotaReached(
                f"tenant {tenant} has stored as much as it may",
                expected=f"at most {most} bytes",
                got=f"{stored + more} bytes",
                hint="Erase or collect what is not needed, or ask whoever runs the server for more"
                " ([quotas] in the settings).",
            )

    async def describe(self, store: Store, tenant: str) -> QuotaUse:
        """Return `{stored_bytes, stored_bytes_max, streams_max, ticks_max, uploads_max}`."""
        stored = await self.stored_bytes(store, tenant, anew=True)
        quota = self.of(tenant)
        return {
            "stored_bytes": stored,
            "stored_bytes_max": quota.stored_bytes_max,
            "streams_max": quota.streams_max,
            "ticks_max": quota.ticks_max,
            "uploads_max": quota.uploads_max,
        }


POLL_S = 1.0
"""How often a waiting call looks again: what another process gives back comes unannounced."""

WAITING_MAX = 100_000

RANKS_MAX = 10_000
"""Runs whose newest rank is remembered, before a look at which of them still decide anything."""


@dataclass(frozen=True, slots=True)
class TakenCapacity:
    """The capacity that a call has taken, and when."""

    claims: tuple[Claim, ...]
    at_us: int


@dataclass(slots=True, eq=False)
class QueuePlace:
    """A call in the queue. It keeps its rank while its run is paused."""

    tenant: str
    run_id: str
    claims: tuple[Claim, ...]
    since_us: int
    number: int
    tenant_rank: float = 0.0
    run_rank: float = 0.0
    turn: asyncio.Future[TakenCapacity] = field(default_factory=asyncio.Future["TakenCapacity"])


class WaitingCounts:
    """The number of waiting calls."""

    def __init__(self, places: Iterable[QueuePlace]) -> None:
        self.runs = Counter(tenant for tenant, _ in {(one.tenant, one.run_id) for one in places})
        """By tenant."""
        self.tenants = len(self.runs)


class FairOrder:
    """The fair order of waiting calls. Ranks are virtual times: one unit is one call of each that waits."""

    def __init__(self) -> None:
        self._now = 0.0
        self._ends: dict[str, float] = {}
        self._now_of: dict[str, float] = {}
        self._ends_of: dict[tuple[str, str], float] = {}
        self._ranks_max = RANKS_MAX

    @property
    def remembered(self) -> int:
        """Runs whose newest rank is known."""
        return len(self._ends_of)

    def rank(self, place: QueuePlace) -> None:
        """Give a new place its rank."""
        tenant, run = place.tenant, (place.tenant, place.run_id)
        place.tenant_rank = max(self._now, self._ends.get(tenant, 0.0))
        place.run_rank = max(self._now_of.get(tenant, 0.0), self._ends_of.get(run, 0.0))
        self._ends[tenant] = place.tenant_rank + 1
        self._ends_of[run] = place.run_rank + 1
        if len(self._ends_of) > self._ranks_max:
            self._forget()

    def _forget(self) -> None:
        """Ranks that time has passed decide nothing any more; a queue may never become empty."""
        self._ends = {tenant: end for tenant, end in self._ends.items() if end > self._now}
        self._ends_of = {
            run: end for run, end in self._ends_of.items() if end > self._now_of.get(run[0], 0.0)
        }
        self._ranks_max = max(RANKS_MAX, 2 * len(self._ends_of))

    def advance(self, place: QueuePlace, crowd: WaitingCounts) -> None:
        """Time moves on by one when each that waits was served once, tenants among tenants, runs among runs.

        So whoever comes a round later stands behind those who wait, however many come.
        """
        now, tenant = self._now_of.get(place.tenant, 0.0), place.tenant
        self._now = max(self._now, place.tenant_rank) + 1 / crowd.tenants
        self._now_of[tenant] = max(now, place.run_rank) + 1 / crowd.runs[tenant]

    @staticmethod
    def order_queue(places: Sequence[QueuePlace]) -> list[QueuePlace]:
        """The queue: the tenants' slots in order, each filled with that tenant's next call."""
        waiting: dict[str, list[QueuePlace]] = {}
        for place in sorted(places, key=lambda one: (one.run_rank, one.number)):
            waiting.setdefault(place.tenant, []).append(place)
        nexts = {tenant: iter(own) for tenant, own in waiting.items()}
        slots = sorted(places, key=lambda one: (one.tenant_rank, one.number))
        return [next(nexts[slot.tenant]) for slot in slots]


class CallQueue:
    """The calls of one event loop that wait."""

    def __init__(self, store: Store, clock: Clock, holder: str) -> None:
        self._store = store
        self._clock = clock
        self._holder = holder
        self._order = FairOrder()
        self._numbers = itertools.count()
        self._places: dict[int, QueuePlace] = {}
        self._pump: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()

    def place(self, tenant: str, run_id: str, claims: tuple[Claim, ...]) -> QueuePlace:
        """A place with its rank, not in the queue yet. Errors: `QueueFull`."""
        if len(self._places) >= WAITING_MAX:
            raise QueueFull(
                "too many calls wait for a rate limit",
                expected=f"at most {WAITING_MAX}",
                hint="Raise the rate, or start fewer runs at once.",
            )
        place = QueuePlace(tenant, run_id, claims, self._clock.now_us(), next(self._numbers))
        self._order.rank(place)
        return place

    def join(self, place: QueuePlace) -> None:
        self._places[place.number] = place
        self._wake.set()
        if self._pump is None or self._pump.done():
            self._pump = asyncio.get_running_loop().create_task(self._serve())

    def leave(self, place: QueuePlace) -> None:
        """The call waits no more; a turn that it got meanwhile is given back."""
        self._places.pop(place.number, None)
        if not place.turn.done():
            place.turn.cancel()
        elif not place.turn.cancelled() and place.turn.exception() is None:
            change(self._store, place.turn.result())
        self.look()

    def look(self) -> None:
        """Something was given back, or somebody left."""
        self._wake.set()

    async def _serve(self) -> None:
        try:
            while self._places:
                self._wake.clear()
                wait_s = await self._pass()
                if self._places:
                    await self._rest(wait_s)
                    continue
                self._order = FairOrder()
                await self._store.take_turns((), now_us=self._clock.now_us(), holder=self._holder)
        except Exception as error:  # nobody waits for this task: those in the queue raise it
            for place in tuple(self._places.values()):
                if not place.turn.done():
                    place.turn.set_exception(error)
            self._places.clear()

    async def _pass(self) -> float:
        """Serve all whose turn it is; seconds until it can be somebody else's."""
        order = FairOrder.order_queue(tuple(self._places.values()))
        asked, crowd = list[Asked](), WaitingCounts(order)
        for place in order:
            run = f"{place.tenant}/{place.run_id}"
            asked.append(Asked(place.claims, place.since_us, run=run))
        answers = await self._store.take_turns(asked, now_us=self._clock.now_us(), holder=self._holder)
        wait_us = POLL_S * 1_000_000
        for place, taken in zip(order, answers, strict=True):
            if taken.at_us is None:
                wait_us = min(wait_us, taken.wait_us or wait_us)
                continue
            turn = TakenCapacity(place.claims, taken.at_us)
            if place.turn.done() or self._places.pop(place.number, None) is None:
                change(self._store, turn)  # its run was stopped while the store decided
                continue
            self._order.advance(place, crowd)
            place.turn.set_result(turn)
        return wait_us / 1_000_000

    async def _rest(self, seconds: float) -> None:
        waiting = asyncio.ensure_future(self._wake.wait())
        sleeping = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait((waiting, sleeping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            sleeping.cancel()


def change(store: Store, turn: TakenCapacity, *, tokens: int | None = None) -> None:
    """Correct a turn to the tokens that were really used; None gives all of it back."""
    changes = [
        (claim.scope, claim.unit, turn.at_us, amount)
        for claim in turn.claims
        if (amount := _difference(claim, tokens))
    ]
    if changes:
        with suppress(ArtelierError):  # a store that is closed has other worries
            store.change_turns(changes)


def _difference(claim: Claim, tokens: int | None) -> int:
    if tokens is None:
        return -claim.amount
    return tokens - claim.amount if claim.unit == "tokens" else 0


class Turns:
    """The queues of a kernel, and the turns of its calls in flight."""

    def __init__(self, store: Store, clock: Clock, holder: str) -> None:
        self._store = store
        self._clock = clock
        self._holder = holder
        self._queues: dict[asyncio.AbstractEventLoop, CallQueue] = {}
        self._held: dict[tuple[str, str, str], TakenCapacity] = {}

    def queue(self) -> CallQueue:
        loop = asyncio.get_running_loop()
        found = self._queues.get(loop)
        if found is None:
            for ended in [known for known in self._queues if known.is_closed()]:
                del self._queues[ended]
            holder = f"{self._holder}/{id(loop):x}"
            found = self._queues[loop] = CallQueue(self._store, self._clock, holder)
        return found

    def hold(self, call: tuple[str, str, str], turn: TakenCapacity) -> None:
        """Keep the turn of a call: tenant, run and key of its step."""
        self._held[call] = turn

    def end(self, call: tuple[str, str, str], *, tokens: int | None) -> None:
        turn = self._held.pop(call, None)
        if turn is not None:
            change(self._store, turn, tokens=tokens)
            with suppress(RuntimeError):  # no loop runs any more
                self.queue().look()
