"""Rates and quotas: how often a provider may be called, and how much of a server one tenant may take.

Rates are those of the policy and of a tenant; pure but for the event and its view. The order of waiting
calls is in `provider_queue.py`, the windows in `log/rate_windows.py`. Quotas are settings of whoever runs
the server; what a tenant has stored is counted from its content. A tenant at a quota may still read, delete
and end work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, cast

import msgspec

from artelier.errors import InvalidConfig, InvalidRequest, LimitReached, QuotaReached
from artelier.ids import check_tenant
from artelier.kernel.queries.tenants import RateRow
from artelier.log import Applied, Claim, EventData, Store, Tx, View, event
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


# What is stored of a tenant


class StoredRate(msgspec.Struct, frozen=True, array_like=True):
    """A rate as an event holds it."""

    name: str
    requests: int | None
    tokens: int | None


@event("rates.changed")
class RatesChanged(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """All rates of a tenant: how fast it may ask models from here on."""

    rates: tuple[StoredRate, ...] = ()


def rates_changed(rates: Rates) -> RatesChanged:
    """The event that says so."""
    stored = tuple(StoredRate(name, rate.requests, rate.tokens) for name, rate in rates.items())
    return RatesChanged(rates=stored)


rates_view = View(
    name="rates",
    version=1,
    tables=("tenant_rates",),
    schema=(
        """CREATE TABLE tenant_rates(
            tenant TEXT NOT NULL, name TEXT NOT NULL, requests INTEGER, tokens INTEGER,
            PRIMARY KEY(tenant, name)) STRICT, WITHOUT ROWID""",
    ),
)


@rates_view.on(RatesChanged)
def _apply_changed(event: Applied, tx: Tx) -> None:
    assert isinstance(event.data, RatesChanged)
    tenant = event.stream.tenant
    tx.execute("DELETE FROM tenant_rates WHERE tenant = ?", (tenant,))
    for rate in event.data.rates:
        tx.execute(
            "INSERT INTO tenant_rates VALUES (?, ?, ?, ?)", (tenant, rate.name, rate.requests, rate.tokens)
        )


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

    async def describe(self, store: Store, tenant: str) -> dict[str, Any]:
        """Return `{stored_bytes, stored_bytes_max, streams_max, ticks_max, uploads_max}`."""
        stored = await self.stored_bytes(store, tenant, anew=True)
        return {"stored_bytes": stored, **asdict(self.of(tenant))}
