"""Two prompts side by side: which parts changed, and the requests as text."""

from __future__ import annotations

from collections.abc import Callable
from difflib import unified_diff
from itertools import zip_longest
from typing import Any

import msgspec

from artelier.kernel import Manifest
from artelier.kernel.events import PartRecord
from artelier.ports.model import ModelRequest

Shown = Callable[[Any], str]
"""How arguments of calls and parameters are written."""


def as_json(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def readable(request: ModelRequest, *, shown: Shown = as_json) -> str:
    """A request as text: a heading per message, tools by name."""
    lines = [f"model: {request.model}", f"params: {shown(request.params)}"]
    if request.tools:
        lines.append(f"tools: {', '.join(tool.name for tool in request.tools)}")
    for number, message in enumerate(request.messages, start=1):
        answers = f" (answers {message.tool_call_id})" if message.tool_call_id else ""
        lines += ["", f"--- {number} {message.role}{answers}"]
        if message.text:
            lines.append(message.text)
        lines += [f"calls {call.name}({shown(call.arguments)})  [{call.id}]" for call in message.tool_calls]
    return "\n".join(lines)


def changes(one: ModelRequest, two: ModelRequest, *, names: tuple[str, str], shown: Shown = as_json) -> str:
    """A unified diff of two requests; empty if they read the same."""
    old, new = (readable(request, shown=shown).splitlines() for request in (one, two))
    return "\n".join(unified_diff(old, new, *names, lineterm="", n=1))


def compare_manifests(one: Manifest, two: Manifest) -> list[dict[str, str]]:
    """Parts side by side, by tag and place: `{tag, change}`."""
    found: list[dict[str, str]] = []
    for old, new in zip_longest(one.parts, two.parts):
        if old is None or new is None or old.tag != new.tag:
            found += [
                {"tag": part.tag, "change": change}
                for part, change in ((old, "only in the first"), (new, "only in the second"))
                if part is not None
            ]
        else:
            found.append({"tag": new.tag, "change": _change(old, new)})
    return found


def _change(old: PartRecord, new: PartRecord) -> str:
    if old == new:
        return "same"
    if old.conversation is not None and old.conversation == new.conversation:
        if old.start == new.start and old.end != new.end:
            return f"messages {old.start}-{old.end} -> {new.start}-{new.end}"
    return "same content" if old.blob is not None and old.blob == new.blob else "changed"
