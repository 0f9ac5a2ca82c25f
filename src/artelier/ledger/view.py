"""The ledger's views: balances of accounts and counters of limits.

Conservation holds by construction: a posting subtracts from one row what it adds to another, and a batch
whose posting would overdraw an account is refused whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from artelier.errors import InsufficientFunds, InvalidEvent, LimitReached
from artelier.ledger.posting import CappingEvent, Count, Counting, Moving, Posting, may_owe
from artelier.ledger.queries import PUBLISHED
from artelier.log import Applied, Tx, View

AMOUNT_MAX = 10**15
"""Units of one posting (a billion dollars), so that balances stay far within 64 bits."""

_ADD = (
    "INSERT INTO accounts VALUES (?, ?, ?, ?, ?) ON CONFLICT(tenant, space, account, asset)"
    " DO UPDATE SET balance = balance + excluded.balance"
)

_TAKE = (
    "UPDATE accounts SET balance = balance - ? WHERE tenant = ? AND space = ? AND account = ?"
    " AND asset = ? AND balance >= ?"
)


def balance_of(tx: Tx, tenant: str, space: str, account: str, asset: str) -> int:
    row = tx.one(
        "SELECT balance FROM accounts WHERE tenant = ? AND space = ? AND account = ? AND asset = ?",
        (tenant, space, account, asset),
    )
    return int(row[0]) if row else 0


def _post(event: Applied, posting: Posting, tx: Tx) -> None:
    tenant, space, _ = event.stream
    source, target, asset, amount = posting.source, posting.target, posting.asset, posting.amount
    if type(amount) is not int or not 0 < amount <= AMOUNT_MAX or source == target:
        raise InvalidEvent(
            f"a posting moves 1 to {AMOUNT_MAX} units between two accounts",
            got=f"{amount} {asset} from {source} to {target}",
        )
    if may_owe(source):
        tx.execute(_ADD, (tenant, space, source, asset, -amount))
    elif tx.execute(_TAKE, (amount, tenant, space, source, asset, amount)).rowcount != 1:
        have = balance_of(tx, tenant, space, source, asset)
        raise InsufficientFunds(
            f"account {source} cannot pay",
            expected=f"at least {amount} {asset}",
            got=f"{have} {asset}",
            account=source,
            asset=asset,
            have=have,
            need=amount,
        )
    tx.execute(_ADD, (tenant, space, target, asset, amount))


def _count(event: Applied, count: Count, tx: Tx, *, settles: bool) -> None:
    tenant = event.stream.tenant
    row = tx.one(
        "SELECT cap, reserved, used FROM limits WHERE tenant = ? AND scope = ? AND unit = ?",
        (tenant, count.scope, count.unit),
    )
    if row is None:
        return
    cap, reserved, used = row
    reserved, used = reserved + count.reserve, used + count.use
    if reserved < 0 or used < 0:
        # It would be room under the cap that nobody gave.
        raise InvalidEvent(
            f"{count.scope} gives back more {count.unit} than it holds",
            expected=f"at most {row[1]} reserved and {row[2]} used",
            got=f"{count.reserve} reserved, {count.use} used",
        )
    takes = count.use > 0 and count.reserve == 0 and not settles
    asks = count.reserve > 0 or takes
    if asks and cap is not None and reserved + used > cap:
        asked = count.reserve + count.use
        raise LimitReached(
            f"{count.scope} has no {count.unit} left",
            expected=f"at most {cap} {count.unit}",
            got=f"{row[2]} used, {row[1]} reserved, {asked} asked",
            hint="Raise the limit, then resume the run.",
            scope=count.scope,
            unit=count.unit,
            cap=cap,
            used=row[2],
            reserved=row[1],
            asked=asked,
        )
    tx.execute(
        "UPDATE limits SET reserved = ?, used = ? WHERE tenant = ? AND scope = ? AND unit = ?",
        (reserved, used, tenant, count.scope, count.unit),
    )


def move(event: Applied, tx: Tx) -> None:
    """Apply the postings and counts of a `Moving` event."""
    data = event.data
    assert isinstance(data, Moving)
    for posting in data.postings:
        _post(event, posting, tx)
    for count in data.counts:
        _count(event, count, tx, settles=data.SETTLES)


def cap(event: Applied, tx: Tx) -> None:
    """Set the cap of a counter. What it has counted stays, and so does what was used without a cap."""
    data = event.data
    assert isinstance(data, CappingEvent)
    tx.execute(
        "INSERT INTO limits VALUES (?, ?, ?, ?, 0, ?) ON CONFLICT(tenant, scope, unit)"
        " DO UPDATE SET cap = excluded.cap, used = max(used, excluded.used)",
        (event.stream.tenant, data.scope, data.unit, data.cap, data.used),
    )


COUNTED = ("usd", "tokens", "steps")
"""Units of what scopes count without a cap."""


def count_from_here(event: Applied, tx: Tx) -> None:
    """Open the counters of scopes. Those that are there keep their caps and what they have counted."""
    data = event.data
    assert isinstance(data, Counting)
    for scope in data.scopes:
        for unit in COUNTED:
            tx.execute(
                "INSERT INTO limits VALUES (?, ?, ?, NULL, 0, 0) ON CONFLICT DO NOTHING",
                (event.stream.tenant, scope, unit),
            )


def ledger_view(
    kinds: list[type[Moving]], capping: list[type[CappingEvent]], counting: Sequence[type[Counting]] = ()
) -> View:
    """The view over all kinds of events that move money, set caps or open counters."""
    return View(
        name="ledger",
        version=2,  # since then an overrun is owed: older processes, which forgive it, must not write
        tables=("accounts", "limits"),
        schema=(
            """CREATE TABLE accounts(
                tenant TEXT NOT NULL, space TEXT NOT NULL, account TEXT NOT NULL,
                asset TEXT NOT NULL, balance INTEGER NOT NULL,
                PRIMARY KEY(tenant, space, account, asset)) STRICT, WITHOUT ROWID""",
            """CREATE TABLE limits(
                tenant TEXT NOT NULL, scope TEXT NOT NULL, unit TEXT NOT NULL, cap INTEGER,
                reserved INTEGER NOT NULL, used INTEGER NOT NULL,
                PRIMARY KEY(tenant, scope, unit)) STRICT, WITHOUT ROWID""",
        ),
        published=PUBLISHED,
        handlers={
            **dict.fromkeys(kinds, move),
            **dict.fromkeys(capping, cap),
            **dict.fromkeys(counting, count_from_here),
        },
    )
