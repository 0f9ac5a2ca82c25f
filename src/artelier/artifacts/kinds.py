"""The kinds of artifacts: the media each takes, the check of its content, its default access."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

from artelier.artifacts.content import Media, media_of
from artelier.artifacts.invoke.program import check_entry, code_of
from artelier.artifacts.ref import safe_repr
from artelier.errors import Conflict, InvalidArtifact, InvalidConfig

# --------------------------------------------------------------------------- content checks
# The checks of content, one per shipped kind: shape only, nothing that would need to run it.
#
# A check receives content of the right media type and raises `InvalidArtifact` with a sentence that a model
# can act on. Deeper rules (undeclared variables, conditions) belong to the packages that use a kind.

Check = Callable[[Any], None]

_REFERENCES = (
    "personality_prompt_artifact_id",
    "workflow_artifact_id",
    "reflex_artifact_id",
    "working_memory_artifact_id",
    "longterm_memory_artifact_id",
    "steering_artifact_id",
)


def check_anything(content: Any) -> None:
    """No demand beyond the media type."""


def check_text_or_object(content: Any) -> None:
    if not isinstance(content, str | dict):
        _refuse("content", "text or a JSON object", cast(object, content))


def check_json_object(content: Any) -> None:
    _object(content, "content")


def check_prompt(content: Any) -> None:
    """Text, or `{template, variables?: [name | {name, ...}]}`."""
    if isinstance(content, str):
        return
    content = _object(content, "content")
    if not isinstance(content.get("template"), str):
        _refuse("template", "text", content.get("template"))
    for variable in _list(content.get("variables", []), "variables"):
        name: Any = variable
        if isinstance(variable, dict):
            name = cast("dict[str, Any]", variable).get("name")
        if not isinstance(name, str):
            _refuse("variables", "names, or objects with a name", name)


def check_library(content: Any) -> None:
    """`{prompts: {name: prompt}}`."""
    prompts = _object(_object(content, "content").get("prompts"), "prompts")
    for value in prompts.values():
        check_prompt(value)


def check_code_content(content: Any) -> None:
    """Code as text, or `{code, ...}`."""
    if not isinstance(content, str) and not isinstance(_object(content, "content").get("code"), str):
        _refuse("content", "code as text or under `code`", cast(object, content))


def check_memory_store(content: Any) -> None:
    """`{config?: {max_entries?, auto_prune?, ...}}`; the entries are kept elsewhere, one by one."""
    config = _object(_object(content, "content").get("config", {}), "config")
    entries = config.get("max_entries", 1)
    if not isinstance(entries, int) or isinstance(entries, bool) or entries < 1:
        _refuse("config.max_entries", "a number from 1", entries)
    _one_of(config.get("auto_prune", "oldest"), ("oldest", "lowest_score"), "config.auto_prune")


def check_agent(content: Any) -> None:
    """References, each an id or null, and `subscribed_artifacts`, a list of ids. All may dangle."""
    content = _object(content, "content")
    for name in _REFERENCES:
        if not isinstance(content.get(name), str | None):
            _refuse(name, "an artifact id or null", content.get(name))
    _texts(content.get("subscribed_artifacts", []), "subscribed_artifacts")


def check_workflow(content: Any) -> None:
    """`{states, initial_state, steps: [{state, transition_mode?, transition_to?, ...}]}`."""
    content = _object(content, "content")
    states = _texts(content.get("states"), "states")
    if not states or len(set(states)) != len(states):
        _refuse("states", "at least one name, each once", states)
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


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        _refuse(what, "a JSON object", cast(object, value))
    return cast("dict[str, Any]", value)


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list | tuple):
        _refuse(what, "a list", cast(object, value))
    return cast("list[Any]", value)


def _texts(value: Any, what: str) -> list[str]:
    values = _list(value, what)
    if not all(isinstance(item, str) for item in values):
        _refuse(what, "a list of names", values)
    return values


def _one_of(value: Any, known: Iterable[str], what: str) -> None:
    if not isinstance(value, str) or value not in known:
        _refuse(what, f"one of {', '.join(known)}", cast(object, value))


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
    """Raises `InvalidArtifact` for content that does not fit."""
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
