"""`for`: which items it goes over, and its turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Literal, cast

from artelier.operations.templates.failures import TemplateFailed
from artelier.operations.templates.renderer import ITEM_WORK, NODE_WORK, TURNS_MAX, Rendering
from artelier.operations.templates.texts import integer
from artelier.operations.templates.values import Loop, Undefined, undefined_error

Signal = Literal["break", "continue"] | None
Evaluate = Callable[[Rendering], Any]


def loop(
    *,
    name: str,
    key: str,
    iterable: Evaluate,
    limit: Evaluate | None,
    offset: Evaluate | None,
    resumes: bool,
    reverse: bool,
    body: Callable[[Rendering], Signal],
    default: Callable[[Rendering], Signal] | None,
) -> Callable[[Rendering], Signal]:
    """A loop over `iterable`. `key` names it for `offset: continue`, which `resumes` says."""

    def run(state: Rendering) -> Signal:
        state.spend(NODE_WORK)
        whole = _sequence(iterable(state), state)
        start = state.stops.get(key, 0) if resumes else _whole(offset, state)
        start = min(start or 0, len(whole))
        size = _whole(limit, state)
        stop = len(whole) if size is None else min(len(whole), start + size)
        state.stops[key] = stop
        if start >= stop:
            return default(state) if default else None
        _turns(whole[start:stop], state, name=name, body=body, reverse=reverse)
        return None

    return run


def _turns(
    chosen: Any, state: Rendering, *, name: str, body: Callable[[Rendering], Signal], reverse: bool
) -> None:
    around = next((block["forloop"] for block in reversed(state.blocks)), None)
    counter = Loop(length=len(chosen), parent=around)
    block: dict[str, Any] = {"forloop": counter, name: None}
    state.blocks.append(block)
    try:
        for each in reversed(chosen) if reverse else chosen:
            state.turn()
            state.spend(NODE_WORK)
            counter.index0 += 1
            block[name] = each
            if body(state) == "break":
                return
    finally:
        state.blocks.pop()


def _whole(value: Evaluate | None, state: Rendering) -> int | None:
    if value is None:
        return None
    found = value(state)
    if found is None or isinstance(found, Undefined):
        return None
    return max(0, integer(found))


def _sequence(value: Any, state: Rendering) -> Any:
    """A list, tuple or range, which can be cut without walking it."""
    if isinstance(value, Undefined):
        if state.strict:
            raise undefined_error(value)
        return ()
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,) if value else ()
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        found = [[key, each] for key, each in islice(pairs, TURNS_MAX + 1)]
        state.spend(ITEM_WORK * len(found))
        return found
    if isinstance(value, range):
        return value
    if isinstance(value, list | tuple):
        state.spend(len(cast("list[Any]", value)))
        return cast("list[Any]", value)
    raise TemplateFailed("not a list", got=type(value).__name__[:80])
