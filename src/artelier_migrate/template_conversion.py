"""Templates of old prompts as prompt artifacts: no value is made up, no text is lost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

from artelier.errors import ArtelierError, InvalidArtifact
from artelier.world.mind_artifacts.prompt import BUILT_IN, read_prompt
from artelier.world.mind_artifacts.template import read_template
from artelier_migrate.format.vocabulary import VARIABLES

_NAMED = re.compile(r"(?<!\{)\{([A-Za-z_][A-Za-z0-9_]*)(?=[}!:.\[])")
_INDEXED = re.compile(r"(?<!\{)(\{[A-Za-z_][A-Za-z0-9_]*)\[([A-Za-z_][A-Za-z0-9_]*)\](?=[}!:])")

_NUMBERS = ("balance", "failure_count", "ticks_in_state", "tick")
_TEXTS = "|".join(name for name in BUILT_IN if name not in _NUMBERS)
_PART = re.compile(rf"(?<!\{{)(\{{(?:{'|'.join(BUILT_IN)}))(?:\.[A-Za-z_][A-Za-z0-9_]*)+(?=[}}!:])")
_FORMATTED = re.compile(rf"(?<!\{{)(\{{(?:{_TEXTS}))(?:![rs])?:[^{{}}]*\}}")


def step_prompt(text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the content of a prompt artifact, and its placeholders that are no built-in variables.

    These are optional: whoever has a value gives it, and without one the placeholder stays as it is written.
    Errors: `InvalidArtifact` for a template that cannot be stored or rendered.
    """
    text = _modern(text)
    names = _names(text)
    others = tuple(name for name in names if name not in BUILT_IN)
    variables: list[Any] = [name for name in names if name in BUILT_IN]
    variables += [{"name": name, "optional": True} for name in others]
    content = {"template": text, "variables": variables}
    _check_renders(content)
    return content, others


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
    """Return what was asked where a transition step had no prompt of its own."""
    return _wording("continue_pivot_ship")


@lru_cache(maxsize=8)
def _wording(name: str) -> str:
    path = files("artelier_migrate") / "templates" / f"{name}-1.md"
    return path.read_text("utf-8").strip()


def _modern(text: str) -> str:
    """The same text with today's names of the variables, and `{a[b]}` as `{a.b}`.

    What is built in is shown whole: it has no parts that a template could count on.
    """
    text = _INDEXED.sub(r"\1.\2", text)
    text = _NAMED.sub(lambda match: "{" + VARIABLES.get(match[1], match[1]), text)
    text = _PART.sub(r"\1", text)
    return _FORMATTED.sub(r"\1}", text)


def _names(text: str) -> tuple[str, ...]:
    return read_template(text).names


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
