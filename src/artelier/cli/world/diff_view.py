"""The point where two worlds part, for people to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from artelier.cli import display
from artelier.cli.call import CliCall

AGENTS_MAX = 50
"""Agents in the table; JSON has all of them."""

VALUE_CHARS = 120

NAMES_MAX = 6
"""Of one list in a cell; JSON has all of them."""


def show_parting(call: CliCall, found: Mapping[str, Any]) -> None:
    """The result of `World.diff`."""
    a, b = found["a"], found["b"]
    if found["equal"]:
        call.screen.line(f"no difference: {a} and {b} are both at tick {found['tick_a']:,}")
    elif found["first"] is None:
        call.screen.line(
            f"no difference up to tick {found['compared_to']:,};"
            f" {a} is at tick {found['tick_a']:,}, {b} at tick {found['tick_b']:,}"
        )
    else:
        _show(call, found, found["first"])
        tick = found["first_tick"]
        if tick is None:
            call.screen.line(f"no tick up to {found['compared_to']:,} differs")
        elif tick != found["first"]:
            _show(call, found, tick)
    _show_agents(call, found)


def _show(call: CliCall, found: Mapping[str, Any], parting: Mapping[str, Any]) -> None:
    where = "after" if parting["between_ticks"] else "at"
    call.screen.line(
        f"diverges {where} tick {parting['tick']:,}: {parting['actor']}, {_what(found, parting)}", "bold"
    )
    for one in parting["differs"]:
        call.screen.line(f"  {one['field']}")
        for side in ("a", "b"):
            call.screen.line(f"    {found[side]}: {_value(one[side])}")
    if not parting["differs"]:
        only = parting["a"] or parting["b"]
        call.screen.line(f"  {display.compact(only['data'], chars_max=300)}")


def _what(found: Mapping[str, Any], parting: Mapping[str, Any]) -> str:
    """Return which event it is, and on which side."""
    a, b = parting["a"], parting["b"]
    if a is None or b is None:
        return f"{parting['kind']} only in {found['a' if b is None else 'b']}"
    if a["kind"] != b["kind"]:
        return f"{a['kind']} or {b['kind']}"
    return a["kind"]


def _value(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return display.line(value, chars_max=VALUE_CHARS)
    return display.compact(value, chars_max=VALUE_CHARS)


def _show_agents(call: CliCall, found: Mapping[str, Any]) -> None:
    agents: Mapping[str, Any] = found["agents"]
    if not agents:
        return
    call.screen.line()
    a, b, tick_a, tick_b = found["a"], found["b"], found["tick_a"], found["tick_b"]
    if tick_a == tick_b:
        call.screen.line(f"agents that differ at tick {tick_a:,}", "bold")
    else:
        call.screen.line(
            f"agents that differ, at different ticks: {a} at {tick_a:,}, {b} at {tick_b:,};"
            f" only actions are counted up to the same tick, {found['compared_to']:,}",
            "bold",
        )
        call.screen.note("what only the longer one did since then shows as a difference, too")
    call.screen.note(f"blank: the same in both; -: there is none; x/y: {a}/{b}")
    rows = [
        (agent, *_pair(one.get("balance")), *_pair(one.get("state")), _rest(one))
        for agent, one in list(agents.items())[:AGENTS_MAX]
    ]
    columns = ("agent", f">scrip {a}", f">scrip {b}", f"state {a}", f"state {b}", "and")
    call.screen.table(columns, rows, empty="")
    if len(agents) > AGENTS_MAX:
        call.screen.note(f"{len(agents) - AGENTS_MAX:,} more agents differ; --json has them")


def _pair(given: Mapping[str, Any] | None) -> tuple[str, str]:
    if given is None:
        return "", ""
    a, b = ("-" if given[side] is None else display.number(given[side]) for side in ("a", "b"))
    return a, b


def _rest(one: Mapping[str, Any]) -> str:
    """`song@1/2, transfer 5/4, lost hat, got 2: coat, scarf`: versions, numbers of actions, what it owns."""
    versions = [f"{id_}@{pair['a']}/{pair['b']}" for id_, pair in one.get("versions", {}).items()]
    actions = [f"{name} {pair['a']:,}/{pair['b']:,}" for name, pair in one.get("actions", {}).items()]
    owned = one.get("owned", {"a": [], "b": []})
    parts = [_cut(versions), _cut(actions), _format_ids("lost", owned["a"]), _format_ids("got", owned["b"])]
    return display.line(", ".join(filter(None, parts)), chars_max=400)


def _format_ids(verb: str, ids: Sequence[str]) -> str:
    """`lost hat`, `lost 12: poem_104, poem_110, poem_115, ...`."""
    if len(ids) < 2:
        return "".join(f"{verb} {id_}" for id_ in ids)
    return f"{verb} {len(ids):,}: {_cut(ids)}"


def _cut(names: Sequence[str]) -> str:
    return ", ".join([*names[:NAMES_MAX], "..."] if len(names) > NAMES_MAX else names)
