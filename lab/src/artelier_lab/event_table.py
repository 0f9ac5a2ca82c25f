"""The table of all events, generated from their classes; `docs/events.md` is compared with it by a test."""

from __future__ import annotations

import importlib
import inspect
from typing import get_type_hints

import msgspec

from artelier.log import EventData, registered

_SOURCES = (
    "artelier.kernel.events",
    "artelier.kernel.tenants.events",
    "artelier.kernel.tool_calls.question_events",
    "artelier.log.blobs",
    "artelier.artifacts.events",
    "artelier.ledger.posting",
    "artelier.memory.events",
    "artelier.tools.skills.events",
    "artelier.agents.schedules.events",
    "artelier.missions.events",
    "artelier.operations.events",
    "artelier.world.events",
)


def event_table() -> str:
    """Markdown: every shipped event kind with its version, fields and meaning."""
    for module in _SOURCES:
        importlib.import_module(module)
    lines = [
        "# Events",
        "",
        "Generated from the classes; `make docs` writes it, a test compares it. A field with `?`",
        "may be absent. `b:...` is a blob reference, `postings` and `counts` move money and limits.",
        "",
        "| kind | version | fields | meaning |",
        "|---|---|---|---|",
    ]
    for (kind, version), cls in sorted(registered().items()):
        if cls.__module__ in _SOURCES:
            lines.append(f"| `{kind}` | {version} | {_fields(cls)} | {_meaning(cls)} |")
    return "\n".join(lines) + "\n"


def _fields(cls: type[EventData]) -> str:
    get_type_hints(cls)
    names = (f"`{field.encode_name}{'' if field.required else '?'}`" for field in msgspec.structs.fields(cls))
    return " ".join(names) or "none"


def _meaning(cls: type[EventData]) -> str:
    own = cls.__dict__.get("__doc__") or ""
    return " ".join(inspect.cleandoc(own).partition("\n\n")[0].split()).replace("|", "\\|")
