"""One principal's access to one space: its artifacts and its money."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

from artelier.artifacts.access import account_of, check_principal
from artelier.artifacts.events import money_stream
from artelier.artifacts.store import Artifacts
from artelier.clock import Clock
from artelier.errors import InvalidRequest
from artelier.ledger import MoneyTransferred, Posting
from artelier.ledger.queries import account_balance
from artelier.log import Batch, Draft, Store, StreamAppend

CheckRecipient = Callable[[str], Awaitable[None]]
"""Checks that a principal can be given money. Errors: `NotFound`."""


class Space:
    """The handle of a principal: `space.artifacts`, `space.ledger`."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        tenant: str,
        space: str,
        principal: str,
        artifacts: Artifacts,
        check_recipient: CheckRecipient | None = None,
    ) -> None:
        self.artifacts = artifacts
        self.ledger = Money(store, clock, tenant, space, principal, check_recipient)


class Money:
    """Balances and transfers of one principal."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        tenant: str,
        space: str,
        principal: str,
        check_recipient: CheckRecipient | None = None,
    ) -> None:
        self._check_recipient = check_recipient
        self._store = store
        self._clock = clock
        self._tenant = tenant
        self._space = space
        self._principal = check_principal(principal)

    async def balance(self, asset: str = "scrip") -> int:
        """Return the balance in the asset's smallest unit."""
        account = account_of(self._principal)
        found = await account_balance(self._store, self._tenant, account, space=self._space, asset=asset)
        return found or 0

    async def transfer(self, *, to: str, amount: int, asset: str = "scrip") -> None:
        """Give money to another principal of the space.

        Errors: `InvalidRequest` for an amount that is no positive integer or a transfer to oneself;
        `InsufficientFunds`, and nothing moved; `NotFound` for a name that a world does not know.
        """
        target = account_of(check_principal(to))
        if isinstance(amount, bool) or not isinstance(cast(object, amount), int) or amount <= 0:
            raise InvalidRequest("amount", expected="a positive integer", got=repr(amount)[:80])
        if to == self._principal:
            raise InvalidRequest("a transfer needs two principals", got=to)
        if self._check_recipient is not None:
            await self._check_recipient(to)
        posting = Posting(account_of(self._principal), target, asset, amount)
        draft = Draft(MoneyTransferred(postings=(posting,)), self._clock.now_us(), self._principal)
        stream = money_stream(self._tenant, self._space)
        await self._store.append(Batch(appends=[StreamAppend(stream, [draft])]))
