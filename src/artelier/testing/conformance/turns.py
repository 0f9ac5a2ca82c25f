"""Windows of a minute that all processes share; and a look at rows without waiting."""

from __future__ import annotations

from artelier.log import Asked, Claim, Store, Taken
from artelier.log.rate_windows import WINDOW_US
from artelier.testing.conformance.stage import TALLY, StoreHarness, batch

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
