"""The ledger's views: balances of accounts and counters of limits; and the guards against debt.

Conservation holds by construction: a posting subtracts from one row what it adds to another, and a batch
whose posting would overdraw an account is refused whole.

A provider may bill more than was reserved for a call. The excess is owed: it is posted from `DEBT`, and
nothing is reserved until a higher budget has paid it. These checks are guards of batches, never part of a
view: a view applies every event that was ever recorded, also those from before an excess was owed.
"""

from __future__ import annotations

from collections.abc import Sequence

from artelier.errors import InvalidEvent, LimitReached
from artelier.ids import MAIN_SPACE
from artelier.ledger.posting import CappingEvent, Count, Counting, Moving, Posting, may_owe, no_funds
from artelier.ledger.queries import PUBLISHED, exceeded_limit
from artelier.log import Applied, Tx, View
from artelier.money import USD, format_amount

AMOUNT_MAX = 10**15
"""Units of one posting (a billion dollars), so that balances stay far within 64 bits."""

_ADD = (
    "INSERT INTO accounts VALUES (?, ?, ?, ?, ?) ON CONFLICT(tenant, space, account, asset)"
    " DO UPDATE SET balance = accounts.balance + excluded.balance"
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
        raise no_funds(source, asset, have=have, need=amount)
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
            expected=f"at most {format_amount(cap, count.unit)}",
            got=", ".join(
                f"{format_amount(amount, count.unit)} {what}"
                for what, amount in (("used", row[2]), ("reserved", row[1]), ("asked", asked))
            ),
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
        " DO UPDATE SET cap = excluded.cap, used = max(limits.used, excluded.used)",
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


DEBT = "source:debt"
"""What providers have billed beyond what was reserved, as a negative balance."""


def check_available(tx: Tx, tenant: str, account: str, need: int) -> None:
    """Refuse to take `need` micro-dollars from an account that has less, its tenant's debt taken off.

    Errors: `InsufficientFunds`.
    """
    have = balance_of(tx, tenant, MAIN_SPACE, account, USD)
    debt = -balance_of(tx, tenant, MAIN_SPACE, DEBT, USD)
    if have - debt < need:
        raise no_funds(account, USD, have=have, need=need, debt=debt)


def check_caps(tx: Tx, tenant: str, scopes: Sequence[str], units: Sequence[str]) -> None:
    """Refuse anything more while a limit of these units is exceeded. Errors: `LimitReached`."""
    row = exceeded_limit(tx, tenant, scopes, units)
    if row is not None:
        scope, unit, cap, reserved, used = row
        assert cap is not None
        raise LimitReached(
            f"{scope} has exceeded its limit of {unit}",
            expected=f"at most {format_amount(cap, unit)}",
            got=f"{format_amount(used, unit)} used",
            hint="Raise the limit, then resume the run.",
            scope=scope,
            unit=unit,
            cap=cap,
            used=used,
            reserved=reserved,
            asked=0,
        )
