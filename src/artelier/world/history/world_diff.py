"""The comparison of two worlds: the first event and tick that differ, and how the agents differ since.

Events are compared in the form in which they are hashed, but without their numbers: what the host does
between two ticks shifts all numbers behind it, and what comes after may still be the same. What it does
between ticks is compared apart from the ticks, so that a changed prompt is one difference and the first tick
that it changes another. Read next: `world_hash.py` for the form.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, NamedTuple, cast

from artelier.errors import CorruptStore
from artelier.log import Event, Store
from artelier.world.events import ActionRejected, TickPassed, world_stream
from artelier.world.history.agent_diff import differing
from artelier.world.history.streams import StreamReach, reaches, tick_of
from artelier.world.history.world_hash import Contents, Normal, normal_events
from artelier.world.kernel_adapter import Host

FIELDS_MAX = 20
"""Fields of one event that are named as different."""

TEXT_CHARS_MAX = 300
"""Of content that is shown."""


class WorldSide(NamedTuple):
    """One of the two worlds."""

    host: Host
    world: str

    @property
    def store(self) -> Store:
        return self.host.services.store


async def diff_worlds(a: WorldSide, b: WorldSide) -> dict[str, Any]:
    """Return what `World.diff` gives. Cost: both histories are read once, a tick at a time."""
    ticks = [await tick_of(side.host, side.world, None) for side in (a, b)]
    upto = min(ticks)
    found = [await reaches(side.store, side.host.id, side.world, tick=upto) for side in (a, b)]
    contents = [Contents(side.store, side.host.id) for side in (a, b)]
    if a.store is b.store and a.host.id == b.host.id:
        contents[1] = contents[0]  # what they share is read once
    streams = _Comparison(contents)
    own = [_own(side, part) for side, part in zip((a, b), found, strict=True)]
    await streams.compare(own[0], own[1])
    charges = [
        {one.stream.local: one for one in part if one.stream.local.startswith("agent:")} for part in found
    ]
    for local in sorted(charges[0].keys() | charges[1].keys()):
        await streams.compare_charges(charges[0].get(local), charges[1].get(local))
    actions = [dict(one) for one in streams.actions]
    return {
        "a": a.world,
        "b": b.world,
        "tick_a": ticks[0],
        "tick_b": ticks[1],
        "compared_to": upto,
        "equal": streams.first is None and ticks[0] == ticks[1],
        "first": await streams.describe(streams.first),
        "first_tick": await streams.describe(streams.first_tick),
        "agents": await differing(
            (a.store, a.host.id, a.world), (b.store, b.host.id, b.world), contents, actions
        ),
    }


def _own(side: WorldSide, found: list[StreamReach]) -> StreamReach:
    stream = world_stream(side.host.id, side.world)
    return next((one for one in found if one.stream == stream), StreamReach(stream, 0, 0))


class _ComparedEvent(NamedTuple):
    """An event in its recorded form and in the form that is compared."""

    event: Event
    normal: Normal


class _TickGroup(NamedTuple):
    """The events of one tick, or of the time between it and the next."""

    tick: int
    is_between: bool
    events: list[_ComparedEvent]

    @property
    def place(self) -> tuple[int, bool]:
        return self.tick, self.is_between


@dataclass(slots=True)
class _Difference:
    tick: int
    is_between: bool
    a: _ComparedEvent | None
    b: _ComparedEvent | None


@dataclass(slots=True)
class _Comparison:
    """Takes two worlds stream by stream and remembers where they part."""

    contents: list[Contents]
    first: _Difference | None = None
    first_tick: _Difference | None = None
    actions: list[Counter[tuple[str, str]]] = field(
        default_factory=lambda: [Counter[tuple[str, str]](), Counter[tuple[str, str]]()]
    )
    """How often each agent did what, by `(agent, action)`."""

    async def compare(self, a: StreamReach, b: StreamReach) -> None:
        """The streams of both worlds."""
        sides = [
            _groups(normal_events(one.store, reach, one))
            for one, reach in zip(self.contents, (a, b), strict=True)
        ]
        groups = [await anext(side, None) for side in sides]
        while groups[0] is not None or groups[1] is not None:
            place = min(group.place for group in groups if group is not None)
            now = [group if group is not None and group.place == place else None for group in groups]
            self._take(place, now)
            for n in (0, 1):
                if now[n] is not None:
                    groups[n] = await anext(sides[n], None)

    def _take(self, place: tuple[int, bool], groups: list[_TickGroup | None]) -> None:
        events = [group.events if group is not None else [] for group in groups]
        for counted, found in zip(self.actions, events, strict=True):
            counted.update(_acts(found))
        if self.first is not None and self.first_tick is not None:
            return
        for one, other in zip_longest(*events):
            if not _same(one, other):
                self._note(_Difference(*place, one, other))
                return

    async def compare_charges(self, a: StreamReach | None, b: StreamReach | None) -> None:
        """Compare what the prompts of one agent have cost: charges come before the actions of their tick."""
        sides = [
            aiter(normal_events(one.store, reach, one)) if reach is not None else None
            for one, reach in zip(self.contents, (a, b), strict=True)
        ]
        while True:
            found = [await anext(side, None) if side is not None else None for side in sides]
            if found == [None, None]:
                return
            pair = [_ComparedEvent(*one) if one is not None else None for one in found]
            if not _same(pair[0], pair[1]):
                tick = min(one.event.at_us for one in pair if one is not None)
                self._note(_Difference(tick, False, pair[0], pair[1]))
                return

    def _note(self, found: _Difference) -> None:
        place = (found.tick, found.is_between)
        if self.first is None or place < (self.first.tick, self.first.is_between):
            self.first = found
        if not found.is_between and (self.first_tick is None or found.tick < self.first_tick.tick):
            self.first_tick = found

    async def describe(self, found: _Difference | None) -> dict[str, Any] | None:
        """A difference as plain values, with the content that it is about."""
        if found is None:
            return None
        sides = (found.a, found.b)
        shown = [
            await _describe_event(one, contents) if one is not None else None
            for one, contents in zip(sides, self.contents, strict=True)
        ]
        named = found.a or found.b
        assert named is not None
        return {
            "tick": found.tick,
            "between_ticks": found.is_between,
            "kind": named.event.kind,
            "actor": named.event.actor,
            "a": shown[0],
            "b": shown[1],
            "differs": _fields(shown[0], shown[1]),
        }


async def _groups(events: AsyncIterator[tuple[Event, Normal]]) -> AsyncIterator[_TickGroup]:
    """Events of a world's stream by tick; those that the host wrote after a tick apart."""
    passed = 0
    group = _TickGroup(0, True, [])
    async for one in events:
        event = one[0]
        is_between = event.at_us <= passed
        tick = passed if is_between else event.at_us
        if (tick, is_between) != group.place:
            if group.events:
                yield group
            group = _TickGroup(tick, is_between, [])
        group.events.append(_ComparedEvent(*one))
        if event.kind == TickPassed.KIND:
            passed = event.at_us
    if group.events:
        yield group


def _same(a: _ComparedEvent | None, b: _ComparedEvent | None) -> bool:
    if a is None or b is None:
        return False
    one, other = a.normal, b.normal
    return bytes(one.data) == bytes(other.data) and (one.kind, one.actor, one.at, one.version, one.cause) == (
        other.kind,
        other.actor,
        other.at,
        other.version,
        other.cause,
    )


def _acts(events: list[_ComparedEvent]) -> Iterator[tuple[str, str]]:
    for one in events:
        act = one.event.plain().get("act") if b'"act":{' in one.event.data else None
        if isinstance(act, dict):
            name: object = cast("dict[str, object]", act).get("action") or "invalid"
            rejected = one.event.kind == ActionRejected.KIND
            yield one.event.actor, f"{name}, rejected" if rejected else str(name)


async def _describe_event(one: _ComparedEvent, contents: Contents) -> dict[str, Any]:
    """An event with its texts in place of references to them."""
    return {
        "seq": one.event.seq,
        "kind": one.event.kind,
        "actor": one.event.actor,
        "data": await _load_texts(one.event.plain(), contents),
    }


async def _load_texts(value: Any, contents: Contents) -> Any:
    if isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        return {key: await _load_texts(item, contents) for key, item in found.items()}
    if isinstance(value, list):
        return [await _load_texts(item, contents) for item in cast("list[Any]", value)]
    if isinstance(value, str) and len(value) == 45 and value.startswith("b:"):
        try:
            text = (await contents.of(value)).decode(errors="replace")
        except CorruptStore:
            return value
        return text if len(text) <= TEXT_CHARS_MAX else text[: TEXT_CHARS_MAX - 1] + "…"
    return value


def _fields(a: dict[str, Any] | None, b: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Names of fields that differ, with both values; `act.action` is one within another."""
    if a is None or b is None:
        return []
    found: list[dict[str, Any]] = []
    for name in ("kind", "actor"):
        if a[name] != b[name]:
            found.append({"field": name, "a": a[name], "b": b[name]})
    _compare(a["data"], b["data"], "", found)
    return found[:FIELDS_MAX]


def _compare(a: Any, b: Any, at: str, found: list[dict[str, Any]]) -> None:
    if isinstance(a, dict) and isinstance(b, dict):
        left, right = cast("dict[str, Any]", a), cast("dict[str, Any]", b)
        for key in sorted(left.keys() | right.keys()):
            _compare(left.get(key), right.get(key), f"{at}.{key}" if at else key, found)
    elif a != b:
        found.append({"field": at, "a": a, "b": b})
