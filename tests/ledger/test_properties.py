"""Money against a plain model: conserved per asset, never overdrawn, the same after a rebuild."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Awaitable
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from artelier.errors import ArtelierError, InsufficientFunds, InvalidEvent, LimitReached
from artelier.ledger import Count, Posting, may_owe
from artelier.log import SqliteStore, verify_store
from tests.ledger.test_ledger import LEDGER, Bank, Capped, Moved

ACCOUNTS = ("source:budget", "mint:world", "tenant", "hold:a", "hold:b", "spent")
accounts = st.sampled_from(ACCOUNTS)
assets = st.sampled_from(["usd", "scrip"])
postings = st.builds(Posting, accounts, accounts, assets, st.integers(-1, 40))
scopes = st.sampled_from(["tenant", "run:a"])


class LedgerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "state.db"
        self.loop = asyncio.new_event_loop()
        self.bank = Bank(SqliteStore(self.path, (LEDGER,)))
        self.balances: Counter[tuple[str, str]] = Counter()
        self.caps: dict[str, int | None] = {}
        self.held: list[tuple[str, int]] = []
        self.used: Counter[str] = Counter()

    def run(self, story: Awaitable[None]) -> ArtelierError | None:
        async def tell() -> None:
            await story

        try:
            self.loop.run_until_complete(tell())
        except ArtelierError as error:
            return error
        return None

    def reserved(self, scope: str) -> int:
        return sum(amount for holder, amount in self.held if holder == scope)

    @rule(moves=st.lists(postings, min_size=1, max_size=4))
    def move(self, moves: list[Posting]) -> None:
        result = self.run(self.bank.tell(Moved(postings=tuple(moves))))

        after, refusal = Counter(self.balances), None
        for posting in moves:
            if posting.amount <= 0 or posting.source == posting.target:
                refusal = InvalidEvent
            elif not may_owe(posting.source) and (after[posting.source, posting.asset] < posting.amount):
                refusal = InsufficientFunds
            if refusal is not None:
                break
            after[posting.source, posting.asset] -= posting.amount
            after[posting.target, posting.asset] += posting.amount
        if refusal is None:
            assert result is None, result
            self.balances = after
        else:
            assert isinstance(result, refusal), result

    @rule(scope=scopes, cap=st.none() | st.integers(0, 60))
    def cap(self, scope: str, cap: int | None) -> None:
        assert self.run(self.bank.tell(Capped(scope=scope, unit="usd", cap=cap))) is None
        self.caps[scope] = cap

    @precondition(lambda self: self.caps)
    @rule(data=st.data(), amount=st.integers(1, 40))
    def reserve(self, data: st.DataObject, amount: int) -> None:
        scope = data.draw(st.sampled_from(sorted(self.caps)))
        result = self.run(self.bank.count(scope, reserve=amount))

        cap = self.caps[scope]
        if cap is not None and self.used[scope] + self.reserved(scope) + amount > cap:
            assert isinstance(result, LimitReached), result
        else:
            assert result is None, result
            self.held.append((scope, amount))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        scope, amount = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        use = data.draw(st.integers(0, amount))
        assert self.run(self.bank.count(scope, reserve=-amount, use=use)) is None
        self.used[scope] += use

    @rule(moves=st.lists(postings, min_size=1, max_size=2), amount=st.integers(1, 40))
    def reserve_and_pay_together(self, moves: list[Posting], amount: int) -> None:
        """A refused count takes the postings of its event with it, and the other way round."""
        if "run:a" not in self.caps:
            return
        impossible = Count("run:a", "usd", reserve=10**9)
        data = Moved(postings=tuple(moves), counts=(Count("run:a", "usd", amount), impossible))
        if self.caps["run:a"] is not None:
            assert self.run(self.bank.tell(data)) is not None

    @rule()
    def reopen(self) -> None:
        self.bank.store.close()
        self.bank = Bank(SqliteStore(self.path, (LEDGER,)))

    @invariant()
    def balances_are_the_models(self) -> None:
        rows = self.query("SELECT account, asset, balance FROM accounts WHERE balance != 0")
        assert {(account, asset): balance for account, asset, balance in rows} == {
            key: balance for key, balance in self.balances.items() if balance
        }

    @invariant()
    def money_is_conserved_and_nobody_else_owes(self) -> None:
        assert all(row == (0,) for row in self.query("SELECT sum(balance) FROM accounts GROUP BY asset"))
        owing = self.query("SELECT DISTINCT account FROM accounts WHERE balance < 0")
        assert all(may_owe(account) for (account,) in owing)

    @invariant()
    def limits_hold_what_the_model_holds(self) -> None:
        rows = self.query("SELECT scope, cap, reserved, used FROM limits")
        assert sorted(rows) == sorted(
            (scope, cap, self.reserved(scope), self.used[scope]) for scope, cap in self.caps.items()
        )

    def query(self, sql: str) -> list[tuple]:
        return self.loop.run_until_complete(self.bank.store.query(sql))

    def teardown(self) -> None:
        self.bank.store.close()
        self.loop.close()
        report = verify_store(self.path, (LEDGER,))
        self.folder.cleanup()
        assert report.findings == []


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(stateful_step_count=20)
