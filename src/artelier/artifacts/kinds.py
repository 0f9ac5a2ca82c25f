"""The kinds of artifacts: the media each takes, the checks of its content and code, its default access."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple, cast

from artelier.artifacts.content import Media, media_of
from artelier.artifacts.ref import safe_repr
from artelier.errors import Conflict, InvalidArguments, InvalidArtifact, InvalidConfig
from artelier.sandbox import check_code, costly
from artelier.sandbox.dialect_check import parse

# --------------------------------------------------------------------------- program
# Executable artifacts as programs: what their code must look like, checked when it is stored.
#
# The check explains by line what the sandbox's language lacks. It is advice, not the wall: the interpreter
# refuses the same by itself.

CONTRACT = "contract"

HELPERS = ("read", "write", "invoke", "pay", "balance", "search_memory")
"""Functions in scope of `run`."""

RESERVED_ARGUMENT = "price_max"
"""What a caller of `invoke` says about itself, so no program can have an argument of this name."""

PROBLEMS_SHOWN = 5
NAMED_MAX = 20
"""Of what could have been given, in an error."""

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


# --------------------------------------------------------------------------- kinds
# The kinds of artifacts: the media each takes, the check of its content, its default access.

# --------------------------------------------------------------------------- content checks
# The checks of content, one per shipped kind: shape only, nothing that would need to run it.
#
# A check receives content of the right media type and raises `InvalidArtifact` with a sentence that a model
# can act on. Deeper rules (undeclared variables, conditions) belong to the packages that use a kind.

Check = Callable[[object], None]

_REFERENCES = (
    "personality_prompt_artifact_id",
    "workflow_artifact_id",
    "reflex_artifact_id",
    "working_memory_artifact_id",
    "longterm_memory_artifact_id",
    "steering_artifact_id",
)


def check_anything(content: object) -> None:
    """No demand beyond the media type."""


def check_text_or_object(content: object) -> None:
    if not isinstance(content, str | dict):
        _refuse("content", "text or a JSON object", content)


def check_json_object(content: object) -> None:
    _object(content, "content")


def check_prompt(content: object) -> None:
    """Text, or `{template, variables?: [name | {name, ...}]}`."""
    if isinstance(content, str):
        return
    content = _object(content, "content")
    if not isinstance(content.get("template"), str):
        _refuse("template", "text", content.get("template"))
    for variable in _list(content.get("variables", []), "variables"):
        name: object = variable
        if isinstance(variable, dict):
            name = cast("dict[str, Any]", variable).get("name")
        if not isinstance(name, str):
            _refuse("variables", "names, or objects with a name", name)


def check_library(content: object) -> None:
    """`{prompts: {name: prompt}}`."""
    prompts = _object(_object(content, "content").get("prompts"), "prompts")
    for value in prompts.values():
        check_prompt(value)


def check_code_content(content: object) -> None:
    """Code as text, or `{code, ...}`."""
    if not isinstance(content, str) and not isinstance(_object(content, "content").get("code"), str):
        _refuse("content", "code as text or under `code`", content)


def check_memory_store(content: object) -> None:
    """`{config?: {max_entries?, auto_prune?, ...}}`; the entries are kept elsewhere, one by one."""
    config = _object(_object(content, "content").get("config", {}), "config")
    entries = config.get("max_entries", 1)
    if not isinstance(entries, int) or isinstance(entries, bool) or entries < 1:
        _refuse("config.max_entries", "a number from 1", entries)
    _one_of(config.get("auto_prune", "oldest"), ("oldest", "lowest_score"), "config.auto_prune")


def check_agent(content: object) -> None:
    """References, each an id or null, and `subscribed_artifacts`, a list of ids. All may dangle."""
    content = _object(content, "content")
    for name in _REFERENCES:
        if not isinstance(content.get(name), str | None):
            _refuse(name, "an artifact id or null", content.get(name))
    _texts(content.get("subscribed_artifacts", []), "subscribed_artifacts")


def check_workflow(content: object) -> None:
    """`{states, initial_state, steps: [{state, transition_mode?, transition_to?, ...}]}`."""
    content = _object(content, "content")
    names = _texts(content.get("states"), "states")
    states = dict.fromkeys(names)  # looked up for each step, and named in order
    if not states or len(states) != len(names):
        _refuse("states", "at least one name, each once", names)
    _one_of(content.get("initial_state"), states, "initial_state")
    for step in _list(content.get("steps", []), "steps"):
        step = _object(step, "a step")
        _one_of(step.get("state"), states, "state of a step")
        mode = step.get("transition_mode", "auto")
        _one_of(mode, ("llm", "condition", "auto"), "transition_mode")
        if step.get("transition_to") is not None:
            _one_of(step["transition_to"], states, "transition_to")
        for branch in _list(step.get("transition_conditions") or [], "transition_conditions"):
            branch = _object(branch, "a transition condition")
            _one_of(branch.get("to"), states, "to of a transition condition")
            if not isinstance(branch.get("condition"), str):
                _refuse("condition", "an expression as text", branch.get("condition"))


def _refuse(what: str, expected: str, got: object) -> None:
    raise InvalidArtifact(f"invalid {what}", expected=expected, got=safe_repr(got))


def _object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        _refuse(what, "a JSON object", value)
    return cast("dict[str, Any]", value)


def _list(value: object, what: str) -> list[object]:
    if not isinstance(value, list | tuple):
        _refuse(what, "a list", value)
    return cast("list[object]", value)


def _texts(value: object, what: str) -> list[str]:
    values = _list(value, what)
    if not all(isinstance(item, str) for item in values):
        _refuse(what, "a list of names", values)
    return cast("list[str]", values)


def _one_of(value: object, known: Collection[str], what: str) -> None:
    if not isinstance(value, str) or value not in known:
        more = f" and {len(known) - NAMED_MAX} others" if len(known) > NAMED_MAX else ""
        _refuse(what, f"one of {', '.join(islice(known, NAMED_MAX))}{more}", value)


# --------------------------------------------------------------------------- kinds
# The kinds of artifacts: the media each takes, its schema check, its default access.

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")

ANY: frozenset[Media] = frozenset(("text", "json", "bytes"))
TEXT_OR_JSON: frozenset[Media] = frozenset(("text", "json"))
JSON: frozenset[Media] = frozenset(("json",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of artifact."""

    name: str
    media: frozenset[Media] = ANY
    check: Check = check_anything
    """Raises `InvalidArtifact` for content that does not fit. Large content is checked in a thread."""
    default_access: str = "owner_writes"
    parts: str | None = None
    """The key of the JSON content that holds the named parts which `id#part` reads."""
    entry: str | None = None
    """The function that its code defines; `run` makes it one that can be invoked."""
    positional: tuple[str, ...] | None = None
    """What the entry is called with; None: arguments by name."""
    code_needed: bool = True
    """Whether an entry must be there; else content without code is only described."""
    lasting: str = ""
    """What to do instead of deleting one, where none can be deleted; empty for those that can."""


_kinds: dict[str, Kind] = {}


def register_kind(kind: Kind, *, replace: bool = False) -> Kind:
    """Add a kind, or replace one by a stricter form of it.

    Errors: `InvalidConfig` for a bad name, or one that is taken and not to be replaced.
    """
    if not _NAME.fullmatch(kind.name):
        raise InvalidConfig(
            "invalid name of a kind", expected="a-z 0-9 _, beginning with a letter", got=kind.name
        )
    if kind.name in _kinds and not replace:
        raise InvalidConfig("this kind is registered already", got=kind.name)
    _kinds[kind.name] = kind
    return kind


def known_kinds() -> tuple[str, ...]:
    return tuple(sorted(_kinds))


def kind_named(name: object) -> Kind:
    """Errors: `InvalidArtifact` naming the known kinds."""
    kind = _kinds.get(name) if isinstance(name, str) else None
    if kind is None:
        raise InvalidArtifact(
            "unknown kind of artifact", expected=", ".join(known_kinds()), got=safe_repr(name)
        )
    return kind


def check_content(kind: Kind, content: object) -> None:
    """Errors: `InvalidArtifact` if the content is of another media type or fails the kind's check."""
    media = media_of(content)
    if media not in kind.media:
        raise InvalidArtifact(
            f"a {kind.name} takes other content", expected=" or ".join(sorted(kind.media)), got=media
        )
    kind.check(content)
    if kind.entry is not None and (kind.code_needed or is_executable(kind, content)):
        check_entry(content, entry=kind.entry, positional=kind.positional)


def check_deletable(id: str, name: str) -> None:
    """Errors: `Conflict` for an artifact of a kind that others stand on."""
    kind = _kinds.get(name)
    if kind is not None and kind.lasting:
        raise Conflict(f"artifact {id} cannot be deleted: it is {name}", hint=kind.lasting)


def runnable_code(name: str, content: object) -> str | None:
    """Code that can be invoked; None for everything else, and for kinds that nobody registered."""
    kind = _kinds.get(name)
    if kind is None or kind.entry != "run" or not is_executable(kind, content):
        return None
    return code_of(content)


def is_executable(kind: Kind, content: object) -> bool:
    """Return True if this content has code that the kind's entry is looked for in."""
    is_described = kind.entry is None or (not kind.code_needed and isinstance(content, str))
    return not is_described and code_of(content) is not None


# What can be read for free cannot be sold: what an agent thinks with is private unless it says otherwise.
for _name, _media, _check in (
    ("prompt", TEXT_OR_JSON, check_prompt),
    ("personality", TEXT_OR_JSON, check_prompt),
    ("workflow", JSON, check_workflow),
    ("memory_store", JSON, check_memory_store),
    ("steering", JSON, check_json_object),
):
    register_kind(Kind(name=_name, media=_media, check=_check, default_access="private"))

for _name, _media, _check in (
    ("agent", JSON, check_agent),
    ("dataset", ANY, check_anything),
    ("document", ANY, check_anything),
    ("membrane", JSON, check_json_object),
    ("profile", JSON, check_json_object),
    ("report", ANY, check_anything),
    ("skill", TEXT_OR_JSON, check_text_or_object),
    ("task", JSON, check_json_object),
):
    register_kind(Kind(name=_name, media=_media, check=_check))

register_kind(Kind(name="library", media=JSON, check=check_library, parts="prompts"))

register_kind(
    Kind(
        name="contract",
        media=TEXT_OR_JSON,
        check=check_code_content,
        entry="check",
        positional=("caller", "action", "target", "context"),
    )
)
register_kind(
    Kind(
        name="reflex",
        media=TEXT_OR_JSON,
        check=check_code_content,
        default_access="private",
        entry="reflex",
        positional=("context",),
    )
)
# A tool as text is a description of one; with `code` it can be invoked.
register_kind(
    Kind(name="tool", media=TEXT_OR_JSON, check=check_text_or_object, entry="run", code_needed=False)
)
