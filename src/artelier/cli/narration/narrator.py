"""The registry of what each kind of event says, and the memory of a story."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, cast

import msgspec

from artelier.cli import display
from artelier.errors import ArtelierError, Erased
from artelier.kernel import events as ev
from artelier.log import Event, EventData

Load = Callable[[str], Awaitable[bytes]]
"""Content of a blob reference."""


class NarrationLine(NamedTuple):
    """One line; `style` is rich's."""

    text: str
    style: str = ""


class Narration:
    """Tells events in order; it remembers when a call began and what a tool is called."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._began: dict[str, int] = {}
        self._tools: dict[str, str] = {}

    async def lines(self, event: Event) -> list[NarrationLine]:
        """Return what an event tells; nothing for those that only keep books."""
        try:
            data = event.decode()
        except ArtelierError:
            return [NarrationLine(f"{event.kind} (of another version)", "dim")]
        teller = TELLERS.get(type(data))
        return [] if teller is None else await teller(self, data, event)

    def remember(self, event: Event) -> None:
        """Take note of a call that is not told, so that its end can be."""
        if event.kind in (ev.ModelRequested.KIND, ev.ToolRequested.KIND):
            fields = event.plain()
            self.begin(fields["key"], event.at_us)
            if "name" in fields:
                self.name_tool(fields["key"], fields["name"])

    async def json(self, ref: str | None) -> Any:
        if ref is None:
            return None
        try:
            return msgspec.json.decode(await self._load(ref))
        except Erased as error:
            return error.mark
        except ArtelierError:
            return None  # damaged: `verify` names it, a listing goes on

    async def fields(self, ref: str | None) -> dict[str, Any]:
        """A stored JSON object; empty for anything else."""
        value = await self.json(ref)
        return cast("dict[str, Any]", value) if isinstance(value, dict) else {}

    def begin(self, key: str, at_us: int) -> None:
        if len(self._began) > 1000:  # calls that never ended, of a very long story
            self._began.clear()
            self._tools.clear()
        self._began[key] = at_us

    def took(self, key: str, at_us: int) -> str:
        began = self._began.pop(key, None)
        return "" if began is None else f" in {display.duration(max(0, at_us - began))}"

    def name_tool(self, key: str, name: str) -> None:
        self._tools[key] = name

    def tool(self, key: str) -> str:
        return self._tools.pop(key, key)


Teller = Callable[[Narration, Any, Event], Awaitable[list[NarrationLine]]]
TELLERS: dict[type[EventData], Teller] = {}


def tells(*kinds: type[EventData]) -> Callable[[Teller], Teller]:
    """Register what a kind of event says."""

    def register(teller: Teller) -> Teller:
        for kind in kinds:
            TELLERS[kind] = teller
        return teller

    return register
