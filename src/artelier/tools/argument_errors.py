"""The errors in a call's arguments, in words a model can act on and of bounded length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, cast

from artelier.errors import InvalidArguments

COMPLAINTS_MAX = 10
MESSAGE_CHARS_MAX = 1_600
"""Of the lines about keys; with the list of parameters the text stays below 2 KB."""
KEY_CHARS_MAX = 80
VALUE_CHARS_MAX = 60
PARAMETERS_CHARS_MAX = 300


class ArgumentProblem(TypedDict):
    """One error as pydantic reports it."""

    type: str
    loc: tuple[int | str, ...]
    msg: str
    input: Any


def complain(found: Sequence[ArgumentProblem], *, tool: str, schema: Mapping[str, bool]) -> InvalidArguments:
    """The error that names each bad key with what was expected and what came.

    Shapes: `schema` maps each parameter to whether it is required. The error's fact `problems` is a
    list of `{key, expected, got}`.
    """
    problems = [_problem(item) for item in found[:COMPLAINTS_MAX]]
    lines: list[str] = []
    size = 0
    for problem in problems:
        line = f"- {problem['key']}: expected {problem['expected']}, got {problem['got']}"
        if size + len(line) > MESSAGE_CHARS_MAX:
            break
        lines.append(line)
        size += len(line)
    if len(lines) < len(found):
        lines.append(f"- and {len(found) - len(lines)} more")
    return InvalidArguments(
        f"arguments of `{tool}` do not fit:\n" + "\n".join(lines),
        hint="Parameters: " + _parameters(schema),
        problems=problems,
    )


def _problem(item: ArgumentProblem) -> dict[str, str]:
    key = _key(item["loc"])
    if item["type"] in ("missing", "missing_argument"):
        return {"key": key, "expected": "a value (it is required)", "got": "nothing"}
    if item["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return {"key": key, "expected": "no such key", "got": describe(item["input"])}
    expected = item["msg"].removeprefix("Input should be ")[:200]
    return {"key": key, "expected": expected, "got": describe(item["input"])}


def _key(loc: tuple[int | str, ...]) -> str:
    text = ""
    for part in loc:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part[:KEY_CHARS_MAX]}" if text else part[:KEY_CHARS_MAX]
    return text[: 2 * KEY_CHARS_MAX] or "(the whole)"


def describe(value: Any) -> str:
    """A short text of a JSON value, never longer than a line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"{str(value).lower()} (boolean)"
    if isinstance(value, str):
        cut = value[:VALUE_CHARS_MAX]
        more = "..." if len(value) > VALUE_CHARS_MAX else ""
        return f"{cut!r}{more} (string)"
    if isinstance(value, int | float):
        return f"{value} ({'integer' if isinstance(value, int) else 'number'})"
    if isinstance(value, list):
        return f"a list of {len(cast('list[Any]', value))}"
    if isinstance(value, dict):
        keys = [str(key)[:20] for key in list(cast("dict[Any, Any]", value))[:3]]
        return f"an object with keys {', '.join(keys)}" if keys else "an empty object"
    return type(value).__name__


def _parameters(schema: Mapping[str, bool]) -> str:
    if not schema:
        return "none"
    names = [name if required else f"{name} (optional)" for name, required in schema.items()]
    text = ", ".join(names)
    return text if len(text) <= PARAMETERS_CHARS_MAX else text[: PARAMETERS_CHARS_MAX - 3] + "..."
