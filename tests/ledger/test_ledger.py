"""The ledger: what a posting and a count may do, one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from artelier.errors import ArtelierError, InsufficientFunds, InvalidEvent, LimitReached
from artelier.ledger import CappingEvent, Count, Moving, Posting, balance_of, ledger_view, may_owe
from artelier.log import Batch, Draft, EventData, SqliteStore, Stream, StreamAppend, Tx, event


@event("ledger_test.moved")
class Moved(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """Any postings and counts."""


@event("ledger_test.capped")
class Capped(CappingEvent, frozen=True, kw_only=True, omit_defaults=True):
    """Any cap."""


LEDGER = ledger_view([Moved], [Capped])
BANK = Stream("acme", "main", "run:bank")


class Bank:
    """A store with nothing but a ledger."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store

    async def tell(self, *data: EventData, stream: Stream = BANK) -> None:
        drafts = [Draft(each, 0, "tester") for each in data]
        await self.store.append(Batch(appends=(StreamAppend(stream, drafts),)))

    async def move(self, *postings: tuple[str, str, int], stream: Stream = BANK) -> None:
        moved = tuple(Posting(source, target, "usd", amount) for source, target, amount in postings)
        await self.tell(Moved(postings=moved), stream=stream)

    async def count(self, scope: str, *, reserve: int = 0, use: int = 0) -> None:
        await self.tell(Moved(counts=(Count(scope, "usd", reserve, use),)))

    async def balances(self) -> dict[str, int]:
        rows = await self.store.query("SELECT account, balance FROM accounts WHERE balance != 0")
        return dict(rows)

    async def limit(self, scope: str) -> tuple[int | None, int, int]:
        rows = await self.store.query("SELECT cap, reserved, used FROM limits WHERE scope = ?", (scope,))
        return rows[0]  # pyright: ignore[reportReturnType] - the columns asked for


def in_bank(path: Path, story: Callable[[Bank], Awaitable[None]]) -> None:
    async def tell() -> None:
        store = SqliteStore(path / "state.db", (LEDGER,))
        try:
            await story(Bank(store))
        finally:
            store.close()

    asyncio.run(tell())


def test_a_posting_takes_from_one_and_gives_to_the_other(tmp_path: Path) -> None:
    async def story(bank: Bank) -> None:
        await bank.move(("source:budget", "tenant", 100), ("tenant", "hold:r1", 30))

        assert await bank.balances() == {"source:budget": -100, "tenant": 70, "hold:r1": 30}

    in_bank(tmp_path, story)


def test_an_overdraft_refuses_the_whole_batch_and_says_what_is_missing(tmp_path: Path) -> None:
    async def story(bank: Bank) -> None:
        await bank.move(("source:budget", "tenant", 10))

        with pytest.raises(InsufficientFunds, match=r"at least 0\.000008 USD; got 0\.000005 USD") as caught:
            await bank.tell(
                Moved(postings=(Posting("tenant", "spent", "usd", 5),)),
                Moved(postings=(Posting("tenant", "spent", "usd", 8),)),
            )
        assert caught.value.facts == {"account": "tenant", "asset": "usd", "have": 5, "need": 8}
        assert await bank.balances() == {"source:budget": -10, "tenant": 10}

    in_bank(tmp_path, story)


def test_accounts_assets_tenants_and_spaces_are_apart(tmp_path: Path) -> None:
    async def story(bank: Bank) -> None:
        await bank.move(("source:budget", "tenant", 10))

        for stream in (Stream("other", "main", "run:x"), Stream("acme", "world:w", "run:x")):
            with pytest.raises(InsufficientFunds):
                await bank.move(("tenant", "spent", 1), stream=stream)
        with pytest.raises(InsufficientFunds):
            await bank.tell(Moved(postings=(Posting("tenant", "spent", "scrip", 1),)))

    in_bank(tmp_path, story)


@pytest.mark.parametrize(
    ("source", "target", "amount"),
    [
        ("tenant", "spent", 0),
        ("tenant", "spent", -5),
        ("tenant", "tenant", 5),
        ("source:a", "source:a", 5),
        ("source:a", "tenant", 10**15 + 1),
        ("source:a", "b", 2**70),
        ("source:a", "tenant", 1.5),
        ("source:a", "tenant", "5"),
        ("source:a", "tenant", True),
        ("source:a", "\ud800", 1),
    ],
)
def test_a_posting_that_is_none_is_refused(tmp_path: Path, source: str, target: str, amount: int) -> None:
    async def story(bank: Bank) -> None:
        await bank.move(("source:budget", "tenant", 10))

        with pytest.raises(ArtelierError):
            await bank.move((source, target, amount))
        assert await bank.balances() == {"source:budget": -10, "tenant": 10}
        await bank.move(("tenant", "spent", 10))

    in_bank(tmp_path, story)


def test_only_sources_and_mints_may_owe() -> None:
    assert may_owe("source:budget") and may_owe("mint:genesis")
    assert not any(map(may_owe, ("tenant", "hold:r1", "sourcery", "principal:mint:x", "")))


def test_concurrent_payers_never_overdraw(tmp_path: Path) -> None:
    """Hole 7: five concurrent calls all pass the check."""

    async def story(bank: Bank) -> None:
        await bank.move(("source:budget", "tenant", 64))

        payments = (bank.move(("tenant", "spent", 10)) for _ in range(20))
        results = await asyncio.gather(*payments, return_exceptions=True)

        assert sum(isinstance(result, InsufficientFunds) for result in results) == 14
        assert (await bank.balances())["tenant"] == 4

    in_bank(tmp_path, story)


def test_a_guard_can_read_a_balance(tmp_path: Path) -> None:
    async def story(bank: Bank) -> None:
        await bank.move(("source:budget", "tenant", 7))
        seen: list[int] = []

        def look(tx: Tx) -> None:
            for account in ("tenant", "nobody"):
                seen.append(balance_of(tx, "acme", "main", account, "usd"))

        await bank.store.append(Batch(guard=look))
        assert seen == [7, 0]

    in_bank(tmp_path, story)


def test_a_reservation_is_held_against_the_cap_and_settled_below_it(tmp_path: Path) -> None:
    async def story(bank: Bank) -> None:
        await bank.tell(Capped(scope="run:a", unit="usd", cap=100))
        await bank.count("run:a", reserve=60)

        with pytest.raises(
            LimitReached, match=r"0\.00 USD used, 0\.00006 USD reserved, 0\.00005 USD asked"
        ) as caught:
            await bank.count("run:a", reserve=50)
        await bank.count("run:a", reserve=-60, use=45)
        await bank.count("run:a", reserve=55)

        assert caught.value.facts["cap"] == 100
        assert await bank.limit("run:a") == (100, 55, 45)

    in_bank(tmp_path, story)


def test_using_without_a_reservation_is_checked_and_settling_never_fails(tmp_path: Path) -> None:
    async def story(bank: Bank) -> None:
        await bank.tell(Capped(scope="run:a", unit="usd", cap=10))
        with pytest.raises(LimitReached):
            await bank.count("run:a", use=11)
        await bank.count("run:a", reserve=10)
        await bank.count("run:a", reserve=-10, use=25)  # billed beyond the maximum: named elsewhere

        assert await bank.limit("run:a") == (10, 0, 25)
        with pytest.raises(LimitReached):
            await bank.count("run:a", use=1)
        await bank.tell(Capped(scope="run:a", unit="usd", cap=None))
        await bank.count("run:a", use=1000)
        assert await bank.limit("run:a") == (None, 0, 1025)

    in_bank(tmp_path, story)


def test_a_cap_keeps_what_was_counted_and_knows_what_came_before(tmp_path: Path) -> None:
    async def story(bank: Bank) -> None:
        await bank.tell(Capped(scope="run:a", unit="usd", cap=100, used=40))
        await bank.count("run:a", reserve=10)
        await bank.tell(Capped(scope="run:a", unit="usd", cap=50, used=30))
        assert await bank.limit("run:a") == (50, 10, 40)
        await bank.tell(Capped(scope="run:a", unit="usd", cap=50, used=999))
        assert await bank.limit("run:a") == (50, 10, 999)
        await bank.count("run:uncapped", reserve=10**9)  # no cap, nothing to count

    in_bank(tmp_path, story)


@pytest.mark.parametrize("count", [(-11, 0), (-11, 5), (0, -1), (-10, -1)])
def test_giving_back_more_than_is_held_makes_no_room(tmp_path: Path, count: Sequence[int]) -> None:
    async def story(bank: Bank) -> None:
        await bank.tell(Capped(scope="run:a", unit="usd", cap=10))
        await bank.count("run:a", reserve=10)

        with pytest.raises(InvalidEvent, match="gives back more"):
            await bank.count("run:a", reserve=count[0], use=count[1])
        assert await bank.limit("run:a") == (10, 10, 0)

    in_bank(tmp_path, story)
