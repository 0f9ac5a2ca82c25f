"""Putting text that nobody vouches for between marks: it reads as data and cannot end its own fence."""

from __future__ import annotations

import re

from artelier.ports.model import ChatMessage

_MARK = re.compile(r"<(?=/?\s*data\b)", re.IGNORECASE)

UNTRUSTED_MARK = 'trust="untrusted">'
"""How the mark before text ends that nobody vouches for."""


def is_untrusted(message: ChatMessage, *, is_labelled: bool = False) -> bool:
    """Return True for a message that nobody vouches for.

    That is a tool's result, or a text that shows something of that kind between marks.
    `is_labelled`: whoever made the message says how far its text is trusted.
    """
    is_marked = not is_labelled and message.role == "user" and UNTRUSTED_MARK in message.text
    return message.role == "tool" or is_marked


def fence(text: str, *, source: str, trust: str = "untrusted") -> str:
    """The text between `<data>` marks. A mark inside the text is made harmless; nothing else changes."""
    inside = _MARK.sub("&lt;", text)
    name = re.sub(r"[^A-Za-z0-9._:/@#-]+", " ", source)[:120]
    label = re.sub(r"[^a-z0-9_:-]+", "", trust.lower())[:40] or "untrusted"
    return f'<data source="{name}" trust="{label}">\n{inside}\n</data>'


def balance_fences(text: str) -> str:
    """The text with its fences whole again, after something was cut out of it."""
    begun, ended = text.count("<data "), text.count("</data>")
    if begun > ended:
        return f"{text}\n</data>"
    if ended > begun:
        return f'<data trust="untrusted">\n{text}'
    return text
