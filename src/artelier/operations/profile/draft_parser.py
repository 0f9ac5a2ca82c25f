"""The operations of a profile as far as each can be read: a mistake in one hides no mistake elsewhere."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypedDict, TypeVar, cast

import msgspec
from pydantic import BaseModel, TypeAdapter, ValidationError

from artelier.errors import InvalidConfig
from artelier.operations.kinds import OperationKind, kind_named, kind_names
from artelier.operations.profile.definition import EFFECTS_MAX, HOOKS, Effect, Operation, Params, RunCondition

MISTAKES_MAX = 1_000
"""Beyond these one line says that there are more."""
SHOWN_MAX = 5
"""In the message of the error."""
MESSAGE_CHARS_MAX = 400
KEY_CHARS_MAX = 64

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")

Step = str | int


class ProfileMistake(TypedDict):
    """One mistake: `path` such as `operations[3].params.effects[0].tag`, a stable `code`, a sentence."""

    path: str
    code: str
    message: str


class InvalidProfile(InvalidConfig):
    """A profile is against the rules. `errors` has all mistakes, in the order of the profile."""

    code = "invalid_profile"

    def __init__(self, errors: Sequence[ProfileMistake]) -> None:
        self.errors: tuple[ProfileMistake, ...] = tuple(errors)
        count = len(self.errors)
        said = "; ".join(_format_mistake(one) for one in self.errors[:SHOWN_MAX])
        lead = "a mistake in the profile" if count == 1 else f"{count} mistakes in the profile"
        more = f"The first {SHOWN_MAX} are shown; `errors` and `artelier profile validate` have all."
        super().__init__(
            f"{lead}: {said}",
            hint=more if count > SHOWN_MAX else None,
            profile_mistakes=[dict(one) for one in self.errors],
        )


class Mistakes:
    """Collects what is found; the same mistake at the same place counts once."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], tuple[tuple[Step, ...], ProfileMistake]] = {}

    def add(self, steps: Sequence[Step], code: str, message: str) -> None:
        if len(self._found) > MISTAKES_MAX:
            return
        path = path_of(steps)
        if len(self._found) == MISTAKES_MAX:
            code, message = "too_many_mistakes", "there are more than can be listed"
        made: ProfileMistake = {"path": path, "code": code, "message": _limit_message(message)}
        self._found.setdefault((path, code, made["message"]), (tuple(steps), made))

    def places(self) -> frozenset[str]:
        """Paths at which something is wrong."""
        return frozenset(path for path, _, _ in self._found)

    def __bool__(self) -> bool:
        return bool(self._found)

    def in_order(self) -> list[ProfileMistake]:
        """Return the mistakes by place, those of one place in the order in which they were found."""

        def place(found: tuple[tuple[Step, ...], ProfileMistake]) -> list[tuple[int, str]]:
            return [(one, "") if isinstance(one, int) else (-1, one) for one in found[0]]

        return [mistake for _, mistake in sorted(self._found.values(), key=place)]


def path_of(steps: Sequence[Step]) -> str:
    """`operations[3].params["odd key"]`; empty for the whole."""
    path = ""
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        elif _NAME.fullmatch(step):
            path += f".{step}" if path else step
        else:
            path += f"[{json.dumps(step[:KEY_CHARS_MAX], ensure_ascii=True)}]"
    return path


def steps_of(path: str) -> tuple[Step, ...]:
    """The steps of a path as kinds write it: `prompt`, `output.schema`, `steps[0].path`."""
    parts = (part for part in re.split(r"[.\[\]]+", path) if part)
    return tuple(int(part) if part.isdecimal() and part.isascii() else part for part in parts)


def quote_text(value: object) -> str:
    """A text of the profile in a message, short and in ASCII quotes."""
    text = value if isinstance(value, str) else type(value).__name__
    return json.dumps(text[:KEY_CHARS_MAX], ensure_ascii=True)


def _limit_message(message: str) -> str:
    plain = "".join(one if one.isprintable() else " " for one in message[:MESSAGE_CHARS_MAX])
    return plain if len(message) <= MESSAGE_CHARS_MAX else plain + "…"


def _format_mistake(mistake: ProfileMistake) -> str:
    return f"{mistake['path']}: {mistake['message']}" if mistake["path"] else mistake["message"]


FormT = TypeVar("FormT", bound=BaseModel)
Data = Mapping[str, Any]

CONFIG = "config"
"""Where an item may have its usage apart from what it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationDraft:
    """One operation: what can be read of it, and where that stands."""

    at: tuple[Step, ...]
    data: Data
    """Its fields, with those of `config` among them."""
    configured: frozenset[str]
    """Fields that stand in `config`."""
    id: str
    """Empty if there is none that can be used."""
    hooks: tuple[str, ...]
    depends_on: tuple[tuple[int, str], ...]
    """Each with its place in the list."""
    effects: tuple[tuple[int, Effect], ...]
    conditions: tuple[tuple[int, RunCondition], ...]
    kind: OperationKind[Any] | None = None
    params: Params | None = None
    """None if they are not of the kind's form; effects that are no such are left out."""
    operation: Operation | None = None
    """None if something is wrong with its form."""

    def path(self, *steps: Step) -> tuple[Step, ...]:
        """Return where a field of the operation stands."""
        return _path(self.at, self.configured, steps)

    def dependencies(self) -> Iterable[str]:
        return (name for _, name in self.depends_on)


def draft_operation(item: object, at: tuple[Step, ...], mistakes: Mistakes) -> OperationDraft | None:
    """An item of `operations`; None if it is no object. Every mistake of its form is noted."""
    if not isinstance(item, dict):
        mistakes.add(at, "not_an_object", f"an operation is a JSON object, got {quote_text(item)}")
        return None
    data, configured = _merge_config(cast("dict[str, Any]", item), at, mistakes)
    kind = _kind(data, at, configured, mistakes)
    whole = _params(kind, data, _path(at, configured, ("params",)), mistakes)
    params = whole or _readable(kind, data)
    operation = _operation(data, at, configured, mistakes)
    if operation is not None:
        operation = operation.model_copy(update={"params": whole}) if whole is not None else None
    raw_id = data.get("operation_id")
    return OperationDraft(
        at=at,
        data=data,
        configured=configured,
        kind=kind,
        params=params,
        operation=operation,
        id=raw_id if isinstance(raw_id, str) and raw_id.strip() else "",
        hooks=tuple(one for one in HOOKS if one in _items(data.get("hooks", [HOOKS[0]]))),
        depends_on=tuple(texts_in(data.get("depends_on"))),
        effects=_effects(whole, data),
        conditions=_conditions(data),
    )


def order_mistake(data: Data) -> tuple[str, str] | None:
    """Code and sentence, if the order of an operation is not there or no number."""
    if "order" not in data:
        return "missing_order", "the order in which effects are committed is missing"
    order: object = data["order"]
    if isinstance(order, bool) or not isinstance(order, int | float) or not math.isfinite(order):
        return "order_not_numeric", "order is a number; smaller ones commit first"
    return None


def form_of(
    form: type[FormT], data: Data, at: Sequence[Step], mistakes: Mistakes, **context: Any
) -> FormT | None:
    """Plain data in a form, with nothing converted; None, and each mistake noted, if it does not fit.

    `context`: `configured`, the fields whose paths go through `config`.
    """
    try:
        return form.model_validate_json(msgspec.json.encode(data), strict=True)
    except ValidationError as error:
        told = mistakes.places()  # what is not even JSON needs no second word
        for one in error.errors(include_url=False, include_context=False, include_input=False):
            steps = _steps(data, one["loc"], is_missing=one["type"] == "missing")
            where = _path(tuple(at), context.get("configured", frozenset()), steps)
            if path_of(where) not in told:
                mistakes.add(where, one["type"], one["msg"])
        return None


def _path(at: Sequence[Step], configured: frozenset[str], steps: Sequence[Step]) -> tuple[Step, ...]:
    within = (CONFIG,) if steps and steps[0] in configured else ()
    return (*at, *within, *steps)


def _steps(data: object, places: Sequence[Step], *, is_missing: bool) -> list[Step]:
    """A place as the form names it, without the names of alternatives, which the data does not have."""
    steps: list[Step] = []
    here: object = data
    for number, step in enumerate(places):
        is_last = number == len(places) - 1
        if isinstance(here, dict) and step in here:
            here = cast("dict[Step, object]", here)[step]
        elif isinstance(here, list) and isinstance(step, int):
            items = cast("list[object]", here)
            here = items[step] if step < len(items) else None
        elif not (is_missing and is_last and isinstance(here, dict)):
            continue
        steps.append(step)
    return steps


def _merge_config(
    item: dict[str, Any], at: tuple[Step, ...], mistakes: Mistakes
) -> tuple[dict[str, Any], frozenset[str]]:
    if CONFIG not in item:
        return item, frozenset()
    config = item[CONFIG]
    bare = {name: value for name, value in item.items() if name != CONFIG}
    if not isinstance(config, dict):
        mistakes.add((*at, CONFIG), "not_an_object", "how an operation is used is a JSON object")
        return bare, frozenset()
    usage = cast("dict[str, Any]", config)
    for name in sorted(set(bare) & set(usage)):
        mistakes.add((*at, CONFIG, name), "given_twice", f"{quote_text(name)} also stands beside config")
    fresh = frozenset(usage) - frozenset(bare)
    return {**usage, **bare}, fresh


def _kind(
    data: Data, at: tuple[Step, ...], configured: frozenset[str], mistakes: Mistakes
) -> OperationKind[Any] | None:
    name = data.get("kind")
    path = _path(at, configured, ("kind",))
    if "kind" not in data:
        mistakes.add(path, "unknown_operation", "nothing says what this operation is: name its kind")
    elif not isinstance(name, str) or name not in kind_names():
        known = ", ".join(kind_names())
        mistakes.add(path, "unknown_kind", f"unknown kind {quote_text(name)}; there are {known}")
    else:
        return kind_named(name)
    return None


def _params(
    kind: OperationKind[Any] | None, data: Data, path: tuple[Step, ...], mistakes: Mistakes
) -> Params | None:
    if "params" not in data:
        mistakes.add(path, "missing", "Field required")
        return None
    params: object = data["params"]
    if not isinstance(params, dict):
        mistakes.add(path, "not_an_object", f"params are a JSON object, got {quote_text(params)}")
        return None
    if kind is None:
        return None
    return form_of(kind.params, cast("Data", params), path, mistakes)


def _readable(kind: OperationKind[Any] | None, data: Data) -> Params | None:
    """Params of which only effects are broken, without those."""
    given: object = data.get("params")
    if kind is None or not isinstance(given, dict):
        return None
    bare: dict[str, Any] = {**cast("dict[str, Any]", given), "effects": []}
    params: Params | None = form_of(kind.params, bare, (), Mistakes())
    if params is None:
        return None
    return params.model_copy(update={"effects": tuple(one for _, one in _effects(None, data))})


def _operation(
    data: Data, at: tuple[Step, ...], configured: frozenset[str], mistakes: Mistakes
) -> Operation | None:
    """All but the params, and but what the rules of `rules.py` speak about."""
    spoken: dict[str, Any] = {"params": {}}
    if order_mistake(data) is not None:
        spoken["order"] = 0
    if not isinstance(data.get("kind"), str):
        spoken["kind"] = ""
    given = data.get("operation_id")
    if given is None or (isinstance(given, str) and not given.strip()):
        spoken["operation_id"] = "none"
    return form_of(Operation, {**data, **spoken}, at, mistakes, configured=configured)


@lru_cache(maxsize=1)
def _any_effect() -> TypeAdapter[Effect]:
    return TypeAdapter(Effect)


def _effects(params: Params | None, data: Data) -> tuple[tuple[int, Effect], ...]:
    """The effects that can be read, if need be one by one."""
    if params is not None:
        return tuple(enumerate(params.effects))
    given: object = data.get("params")
    raw = cast("Data", given).get("effects") if isinstance(given, dict) else None
    found: list[tuple[int, Effect]] = []
    for index, one in enumerate(_items(raw)[:EFFECTS_MAX]):
        try:
            found.append((index, _any_effect().validate_json(msgspec.json.encode(one), strict=True)))
        except ValidationError:
            continue
    return tuple(found)


def _conditions(data: Data) -> tuple[tuple[int, RunCondition], ...]:
    found: list[tuple[int, RunCondition]] = []
    for index, one in enumerate(_items(data.get("run_conditions"))[:EFFECTS_MAX]):
        if isinstance(one, dict):
            quiet = Mistakes()
            condition = form_of(RunCondition, cast("Data", one), (), quiet)
            if condition is not None:
                found.append((index, condition))
    return tuple(found)


def _items(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def texts_in(value: object) -> list[tuple[int, str]]:
    """The texts of what should be a list of them, each with its place."""
    return [(index, one) for index, one in enumerate(_items(value)) if isinstance(one, str)]


BYTES_MAX = 8 * 1024 * 1024
"""Of a profile: text, or all texts inside data."""
VALUES_MAX = 200_000
DEPTH_MAX = 48
_INT_MAX = 2**63 - 1


def read_object(data: object, mistakes: Mistakes) -> dict[str, Any] | None:
    """An object, from itself or from JSON text; a copy that nobody else holds. None: a mistake says why.

    Values that JSON cannot hold are null in it and each a mistake; only numbers that are not finite stay,
    where `order` is asked for: there the rule about it speaks.
    """
    if isinstance(data, str | bytes):
        data = _parse(data, mistakes)
        if data is None:
            return None
    if not isinstance(data, dict):
        got = "null" if data is None else type(data).__name__
        mistakes.add((), "not_an_object", f"a profile is a JSON object, got {got}")
        return None
    copied = _BoundedCopy(mistakes).of(cast("dict[object, object]", data), (), 1)
    return cast("dict[str, Any]", copied) if isinstance(copied, dict) else None


def _parse(text: str | bytes, mistakes: Mistakes) -> object:
    if len(text) > BYTES_MAX:
        mistakes.add((), "too_large", f"a profile has at most {BYTES_MAX} bytes of JSON")
        return None
    try:
        found: object = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError) as error:
        mistakes.add((), "not_json", f"the text is not JSON: {error}")
        return None
    except RecursionError:
        mistakes.add((), "too_deep", f"a profile nests at most {DEPTH_MAX} levels")
        return None
    if found is None:
        mistakes.add((), "not_an_object", "a profile is a JSON object, got null")
    return found


class _BoundedCopy:
    """One pass over the data, bounded in values, characters and depth."""

    def __init__(self, mistakes: Mistakes) -> None:
        self._mistakes = mistakes
        self._values = 0
        self._chars = 0

    def of(self, value: object, at: tuple[Step, ...], depth: int) -> object:
        if self._is_full(value, at):
            return None
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            return self._text(value, at)
        if isinstance(value, int | float):
            return self._number(value, at)
        if not isinstance(value, dict | list | tuple):
            return self._refuse(at, "not_json", f"{type(value).__name__} is nothing JSON can hold")
        if depth > DEPTH_MAX:
            return self._refuse(at, "too_deep", f"a profile nests at most {DEPTH_MAX} levels")
        if isinstance(value, dict):
            return self._object(cast("dict[object, object]", value), at, depth)
        items = cast("list[object] | tuple[object, ...]", value)
        return [self.of(item, (*at, index), depth + 1) for index, item in enumerate(items)]

    def _is_full(self, value: object, at: tuple[Step, ...]) -> bool:
        """Counts a value in; once there are too many, nothing more is copied and one mistake says so."""
        self._values += 1
        self._chars += len(value) if isinstance(value, str) else 0
        full = self._values > VALUES_MAX or self._chars > BYTES_MAX
        if full:
            limits = f"{VALUES_MAX} values and {BYTES_MAX} characters"
            self._mistakes.add((), "too_large", f"a profile has at most {limits}")
        return full

    def _object(self, value: dict[object, object], at: tuple[Step, ...], depth: int) -> object:
        found: dict[str, object] = {}
        for key, item in value.items():
            if self._values > VALUES_MAX or self._chars > BYTES_MAX:
                break
            if not isinstance(key, str):
                self._refuse(at, "not_json", f"a key is no text but {type(key).__name__}")
                continue
            name = self._text(key, at)
            self._chars += len(key)
            if name is not None:
                found[name] = self.of(item, (*at, name), depth + 1)
        return found

    def _text(self, value: str, at: tuple[Step, ...]) -> str | None:
        try:
            value.encode()
        except UnicodeEncodeError:
            self._refuse(at, "not_unicode", "a text with lone surrogates is no Unicode")
            return None
        return str(value)

    def _number(self, value: float, at: tuple[Step, ...]) -> object:
        if isinstance(value, int):
            if abs(value) <= _INT_MAX:
                return int(value)
            return self._refuse(at, "not_json", "an integer of more than 64 bits")
        if math.isfinite(value) or at[-1:] == ("order",):
            return float(value)
        return self._refuse(at, "not_json", "a number that is not finite")

    def _refuse(self, at: tuple[Step, ...], code: str, message: str) -> None:
        self._mistakes.add(at, code, message)
