"""The state machine of an old workflow: its states, and which may follow which, under what condition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from artelier_migrate.format.diagnostics import Notes
from artelier_migrate.format.document import Fields, YamlNode

ANY = "*"
ALWAYS = "true"
NEVER = "false"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A transition; `origin` may be any state."""

    origin: str
    to: str
    condition: str | None = None
    line: int = 0
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """States and transitions, in the order of the file."""

    states: tuple[str, ...] = ()
    initial: str = ""
    ways: tuple[Way, ...] = ()
    line: int = 0

    def conditional_ways(self, state: str) -> Iterator[tuple[str, str, int, str]]:
        """Yield the ways that have a condition: first those of the state, then those of any state."""
        for origin in (state, ANY):
            for way in self.ways:
                stays = origin == ANY and way.to == state
                if way.origin == origin and way.condition and not stays:
                    yield way.to, way.condition, way.line, way.key

    def free_ways(self, state: str) -> tuple[str, ...]:
        """The state's own ways without a condition."""
        return self._free(state, state)

    def fallbacks(self, state: str) -> tuple[str, ...]:
        """Ways of any state without a condition."""
        return self._free(ANY, state)

    def needed(self, state: str, to: str) -> tuple[str, ...]:
        """Return what a move of a step needs: that one of these holds. Without ways every move is free."""
        fitting = [way.condition for way in self.ways if way.origin in (state, ANY) and way.to == to]
        if to == state or not self.ways or None in fitting:
            return (ALWAYS,)
        return tuple(dict.fromkeys(text for text in fitting if text)) or (NEVER,)

    def _free(self, origin: str, state: str) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(
                way.to
                for way in self.ways
                if way.origin == origin and way.to != state and way.condition is None
            )
        )


def read_machine(node: YamlNode | None, path: str, notes: Notes) -> Machine:
    """The machine of a file; an empty one if there is none."""
    if node is None:
        return Machine()
    if not node.members:
        notes.add("unused", "expected a mapping", line=node.line, key=path)
        return Machine()
    fields = Fields(node, path, notes)
    given = fields.take("states")
    # Also as a mapping of names to descriptions.
    named = list(given.members) if given and given.members else []
    named += [item.name for item in given.items if item.name] if given and not named else []
    initial_line = fields.left["initial_state"].line if "initial_state" in fields.left else node.line
    initial = fields.name("initial_state", "initial")
    ways = tuple(_ways(fields, notes))
    states = tuple(dict.fromkeys(named)) or tuple(
        dict.fromkeys(name for way in ways for name in (way.origin, way.to) if name != ANY)
    )
    if initial is not None and states and initial not in states:
        notes.add(
            "changed",
            f"there is no state {initial}; it begins in {states[0]}",
            line=initial_line,
            key=fields.at("initial_state"),
        )
        initial = None
    fields.report_left()
    known: list[Way] = []
    for way in ways:
        gone = [name for name in (way.origin, way.to) if name not in (*states, ANY)]
        if gone or way.to == ANY:
            notes.add("unused", f"there is no state {(gone or [ANY])[0]}", line=way.line, key=way.key)
        else:
            known.append(way)
    return Machine(
        states=states, initial=initial or (states[0] if states else ""), ways=tuple(known), line=node.line
    )


def _ways(fields: Fields, notes: Notes) -> Iterator[Way]:
    given = fields.take("transitions")
    for number, item in enumerate(given.items if given else []):
        path = fields.at(f"transitions[{number}]")
        if not item.members:
            yield from _arrow(item, path, notes)
            continue
        one = Fields(item, path, notes)
        origins, to = one.take("from"), one.name("to")
        condition = one.take("condition", "when")
        one.report_left()
        if to is None:
            notes.add("unused", "a transition without `to`", line=item.line, key=path)
            continue
        text = condition_text(condition, one.at("condition"), notes) if condition else None
        names = [one.name for one in origins.items if one.name] if origins else [ANY]
        for name in names:
            yield Way(origin=name, to=to, condition=text, line=item.line, key=path)


def _arrow(item: YamlNode, path: str, notes: Notes) -> Iterator[Way]:
    """`a -> b`, or a chain of them."""
    names = [name.strip() for name in (item.name or "").split("->")]
    if len(names) < 2 or not all(names):
        notes.add("unused", "expected {from, to, condition} or `a -> b`", line=item.line, key=path)
        return
    for origin, to in pairwise(names):
        yield Way(origin=origin, to=to, line=item.line, key=path)


def condition_text(node: YamlNode, path: str, notes: Notes) -> str | None:
    """A condition as text. One that asks an artifact becomes what it falls back to."""
    if not node.members:
        return node.name and (node.text or "").strip()
    fallback = node.members.get("fallback")
    holds = fallback is not None and bool(fallback.value)
    notes.add(
        "changed",
        f"a condition asks no artifact; its fallback {str(holds).lower()} stands in",
        line=node.line,
        key=path,
    )
    return ALWAYS if holds else NEVER
