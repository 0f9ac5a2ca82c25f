"""Money and room for a call: an upper bound is reserved with the request and settled with the reply."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any

from artelier.errors import Exhausted, InsufficientFunds, LimitReached, PriceUnknown
from artelier.kernel import events as ev
from artelier.kernel.core import RunCore
from artelier.ledger import Count, Moving, Posting
from artelier.money import USD
from artelier.ports.model import FREE, Price, Usage
from artelier.tokens import cost_microusd, upper_bound_microusd, upper_bound_tokens

UNLIMITED = "source:unlimited"
TENANT = "tenant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What is held while a call is in flight."""

    price: Price | None
    """None: nobody knows it, and the tenant allows that."""
    amount: int
    """Micro-dollars."""
    source: str
    """The account that pays and gets back what is left."""
    hold: str
    reserved: dict[tuple[str, str], int]
    """What each capped (scope, unit) has reserved."""

    @property
    def postings(self) -> tuple[Posting, ...]:
        return (Posting(self.source, self.hold, USD, self.amount),) if self.amount else ()

    @property
    def counts(self) -> tuple[Count, ...]:
        return tuple(
            Count(scope, unit, reserve=amount) for (scope, unit), amount in self.reserved.items()
        )

    @property
    def is_limited(self) -> bool:
        """Whether a limit or an account can refuse it."""
        return bool(self.reserved) or (self.amount > 0 and self.source == TENANT)


def price_for(core: RunCore, model: str, port: object) -> Price | None:
    """The price of a model. Errors: `PriceUnknown` unless the tenant allows that."""
    price = core.services.price_of(model)
    own: Price | None = getattr(port, "price", None)
    if price is None or (price == FREE and own is not None):
        price = own
    if price is None and not core.tenant.allow_unknown_price:
        raise PriceUnknown(
            f"no price is known for model {model!r}, so nothing can be reserved for it",
            hint="Set it under [prices] in artelier.toml, or allow unknown prices for this tenant"
            " (`artelier tenants update ID --allow-unknown-price`).",
        )
    return price


def reserve(
    core: RunCore, *, price: Price | None, size_bytes: int, max_output_tokens: int
) -> Reservation:
    """The most that a call of this size can cost and count."""
    input_max = upper_bound_tokens(size_bytes)
    amount = 0
    if price is not None and price is not FREE and price != FREE:
        amount = upper_bound_microusd(
            price, input_tokens_max=input_max, max_output_tokens=max_output_tokens
        )
    bounds = {"usd": amount, "tokens": input_max + max_output_tokens, "steps": 1}
    reserved = {
        (scope, unit): bounds[unit] for scope, unit in sorted(core.counted) if bounds.get(unit)
    }
    return Reservation(
        price=price, amount=amount, source=UNLIMITED if core.tenant.budget is None else TENANT,
        hold=f"hold:{core.run_id}", reserved=reserved,
    )  # fmt: skip


def held(request: Moving, *, price: Price | None) -> Reservation:
    """The reservation that a recorded request made."""
    posting = request.postings[0] if request.postings else None
    return Reservation(
        price=price,
        amount=posting.amount if posting else 0,
        source=posting.source if posting else UNLIMITED,
        hold=posting.target if posting else "",
        reserved={(count.scope, count.unit): count.reserve for count in request.counts},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """How a reservation ended. `overrun` is what the provider billed beyond its own maximum."""

    cost: int
    overrun: int
    postings: tuple[Posting, ...]
    counts: tuple[Count, ...]

    @property
    def moves(self) -> dict[str, Any]:
        return {"postings": self.postings, "counts": self.counts}


def settle(
    reservation: Reservation,
    *,
    usage: Usage,
    cost: int | None = None,
    capped: Collection[tuple[str, str]] = (),
) -> Settlement:
    """Pay what a call cost and give back the rest. `cost` overrides what the usage would cost.

    `capped`: (scope, unit) pairs that have a cap by now; those that got it while the call was in flight
    have nothing reserved, but count what it used.
    """
    if cost is None:
        price = reservation.price
        cost = 0 if price is None or price == FREE else cost_microusd(price, usage)
    paid = min(cost, reservation.amount)
    postings: list[Posting] = []
    if paid:
        postings.append(Posting(reservation.hold, "spent", USD, paid))
    if reservation.amount > paid:
        rest = reservation.amount - paid
        postings.append(Posting(reservation.hold, reservation.source, USD, rest))
    overrun = cost - paid
    if overrun:
        postings.append(Posting("source:overrun", "overrun", USD, overrun))
        postings.append(Posting("overrun", "spent", USD, overrun))
    used = {"usd": cost, "tokens": usage.input_tokens + usage.output_tokens, "steps": 1}
    counts = tuple(
        Count(scope, unit, reserve=-amount, use=used[unit])
        for (scope, unit), amount in reservation.reserved.items()
    ) + tuple(
        Count(scope, unit, use=used[unit])
        for scope, unit in sorted(set(capped) - reservation.reserved.keys())
        if used.get(unit)
    )
    return Settlement(cost=cost, overrun=overrun, postings=tuple(postings), counts=counts)


def abandon(request: Moving, *, key: str) -> ev.ModelFailed:
    """The end of a model call that nobody asks for again: all that it holds comes back."""
    settlement = settle(held(request, price=None), usage=Usage(), cost=0)
    return ev.ModelFailed(key=key, family="cancelled", code="abandoned", **settlement.moves)


async def may_come_back(core: RunCore, need: int) -> bool:
    """Whether what is unspent is enough, with what calls of this tenant hold.

    Both are asked for at once: what was held when a reservation was refused may be back by now.
    """
    rows = await core.store.query(
        "SELECT sum(balance) FROM accounts WHERE tenant = ? AND asset = ? AND balance > 0"
        " AND (account = ? OR account LIKE 'hold:%')",
        (core.tenant.id, USD, TENANT),
    )
    return (rows[0][0] or 0) >= need


async def when_it_fits(core: RunCore, attempt: Callable[[], Awaitable[None]]) -> None:
    """Try to reserve; while siblings hold money, wait for it (bounded); else end the drive.

    Errors: `RunSuspended` with status `budget_exhausted`.
    """
    left_us = int(core.policy.funds_wait_s * 1_000_000)
    while True:
        event = core.services.money_event(core.tenant.id)
        try:
            await attempt()
            return
        except Exhausted as error:
            if not await _may_fit(core, error) or left_us <= 0:
                await core.refused(error)
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
    """Whether a refused reservation fits once calls at work have given back what they hold."""
    facts = error.facts
    if isinstance(error, LimitReached):
        return bool(facts["reserved"]) and facts["used"] + facts["asked"] <= facts["cap"]
    return isinstance(error, InsufficientFunds) and await may_come_back(core, facts["need"])
