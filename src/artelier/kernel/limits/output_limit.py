"""How much a model may write where its caller does not say: what it can, or what the money that is left buys.

The number is a parameter of the request, so it is recorded with it, and a replay asks no account.
"""

from __future__ import annotations

from dataclasses import dataclass

from artelier.errors import LimitReached
from artelier.kernel.limits.budget import TENANT, claims_for, source_for
from artelier.kernel.run.context import RunCore
from artelier.ledger import DEBT
from artelier.ledger.queries import account_balance, scope_limits
from artelier.ports.model import FREE, Price
from artelier.tokens import upper_bound_microusd, upper_bound_tokens

LEAST_TOKENS = 1_024
"""Less is no answer: a call that cannot pay for this is refused. For so much it may take all that is left,
for more only half, so that calls beside it can be made too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRoom:
    """What is left for one call, in the units of its limits; None where there is none."""

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

    def output_tokens(self, size_bytes: int) -> int:
        """Return how much a call may write whose canonical request has this size: the limit, or the largest
        power of two below it that is paid for.
        """
        if self.after_cut:
            return self._after_cut(upper_bound_tokens(size_bytes))
        input_max = upper_bound_tokens(size_bytes)
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
    rate = _rate_tokens(core, model)
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


def _rate_tokens(core: RunCore, model: str) -> int | None:
    """Return the tokens of a minute that the narrowest rate of a model gives."""
    try:
        claims = claims_for(core, model, 0)
    except LimitReached:  # of requests: the call itself is refused
        return None
    return min((claim.cap for claim in claims if claim.unit == "tokens"), default=None)
