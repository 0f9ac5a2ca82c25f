"""Structured output as text: one parser, so that every adapter agrees on what a model meant."""

from __future__ import annotations

import re
from typing import Any

import msgspec

_FENCE = re.compile(r"\A\s*```[A-Za-z0-9_-]*\s*\n(.*?)\n?\s*```\s*\Z", re.DOTALL)


def parse_output(text: str) -> Any:
    """The JSON value of a reply that should be JSON, or None if it is none.

    One Markdown fence around the whole text is taken off, since models add it unasked. Whether the
    value fits a schema is the caller's question; that None and JSON `null` look alike is harmless,
    as no structured output is `null`.
    """
    fenced = _FENCE.match(text)
    body = fenced.group(1) if fenced else text
    try:
        return msgspec.json.decode(body.encode())
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def parse_arguments(text: str) -> Any:
    """Arguments of a tool call: parsed JSON, `{}` for nothing, or the raw text if broken."""
    if not text.strip():
        return {}
    try:
        return msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return text


def output_text(value: Any) -> str:
    """Compact JSON of a structured output, keys in the order given."""
    return msgspec.json.encode(value).decode()
