"""Whose turn it is, in a queue that never becomes empty."""

from __future__ import annotations

import asyncio
import itertools

from artelier.kernel.rates import RANKS_MAX, FairOrder, QueuePlace, WaitingCounts


class Line:
    """A queue of one tenant, served one call at a time."""

    def __init__(self) -> None:
        self.order = FairOrder()
        self.waiting: list[QueuePlace] = []
        self._numbers = itertools.count()

    def joins(self, run: str) -> None:
        place = QueuePlace("t", run, (), 0, next(self._numbers))
        self.order.rank(place)
        self.waiting.append(place)

    def serves(self) -> str:
        """One call of the run that is next."""
        place = FairOrder.order_queue(self.waiting)[0]
        self.order.advance(place, WaitingCounts(self.waiting))
        self.waiting.remove(place)
        return place.run_id


def test_a_run_is_not_starved_by_others_that_only_begin() -> None:
    async def scenario() -> None:
        line = Line()
        for _ in range(5):
            line.joins("long")
        line.joins("r0")
        served: list[str] = []
        for number in range(1, 40):  # each call that is served is replaced by a run's first one
            line.joins(f"r{number}")
            served.append(line.serves())

        assert served.count("long") == 5

    asyncio.run(scenario())


def test_a_queue_that_never_empties_remembers_only_who_may_still_come_late() -> None:
    async def scenario() -> None:
        line = Line()
        for number in range(3 * RANKS_MAX):
            line.joins(f"r{number}")
            if number:
                line.serves()
            assert line.order.remembered <= RANKS_MAX + 1

    asyncio.run(scenario())
