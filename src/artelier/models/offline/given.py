"""Values that a prompt itself states: `name: Ada`, `age is 36`, an address, a day. Nothing is inferred."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation

from artelier.models.offline.matching import is_match
from artelier.models.offline.words import name_words

CHARS_MAX = 20_000
"""Of a prompt that is looked through."""
TOKENS_MAX = 2_000
VALUE_CHARS_MAX = 300
DIGITS_MAX = 15
"""Of a number; more do not survive every reader of JSON."""

_FORMATS = {
    "email": r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+",
    "uri": r"\bhttps?://[^\s<>\"')\]]{1,500}",
    "url": r"\bhttps?://[^\s<>\"')\]]{1,500}",
    "date": r"\b\d{4}-\d{2}-\d{2}\b",
    "date-time": r"\b\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})",
    "time": r"\b\d{2}:\d{2}(?::\d{2})?\b",
    "uuid": r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b",
    "ipv4": r"\b\d{1,3}(?:\.\d{1,3}){3}\b",
}
_NUMBER = r"[-+]?\d[\d,]*(?:\.\d+)?"


def text_named(name: str, prompt: str) -> str | None:
    """The text after a field's name and `:`, `=` or `is`."""
    named = _name_pattern(name)
    if not named:
        return None
    match = re.search(
        rf"(?<!\w){named}\s*(?:[:=]|\bis\b)\s*(\"[^\"\n]{{1,300}}\"|[^\n;,]{{1,300}})",
        prompt[:CHARS_MAX],
        re.IGNORECASE,
    )
    if match is None:  # `order AB-77`: what looks like an identifier needs nothing between
        match = re.search(
            rf"(?i:(?<!\w){named})\s+((?=[\w./-]{{0,60}}\d)[A-Z0-9][\w./-]{{1,60}})", prompt[:CHARS_MAX]
        )
    if match is None:
        return None
    text = match[1].strip().strip('"')
    text = re.split(r"\.(?:\s|$)|\s+(?:and|but)\s+", text)[0].strip()
    return text[:VALUE_CHARS_MAX] or None


def number_named(name: str, prompt: str) -> Decimal | None:
    """The number that stands after a field's name, or before it: `units: 3`, `3 units`."""
    named = _name_pattern(name)
    if not named:
        return None
    text = prompt[:CHARS_MAX]
    for pattern in (
        rf"(?<!\w){named}\s*(?:[:=]|\bis\b|\bof\b)?\s*[$€£]?({_NUMBER})(?![\w.]*\w)",
        rf"(?<![\w.])({_NUMBER})\s+{named}(?!\w)",
    ):
        found = {match.replace(",", "") for match in re.findall(pattern, text, re.IGNORECASE)}
        if len(found) == 1 and len(min(found)) <= DIGITS_MAX:
            try:
                return Decimal(found.pop())
            except InvalidOperation:
                continue
    return None


def text_formed(form: str, prompt: str) -> str | None:
    """The only text of a format (`email`, `date`, ...) in a prompt."""
    pattern = _FORMATS.get(form)
    if pattern is None:
        return None
    found = list(dict.fromkeys(re.findall(pattern, prompt[:CHARS_MAX])))
    return found[0].rstrip(".,;") if len(found) == 1 else None


def text_matching(pattern: str, prompt: str) -> str | None:
    """The first word of a prompt that a pattern matches whole."""
    for word in prompt[:CHARS_MAX].split()[:TOKENS_MAX]:
        bare = word.strip(".,;:!?\"'()[]")[:100]
        if bare and is_match(pattern, bare, whole=True):
            return bare
    return None


def choice_named(choices: Iterable[object], prompt: str) -> str | None:
    """The only one of some texts that a prompt says."""
    words = re.findall(r"[^\W_]+", prompt[:CHARS_MAX].lower())
    text = f" {' '.join(words)} "
    found = [
        choice
        for choice in choices
        if isinstance(choice, str) and choice and f" {' '.join(name_words(choice[:100]))} " in text
    ]
    return found[0] if len(found) == 1 else None


def _name_pattern(name: str) -> str:
    words = name_words(name[:100])
    return r"[\s_-]+".join(re.escape(word) for word in words)
