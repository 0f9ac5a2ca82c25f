"""Working memory: what an agent keeps before its eyes, as text for the prompt and facts for conditions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from artelier.errors import InvalidRequest
from artelier.world.mind_artifacts.template import as_text
from artelier.world.mind_artifacts.truncation import Clipped, clip

TEXT_BYTES_MAX = 2_000
ITEMS_MAX = 50
"""Lines of one list that are looked at; far more than fit."""

FACTS_MAX = 200

_PARTS = (("goal", "Goal"), ("progress", "Progress"), ("objectives", "Objectives"))
_LESSONS = ("lessons", "Lessons")


def memory_text(content: object, *, limit_bytes: int = TEXT_BYTES_MAX) -> Clipped:
    """Goal, progress, objectives and lessons as text within `limit_bytes` of UTF-8, the mark included.

    Shapes: `content` is text, or `{goal, progress, objectives, lessons, facts}`, each of them optional, each
    text, JSON or a list. The newest lessons stand first, since a cut takes the end. Never raises for content
    of any JSON shape; what is nothing gives empty text.
    """
    if isinstance(content, str):
        return clip(content.strip(), limit_bytes=limit_bytes)
    if not isinstance(content, Mapping):
        return Clipped("", False)
    given = cast("Mapping[str, object]", content)
    blocks = [_block(title, given.get(name)) for name, title in _PARTS]
    lessons = given.get(_LESSONS[0])
    if isinstance(lessons, list | tuple):
        lessons = cast("list[object]", lessons)[::-1]
    blocks.append(_block(_LESSONS[1], lessons))
    return clip("\n".join(block for block in blocks if block), limit_bytes=limit_bytes)


def memory_facts(content: object) -> dict[str, Any]:
    """The facts that an agent keeps of itself, for conditions; empty where there are none."""
    if not isinstance(content, Mapping):
        return {}
    facts = cast("Mapping[str, object]", content).get("facts")
    if not isinstance(facts, Mapping):
        return {}
    given = cast("Mapping[str, Any]", facts)
    return dict(list(given.items())[:FACTS_MAX])


def _block(title: str, value: object) -> str:
    if value is None or value == "" or value == [] or value == {}:
        return ""
    if isinstance(value, list | tuple):
        items = cast("list[object]", value)[:ITEMS_MAX]
        return "\n".join((f"{title}:", *(f"- {line}" for line in _lines(items))))
    return f"{title}: {_line(value)}"


def _lines(items: Iterable[object]) -> Iterable[str]:
    return (line for item in items if (line := _line(item)))


def _line(value: object) -> str:
    try:
        text = as_text(value)
    except InvalidRequest:
        return ""
    return " ".join(text[: 2 * TEXT_BYTES_MAX].split())
