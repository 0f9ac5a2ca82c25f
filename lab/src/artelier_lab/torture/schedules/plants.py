"""Planted bugs of schedules: each breaks one promise, so that it can be seen that torture finds it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from artelier.agents.schedules import dispatcher
from artelier.agents.schedules.recurrence import Around


@contextmanager
def _replaced(name: str, wrap: Callable[[Any], Any]) -> Generator[None]:
    before = getattr(dispatcher, name)
    setattr(dispatcher, name, wrap(before))
    try:
        yield
    finally:
        setattr(dispatcher, name, before)


def _blind_overlap() -> AbstractContextManager[None]:
    """A decision does not see that earlier runs go on."""

    def wrap(found: Any) -> Any:
        def nothing_open(rows: Any, taken: bool) -> Around:
            return Around((), taken)

        return nothing_open

    return _replaced("_around_of", wrap)


def _lost_time() -> AbstractContextManager[None]:
    """Now and then the time after a firing is left out."""

    def wrap(decide: Any) -> Any:
        def decide_and_lose(schedule: Any, around: Any, due: Any, *, now_us: int) -> Any:
            event = decide(schedule, around, due, now_us=now_us)
            following = getattr(event, "next_due_us", None)
            if following is None or schedule.firings % 3 != 2:
                return event
            fields = {name: getattr(event, name) for name in event.__struct_fields__}
            return type(event)(**{**fields, "next_due_us": schedule.timing.after(following)})

        return decide_and_lose

    return _replaced("decide", wrap)


SCHEDULE_PLANTS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "blind-overlap": _blind_overlap,
    "lost-time": _lost_time,
}
