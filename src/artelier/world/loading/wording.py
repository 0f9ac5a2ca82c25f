"""Templates of old prompts as prompt artifacts: every placeholder has a value, no text is lost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any, cast

from artelier.agents.minds.prompt import BUILT_IN, read_prompt
from artelier.agents.minds.template import Placeholder, read_template
from artelier.errors import ArtelierError, InvalidArtifact

RENAMED: Mapping[str, str] = {
    "_current_state": "current_state",
    "state": "current_state",
    "credits": "balance",
    "scrip": "balance",
    "memories": "recent_memories",
    "relevant_memories": "recent_memories",
    "rag_memories": "recent_memories",
    "last_result": "last_action_result",
    "consecutive_failures": "failure_count",
    "current_tick": "tick",
}
"""Old names of what is built in now."""

UNKNOWN = "unknown"
"""What a placeholder shows that nothing has a value for."""

_NAMED = re.compile(r"(?<!\{)\{([A-Za-z_][A-Za-z0-9_]*)(?=[}!:.\[])")
_INDEXED = re.compile(r"(?<!\{)(\{[A-Za-z_][A-Za-z0-9_]*)\[([A-Za-z_][A-Za-z0-9_]*)\](?=[}!:])")

_NUMBERS = ("balance", "failure_count", "ticks_in_state", "tick")
_TEXTS = "|".join(name for name in BUILT_IN if name not in _NUMBERS)
_PART = re.compile(rf"(?<!\{{)(\{{(?:{'|'.join(BUILT_IN)}))(?:\.[A-Za-z_][A-Za-z0-9_]*)+(?=[}}!:])")
_FORMATTED = re.compile(rf"(?<!\{{)(\{{(?:{_TEXTS}))(?:![rs])?:[^{{}}]*\}}")


def step_prompt(text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Content of a prompt artifact, and the placeholders that nothing supplies here.

    These keep a default, so that the template works and whoever has a value can give it.
    Errors: `InvalidArtifact` for a template that cannot be stored or rendered.
    """
    text = _modern(text)
    holes = [piece for piece in read_template(text).pieces if isinstance(piece, Placeholder)]
    unknown = tuple(dict.fromkeys(hole.name for hole in holes if hole.name not in BUILT_IN))
    variables: list[Any] = [name for name in _names(text) if name in BUILT_IN]
    for name in unknown:
        variables.append(
            {"name": name, "default": _default([hole for hole in holes if hole.name == name])}
        )
    content = {"template": text, "variables": variables}
    _check_renders(content)
    return content, unknown


def personality(text: str) -> dict[str, Any]:
    """Content of a personality: only what is built in is a placeholder, all other braces are text.

    Errors: `InvalidArtifact`.
    """
    text = _modern(text)
    for name in _names(text):
        if name not in BUILT_IN:
            text = re.sub(rf"(?<!\{{)\{{{name}([!:.][^{{}}]*)?\}}", r"{\g<0>}", text)
    content = {"template": text, "variables": list(_names(text))}
    _check_renders(content)
    return content


def literal(text: str) -> str:
    """Text that a template shows as it is."""
    return text.replace("{", "{{").replace("}", "}}")


def with_decisions(text: str, targets: Mapping[str, str]) -> str:
    """A prompt that asked for one of some words, made to ask for the state that the word stands for."""
    lines = "\n".join(f"- {literal(word)}: {literal(state)}" for word, state in targets.items())
    return f"{text.rstrip()}\n\n{_wording('decisions').replace('<DECISIONS>', lines)}"


def default_decision() -> str:
    """What was asked where a transition step had no prompt of its own."""
    return _wording("continue_pivot_ship")


@lru_cache(maxsize=8)
def _wording(name: str) -> str:
    path = files("artelier.world.loading") / "templates" / f"{name}-1.md"
    return path.read_text("utf-8").strip()


def _modern(text: str) -> str:
    """The same text with today's names of the variables, and `{a[b]}` as `{a.b}`.

    What is built in is shown whole: it has no parts that a template could count on.
    """
    text = _INDEXED.sub(r"\1.\2", text)
    text = _NAMED.sub(lambda match: "{" + RENAMED.get(match[1], match[1]), text)
    text = _PART.sub(r"\1", text)
    return _FORMATTED.sub(r"\1}", text)


def _names(text: str) -> tuple[str, ...]:
    return read_template(text).names


def _default(holes: list[Placeholder]) -> Any:
    """A value that every placeholder of one name can show."""
    if any(hole.keys for hole in holes):
        tree: dict[str, Any] = {}
        for hole in holes:
            at = tree
            for key in hole.keys[:-1]:
                inner: Any = at.get(key)
                at[key] = inner = cast("dict[str, Any]", inner) if isinstance(inner, dict) else {}
                at = inner
            if hole.keys:
                at.setdefault(hole.keys[-1], _value(hole))
        return tree
    return next((0 for hole in holes if _value(hole) == 0), UNKNOWN)


def _value(hole: Placeholder) -> Any:
    try:
        format(UNKNOWN, hole.spec)
    except ValueError:
        return 0
    return UNKNOWN


def _check_renders(content: dict[str, Any]) -> None:
    """Errors: `InvalidArtifact` if the prompt would fail when it is needed."""
    values: dict[str, Any] = dict.fromkeys(BUILT_IN, "")
    values.update(dict.fromkeys(_NUMBERS, 0))
    try:
        read_prompt(content).render(values)
    except InvalidArtifact:
        raise
    except ArtelierError as error:
        raise InvalidArtifact(f"the prompt cannot be rendered: {error.message}") from None
