"""Executable artifacts as programs: what their code must look like, checked when it is stored.

The check explains by line what the sandbox's language lacks. It is advice, not the wall: the interpreter
refuses the same by itself.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple, cast

from artelier.artifacts.ref import safe_repr
from artelier.errors import InvalidArguments, InvalidArtifact
from artelier.sandbox import check_code, costly
from artelier.sandbox.dialect_check import parse

CONTRACT = "contract"

HELPERS = ("read", "write", "invoke", "pay", "balance", "search_memory")
"""Functions in scope of `run`."""

RESERVED_ARGUMENT = "price_max"
"""What a caller of `invoke` says about itself, so no program can have an argument of this name."""

PROBLEMS_SHOWN = 5

_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict,),
    "null": (type(None),),
}


class EntryProgram(NamedTuple):
    """The signature of an entry function."""

    parameters: tuple[str, ...]
    required: frozenset[str]
    takes_any: bool
    """It has `**rest`."""


def code_of(content: object) -> str | None:
    """Code as text, or under `code`; None if there is none."""
    if isinstance(content, dict):
        content = cast("dict[str, Any]", content).get("code")
    return content if isinstance(content, str) else None


def check_entry(content: object, *, entry: str, positional: tuple[str, ...] | None = None) -> None:
    """Refuse code that cannot run, or lacks its entry function.

    `positional` are the values that the entry is called with; None: by name, with whatever it declares.
    Errors: `InvalidArtifact`, by line.
    """
    code = code_of(content)
    if code is None:
        raise InvalidArtifact(
            "invalid content", expected="code as text or under `code`", got=safe_repr(content)
        )
    problems = check_code(code, names=HELPERS)
    if problems:
        listed = "; ".join(map(str, problems[:PROBLEMS_SHOWN]))
        raise InvalidArtifact(
            f"this code cannot run in the sandbox: {listed}",
            hint="The sandbox speaks a part of Python; rewrite these lines.",
        )
    _signature(code, entry, positional)


@lru_cache(maxsize=128)
def program_of(code: str) -> EntryProgram:
    """The signature of stored code's `run`. Errors: `InvalidArtifact`."""
    return _signature(code, "run", None)


def _signature(code: str, entry: str, positional: tuple[str, ...] | None) -> EntryProgram:
    problem = costly(code)
    if problem is not None:
        raise InvalidArtifact(f"this code cannot run in the sandbox: {problem}")
    try:
        body = parse(code).body
    except SyntaxError:
        raise InvalidArtifact("this code is not Python") from None
    found = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == entry]
    wanted = f"def {entry}({', '.join(positional or ('...',))})"
    if len(found) != 1:
        raise InvalidArtifact(
            f"the code needs one function `{entry}` at its top", expected=wanted, got=f"{len(found)} of them"
        )
    args = found[0].args
    if positional is not None:
        _check_positional(args, wanted, len(positional))
    elif args.posonlyargs or args.vararg:
        raise InvalidArtifact(f"`{entry}` is called with arguments by name", expected=wanted)
    named = [*args.args, *args.kwonlyargs]
    names = tuple(arg.arg for arg in named)
    if positional is None and RESERVED_ARGUMENT in names:
        raise InvalidArtifact(f"no argument can be called {RESERVED_ARGUMENT}")
    required = {arg.arg for arg in args.args[: len(args.args) - len(args.defaults)]}
    required |= {
        arg.arg for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True) if default is None
    }
    return EntryProgram(names, frozenset(required), args.kwarg is not None)


def _check_positional(args: ast.arguments, wanted: str, count: int) -> None:
    known = len(args.posonlyargs) + len(args.args)
    needed = known - len(args.defaults)
    must = any(default is None for default in args.kw_defaults)
    if must or needed > count or (known < count and args.vararg is None):
        raise InvalidArtifact("a function takes other arguments than it is called with", expected=wanted)


def check_interface(interface: Mapping[str, Any]) -> None:
    """`{"tools": [{"name", "description"?, "inputSchema"?}]}`. Errors: `InvalidArtifact`."""
    tools: object = interface.get("tools")
    if not isinstance(tools, list) or not all(map(_is_tool, cast("list[object]", tools))):
        raise InvalidArtifact(
            "invalid interface of an executable artifact",
            expected='{"tools": [{"name": text, "description": text, "inputSchema": JSON schema}]}',
            got=safe_repr(interface),
        )


def _is_tool(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    tool = cast("dict[str, Any]", value)
    schema: object = tool.get("inputSchema", {"type": "object"})
    return (
        isinstance(tool.get("name"), str)
        and isinstance(tool.get("description", ""), str)
        and isinstance(schema, dict)
        and cast("dict[str, Any]", schema).get("type", "object") == "object"
        and isinstance(cast("dict[str, Any]", schema).get("properties", {}), dict)
    )


def check_call(program: EntryProgram, args: Mapping[str, Any], interface: object) -> None:
    """Refuse arguments that `run` does not take, lacks, or that its declared schema gives another type.

    Only names and the types of top-level properties are checked; the rest of a schema is the code's to check.
    Errors: `InvalidArguments`.
    """
    unknown = sorted(set(args) - set(program.parameters))
    if unknown and not program.takes_any:
        raise InvalidArguments(
            f"`run` has no argument {unknown[0][:100]}",
            expected=", ".join(program.parameters) or "no arguments",
        )
    schema = _schema(interface)
    needed = program.required | {
        name for name in _names_in(schema.get("required")) if name in program.parameters
    }
    missing = sorted(needed - set(args))
    if missing:
        raise InvalidArguments(f"`run` needs the argument {missing[0]}", expected=", ".join(sorted(needed)))
    properties: Any = schema.get("properties", {})
    for name, value in args.items():
        _check_type(name, value, properties.get(name) if isinstance(properties, dict) else None)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] - JSON


def _check_type(name: str, value: object, declared: object) -> None:
    if not isinstance(declared, dict):
        return
    wanted: Any = cast("dict[str, Any]", declared).get("type")
    names = [wanted] if isinstance(wanted, str) else _names_in(wanted)
    known = [_TYPES[one] for one in names if one in _TYPES]
    if not known or len(known) < len(names):
        return
    kinds = tuple(kind for group in known for kind in group)
    fits = bool in kinds if isinstance(value, bool) else isinstance(value, kinds)
    if not fits:
        raise InvalidArguments(
            f"argument {name} is of another type", expected=" or ".join(names), got=safe_repr(value)
        )


def _schema(interface: object) -> dict[str, Any]:
    """The input schema of the tool `run`, or of the only tool."""
    if not isinstance(interface, dict):
        return {}
    tools: Any = cast("dict[str, Any]", interface).get("tools")
    known = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []  # pyright: ignore[reportUnknownVariableType] - JSON
    named = [tool for tool in cast("list[dict[str, Any]]", known) if tool.get("name") == "run"]
    chosen = named or (cast("list[dict[str, Any]]", known) if len(known) == 1 else [])  # pyright: ignore[reportUnknownArgumentType] - JSON
    schema = chosen[0].get("inputSchema") if chosen else None
    return cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}


def _names_in(value: object) -> list[str]:
    if not isinstance(value, list):
        return []
    return [item for item in cast("list[object]", value) if isinstance(item, str)]
