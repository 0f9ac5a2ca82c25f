"""The one billing path: what an access costs, who pays, and the postings that move it."""

from __future__ import annotations

from typing import Protocol

import msgspec

from artelier.artifacts.ref import safe_repr
from artelier.errors import InvalidArtifact
from artelier.ledger import Posting
from artelier.money import SCRIP

PRICE_MAX = 10**12
"""Scrip per access (guess: far above any world's money, so that sums stay within 64 bits)."""

_PRICED = {"read": "read", "invoke": "invoke", "include": "inclusion"}
"""Which price an action costs; all other actions are free."""


def is_priced(action: str) -> bool:
    """Return True if an access of this kind can cost anything."""
    return action in _PRICED


class AccessPrices(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The owner's prices for others per access, in whole scrip."""

    read: int = 0
    invoke: int = 0
    inclusion: int = 0
    """Per prompt that contains it."""


class _StrictPrices(AccessPrices, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prices at the door: an unknown field is a mistake."""


class Priced(Protocol):
    @property
    def owner(self) -> str: ...

    @property
    def prices(self) -> AccessPrices: ...


def account_of(principal: str) -> str:
    """The account of a principal: with a prefix, so that no id can name a mint, a hold or a source."""
    return f"principal:{principal}"


def check_prices(value: object) -> AccessPrices:
    """Prices from themselves or a mapping. Errors: `InvalidArtifact`."""
    try:
        given = msgspec.to_builtins(value) if isinstance(value, AccessPrices) else value
        strict = msgspec.convert(given, _StrictPrices)
    except msgspec.ValidationError as error:
        raise InvalidArtifact(
            f"invalid prices: {error}", expected="{read, invoke, inclusion}", got=safe_repr(value)
        ) from None
    prices = AccessPrices(read=strict.read, invoke=strict.invoke, inclusion=strict.inclusion)
    for name in AccessPrices.__struct_fields__:
        if not 0 <= getattr(prices, name) <= PRICE_MAX:
            raise InvalidArtifact(
                f"invalid price of {name}", expected=f"0 to {PRICE_MAX} scrip", got=getattr(prices, name)
            )
    return prices


class Bill:
    """Pure arithmetic over an artifact's prices."""

    @staticmethod
    def price(action: str, artifact: Priced, payer: str) -> int:
        """Scrip that one access costs; owners use their own for free."""
        return 0 if payer == artifact.owner else Bill.posted_price(action, artifact)

    @staticmethod
    def posted_price(action: str, artifact: Priced) -> int:
        """Scrip that the artifact itself asks of others, for all to see."""
        name = _PRICED.get(action)
        return 0 if name is None else getattr(artifact.prices, name)

    @staticmethod
    def movement(
        payer: str, owner: str, price: int, royalty: tuple[str, int] | None = None
    ) -> tuple[Posting, ...]:
        """The postings of a decided price; empty if there is nothing to pay.

        `royalty` is who has a share in it, and how many percent: rounded down, the owner keeps the rest.
        """
        if price == 0 or payer == owner:
            return ()
        paid = Posting(account_of(payer), account_of(owner), SCRIP, price)
        to, percent = royalty or ("", 0)
        share = price * percent // 100
        if not share or to == owner:
            return (paid,)
        return (paid, Posting(account_of(owner), account_of(to), SCRIP, share))

    @staticmethod
    def postings(action: str, artifact: Priced, payer: str) -> tuple[Posting, ...]:
        """The movement from payer to owner; empty if there is nothing to pay."""
        return Bill.movement(payer, artifact.owner, Bill.price(action, artifact, payer))
