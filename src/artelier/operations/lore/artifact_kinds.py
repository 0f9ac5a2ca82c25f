"""The kinds `character`, `persona` and `lorebook`: what is wrong in one is told when it is saved."""

from __future__ import annotations

from typing import Any

from artelier.artifacts import Kind, register_kind
from artelier.artifacts.content import Media
from artelier.operations.lore.schemas import Character, Lorebook, Persona, read_form

_JSON: frozenset[Media] = frozenset(("json",))


def register_writing() -> None:
    """Know the kinds of writers; their contents are the forms in `schemas.py`. Twice is once.

    They are private: whom somebody plays, and with whom, is nobody else's business unless they say so.
    """
    for name, check in (
        ("character", _check_character),
        ("persona", _check_persona),
        ("lorebook", _check_lorebook),
    ):
        register_kind(Kind(name=name, media=_JSON, check=check, default_access="private"), replace=True)


def _check_character(content: Any) -> None:
    read_form(Character, content)


def _check_persona(content: Any) -> None:
    read_form(Persona, content)


def _check_lorebook(content: Any) -> None:
    read_form(Lorebook, content)
