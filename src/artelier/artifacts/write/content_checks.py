"""The checks of content, one per shipped kind: shape only, nothing that would need to run it.

A check receives content of the right media type and raises `InvalidArtifact` with a sentence that a model
can act on. Deeper rules (undeclared variables, conditions) belong to the packages that use a kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from artelier.artifacts.ref import safe_repr
from artelier.errors import InvalidArtifact

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


def check_code(content: Any) -> None:
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
