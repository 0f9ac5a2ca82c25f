"""One walk over JSON data of any depth: whoever sends data chooses how deep it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec

PRIMES_MAX = 3
"""Of keys that became equal; more of them are numbered."""


def map_json(value: Any, change: Callable[[Any, str], Any]) -> Any:
    """JSON data with `change(leaf, name of its field)` for each leaf, `change(key, "")` for each text key.

    Keys that become equal are told apart by primes, many of them by numbers, so that no field is lost.
    Tuples become lists. Cost: O(size), however many keys become equal.
    """
    whole: list[Any] = [None]
    waiting: list[tuple[Any, str, Any, Any]] = [(value, "", whole, 0)]
    while waiting:
        one, label, into, at = waiting.pop()
        if isinstance(one, dict):
            made: dict[Any, Any] = {}
            into[at] = made
            times: dict[Any, int] = {}
            for key, item in cast("dict[Any, Any]", one).items():
                named = change(key, "") if isinstance(key, str) else key
                if named in made:
                    named = _apart(named, made, times)
                made[named] = None
                if _is_nested(item):
                    waiting.append((item, str(key), made, named))
                else:
                    made[named] = change(item, str(key))
        elif isinstance(one, list | tuple):
            items = cast("Sequence[Any]", one)
            into[at] = filled = [None] * len(items)
            for n, item in enumerate(items):
                if _is_nested(item):
                    waiting.append((item, label, filled, n))
                else:  # no tuple for each leaf: a collection of garbage looks at all of them
                    filled[n] = change(item, label)
        else:
            into[at] = change(one, label)
    return whole[0]


def _is_nested(item: Any) -> bool:
    return isinstance(item, dict | list | tuple)


def _apart(named: Any, taken: dict[Any, Any], times: dict[Any, int]) -> str:
    """A name beside one that is taken. `times` holds the last mark of each, so that no search begins anew."""
    while True:
        times[named] = count = times.get(named, 0) + 1
        marked = named + "'" * count if count <= PRIMES_MAX else f"{named}'{count}"
        if marked not in taken:
            return marked


def fields_in(value: Any) -> int:
    """Return how many fields the objects of JSON data have together."""
    count, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            given = cast("dict[str, Any]", one)
            count += len(given)
            waiting.extend(given.values())
        elif isinstance(one, list):
            waiting.extend(cast("list[Any]", one))
    return count


def loses_fields(before: bytes | str, after: bytes | str) -> bool:
    """Return True if keys of JSON text that differed are equal after a change. Both must be JSON."""
    return fields_in(msgspec.json.decode(after)) < fields_in(msgspec.json.decode(before))


__all__ = ["loses_fields", "map_json"]
