"""Money as integers: USD in micro-dollars, scrip in whole units. A float never holds money."""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal, InvalidOperation, Overflow

from artelier.errors import InvalidRequest

MICRO = 1_000_000
"""Micro-dollars per dollar."""

MICRO_MAX = 9 * 10**18
"""More fits no column of the store."""

USD = "usd"
"""The asset of provider money, counted in micro-dollars."""

SCRIP = "scrip"
"""The asset inside a world, counted in whole units."""


def parse_usd(value: str | int | float | Decimal) -> int:
    """Micro-dollars of an amount in dollars, such as `"5.00"` or `Decimal("0.25")`.

    Errors: `InvalidRequest` if it is no finite non-negative number or is finer than a micro-dollar.
    """
    try:
        micro = Decimal(str(value)) * MICRO
    except (InvalidOperation, Overflow):
        raise InvalidRequest(
            "not an amount in USD", expected='a number such as "5.00"', got=repr(value)
        ) from None
    if micro.is_finite() and micro > MICRO_MAX:
        raise InvalidRequest(
            "too large an amount in USD", expected=f"at most {format_usd(MICRO_MAX)}", got=repr(value)[:80]
        )
    if not micro.is_finite() or micro < 0 or micro != micro.to_integral_value():
        raise InvalidRequest(
            "not an amount in USD",
            expected="a finite amount of at least 0 with at most six decimals",
            got=repr(value),
        )
    return int(micro)


def format_usd(micro: int) -> str:
    """Dollars as text with at least two and at most six decimals: `1500000` is `1.50`."""
    whole, rest = divmod(abs(micro), MICRO)
    decimals = f"{rest:06d}".rstrip("0").ljust(2, "0")
    return f"{'-' if micro < 0 else ''}{whole}.{decimals}"


def format_amount(amount: int, asset: str) -> str:
    """An amount with its name: `0.05 USD`, `5 scrip`. Units that limits count have names of their own."""
    return f"{format_usd(amount)} USD" if asset == USD else f"{amount} {asset}"


def ceil_micro(amount: Decimal) -> int:
    """Exact micro-dollars rounded up once, so that a sum of parts is never charged short."""
    return int(amount.to_integral_value(rounding=ROUND_CEILING))
