"""Reasoning of models as parts of a message: kept with its signature, sent back unmodified or not at all.

A provider signs or encrypts what its model thought, and wants exactly that back while tools are called. So
the text and its seal stand in `data` of a part, never in `text`: summaries, quotes, sub-agents, membranes and
AG-UI read the text of a message, and none of this is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from artelier.ports.model import ModelReply, Part

REASONING = "reasoning"
"""`data`: `{text, provider, signature?, id?, details?, changed?}`. `changed`: scrubbing changed the text."""

TOOL_REF = "tool_ref"
"""The place of a tool call among the parts. `data`: `{call, provider?, id?, details?}`; `call` is from 0."""

_SEALS = ("signature", "id", "details")
"""What a provider made, and nobody may change."""


def reasoning_part(
    text: str, *, provider: str, signature: str | None, id_: str | None, details: Mapping[str, Any] | None
) -> Part:
    """Return what a model thought as a part."""
    seals = _given(signature=signature, id=id_, details=dict(details) if details else None)
    return Part(type=REASONING, data={"text": text, "provider": provider, **seals})


def tool_ref_part(call: int, *, provider: str, id_: str | None, details: Mapping[str, Any] | None) -> Part:
    """Return the place of a tool call; what its provider signed it with stands beside it."""
    seals = _given(id=id_, details=dict(details) if details else None)
    return Part(type=TOOL_REF, data={"call": call, **({"provider": provider, **seals} if seals else {})})


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def data_of(part: Part) -> dict[str, Any]:
    """Return the data of a part; empty for what is no object."""
    data: object = part.data
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}


def reasoning_text(parts: str | Iterable[Part]) -> str:
    """Return what was thought, as far as the provider shows it."""
    if isinstance(parts, str):
        return ""
    texts = [data_of(part).get("text") for part in parts if part.type == REASONING]
    return "\n\n".join(text for text in texts if isinstance(text, str) and text)


def without_seals(reply: ModelReply) -> ModelReply:
    """Return a reply without the seals of its parts, to be searched for personal data."""
    parts = tuple(
        part
        if part.type not in (REASONING, TOOL_REF)
        else Part(type=part.type, data={k: v for k, v in data_of(part).items() if k not in _SEALS})
        for part in reply.parts
    )
    return msgspec.structs.replace(reply, parts=parts)


def with_seals(clean: ModelReply, sealed: ModelReply) -> ModelReply:
    """Return a searched reply with the seals it had, or with none if the search changed what was thought.

    A seal holds for the text it was made for. What was changed is not sent back, and neither are the ids of
    calls that a provider would look for it by.
    """
    pairs = list(zip(clean.parts, sealed.parts, strict=True))
    is_changed = any(
        now.type == REASONING and data_of(now).get("text") != data_of(before).get("text")
        for now, before in pairs
    )
    if is_changed:
        parts = [
            Part(type=now.type, data={**data_of(now), "changed": True}) if now.type == REASONING else now
            for now, _ in pairs
        ]
    else:
        parts = [before if now.type in (REASONING, TOOL_REF) else now for now, before in pairs]
    return msgspec.structs.replace(clean, parts=tuple(parts))


def is_of(part: Part, provider: str) -> bool:
    """Return True for what a provider takes back: it is its own, and as it was."""
    data = data_of(part)
    return data.get("provider") == provider and not data.get("changed")
