"""Views: changed with their events, rebuilt when their version rises, never older than the code."""

from __future__ import annotations

from artelier.errors import InvalidArguments, InvalidEvent, UnknownEvent
from artelier.log import Applied, Store, Tx, View
from artelier.testing.conformance.stage import TALLY, Noted, StoreHarness, batch, refuses, total


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
