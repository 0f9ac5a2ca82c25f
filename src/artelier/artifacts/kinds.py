"""The kinds of artifacts: the media each takes, its schema check, its default access."""

from __future__ import annotations

import re
from dataclasses import dataclass

from artelier.artifacts.content import Media, media_of
from artelier.artifacts.invoke.program import check_entry, code_of
from artelier.artifacts.ref import safe_repr
from artelier.artifacts.write.content_checks import (
    Check,
    check_anything,
    check_text_or_object,
    check_json_object,
    check_prompt,
    check_library,
    check_code,
    check_memory_store,
    check_agent,
    check_workflow,
)
from artelier.errors import Conflict, InvalidArtifact, InvalidConfig

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
        check=check_code,
        entry="check",
        positional=("caller", "action", "target", "context"),
    )
)
register_kind(
    Kind(
        name="reflex",
        media=TEXT_OR_JSON,
        check=check_code,
        default_access="private",
        entry="reflex",
        positional=("context",),
    )
)
# A tool as text is a description of one; with `code` it can be invoked.
register_kind(
    Kind(name="tool", media=TEXT_OR_JSON, check=check_text_or_object, entry="run", code_needed=False)
)
