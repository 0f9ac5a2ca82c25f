"""Readable ids of new runs."""

from __future__ import annotations

import re
import secrets


def name_of(text: str) -> str:
    """A readable id: the first words of a goal."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    name = ""
    for word in words:
        if len(name) + len(word) > 28:
            break
        name = f"{name}-{word}" if name else word
    return name or "run"


def fresh_id(text: str) -> str:
    """A readable id for a new run: the first words of its goal and four random characters."""
    alphabet = "abcdefghjkmnpqrstuvwxyz23456789"  # none that are mistaken for another
    return f"{name_of(text)}-{''.join(secrets.choice(alphabet) for _ in range(4))}"
