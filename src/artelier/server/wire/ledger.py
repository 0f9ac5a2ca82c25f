"""Money as the API shows it. USD is in micro-dollars, scrip in whole units."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from artelier.kernel.policy import GRANT_CHARS_MAX
from artelier.server.wire.base import RequestBody, ResponseModel

GRANTS_MAX = 200
Grant = Annotated[str, Field(min_length=1, max_length=GRANT_CHARS_MAX, pattern=r"^[^\x00-\x1f\x7f]+$")]


class Account(ResponseModel):
    """The balance of an account."""

    space: str
    """`main`, or `world:<id>`."""
    account: str
    asset: str
    """`usd` (in micro-dollars) or `scrip`."""
    balance: int
    """Negative for sources and mints, by what they have issued."""


class Sum(ResponseModel):
    """All accounts of an asset together."""

    space: str
    asset: str
    accounts: int
    sum: int
    """Zero: each transfer has two sides."""
    issued: int
    """What sources and mints have put into circulation."""


class Sums(ResponseModel):
    """The sums of the ledger, with the check that money is conserved."""

    items: list[Sum]
    conserved: bool


class PostingLine(ResponseModel):
    """Money that went from one account to another."""

    position: int
    """Of its event in the log."""
    space: str
    stream: str
    seq: int
    kind: str
    at_us: int
    """In a world the tick."""
    actor: str
    step: str
    """Key of the step of a run; empty for none."""
    source: str
    target: str
    asset: str
    amount: int


class Spent(ResponseModel):
    """The spending of one agent on one model in one day."""

    agent: str
    """Empty for runs of no agent."""
    model: str
    """Empty for what tools have cost."""
    day_us: int
    """Beginning of the day, UTC."""
    calls: int
    input_tokens: int
    output_tokens: int
    cost_microusd: int


class Spending(ResponseModel):
    """Costs by agent, model and day, the newest day first."""

    items: list[Spent]
    since_us: int
    total_microusd: int
    is_cut: bool
    """Whether there are more rows than these."""


class Limit(ResponseModel):
    """A limit and what of it is used."""

    scope: str
    unit: str
    """`usd` (micro-dollars), `tokens`, `steps` or `ms`."""
    cap: int | None
    """Null: only counted."""
    reserved: int
    used: int


class RateShown(ResponseModel):
    """The rate limit of a tenant for a provider, or for models that match a pattern; null means no limit."""

    name: str
    """A provider such as `openai`, or a pattern such as `openai:gpt-5*`."""
    requests: int | None
    """In any minute."""
    tokens: int | None
    """In any minute, input and output."""


class QuotasShown(ResponseModel):
    """The tenant's quotas on this server."""

    stored_bytes: int
    """Of its content, by now."""
    stored_bytes_max: int
    streams_max: int
    """Live streams at one time."""
    ticks_max: int
    """Of a world, in one request."""
    uploads_max: int
    """At one time."""


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
