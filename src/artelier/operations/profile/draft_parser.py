"""The operations of a profile as far as each can be read: a mistake in one hides no mistake elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar, cast

import msgspec
from pydantic import BaseModel, TypeAdapter, ValidationError

from artelier.operations.kinds import OperationKind, kind_named, kind_names
from artelier.operations.profile.definition import EFFECTS_MAX, HOOKS, Effect, Operation, Params, RunCondition
from artelier.operations.profile.validation_errors import Mistakes, Step, path_of, quote_text

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
