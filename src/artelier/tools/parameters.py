"""A function's signature as a JSON schema, and arguments checked against it.

pydantic does the work and is imported on the first use of a tool, never at decoration. What a model
sent stays JSON data (`check`); the typed values a function receives are made from it just before
the call (`convert`), so that stored arguments and used arguments are the same bytes.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from types import CodeType
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, cast

import msgspec

from artelier.errors import InvalidArguments, InvalidRequest
from artelier.ports.tool import ToolContext
from artelier.tools.json_conversion import NotJson, plain_json

if TYPE_CHECKING:
    from pydantic import BaseModel


# --------------------------------------------------------------------------- argument errors
# The errors in a call's arguments, in words a model can act on and of bounded length.


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


def describe(value: object) -> str:
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


# --------------------------------------------------------------------------- parameters


ARGUMENTS_BYTES_MAX = 8 * 1024 * 1024
"""JSON text of one call's arguments. A guess: far above any honest call."""

MODELS_MAX = 512
"""Models of definitions that are kept."""

_CONTEXT_NAME = re.compile(r"(.*\.)?ToolContext(\s*\|\s*None)?")
# pydantic refuses or shadows some names a parameter may have (`schema`, `copy`, `_x`), so fields
# are prefixed and the real name is the alias.
_PREFIX = "arg_"


class Parameters:
    """The parameters of one function: which are for the model, which one is the context."""

    def __init__(self, function: Callable[..., Any], *, names: Mapping[str, Any] | None) -> None:
        self._function = function
        self._names = names
        """The local names at the place of definition, for annotations that are text."""
        self._signature = _check_signature(function)
        self._model: type[BaseModel] | None = None
        self._context: str | None = None
        self._described: set[str] = set()
        """Parameters whose default is pydantic's `Field(...)`: the function cannot supply it."""

    @property
    def model(self) -> type[BaseModel]:
        if self._model is None:
            self._build()
        return cast("type[BaseModel]", self._model)

    @property
    def context(self) -> str | None:
        """The name of the parameter that receives the `ToolContext`."""
        if self._model is None:
            self._build()
        return self._context

    def json_schema(self) -> dict[str, Any]:
        """JSON schema (draft 2020-12) of the arguments. Errors: `InvalidRequest` if a type has none."""
        model = self.model
        with _types_checked(self._function):
            return cast("dict[str, Any]", _tidy(_schema_of(model)))

    def check(self, arguments: object, *, tool: str) -> dict[str, Any]:
        """The arguments as JSON data, found to fit. Errors: `InvalidArguments`."""
        plain = _object(arguments, tool=tool)
        self._parse(plain, tool=tool)
        return plain

    def convert(self, arguments: object, *, tool: str) -> dict[str, Any]:
        """Typed keyword arguments for the function, without those that were not given."""
        parsed = self._parse(_object(arguments, tool=tool), tool=tool)
        return {
            field.removeprefix(_PREFIX): getattr(parsed, field)
            for field in type(parsed).model_fields
            if field in parsed.model_fields_set or field.removeprefix(_PREFIX) in self._described
        }

    def defaults(self) -> dict[str, Any]:
        """The parameters that may be left out, with their default."""
        return {
            name: parameter.default
            for name, parameter in self._signature.parameters.items()
            if name not in (self.context, *self._described) and parameter.default is not parameter.empty
        }

    def _parse(self, plain: dict[str, Any], *, tool: str) -> BaseModel:
        from pydantic import ValidationError

        raw = msgspec.json.encode(plain)
        if len(raw) > ARGUMENTS_BYTES_MAX:
            raise InvalidArguments(
                f"arguments of `{tool}` are too large",
                expected=f"at most {ARGUMENTS_BYTES_MAX} bytes of JSON",
                got=f"{len(raw)} bytes",
            )
        try:
            return self.model.model_validate_json(raw, strict=True, extra="forbid")
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False)
            raise complain(cast("list[Any]", found), tool=tool, schema=self._summary()) from None

    def _summary(self) -> dict[str, bool]:
        """Every parameter and whether it is required."""
        return {str(field.alias): field.is_required() for field in self.model.model_fields.values()}

    def _build(self) -> None:
        from pydantic.fields import FieldInfo

        fields: list[tuple[str, Any, type[Any], Any]] = []
        for name, parameter in self._signature.parameters.items():
            if _names_context(parameter.annotation):
                self._context = name
                continue
            hint, default = self._resolve(name, parameter.annotation), parameter.default
            if _is_context(hint):
                self._context = name
                continue
            if isinstance(default, FieldInfo):
                self._described.add(name)
                hint, default = Annotated[hint, default], parameter.empty
            # With its type: `0` and `False` are equal.
            fields.append((name, hint, cast("type[Any]", type(default)), default))
        place = getattr(inspect.unwrap(self._function), "__code__", None)
        wanted = (self._function.__name__, tuple(fields))
        with _types_checked(self._function):
            try:
                self._model = _model_at(place, *wanted) if place is not None else _model(*wanted)
            except TypeError:  # a hint or default without a hash
                self._model = _model(*wanted)

    def _resolve(self, name: str, annotation: object) -> object:
        function = inspect.unwrap(self._function)
        holder = _Holder()
        holder.__annotations__ = {name: annotation}
        try:
            return typing.get_type_hints(
                holder,
                globalns=getattr(function, "__globals__", {}),
                localns=dict(self._names or {}),
                include_extras=True,
            )[name]
        except (NameError, AttributeError, TypeError, SyntaxError) as error:
            raise InvalidRequest(
                f"parameter `{name}` of tool `{self._function.__name__}` has an unknown annotation",
                expected="a type that can be imported at run time",
                got=str(error),
                hint="Move its import out of `if TYPE_CHECKING`.",
            ) from None


@contextmanager
def _types_checked(function: Callable[..., Any]) -> Generator[None]:
    """Turn what pydantic says of a type into an error about the function."""
    from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

    try:
        yield
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        raise InvalidRequest(
            f"a parameter of tool `{function.__name__}` has a type that no JSON becomes",
            expected="types of JSON, dates, enums, dataclasses, TypedDicts or models of pydantic",
            got=str(error).partition(". ")[0].partition("\n")[0][:300],
        ) from None


def _model(name: str, fields: tuple[tuple[str, Any, type[Any], Any], ...]) -> type[BaseModel]:
    from pydantic import ConfigDict, create_model

    config = ConfigDict(extra="forbid", strict=True, protected_namespaces=())
    made: dict[str, Any] = {_PREFIX + one: (hint, _field(one, default)) for one, hint, _, default in fields}
    return create_model(name, __config__=config, **made)


@lru_cache(maxsize=MODELS_MAX)
def _model_at(
    place: CodeType, name: str, fields: tuple[tuple[str, Any, type[Any], Any], ...]
) -> type[BaseModel]:
    """Return the model of a definition, however many functions are made at it.

    The tools of an agent are defined anew for each of its runs, whose start was mostly the making of models.
    """
    return _model(name, fields)


@lru_cache(maxsize=MODELS_MAX)
def _schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema as pydantic makes it; not to be changed."""
    return model.model_json_schema(by_alias=True)


class _Holder:
    """Something with annotations, so that one can be resolved without the others."""


def _check_signature(function: Callable[..., Any]) -> inspect.Signature:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidRequest(
            f"`{function.__name__}` can't be a tool",
            expected="a function that returns",
            got="one that yields",
        )
    signature = inspect.signature(function)
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            problem = f"*{name}: a model can only send named arguments"
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            problem = f"{name} before `/`: a model can only send named arguments"
        elif parameter.annotation is parameter.empty:
            problem = f"{name} without a type annotation"
        else:
            continue
        raise InvalidRequest(
            f"`{function.__name__}` can't be a tool",
            expected="annotated parameters that can be given by name",
            got=problem,
            hint="For a method, decorate the bound method: tool(obj.method).",
        )
    return signature


def _names_context(annotation: object) -> bool:
    return isinstance(annotation, str) and _CONTEXT_NAME.fullmatch(annotation.strip("'\"")) is not None


def _is_context(hint: object) -> bool:
    if hint is ToolContext:
        return True
    return ToolContext in typing.get_args(hint)


def _field(name: str, default: object) -> object:
    from pydantic import Field

    if default is inspect.Parameter.empty:
        return Field(alias=name)
    try:
        plain_json(default)
    except NotJson:
        # Such a default can't stand in a schema; the function itself supplies it.
        return Field(alias=name, default_factory=lambda: None)
    return Field(alias=name, default=default)


def _object(arguments: object, *, tool: str) -> dict[str, Any]:
    expected = "a JSON object with the tool's parameters as keys"
    value = arguments
    if isinstance(value, str | bytes | bytearray):
        value = _decode(value, tool=tool, expected=expected)
    if not isinstance(value, Mapping):
        raise InvalidArguments(
            f"arguments of `{tool}` are not an object", expected=expected, got=type(value).__name__
        )
    try:
        return cast("dict[str, Any]", plain_json(cast("Mapping[str, Any]", value)))
    except NotJson as error:
        raise InvalidArguments(
            f"arguments of `{tool}` are not JSON data: {str(error)[:300]}", expected=expected
        ) from None


def _decode(text: str | bytes | bytearray, *, tool: str, expected: str) -> object:
    if len(text) > ARGUMENTS_BYTES_MAX:
        raise InvalidArguments(
            f"arguments of `{tool}` are too large",
            expected=f"at most {ARGUMENTS_BYTES_MAX} bytes of JSON",
            got=f"{len(text)} bytes",
        )
    # Providers send an empty text for a call without arguments.
    if not text.strip():
        return {}
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidArguments(
            f"arguments of `{tool}` are not JSON: {str(error)[:200]}",
            expected=expected,
            got=f"{len(text)} characters of text",
        ) from None


def _tidy(node: object) -> object:
    """Without generated titles (tokens that say nothing) and closed against extra keys."""
    if isinstance(node, list):
        return [_tidy(item) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    schema = cast("dict[str, Any]", node)
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "title" and isinstance(value, str):
            continue
        if key in ("properties", "$defs"):
            result[key] = {name: _tidy(item) for name, item in value.items()}
        elif key in ("default", "const", "enum", "examples"):
            result[key] = value
        else:
            result[key] = _tidy(value)
    if "properties" in result:
        result["additionalProperties"] = False
    return result
