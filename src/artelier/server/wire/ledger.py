"""Money as the API shows it. USD is in micro-dollars, scrip in whole units."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from artelier.kernel.policy import GRANT_CHARS_MAX
from artelier.kernel.queries.costs import PostingRow, SpendingRow
from artelier.kernel.queries.tenants import RateRow
from artelier.kernel.rates import QuotaUse
from artelier.ledger.queries import AccountRow, AssetSum, LimitRow
from artelier.server.wire.base import RequestBody, ResponseModel, describe_record

GRANTS_MAX = 200
Grant = Annotated[str, Field(min_length=1, max_length=GRANT_CHARS_MAX, pattern=r"^[^\x00-\x1f\x7f]+$")]


@describe_record(AccountRow)
class Account(ResponseModel):
    """The balance of an account."""


@describe_record(AssetSum)
class Sum(ResponseModel):
    """All accounts of an asset together."""


class Sums(ResponseModel):
    """The sums of the ledger, with the check that money is conserved."""

    items: list[Sum]
    conserved: bool


@describe_record(PostingRow)
class PostingLine(ResponseModel):
    """Money that went from one account to another."""


@describe_record(SpendingRow)
class Spent(ResponseModel):
    """The spending of one agent on one model in one day."""


class Spending(ResponseModel):
    """Costs by agent, model and day, the newest day first."""

    items: list[Spent]
    since_us: int
    total_microusd: int
    is_cut: bool
    """Whether there are more rows than these."""


@describe_record(LimitRow)
class Limit(ResponseModel):
    """A limit and what of it is used."""


@describe_record(RateRow)
class RateShown(ResponseModel):
    """The rate limit of a tenant for a provider, or for models that match a pattern; null means no limit."""


@describe_record(QuotaUse)
class QuotasShown(ResponseModel):
    """The tenant's quotas on this server."""


class TenantShown(ResponseModel):
    """A tenant: what it may do and spend, and what it has spent."""

    id: str
    grants: list[str]
    budget_microusd: int | None
    """Null: no limit."""
    spent_microusd: int
    held_microusd: int
    """Reserved for calls that are on their way."""
    debt_microusd: int
    """What providers have billed beyond what was reserved; a higher budget pays it first."""
    available_microusd: int | None
    """What is left of the budget, the debt taken off: negative while it is exceeded. Null: no limit."""
    allow_unknown_price: bool
    limits: list[Limit]
    rates: list[RateShown]
    """Its own; those of the server hold beside them."""
    patterns: list[str]
    """Kinds of personal data that are looked for beside the usual ones, such as `EMPLOYEE`."""
    quotas: QuotasShown


class TenantChange(RequestBody):
    """A change to a tenant; fields that are left out stay as they are."""

    budget_usd: str | None = Field(default=None, pattern=r"^[0-9]{1,9}(\.[0-9]{1,6})?$")
    """Most that it may spend in total, in dollars such as `5.00`. Null lifts the budget."""
    grants: list[Grant] = Field(default_factory=list, max_length=GRANTS_MAX)
    """Patterns such as `tools:*`; they replace all there are."""
