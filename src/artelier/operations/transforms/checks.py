"""The checks of patterns, paths and patches, without running any of them.

A pattern is only parsed here: compiling it can itself take seconds for a hostile one.
"""

from __future__ import annotations

import importlib
import re
import warnings
from functools import lru_cache
from typing import Any

PATTERN_CHARS_MAX = 1_000
PATH_CHARS_MAX = 1_000
_NEEDS = {
    "add": ("value",),
    "remove": (),
    "replace": ("value",),
    "move": ("from",),
    "copy": ("from",),
    "test": ("value",),
}
_BAD_ESCAPE = re.compile(r"~(?![01])")


class BadPattern(ValueError):
    """The message says what is wrong."""


@lru_cache(maxsize=256)
def groups_of(pattern: str) -> tuple[str | None, ...]:
    """A pattern's groups from 1, each with its name or None. Errors: `BadPattern`."""
    parse: Any = importlib.import_module("re._parser").parse
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            state: Any = parse(pattern).state
    except (re.error, OverflowError, RecursionError) as error:
        raise BadPattern(f"not a regular expression: {str(error)[:200]}") from None
    names = {number: name for name, number in state.groupdict.items()}
    return tuple(names.get(number) for number in range(1, state.groups))


def replacement_problem(pattern: str, replace: str) -> str | None:
    """Return what is wrong with the replacement, such as a group that the pattern does not have."""
    groups = groups_of(pattern)
    same_groups = "".join("()" if name is None else f"(?P<{name}>)" for name in groups)
    try:
        re.compile(same_groups).sub(replace, "")
    except (re.error, IndexError, OverflowError) as error:
        return f"not a replacement for this pattern: {str(error)[:200]}"
    return None


def group_problem(pattern: str, group: int | str) -> str | None:
    groups = groups_of(pattern)
    if isinstance(group, str):
        return None if group in groups else "the pattern has no group of this name"
    return None if group <= len(groups) else f"the pattern has {len(groups)} groups"


@lru_cache(maxsize=256)
def path_problem(path: str) -> str | None:
    """Return what is wrong with a JSONPath."""
    from jsonpath import JSONPathEnvironment
    from jsonpath.exceptions import JSONPathError

    try:
        JSONPathEnvironment(strict=True).compile(path)
    except (JSONPathError, RecursionError, ValueError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return f"not a JSONPath: {lines[0][:200]}"
    return None


def pointer_problem(pointer: Any) -> str | None:
    """Return what is wrong with a JSON Pointer (RFC 6901)."""
    if not isinstance(pointer, str):
        return "a JSON Pointer is a text"
    if pointer and not pointer.startswith("/"):
        return "a JSON Pointer is empty or begins with `/`"
    return "`~` stands only in `~0` and `~1`" if _BAD_ESCAPE.search(pointer) else None


def patch_problems(operation: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what is wrong with one operation of a JSON Patch: member and sentence."""
    name = operation.get("op")
    if not isinstance(name, str) or name not in _NEEDS:
        return [("op", f"one of {', '.join(_NEEDS)}")]
    problems: list[tuple[str, str]] = []
    for member in ("path", *_NEEDS[name]):
        if member not in operation:
            problems.append((member, "is missing"))
        elif member != "value" and (wrong := pointer_problem(operation[member])):
            problems.append((member, wrong))
    return problems
