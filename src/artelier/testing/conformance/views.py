"""Views: changed with their events, rebuilt when their version rises, never older than the code."""

from __future__ import annotations

from artelier.errors import InvalidArguments, InvalidEvent, UnknownEvent
from artelier.log import Applied, Asked, Claim, Store, Taken, Tx, View
from artelier.log.rate_windows import WINDOW_US
from artelier.testing.conformance.stage import StoreHarness, batch, refuses
from artelier.testing.conformance.view import TALLY, Noted, total


def _make_view(version: int) -> View:
    """A view whose version 1 counted and whose version 2 sums."""
    view = View(
        name="conformance_raised",
        version=version,
        tables=("conformance_raised",),
        schema=("CREATE TABLE conformance_raised(n INTEGER PRIMARY KEY, amount INTEGER NOT NULL)",),
    )

    def show(applied: Applied, tx: Tx) -> None:
        data = applied.data
        assert isinstance(data, Noted)
        amount = 1 if version == 1 else data.number
        tx.execute(
            "INSERT INTO conformance_raised VALUES (1, ?) ON CONFLICT(n)"
            " DO UPDATE SET amount = conformance_raised.amount + excluded.amount",
            (amount,),
        )

    view.on(Noted)(show)
    return view


RAISED = _make_view(2)
BEFORE = (TALLY, _make_view(1))
AFTER = (TALLY, RAISED)


async def _amount(store: Store) -> int:
    return (await store.query("SELECT amount FROM conformance_raised"))[0][0]


class ViewPromises(StoreHarness):
    def test_a_higher_version_is_rebuilt_from_the_log_when_opened(self, where: str) -> None:
        async def write(store: Store) -> None:
            await store.append(batch("run:a", 10, 20))
            assert await _amount(store) == 2

        async def read(store: Store) -> None:
            assert await _amount(store) == 30
            assert await total(store, "run:a") == 30
            await store.append(batch("run:a", 5))
            assert await _amount(store) == 35

        self.tell(where, write, views=BEFORE)
        self.tell(where, read, read_again, views=AFTER)

    def test_a_view_that_is_added_later_knows_the_past(self, where: str) -> None:
        async def write(store: Store) -> None:
            await store.append(batch("run:a", 10, 20))

        async def read(store: Store) -> None:
            assert await _amount(store) == 30

        self.tell(where, write, views=(TALLY,))
        self.tell(where, read, views=AFTER)

    def test_code_older_than_a_view_is_refused_and_changes_nothing(self, where: str) -> None:
        async def write(store: Store) -> None:
            await store.append(batch("run:a", 10))

        async def read(store: Store) -> None:
            assert await _amount(store) == 10

        self.tell(where, write, views=AFTER)
        with refuses(UnknownEvent):
            self.make_store(where, BEFORE)
        self.tell(where, read, views=AFTER)

    def test_two_views_cannot_share_a_name_or_a_table(self, where: str) -> None:
        other = View(name="other", version=1, tables=TALLY.tables, schema=(), handlers={})
        for views in ((TALLY, TALLY), (TALLY, other)):
            with refuses(InvalidEvent):
                self.make_store(where, views)

    def test_a_view_that_refuses_takes_the_event_with_it(self, where: str) -> None:
        async def story(store: Store) -> None:
            await store.append(batch("run:a", 3))
            with refuses(InvalidArguments):
                await store.append(batch("run:a", 1, -5))

            assert await total(store, "run:a") == 3
            assert (await store.append(batch("run:a", -3, expected=1))).seqs == (2,)

        self.tell(where, story)


async def read_again(store: Store) -> None:
    assert await _amount(store) == 35


# Windows of a minute that all processes share; and a look at rows without waiting


AT_US = 1_000_000_000


def wish(amount: int = 1, *, cap: int = 3, scope: str = "acme m", since_us: int = AT_US) -> Asked:
    return Asked((Claim(scope, "requests", amount, cap),), since_us)


async def take_turns(store: Store, *asked: Asked, at_us: int = AT_US, holder: str = "h1") -> list[bool]:
    """Return which of some calls were let through."""
    answers = await store.take_turns(asked, now_us=at_us, holder=holder)
    assert all(isinstance(one, Taken) for one in answers)
    assert all((one.at_us is None) == (one.wait_us > 0) for one in answers)
    return [one.at_us is not None for one in answers]


class TurnPromises(StoreHarness):
    def test_no_minute_lets_more_through_than_its_cap(self, where: str) -> None:
        async def first(store: Store) -> None:
            assert await take_turns(store, *[wish() for _ in range(5)]) == [True] * 3 + [False] * 2
            assert await take_turns(store, wish(scope="other m")) == [True]

        async def later(store: Store) -> None:
            assert await take_turns(store, wish(), at_us=AT_US + WINDOW_US // 2) == [False]
            assert await take_turns(store, wish(), at_us=AT_US + 2 * WINDOW_US) == [True]

        self.tell(where, first, later)

    def test_two_openers_share_a_window(self, where: str) -> None:
        async def story(one: Store) -> None:
            two = self.make_store(where, (TALLY,))
            try:
                found = [
                    *await take_turns(one, wish(), wish(), holder="h1"),
                    *await take_turns(two, wish(), wish(), holder="h2"),
                ]
                assert found == [True, True, True, False]
            finally:
                two.close()

        self.tell(where, story)

    def test_what_was_taken_is_corrected_where_it_was_taken(self, where: str) -> None:
        async def story(store: Store) -> None:
            (answer,) = await store.take_turns((wish(3),), now_us=AT_US, holder="h1")
            assert answer.at_us is not None
            assert await take_turns(store, wish()) == [False]
            await store.change_turns([("acme m", "requests", answer.at_us, -2)])
            assert await take_turns(store, wish(), wish(), wish()) == [True, True, False]

        self.tell(where, story)

    def test_whom_a_window_refuses_first_is_not_passed(self, where: str) -> None:
        async def story(store: Store) -> None:
            assert await take_turns(store, wish(2)) == [True]
            large, small = wish(2), wish(1, since_us=AT_US + 1)
            assert await take_turns(store, large, small) == [False, False]

        self.tell(where, story)

    def test_a_look_sees_what_a_query_sees(self, where: str) -> None:
        async def story(store: Store) -> None:
            await store.append(batch("run:a", 1, 2))
            sql = "SELECT total FROM conformance_tallies WHERE tenant = ? AND stream = ?"
            assert store.look(sql, ("acme", "run:a")) == [(3,)]
            assert store.look(sql, ("acme", "run:a")) == await store.query(sql, ("acme", "run:a"))
            assert store.look(sql, ("other", "run:a")) == []

        self.tell(where, story)
