"""Settings of a tenant, its rates and patterns, personal data, and imports.

Other events of runs are in `kernel/events.py`."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import msgspec

from artelier.ledger import Moving
from artelier.log import EventData, event


@event("tenant.created")
class TenantCreated(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """A tenant exists from here on, with these settings."""

    grants: tuple[str, ...] = ()
    budget: int | None = None
    """Micro-dollars, None without a limit."""
    allow_unknown_price: bool = False


@event("tenant.updated")
class TenantUpdated(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """The newest settings, all of them."""

    grants: tuple[str, ...] = ()
    budget: int | None = None
    allow_unknown_price: bool = False


@event("tenant.declared")
class TenantDeclared(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A program says of a tenant what is not stored. The stored budget holds, and no grant is added.

    A field is None where it says nothing.
    """

    grants: tuple[str, ...] | None = None
    budget: int | None = None
    """Micro-dollars."""
    allow_unknown_price: bool | None = None


class ImportedRun(msgspec.Struct, frozen=True, array_like=True):
    """A run of an import, and the row of `keys` that its content is named under."""

    run: str
    key_id: int | None


@event("runs.imported")
class RunsImported(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """Runs of another store follow, whole and with their hashes, or an agent with its runs and memory.

    The postings lend the money that their history moves; so an import spends nothing of this tenant's.
    """

    runs: tuple[ImportedRun, ...]
    tenant: str
    """Whose they were."""
    sha256: str
    """Of the file without its seal."""
    agent: str = ""
    """Whom the file is about, if it is about an agent."""


@event("import.settled")
class ImportSettled(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """The imported history is in place; every account and counter is back at what it was before."""

    sha256: str


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


@event("personal.received")
class PersonalReceived(EventData, frozen=True, kw_only=True):
    """A run was shown placeholders that neither it nor a run that it comes from had seen."""

    placeholders: tuple[str, ...]


class StoredPattern(NamedTuple):
    """A kind and the regular expression that finds it."""

    kind: str
    expression: str


@event("patterns.changed")
class PatternsChanged(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """All patterns of a tenant: the terms to look for in its texts from here on, beside the detectors."""

    IS_RULE: ClassVar[bool] = True

    patterns: tuple[StoredPattern, ...] = ()
