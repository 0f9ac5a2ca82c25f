"""The places of a prompt around a conversation, and texts between them, in the order of a preset. As data.

The meaning is that of the prompt manager of SillyTavern, whose presets bring them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from artelier.operations.lore.entry_rules import is_triggered
from artelier.operations.lore.schemas import Role

PROMPTS_MAX = 20_000
"""Of one chat (a guess: a hundred times the largest public preset). Their bytes are bounded as settings."""
DEPTH_MAX = 10_000

PromptPlace: TypeAlias = Literal[
    "main",
    "lore_before",
    "persona",
    "description",
    "personality",
    "scenario",
    "example_dialogue",
    "lore_after",
    "history",
    "after",
    "text",
]


class PlacedPrompt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One part of a prompt: what the chat has for a place, or a text of its own."""

    place: PromptPlace = "text"
    """`main` is the system prompt, `history` the conversation, `after` what stands behind it."""
    id: str = ""
    """The name of a text in the preset."""
    text: str = ""
    """Of a `text`. Of `after`: what the character's own replaces, and has as `{{original}}`."""
    role: Role = "system"
    """Of the message. Parts of the role `system` that follow each other are one message."""
    depth: int | None = None
    """Of a `text`: the messages that stand after it. None: it stands in this order."""
    triggers: tuple[str, ...] = ()
    """Of a `text`: `normal`, `swipe`, `continue`, ...: it stands in prompts of these alone; none: in all."""
    is_fixed: bool = False
    """Of `main` and `after`: the character's own does not replace it."""


USUAL: tuple[PlacedPrompt, ...] = tuple(
    PlacedPrompt(place=place)
    for place in (
        "main",
        "lore_before",
        "description",
        "personality",
        "scenario",
        "example_dialogue",
        "lore_after",
        "persona",
        "history",
        "after",
    )
)
"""The order of a chat without a preset."""


def all_parts(prompts: Sequence[PlacedPrompt], *, has_system: bool) -> list[PlacedPrompt]:
    """Return the parts of a prompt: a system prompt for which a preset has no place stands first."""
    parts = list(prompts or USUAL)
    is_missing = has_system and all(one.place != "main" for one in parts)
    return [USUAL[0], *parts] if is_missing else parts


def placed_around(
    prompts: Sequence[PlacedPrompt], *, has_system: bool, trigger: str
) -> tuple[list[PlacedPrompt], list[PlacedPrompt], list[PlacedPrompt]]:
    """Return the parts before the conversation, those after it, and those among its messages."""
    parts = all_parts(prompts, has_system=has_system)
    parts = [one for one in parts if is_triggered(trigger, one.triggers)]
    inside = [one for one in parts if one.depth is not None]
    ordered = [one for one in parts if one.depth is None]
    at = next((number for number, one in enumerate(ordered) if one.place == "history"), len(ordered))
    return ordered[:at], ordered[at + 1 :], inside
