"""The classification of a mission's requests, and the reply to each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from artelier.models.offline.missions.content import write
from artelier.models.offline.missions.decision import decide
from artelier.models.offline.missions.plan import plan
from artelier.models.offline.missions.prompt import Prompt
from artelier.models.offline.missions.verdict import judge
from artelier.models.output import output_text
from artelier.ports.model import ModelReply, ModelRequest

WRITES = "# Write an artifact"
"""A line of the system text by which content is asked for."""

_FORMS = {
    "Plan": ({"agents", "tasks"}, plan),
    "Decision": ({"action", "reason", "artifact_type"}, decide),
    "Verdict": ({"criteria", "summary"}, judge),
}
"""Titles of schemas, with the fields by which they are told from others of that name."""


def reply(request: ModelRequest) -> ModelReply | None:
    """The reply to a mission's request; None for any other.

    Errors: `OfflineCannot` with the reason.
    """
    schema = request.output_schema
    if schema is None:
        if not _writes(request):
            return None
        return ModelReply(text=write(Prompt(request)))
    wanted, make = _FORMS.get(str(schema.get("title")), (None, None))
    if wanted is None or make is None or not wanted <= _properties(schema):
        return None
    value = make(Prompt(request))
    return ModelReply(text=output_text(value), output=value)


def _properties(schema: Mapping[str, Any]) -> set[str]:
    found = schema.get("properties")
    return set(cast("dict[str, Any]", found)) if isinstance(found, dict) else set()


def _writes(request: ModelRequest) -> bool:
    return any(
        line.strip() == WRITES
        for message in request.messages
        if message.role == "system"
        for line in message.text[:4_000].splitlines()
    )
