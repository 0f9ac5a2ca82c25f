"""The parts of a prompt beside its own text: subscribed artifacts and the working memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from artelier.artifacts.ref import safe_repr
from artelier.context import Section, Source, fence
from artelier.errors import InvalidConfig, InvalidRequest
from artelier.ids import check_artifact_id
from artelier.world.mind_artifacts.prompt import Reading, Skip
from artelier.world.mind_artifacts.template import Clipped, as_text, clip

MIN_SIZE_BYTES = 100
"""Below it a mark would say more than the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionLimits:
    """Settings of a world."""

    max_count: int = 5
    max_size_bytes: int = 2_000
    """Of one artifact's text in UTF-8, the mark of a cut included, heading and fence not."""

    def __post_init__(self) -> None:
        if self.max_count < 0 or self.max_size_bytes < MIN_SIZE_BYTES:
            raise InvalidConfig(
                "limits of subscriptions out of bounds",
                expected=f"max_count from 0, max_size_bytes from {MIN_SIZE_BYTES}",
                got=f"{self.max_count}, {self.max_size_bytes}",
            )


DEFAULT_LIMITS = SubscriptionLimits()


class Subscribed(NamedTuple):
    """The list after a change; `refused` says why it did not change."""

    ids: tuple[str, ...]
    refused: str = ""


def subscribe(
    ids: Sequence[object], artifact_id: str, *, limits: SubscriptionLimits = DEFAULT_LIMITS
) -> Subscribed:
    """Add an artifact, which may dangle. The one beyond `max_count` is refused; twice is once.

    Whether somebody may read an artifact that exists is to be asked before.
    """
    kept = known_ids(ids)
    try:
        check_artifact_id(artifact_id)
    except InvalidRequest as error:
        return Subscribed(kept, error.message)
    if artifact_id in kept:
        return Subscribed(kept, f"{artifact_id} is subscribed to already")
    if len(kept) >= limits.max_count:
        return Subscribed(
            kept, f"at most {limits.max_count} artifacts can be subscribed to; unsubscribe one first"
        )
    return Subscribed((*kept, artifact_id))


def unsubscribe(ids: Sequence[object], artifact_id: str) -> Subscribed:
    """Take an artifact off the list, also one that is gone."""
    kept = known_ids(ids)
    if artifact_id not in kept:
        return Subscribed(kept, f"{safe_repr(artifact_id)} is not subscribed to")
    return Subscribed(tuple(id_ for id_ in kept if id_ != artifact_id))


def known_ids(ids: Sequence[object]) -> tuple[str, ...]:
    """The ids of a stored list, each once, in order: such a list may have been written by hand."""
    return tuple(dict.fromkeys(id_ for id_ in ids if isinstance(id_, str)))


def wanted_ids(ids: Sequence[object], *, limits: SubscriptionLimits = DEFAULT_LIMITS) -> tuple[str, ...]:
    """Return which artifacts to read for a prompt: those that `subscribed_sections` will show or skip."""
    return known_ids(ids)[: limits.max_count]


def subscribed_sections(
    ids: Sequence[object],
    readings: Mapping[str, Reading | Skip],
    *,
    limits: SubscriptionLimits = DEFAULT_LIMITS,
) -> list[Section]:
    """A section for each subscribed artifact, in the order of the list; skipped ones say why.

    Shapes: `readings` by id, for the `wanted_ids`; an id without a reading counts as missing. Duplicates
    and those beyond `max_count`, which only a hand-written list has, are skipped too.
    """
    sections: list[Section] = []
    seen: set[str] = set()
    for id_ in ids:
        if not isinstance(id_, str):
            sections.append(_skipped_section(safe_repr(id_), "invalid"))
        elif id_ in seen:
            sections.append(_skipped_section(id_, "duplicate"))
        elif len(seen) >= limits.max_count:
            sections.append(_skipped_section(id_, "over_limit"))
        else:
            seen.add(id_)
            sections.append(_section(id_, readings.get(id_, "missing"), limits.max_size_bytes))
    return sections


def _section(id_: str, reading: Reading | Skip, limit_bytes: int) -> Section:
    if not isinstance(reading, Reading):
        return _skipped_section(id_, reading)
    if isinstance(reading.content, bytes):
        return _skipped_section(id_, "not_text")
    try:
        text = as_text(reading.content)
    except InvalidRequest:
        return _skipped_section(id_, "not_text")
    shown_text = _clip_text(text, reading, limit_bytes)
    return Section(
        tag=_tag(id_),
        text=f"## Subscribed: {id_}\n{shown_text}",
        stability="slow",
        truncation="drop",
        sources=(Source(ref=reading.ref, why="subscribed", grant=reading.grant),),
        trust=reading.trust,
        is_fenced=True,
    )


def _clip_text(text: str, reading: Reading, limit_bytes: int) -> str:
    if reading.trust == "trusted":
        return clip(text, limit_bytes=limit_bytes).text
    # Marks in the text are made harmless before it is measured, because that makes it longer.
    inside = fence(text, source="").partition("\n")[2].rpartition("\n")[0]
    inside = clip(inside, limit_bytes=limit_bytes).text
    return fence(inside, source=reading.ref, trust=reading.trust)


def _skipped_section(id_: str, why: str) -> Section:
    return Section(tag=_tag(id_), dropped=why, sources=(Source(ref=id_[:200], why="subscribed"),))


def _tag(id_: str) -> str:
    return f"subscribed:{id_[:200]}"


# --------------------------------------------------------------------------- working memory
# Working memory: what an agent keeps before its eyes, as text for the prompt and facts for conditions.


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
