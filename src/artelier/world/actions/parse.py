"""The parser of actions: a model's words, a tool call or a reflex's result give an action or a refusal."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import cast

import msgspec

from artelier.artifacts.content import check_json
from artelier.errors import InvalidArtifact, InvalidRequest
from artelier.world.actions.action import ACTIONS, PATTERNS, Action
from artelier.world.actions.reply import NoObject, one_object

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


def action_from_call(
    name: str, arguments: object, *, allowed: Collection[str] | None = None
) -> Action | Rejected:
    """The action of a tool call of one of `action_tools`. Never raises."""
    if not isinstance(arguments, Mapping):
        return _reject(f"{name[:60]}: the arguments are no JSON object")
    given = cast("Mapping[str, object]", arguments)
    if "action" in given:
        # Else the arguments of a harmless tool could name another action.
        return _reject(f"{name[:60]}: unknown field `action`")
    return action_from({"action": name, **given}, allowed=allowed)


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
