"""The reader of an agent's reply: the JSON object in it, and the action that the object means."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, NoReturn, cast

import msgspec

from artelier.artifacts.content import check_json
from artelier.errors import InvalidArtifact, InvalidRequest
from artelier.world.actions.action import ACTIONS, PATTERNS, Action

REPLY_CHARS_MAX = 512 * 1024
"""Twice the largest action, so that escapes and prose have room."""

_OBJECT = re.compile(r'\{\s*(?:"|\})')
"""How a JSON object begins; `{agent_id}` in prose begins otherwise."""

_KEYED = re.compile(r'\{\s*"')

_BRACE = re.compile(r"[{}]")


class NoObject(NamedTuple):
    """The reason why a reply holds no object that decides: one sentence, bounded."""

    reason: str


class _Twice(ValueError):
    """A key stands twice in one object: which of them is meant cannot be known."""


def one_object(text: str) -> dict[str, Any] | NoObject:
    """The only JSON object of a reply, or why there is none.

    Cost: O(n). Never raises, whatever the text.
    """
    if len(text) > REPLY_CHARS_MAX:
        return NoObject(f"the reply has more than {REPLY_CHARS_MAX} characters")
    found: dict[str, Any] | None = None
    at = 0
    while (start := text.find("{", at)) >= 0:
        if not _OBJECT.match(text, start):
            end = _closing(text, start)
            if end < 0:
                return NoObject("a brace opens in the reply and never closes")
            if _KEYED.search(text, start + 1, end):
                return NoObject("an object stands inside braces that are no JSON")
            at = end
            continue
        read = _read(text, start)
        if isinstance(read, NoObject):
            return read
        if found is not None:
            return NoObject("the reply holds more than one JSON object; send exactly one")
        found, at = read
        if _within_another(text, start, at):
            return NoObject("the JSON object stands inside a list or another object; send it alone")
    if found is None:
        return NoObject("the reply holds no JSON object")
    return found


def _read(text: str, start: int) -> tuple[dict[str, Any], int] | NoObject:
    try:
        value, end = _decoder.raw_decode(text, start)
        check_json(value)
    except _Twice as error:
        return NoObject(f"the JSON object has the key {str(error)[:80]!r} twice")
    except json.JSONDecodeError as error:
        return NoObject(f"not valid JSON: {error.msg} at character {error.pos}")
    except InvalidArtifact as error:
        return NoObject(f"not usable JSON: {error.message}"[:300])
    except (ValueError, RecursionError) as error:
        # Numbers of thousands of digits and a thousand brackets end here; the text may quote them.
        return NoObject(f"not usable JSON: {_short(error)}")
    return cast("dict[str, Any]", value), end


def _short(error: ValueError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return str(error).partition(" for integer string")[0][:120]


def _closing(text: str, start: int) -> int:
    """After the brace that closes the one at `start`, or -1."""
    depth = 0
    for match in _BRACE.finditer(text, start):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return match.end()
    return -1


def _within_another(text: str, start: int, end: int) -> bool:
    before, after = start - 1, end
    while before >= 0 and text[before].isspace():
        before -= 1
    while after < len(text) and text[after].isspace():
        after += 1
    return (before >= 0 and text[before] == "[") or (after < len(text) and text[after] in "}]")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise _Twice(key)
        result[key] = value
    return result


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


_decoder = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_no_number)


# --------------------------------------------------------------------------- parse
# The parser of actions: a model's words, a tool call or a reflex's result give an action or a refusal.


REASON_CHARS_MAX = 400


class Rejected(msgspec.Struct, frozen=True):
    """No action: `reason` is one bounded sentence that the agent reads at its next step."""

    reason: str


def parse_action(text: str, *, allowed: Collection[str] | None = None) -> Action | Rejected:
    """The action in a model's reply: plain JSON, fenced, or wrapped in prose.

    Shapes: `allowed` are names of actions; None is all of them. Exactly one JSON object decides.
    Cost:   O(n); never raises, whatever the text.
    """
    found = one_object(text)
    if isinstance(found, NoObject):
        return _reject(found.reason)
    return _convert(found, allowed)


def action_from(value: object, *, allowed: Collection[str] | None = None) -> Action | Rejected:
    """The action that some data is: a reflex's result, a stored action. Never raises."""
    if not isinstance(value, Mapping):
        return _reject(f"an action is a JSON object, not {_kind_of(value)}")
    given = cast("Mapping[str, object]", value)
    try:
        check_json(dict(given))
    except InvalidArtifact as error:
        return _reject(f"not usable JSON: {error.message}")
    return _convert(given, allowed)


def _convert(given: Mapping[str, object], allowed: Collection[str] | None) -> Action | Rejected:
    name = given.get("action")
    known = ACTIONS if allowed is None else tuple(n for n in ACTIONS if n in allowed)
    if not isinstance(name, str) or name not in known:
        got = f"{name[:60]!r}" if isinstance(name, str) else _kind_of(name)
        return _reject(f"`action` must be one of {', '.join(known)}; got {got}")
    try:
        # To the one class: a union would be taken apart anew by each conversion, for 35 us.
        return msgspec.convert(given, ACTIONS[name])
    except msgspec.ValidationError as error:
        return _reject(f"{name}: {_readable(str(error))}")
    except InvalidRequest as error:
        return _reject(f"{name}: {error}")


def _readable(message: str) -> str:
    for pattern, words in PATTERNS.items():
        message = message.replace(f"`str` matching regex {pattern!r}", words)
    return message


def _kind_of(value: object) -> str:
    return "nothing" if value is None else f"a value of type {type(value).__name__}"


def _reject(reason: str) -> Rejected:
    line = " ".join(reason.split())
    line = line.encode("utf-8", "replace").decode()
    return Rejected(line if len(line) <= REASON_CHARS_MAX else f"{line[: REASON_CHARS_MAX - 1]}…")
