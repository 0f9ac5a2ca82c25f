"""Steps from JSON: the boundary of transforms. Loaded lazily, since pydantic is."""

from __future__ import annotations

import importlib
import re
import warnings
from functools import lru_cache
from typing import Annotated, Any, Literal, Self, cast

import msgspec
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from artelier.errors import InvalidRequest
from artelier.operations.transforms.steps import Step

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
    from jsonpath_rfc9535 import JSONPathEnvironment, JSONPathError

    try:
        JSONPathEnvironment().compile(path)
    except (JSONPathError, RecursionError, ValueError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return f"not a JSONPath: {lines[0][:200]}"
    return None


def pointer_problem(pointer: object) -> str | None:
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


STEPS_MAX = 64
OPERATIONS_MAX = 200
"""Of one JSON Patch."""
TEXT_CHARS_MAX = 64 * 1024
PROBLEMS_SHOWN = 20


def _pattern(value: str) -> str:
    groups_of(value)
    return value


class _StepForm(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class JsonPatchForm(_StepForm):
    op: Literal["json_patch"]
    patch: list[dict[str, JsonValue]] = Field(min_length=1, max_length=OPERATIONS_MAX)

    @field_validator("patch")
    @classmethod
    def _check(cls, patch: list[dict[str, Any]]) -> list[dict[str, Any]]:
        found = [
            f"[{at}].{member}: {message}"
            for at, operation in enumerate(patch)
            for member, message in patch_problems(operation)
        ]
        if found:
            raise ValueError("; ".join(found[:PROBLEMS_SHOWN]))
        return patch


class RegexForm(_StepForm):
    op: Literal["regex"]
    pattern: str = Field(min_length=1, max_length=PATTERN_CHARS_MAX)
    replace: str = Field(max_length=TEXT_CHARS_MAX)
    flags: str = Field(default="", max_length=5, pattern="^[aimsx]*$")
    count: int = Field(default=0, ge=0, le=1_000_000)

    _check_pattern = field_validator("pattern")(_pattern)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if problem := replacement_problem(self.pattern, self.replace):
            raise ValueError(problem)
        return self


class CaseForm(_StepForm):
    op: Literal["case"]
    to: Literal["lower", "upper", "title", "sentence"]


class TrimForm(_StepForm):
    op: Literal["trim"]
    chars: str | None = Field(default=None, min_length=1, max_length=200)
    max_chars: int | None = Field(default=None, ge=0, le=2**31)


class ExtractForm(_StepForm):
    op: Literal["extract"]
    path: str | None = Field(default=None, min_length=1, max_length=PATH_CHARS_MAX)
    regex: str | None = Field(default=None, min_length=1, max_length=PATTERN_CHARS_MAX)
    group: Annotated[int, Field(ge=0)] | str = 0
    many: bool = False

    @field_validator("regex")
    @classmethod
    def _check_regex(cls, value: str | None) -> str | None:
        return value if value is None else _pattern(value)

    @field_validator("path")
    @classmethod
    def _check_path(cls, value: str | None) -> str | None:
        if value is not None and (problem := path_problem(value)):
            raise ValueError(problem)
        return value

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.path is None) == (self.regex is None):
            raise ValueError("exactly one of `path` and `regex` is needed")
        if self.regex is None and "group" in self.model_fields_set:
            raise ValueError("`group` belongs to `regex`")
        if self.regex is not None and (problem := group_problem(self.regex, self.group)):
            raise ValueError(problem)
        return self


_Any = Annotated[JsonPatchForm | RegexForm | CaseForm | TrimForm | ExtractForm, Field(discriminator="op")]
_STEPS: TypeAdapter[Any] = TypeAdapter(Annotated[list[_Any], Field(max_length=STEPS_MAX)])


def read(raw: object) -> tuple[Step, ...]:
    """Errors: `InvalidRequest` with all problems; fact `problems`, a list of `{path, message}`."""
    if isinstance(raw, tuple):
        raw = list(cast("tuple[Any, ...]", raw))
    try:
        forms: list[BaseModel] = _STEPS.validate_python(raw)
    except ValidationError as error:
        raise _refusal(error) from None
    except (RecursionError, UnicodeEncodeError):
        raise InvalidRequest("steps of a transform are JSON data, not too deeply nested") from None
    plain = [form.model_dump() for form in forms]
    return msgspec.convert(plain, tuple[Step, ...])


def _refusal(error: ValidationError) -> InvalidRequest:
    problems: list[dict[str, str]] = []
    for found in error.errors(include_url=False, include_context=False, include_input=False):
        message = found["msg"].removeprefix("Value error, ")[:600]
        problems.append({"path": _path(found["loc"]), "message": message})
    lines = [f"- {each['path']}: {each['message']}" for each in problems[:PROBLEMS_SHOWN]]
    if len(problems) > PROBLEMS_SHOWN:
        lines.append(f"- and {len(problems) - PROBLEMS_SHOWN} more")
    return InvalidRequest("steps of a transform do not fit:\n" + "\n".join(lines), problems=problems)


def _path(loc: tuple[int | str, ...]) -> str:
    """`[2].pattern`; the second part only repeats the kind of the step."""
    parts = [loc[0], *loc[2:]] if loc and isinstance(loc[0], int) else list(loc)
    shown = "".join(f"[{part}]" if isinstance(part, int) else f".{part[:80]}" for part in parts)
    return shown[:200] or "(the whole)"
