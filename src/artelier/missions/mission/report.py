"""The report of a mission: the content of the outputs of its last tasks, as one text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from artelier.errors import ArtelierError
from artelier.ids import OPERATOR

TEXT_CHARS_MAX = 1_000_000
"""Of one report; the outputs themselves are whole."""


async def report_of(desk: Any, refs: Sequence[str]) -> str:
    """The outputs, one after the other. What cannot be read any more is named instead."""
    artifacts = desk.as_principal(OPERATOR).artifacts
    texts: list[str] = []
    for ref in refs:
        try:
            texts.append(text_of((await artifacts.read(ref)).content))
        except ArtelierError as error:
            texts.append(f"({ref}: {error.message})")
    return "\n\n".join(text.strip("\n") for text in texts)[:TEXT_CHARS_MAX]


def text_of(content: Any) -> str:
    """Content as people read it."""
    if isinstance(content, str):
        return content
    if isinstance(content, bytes):
        return f"({len(content)} bytes)"
    return msgspec.json.format(msgspec.json.encode(content), indent=2).decode()
