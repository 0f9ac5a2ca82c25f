"""Money and room for a call: an upper bound is reserved with the request and settled with the reply.

Room is a turn at the provider's rate limits, which the call takes and gives back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any

from artelier.errors import Exhausted, InsufficientFunds, InvalidConfig, LimitReached, PriceUnknown
from artelier.kernel import events as ev
from artelier.kernel.queries.tenants import find_tenant, has_budget
from artelier.kernel.rates import QueuePlace, Turns, claims_of
from artelier.kernel.run.context import RunCore
from artelier.ledger import AMOUNT_MAX, COUNTED, DEBT, Count, Posting, check_available, check_caps
from artelier.ledger.queries import account_balance, scope_limits, sum_of
from artelier.log import Claim, Tx
from artelier.money import USD
from artelier.ports.model import FREE, Price, Usage
from artelier.tokens import cost_microusd, tokens_of_counts, upper_bound_microusd, upper_bound_tokens

UNLIMITED = "source:unlimited"
TENANT = "tenant"


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaSize:
    """The tokens of images, sounds and PDFs of a call, which are in no byte of its request."""

    tokens: int = 0
    """By estimate."""
    tokens_max: int = 0
    """More than the provider bills; only where nothing limits the call may it be less."""


NO_MEDIA_SIZE = MediaSize()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSize:
    """The tokens that a call can use."""

    input_tokens: int
    """Of its input, by estimate."""
    input_max: int
    """More than any tokenizer makes of its input, with the bound of its media."""
    output_max: int
    """The most that it may write."""

    @classmethod
    def of(
        cls, size_bytes: int, extra_bytes: int, *, output_max: int, media: MediaSize = NO_MEDIA_SIZE
    ) -> CallSize:
        """Return the size of a request by that of its canonical JSON, and of its media.

        `extra_bytes`: those beyond one per character.
        """
        return cls(
            input_tokens=tokens_of_counts(size_bytes - extra_bytes, extra_bytes) + media.tokens,
            input_max=upper_bound_tokens(size_bytes) + media.tokens_max,
            output_max=output_max,
        )

    @property
    def tokens_max(self) -> int:
        """More tokens than the call can use."""
        return self.input_max + self.output_max


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """The amounts held while a call is in flight."""

    price: Price | None
    """None: nobody knows it, and the tenant allows that."""
    amount: int
    """Micro-dollars."""
    source: str
    """The account that pays and gets back what is left."""
    hold: str
    reserved: dict[tuple[str, str], int]
    """What each capped (scope, unit) has reserved."""
    input_tokens: int = 0
    """Of the input, by estimate: what counts if no usage ever comes."""
    input_cost: int = 0
    """Micro-dollars of those tokens."""

    @property
    def postings(self) -> tuple[Posting, ...]:
        return (Posting(self.source, self.hold, USD, self.amount),) if self.amount else ()

    @property
    def counts(self) -> tuple[Count, ...]:
        return tuple(Count(scope, unit, reserve=amount) for (scope, unit), amount in self.reserved.items())

    @property
    def estimate(self) -> dict[str, int]:
        """The fields of its request that an end without usage is settled by; none where nothing is held."""
        if not self.amount and not self.reserved:
            return {}
        return {"input_tokens": self.input_tokens, "input_cost": self.input_cost}

    @property
    def is_free(self) -> bool:
        """Return True if the call is known to cost nothing."""
        return self.price is not None and self.price == FREE

    @property
    def is_limited(self) -> bool:
        """Return True if a limit or an account can refuse it."""
        # A call that is not free is asked of the account also where the tenant is unlimited as far as is
        # known here: somebody may have set a budget that this process has not read yet.
        return not self.is_free or bool(self.reserved)


DEARER_TIER = "priority"
"""The service tier that costs more than the published price. `flex` costs less: what is held is enough."""


def price_for(core: RunCore, model: str, port: object, *, tier: str | None = None) -> Price | None:
    """The price of a model in a service tier.

    `openai:gpt-5@priority` under [prices] is that of a tier. Without one a tier costs what the model does,
    and `priority`, which costs more, has no known price.
    Errors: `PriceUnknown` unless the tenant allows that; `InvalidConfig` for a port with a bad price.
    """
    price = None if tier is None else core.services.price_of(f"{model}@{tier}")
    if price is None:
        price = core.services.price_of(model)
        if tier == DEARER_TIER and price is not None and price != FREE:
            return _unknown_price(core, f"{model}@{tier}")
    own: object = getattr(port, "price", None)
    if own is not None and not isinstance(own, Price):
        raise InvalidConfig(
            f"the port of model {model!r} has no price that can be reserved",
            expected="a Price, or None",
            got=repr(own)[:80],
        )
    if price is None or (price == FREE and own is not None):
        price = own
    return _unknown_price(core, model) if price is None else price


def _unknown_price(core: RunCore, model: str) -> None:
    """Errors: `PriceUnknown` unless the tenant allows calls that nobody can price."""
    if core.tenant.allow_unknown_price:
        return
    raise PriceUnknown(
        f"no price is known for model {model!r}, so nothing can be reserved for it",
        hint="Set it under [prices] in artelier.toml, or allow unknown prices for this tenant"
        " (`artelier tenants update ID --allow-unknown-price`).",
    )


class BudgetChanged(Exhausted):
    """A tenant got a budget, or became unlimited, after this process had read it: see `read_budget`."""


async def read_budget(core: RunCore) -> None:
    """Read anew if the tenant has a budget, and which: another process may have changed it."""
    row = await find_tenant(core.store, core.tenant.id)
    if row is not None:
        core.tenant.budget = row.budget


def source_for(core: RunCore) -> str:
    """Return the account that pays for what a run does."""
    return UNLIMITED if core.tenant.budget is None else TENANT


def reserve(core: RunCore, *, price: Price | None, size: CallSize) -> Reservation:
    """The most that a call of this size can cost and count."""
    amount, input_cost = 0, 0
    if price is not None and price is not FREE and price != FREE:
        amount = upper_bound_microusd(
            price, input_tokens_max=size.input_max, max_output_tokens=size.output_max
        )
        input_cost = cost_microusd(price, Usage(input_tokens=size.input_tokens))
    bounds = {"usd": amount, "tokens": size.tokens_max, "steps": 1}
    reserved = {(scope, unit): bounds[unit] for scope, unit in sorted(core.counted) if bounds.get(unit)}
    return Reservation(
        price=price,
        amount=amount,
        source=source_for(core),
        hold=f"hold:{core.run_id}",
        reserved=reserved,
        input_tokens=size.input_tokens,
        input_cost=input_cost,
    )


def reservation_of(
    request: ev.ModelRequested,
    *,
    price: Price | None = None,
    source: str = UNLIMITED,
    size: CallSize | None = None,
) -> Reservation:
    """Return the reservation that a recorded request made; `source` pays where it held nothing.

    `size` is for requests of older versions, which say nothing of their input.
    """
    posting = request.postings[0] if request.postings else None
    return Reservation(
        price=price,
        amount=posting.amount if posting else 0,
        source=posting.source if posting else source,
        hold=posting.target if posting else "",
        reserved={(count.scope, count.unit): count.reserve for count in request.counts},
        input_tokens=request.input_tokens or (size.input_tokens if size is not None else 0),
        input_cost=request.input_cost,
    )


def funds_guard(core: RunCore, *, source: str, amount: int, is_free: bool = False) -> Callable[[Tx], None]:
    """Return a guard that refuses to take `amount` while less is available, or while a limit is exceeded.

    It raises `BudgetChanged` where `source` is no longer what the tenant pays with. The views cannot refuse
    this: they also apply events from before an overrun was a debt. What `is_free` asks neither the account
    nor limits of money.
    """
    tenant, scopes = core.tenant.id, core.scopes
    units = tuple(unit for unit in COUNTED if not (is_free and unit == "usd"))

    def check(tx: Tx) -> None:
        if not is_free:
            _check_account(tx, tenant, source, amount)
        check_caps(tx, tenant, scopes, units)

    return check


def _check_account(tx: Tx, tenant: str, source: str, amount: int) -> None:
    if source != TENANT:
        if has_budget(tx, tenant):
            raise BudgetChanged(f"tenant {tenant!r} has got a budget")
        return
    try:
        check_available(tx, tenant, TENANT, amount)
    except InsufficientFunds:
        if has_budget(tx, tenant):
            raise
        raise BudgetChanged(f"tenant {tenant!r} has become unlimited") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The end of a reservation, or of one attempt under it."""

    cost: int
    """Micro-dollars that are billed."""
    tokens: int
    """Tokens that are counted."""
    postings: tuple[Posting, ...]
    counts: tuple[Count, ...]
    estimated: bool = False
    """True if nobody said what was used: the cost is that of the input's estimate."""
    suspicious: bool = False
    """True if the provider claims far more than the request allows."""
    is_over: bool = False
    """True if more was used than was reserved, so that a limit may be exceeded now."""

    @property
    def facts(self) -> dict[str, Any]:
        """The fields of the event that ends the call or the attempt."""
        return {
            "cost": self.cost,
            "estimated": self.estimated,
            "suspicious": self.suspicious,
            "postings": self.postings,
            "counts": self.counts,
        }


def settle(
    reservation: Reservation,
    *,
    usage: Usage | None,
    output_tokens: int = 0,
    capped: Collection[tuple[str, str]] = (),
) -> Settlement:
    """Pay what a call cost and give back the rest. What it cost beyond the hold is debt.

    Without `usage` nobody knows it: its input is billed by estimate, with the `output_tokens` that came.
    `capped`: (scope, unit) pairs that have a cap by now; those that got it while the call was in flight
    have nothing reserved, but count what it used.
    """
    cost, tokens = _bill(reservation, usage, output_tokens)
    return _close(
        reservation, cost=cost, tokens=tokens, capped=capped, estimated=_is_estimated(reservation, usage)
    )


def release(reservation: Reservation, *, capped: Collection[tuple[str, str]] = ()) -> Settlement:
    """Give all back: the call was never sent, or whoever refused it bills nothing."""
    return _close(reservation, cost=0, tokens=0, capped=capped)


def bill_attempt(
    reservation: Reservation, *, usage: Usage | None, capped: Collection[tuple[str, str]] = ()
) -> Settlement:
    """Pay for an attempt that another one follows, beside the hold, which stays whole for that one."""
    cost, tokens = _bill(reservation, usage, 0)
    used = {"usd": cost, "tokens": tokens}
    return Settlement(
        cost=cost,
        tokens=tokens,
        estimated=_is_estimated(reservation, usage),
        postings=(Posting(reservation.source, "spent", USD, cost),) if cost else (),
        counts=tuple(
            Count(scope, unit, use=used[unit])
            for scope, unit in sorted({*capped, *reservation.reserved})
            if used.get(unit)
        ),
    )


def _bill(reservation: Reservation, usage: Usage | None, output_tokens: int) -> tuple[int, int]:
    """Micro-dollars and tokens of a usage, or of what is known without one."""
    price = reservation.price
    if usage is None:
        usage = Usage(input_tokens=reservation.input_tokens, output_tokens=output_tokens)
        if price is None:
            return reservation.input_cost, usage.prompt_tokens + usage.output_tokens
    cost = 0 if price is None or price == FREE else cost_microusd(price, usage)
    return min(cost, AMOUNT_MAX), usage.prompt_tokens + usage.output_tokens


def _is_estimated(reservation: Reservation, usage: Usage | None) -> bool:
    return usage is None and bool(reservation.estimate)


def _close(
    reservation: Reservation,
    *,
    cost: int,
    tokens: int,
    capped: Collection[tuple[str, str]],
    estimated: bool = False,
) -> Settlement:
    paid = min(cost, reservation.amount)
    postings: list[Posting] = []
    if paid:
        postings.append(Posting(reservation.hold, "spent", USD, paid))
    if reservation.amount > paid:
        rest = reservation.amount - paid
        postings.append(Posting(reservation.hold, reservation.source, USD, rest))
    excess = cost - paid
    if excess:
        owed = DEBT if reservation.source == TENANT else reservation.source
        postings.append(Posting(owed, "spent", USD, excess))
    used = {"usd": cost, "tokens": tokens, "steps": 1}
    counts = tuple(
        Count(scope, unit, reserve=-amount, use=used[unit])
        for (scope, unit), amount in reservation.reserved.items()
    ) + tuple(
        Count(scope, unit, use=used[unit])
        for scope, unit in sorted(set(capped) - reservation.reserved.keys())
        if used.get(unit)
    )
    is_over = excess > 0 or any(count.use + count.reserve > 0 for count in counts)
    return Settlement(
        cost=cost,
        tokens=tokens,
        postings=tuple(postings),
        counts=counts,
        estimated=estimated,
        is_over=is_over,
    )


def abandon(
    request: ev.ModelRequested, *, key: str, is_sent: bool = True, capped: Collection[tuple[str, str]]
) -> ev.ModelFailed:
    """Return the end of a model call that nobody asks for again: its input is paid, the rest comes back.

    `capped`: see `settle`.
    """
    reservation = reservation_of(request)
    settlement = settle(reservation, usage=None, capped=capped) if is_sent else release(reservation)
    return ev.ModelFailed(key=key, family="cancelled", code="abandoned", **settlement.facts)


async def may_come_back(core: RunCore, need: int) -> bool:
    """Return True if what is unspent, less the debt, is enough with what calls of this tenant hold.

    All are asked for at once: what was held when a reservation was refused may be back by now.
    """
    return await sum_of(core.store, core.tenant.id, (TENANT, DEBT), prefix="hold:") >= need


async def _never_less() -> bool:
    return False


async def when_it_fits(
    core: RunCore,
    attempt: Callable[[], Awaitable[None]],
    *,
    ask_for_less: Callable[[], Awaitable[bool]] = _never_less,
) -> None:
    """Try to reserve; while siblings hold money, wait for it (bounded), and then `ask_for_less`.

    That returns False if less would be no use.
    Errors: what refused it for good; those of `boundary`.
    """
    left_us = int(core.policy.funds_wait_s * 1_000_000)
    while True:
        event = core.services.money_event(core.tenant.id)
        try:
            await attempt()
            return
        except Exhausted as error:
            if not await _may_fit(core, error) or left_us <= 0:
                if not await ask_for_less():
                    raise
                continue
        began_us = core.clock.now_us()
        await core.boundary()
        waiting = asyncio.ensure_future(event.wait())
        # Money held by another process comes back unannounced: look again after a while.
        sleeping = asyncio.ensure_future(core.clock.sleep(0.1))
        try:
            await asyncio.wait((waiting, sleeping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            sleeping.cancel()
        # An attempt may itself wait, for a rate limit: that is no waiting for money.
        left_us -= core.clock.now_us() - began_us


async def _may_fit(core: RunCore, error: Exhausted) -> bool:
    """Return True if a refused reservation fits once calls at work have given back what they hold."""
    facts = error.facts
    if isinstance(error, LimitReached):
        return bool(facts["reserved"]) and facts["used"] + facts["asked"] <= facts["cap"]
    return isinstance(error, InsufficientFunds) and await may_come_back(core, facts["need"])


async def take_turn(core: RunCore, key: str, claims: tuple[Claim, ...]) -> None:
    """Wait until the call may be made. Commands, pauses and limits of time hold meanwhile.

    Errors: those of `RunCore.boundary`; those of the store.
    """
    if not claims:
        return
    services = core.services
    turns = services.turns = services.turns or Turns(services.store, services.clock, services.holder)
    queue = turns.queue()
    place = queue.place(core.tenant.id, core.run_id, claims)
    while True:
        since = core.turn
        await core.boundary()
        if place.turn.cancelled():
            place.turn = asyncio.get_running_loop().create_future()
        queue.join(place)
        try:
            await _wait_turn(core, place, since)
            turn = place.turn.result() if place.turn.done() else None
        except BaseException:
            queue.leave(place)
            raise
        if turn is not None:
            turns.hold((core.tenant.id, core.run_id, key), turn)
            return
        queue.leave(place)


async def _wait_turn(core: RunCore, place: QueuePlace, since: int) -> None:
    """Until it is the call's turn, a command took effect, or the run's time is up."""
    if core.turn != since:
        return
    told = asyncio.ensure_future(core.changed.wait())
    left_s = core.left_s()
    over = None if left_s is None else asyncio.ensure_future(core.clock.sleep(left_s))
    try:
        waiting = [one for one in (place.turn, told, over) if one is not None]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        told.cancel()
        if over is not None:
            over.cancel()


def end_turn(core: RunCore, key: str, *, tokens: int | None) -> None:
    """A call is over and used so many tokens; None if it was never made. Off costs one look."""
    if core.services.turns is not None:
        core.services.turns.end((core.tenant.id, core.run_id, key), tokens=tokens)


def claims_for(core: RunCore, model: str, tokens: int) -> tuple[Claim, ...]:
    """Return what a call takes of the windows that hold for this run. Errors: `LimitReached`. Cost: off, one
    look."""
    if not core.policy.rates and not core.tenant.rates:
        return ()
    return claims_of(
        model, tokens, rates=core.policy.rates, tenant=core.tenant.id, tenant_rates=core.tenant.rates
    )


# --------------------------------------------------------------------------- output limit
# How much a model may write where its caller does not say: what it can, or what the money that is left buys.
#
# The number is a parameter of the request, so it is recorded with it, and a replay asks no account.

LEAST_TOKENS = 1_024
"""Less is no answer: a call that cannot pay for this is refused. For so much it may take all that is left,
for more only half, so that calls beside it can be made too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRoom:
    """The rest that one call may use, in the units of its limits; None where there is no limit."""

    limit: int
    """Tokens that the model can write."""
    price: Price | None
    microusd: int | None = None
    tokens: int | None = None
    after_cut: int = 0
    """Where an answer was cut at so many tokens: twice as much is asked for, of all that is left."""

    @property
    def is_bounded(self) -> bool:
        return self.microusd is not None or self.tokens is not None

    def output_tokens(self, size_bytes: int, media: MediaSize = NO_MEDIA_SIZE) -> int:
        """Return how much a call may write whose canonical request has this size: the limit, or the largest
        power of two below it that is paid for.
        """
        input_max = upper_bound_tokens(size_bytes) + media.tokens_max
        if self.after_cut:
            return self._after_cut(input_max)
        if not self.is_bounded or self._is_affordable(input_max, self.limit):
            return self.limit
        power = 1 << (self.limit.bit_length() - 1)
        while power > LEAST_TOKENS and not self._is_affordable(input_max, power):
            power //= 2
        return min(self.limit, power)

    def _after_cut(self, input_max: int) -> int:
        """Return more than was cut: what is affordable, but twice as much at least. If that cannot be paid
        the call is refused, and its run waits for a higher limit.
        """
        output = min(self.limit, 2 * self.after_cut)
        while output < self.limit and self._is_affordable(input_max, min(self.limit, 2 * output)):
            output = min(self.limit, 2 * output)
        return output

    def _is_affordable(self, input_max: int, output: int) -> bool:
        share = 1 if self.after_cut or output <= LEAST_TOKENS else 2
        if self.tokens is not None and input_max + output > self.tokens // share:
            return False
        if self.microusd is None or self.price is None:
            return True
        bound = upper_bound_microusd(self.price, input_tokens_max=input_max, max_output_tokens=output)
        return bound <= self.microusd // share


async def output_room(
    core: RunCore, *, model: str, price: Price | None, limit: int, after_cut: int = 0
) -> OutputRoom:
    """Return what is left for a call of a run. Cost: where nothing limits the run, no read."""
    microusd, tokens = await _left(core, price)
    rate = rate_tokens(core, model)
    if rate is not None:
        tokens = rate if tokens is None else min(tokens, rate)
    return OutputRoom(limit=limit, price=price, microusd=microusd, tokens=tokens, after_cut=after_cut)


async def _left(core: RunCore, price: Price | None) -> tuple[int | None, int | None]:
    """Return micro-dollars and tokens that the limits of a run have left."""
    usd: list[int] = []
    tokens: list[int] = []
    is_free = price is None or price == FREE
    tenant = core.tenant.id
    if source_for(core) == TENANT and not is_free:
        have = await account_balance(core.store, tenant, TENANT) or 0
        usd.append(have + (await account_balance(core.store, tenant, DEBT) or 0))
    if core.counted:
        for one in await scope_limits(core.store, tenant, *{scope for scope, _ in core.counted}):
            if one.cap is None or (one.scope, one.unit) not in core.counted:
                continue
            left = one.cap - one.reserved - one.used
            if one.unit == "usd" and not is_free:
                usd.append(left)
            elif one.unit == "tokens":
                tokens.append(left)
    return min(usd, default=None), min(tokens, default=None)


def rate_tokens(core: RunCore, model: str) -> int | None:
    """Return the tokens of a minute that the narrowest rate of a model gives."""
    try:
        claims = claims_for(core, model, 0)
    except LimitReached:  # of requests: the call itself is refused
        return None
    return min((claim.cap for claim in claims if claim.unit == "tokens"), default=None)
