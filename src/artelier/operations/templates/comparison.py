"""`<`, `<=` and `contains` over data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from artelier.operations.templates.failures import TemplateFailed
from artelier.operations.templates.renderer import Rendering
from artelier.operations.templates.values import Named, Undefined, same, text, undefined_error


def is_below(left: Any, right: Any, state: Rendering, *, or_same: bool = False) -> bool:
    """Numbers with numbers, texts with texts; nothing is below null. Errors: `TemplateFailed` else."""
    for side in (left, right):
        if isinstance(side, Undefined) and state.strict:
            raise undefined_error(side)
        if side is None or isinstance(side, Undefined):
            return False
    if isinstance(left, str) and isinstance(right, str):
        state.spend(min(len(left), len(right)))
        return left <= right if or_same else left < right
    if _is_number(left) and _is_number(right):
        return left <= right if or_same else left < right
    raise TemplateFailed(
        "these values have no order",
        expected="two numbers or two texts",
        got=f"{type(left).__name__[:40]} and {type(right).__name__[:40]}",
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def contains(whole: Any, part: Any, state: Rendering) -> bool:
    """A text in a text, an item in a list, a key in a mapping; false for any other value."""
    if isinstance(whole, Undefined):
        if state.strict:
            raise undefined_error(whole)
        return False
    if isinstance(whole, Named):
        whole = whole.name
    if isinstance(whole, str):
        state.spend(len(whole))
        return not (part is None or isinstance(part, Undefined)) and text(part, state) in whole
    if isinstance(whole, list | tuple):
        return any(same(each, part, state=state) for each in cast("list[Any]", whole))
    if isinstance(whole, range):
        return isinstance(part, int) and part in whole
    return isinstance(whole, Mapping) and isinstance(part, str) and part in whole
