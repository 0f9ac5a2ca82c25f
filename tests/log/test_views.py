"""Views: what becomes of an event that more than one handler wants."""

from __future__ import annotations

from typing import Any, cast

from artelier.log import View
from artelier.world.events import MessageSent, WorldPaused


def test_several_handlers_of_one_kind_run_in_the_order_of_registering() -> None:
    """The later one once replaced the earlier one, and what that showed was silently missing."""
    view = View(name="both", version=1, tables=(), schema=())
    seen: list[str] = []

    @view.on(MessageSent, WorldPaused)
    def first(event: Any, tx: Any) -> None:
        seen.append(f"first {event}")

    @view.on(MessageSent)
    def second(event: Any, tx: Any) -> None:
        seen.append(f"second {event}")

    view.handlers[MessageSent](cast(Any, "sent"), cast(Any, None))
    view.handlers[WorldPaused](cast(Any, "paused"), cast(Any, None))

    assert seen == ["first sent", "second sent", "first paused"]
