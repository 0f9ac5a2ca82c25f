"""The reference of operations as a page, made from the forms of profiles and their docstrings.

Pure: forms and tables in, Markdown out. Nothing that runs a chat imports it.
"""

from __future__ import annotations

import ast
import inspect
import re
import types
from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from artelier.operations.kinds import KINDS, kind_named
from artelier.operations.profile import definition as forms
from artelier.operations.profile.operation_profile import OperationProfile
from artelier.operations.profile.reference_tables import CTX, ERRORS, INTRODUCTION, MEANINGS, NAMES, TYPES
from artelier.operations.transforms import forms as transform_forms
from artelier.operations.transforms import steps

Model = type[BaseModel]

STEPS: tuple[tuple[Model, type], ...] = (
    (transform_forms.JsonPatchForm, steps.JsonPatch),
    (transform_forms.RegexForm, steps.Regex),
    (transform_forms.CaseForm, steps.Case),
    (transform_forms.TrimForm, steps.Trim),
    (transform_forms.ExtractForm, steps.Extract),
)
"""Each form with the value whose docstrings describe it."""
_PLAIN: dict[Any, str] = {
    str: "text",
    int: "integer",
    float: "number",
    Decimal: "number",
    bool: "true or false",
    dict: "object",
    type(None): "null",
    Any: "JSON",
}


def operations_page() -> str:
    """Markdown: every field of a profile, its effects and kinds, the names in scope, the codes of errors."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield from INTRODUCTION
    yield from _section("Profile", OperationProfile)
    yield from _section("Operation", forms.OperationDefinition, forms.OperationConfig)
    for form in (forms.RunCondition, forms.Activation, forms.Debug):
        yield from _section(form.__name__, form, level=3)
    yield from _section("PromptInclusion", forms.PromptInclusion)
    yield from _section("When", forms.When, level=3)
    yield from ("## Effects", "", *_paragraph(_EFFECTS))
    for form in effect_forms():
        yield from _section(f"`{_tag(form, 'type')}`", form, level=3, skip=("type",))
    yield from _section("Retention", forms.Retention, level=3)
    yield from _section("Block", forms.Block, level=3)
    yield from ("## Kinds", "", *_paragraph(_KINDS))
    yield from _section("Params of every kind", forms.Params, level=3)
    for name in KINDS:
        yield from _kind(name)
    yield from ("## Steps of a transform", "")
    for form, described in STEPS:
        yield from _section(f"`{_tag(form, 'op')}`", form, level=3, skip=("op",), described=described)
    yield from ("## Names in templates", "", *_table(("name", "is"), NAMES))
    yield from ("## What `ctx` offers", "", *_table(("name", "is"), CTX))
    yield from ("## Codes of errors", "", *_paragraph(_CODES))
    yield from _table(("code", "meaning"), sorted(ERRORS.items()))


_EFFECTS = (
    "`params.effects` of any kind. An operation writes at most one tag; its effects are applied when it is"
    " `done`, in the order of the list."
)
_KINDS = "`kind` of an operation says which of these `params` it has."
_CODES = (
    "What stands in `code` of an operation that ended as `error`, or of an effect that was not applied."
    " Errors of steps, such as `not_granted` or `price_unknown`, keep their codes. Mistakes in a profile have"
    " codes of their own: see [operations](guides/operations.md#what-is-refused)."
)


def effect_forms() -> tuple[Model, ...]:
    """The forms of all effects, in the order of their declaration."""
    union = get_args(forms.Effect)[0]
    return get_args(union)


def _kind(name: str) -> Iterator[str]:
    params: Model = kind_named(name).params
    yield from _section(f"Kind `{name}`", params, level=3, skip=tuple(forms.Params.model_fields))
    if errors := _errors(inspect.getmodule(params)):
        yield from _paragraph(f"Errors: {errors}")
    for form in _forms_below(params):
        yield from _section(form.__name__, form, level=3)


def _errors(module: types.ModuleType | None) -> str:
    """Return what the docstring of a kind's `_run` says of its errors."""
    run = getattr(module, "_run", None)
    _, found, rest = (inspect.getdoc(run) or "").partition("Errors: ")
    told = " ".join(rest.split()).replace("of `ask`", "of models that are asked (`empty_prompt`, `max_cost`)")
    return told if found else ""


def _forms_below(form: Model) -> list[Model]:
    """Forms that fields of a kind's own have."""
    own = (one.annotation for name, one in form.model_fields.items() if name not in forms.Params.model_fields)
    return [one for one in own if inspect.isclass(one) and issubclass(one, BaseModel)]


def _section(
    title: str, *models: Model, level: int = 2, skip: tuple[str, ...] = (), described: Any = None
) -> Iterator[str]:
    yield from (f"{'#' * level} {title}", "")
    if words := _prose(described or models[0]):
        yield from _paragraph(words)
    rows: list[tuple[str, ...]] = []
    for model in models:
        told = _docstrings(model) | (_docstrings(described) if described else {})
        for name, field in model.model_fields.items():
            if name not in skip:
                rows.append(_row(model, field.alias or name, field, told.get(name, "")))
    if rows:
        yield from _table(("field", "type", "default", "bounds", "meaning"), rows)


def _row(model: Model, name: str, field: FieldInfo, meaning: str) -> tuple[str, ...]:
    bounds = "; ".join((*_bounds(field.metadata), *_bounds_within(field.annotation)))
    meaning = meaning or MEANINGS.get(f"{model.__name__}.{name}") or MEANINGS.get(name, "")
    meaning = re.sub(r"\bNone\b", "`null`", meaning)
    type_ = TYPES.get(name) or _type(field.annotation)
    return (f"`{name}`", type_, _default(field), bounds, meaning)


def _type(annotation: Any) -> str:
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    origin, given = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return "[effect](#effects)" if annotation == forms.Effect else _type(given[0])
    if origin is Literal:
        return ", ".join(f"`{one}`" for one in given)
    if origin in (Union, types.UnionType):
        return " or ".join(_type(one) for one in given)
    if origin in (tuple, list):
        return f"list of {_type(given[0])}"
    if origin is dict:
        return "object"
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        name = annotation.__name__
        return f"[{name}](#{name.lower()})"
    return "JSON"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value: Any = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, BaseModel):
        return "its defaults"
    if isinstance(value, tuple):
        items = cast("tuple[Any, ...]", value)
        if any(isinstance(one, BaseModel) for one in items):
            return "one with its defaults"
        return "`[" + ", ".join(f'"{one}"' for one in items) + "]`"
    if value is None:
        return "`null`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


_SIGNS = (
    ("gt", "more than {}"),
    ("ge", "at least {}"),
    ("lt", "less than {}"),
    ("le", "at most {}"),
    ("min_length", "length at least {}"),
    ("max_length", "length at most {}"),
    ("pattern", "`{}`"),
)


def _bounds(metadata: Iterable[Any]) -> Iterator[str]:
    for one in metadata:
        for name, words in _SIGNS:
            bound = getattr(one, name, None)
            if bound is not None:
                shown = bound if isinstance(bound, str) else f"{bound:,.15g}"
                yield words.format(shown)


def _bounds_within(annotation: Any) -> Iterator[str]:
    """Yield the bounds of the parts of a type: of a nullable type, or of each item of a list."""
    origin, given = get_origin(annotation), get_args(annotation)
    if origin is Annotated and annotation != forms.Effect:
        for one in given[1:]:
            yield from _bounds(one.metadata if isinstance(one, FieldInfo) else (one,))
    elif origin in (Union, types.UnionType):
        for one in given:
            yield from _bounds_within(one)
    elif origin in (tuple, list):
        yield from (f"each: {bound}" for bound in _bounds_within(given[0]))


def _tag(form: Model, name: str) -> str:
    return get_args(form.model_fields[name].annotation)[0]


def _prose(cls: type) -> str:
    """A docstring as one paragraph, without what concerns only code."""
    words = " ".join(inspect.cleandoc(cls.__dict__.get("__doc__") or "").split("\n\n")[0].split())
    return "" if re.match(r"^\w+\(", words) else words


@cache
def _docstrings(cls: type) -> dict[str, str]:
    """Return what stands under each field, those of parents included."""
    found: dict[str, str] = {}
    for one in reversed(cls.__mro__):
        if one.__module__.startswith("artelier."):
            found |= dict(_docstrings_of(one))
    return found


def _docstrings_of(cls: type) -> Iterator[tuple[str, str]]:
    tree = ast.parse(inspect.getsource(cls)).body[0]
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    for field, below in pairwise(body):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            yield field.target.id, " ".join(str(below.value.value).split())


def _paragraph(words: str) -> Iterator[str]:
    yield from (words, "")


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
    yield ""


__all__ = ["effect_forms", "operations_page"]
