"""The introduction of a chat's system prompt: the participants, from its settings and its profile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from artelier.context import Section
from artelier.context.assembly import Source
from artelier.operations.lore.macros import substitute_names
from artelier.operations.profile.operation_profile import OperationProfile

FIELDS = (
    ("description", ""),
    ("personality", "Personality: "),
    ("scenario", "Scenario: "),
    ("example_dialogue", "How {{char}} talks:\n"),
)
"""Of a character, in the order in which they stand in the prompt."""


def people_of(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """`user` and `char` of a chat, each with a name. Their texts have their own names in them."""
    user: dict[str, Any] = {"name": "User", **(settings.get("user") or {})}
    char: dict[str, Any] = {"name": "Assistant", **(settings.get("char") or {})}
    names = {"user": str(user["name"]), "char": str(char["name"])}

    def substitute_person(person: dict[str, Any]) -> dict[str, Any]:
        return {
            key: substitute_names(value, **names) if isinstance(value, str) and key != "name" else value
            for key, value in person.items()
        }

    return {"user": substitute_person(user), "char": substitute_person(char)}


def introduction(
    settings: Mapping[str, Any],
    people: Mapping[str, Mapping[str, Any]],
    profile: OperationProfile | None,
    names: Mapping[str, Any],
    *,
    ref: str,
) -> list[Section]:
    """The base of the system prompt: what the chat or its profile says, the character, the persona.

    `names` are those that a prompt may show; `ref` is the profile with its version.
    Errors: those of templates, for the profile's.
    """
    user, char = people["user"], people["char"]
    who = {"user": str(user["name"]), "char": str(char["name"])}
    own = settings.get("system") or char.get("system_prompt") or ""
    if own:
        text, source = substitute_names(str(own), **who), "chat"
    elif profile is not None and profile.system:
        from artelier.operations.templates.template import Template

        text, source = Template.parse(profile.system).render(names), f"profile:{ref}"
    else:
        text, source = f"You are {who['char']}, in a conversation with {who['user']}.", "chat"
    sections = [_section("system", text, source, pinned=True)]
    told = "\n\n".join(
        substitute_names(lead, **who) + str(char[field]) for field, lead in FIELDS if char.get(field)
    )
    if told:
        about = f"# {who['char']}\n{told}"
        sections.append(_section("character", about, str(char.get("ref") or "chat"), pinned=True))
    if user.get("description"):
        about = f"# {who['user']}\n{user['description']}"
        sections.append(_section("persona", about, str(user.get("ref") or "chat")))
    return sections


def afterword(settings: Mapping[str, Any], people: Mapping[str, Mapping[str, Any]]) -> list[Section]:
    """Return what a character says must stand after the conversation."""
    char = people["char"]
    text = str(char.get("post_history_instructions") or "")
    if not text.strip():
        return []
    return [_section("post_history_instructions", text, str(char.get("ref") or "chat"))]


def _section(tag: str, text: str, source: str, *, pinned: bool = False) -> Section:
    return Section(
        tag=tag,
        text=text,
        pinned=pinned,
        priority=90,
        sources=(Source(ref=source),),
        trust="trusted" if tag == "system" else "operations",
        is_fenced=True,
    )
