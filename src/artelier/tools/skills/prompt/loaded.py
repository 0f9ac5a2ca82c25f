"""The answer of `load_skill`, and the same value as text of a prompt."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from artelier.tools.skills.prompt.template import render

CALL_WITH = "use_skill(name, arguments)"

_FENCE_END = re.compile(r"<(\s*/\s*skill)", re.IGNORECASE)


def skill_text(value: Mapping[str, Any]) -> str:
    """A value of `load_skill` as it stands in a prompt. Pure: the same value gives the same text."""
    name = str(value["skill"])
    details: list[str] = []
    if value.get("trust") == "untrusted":
        details.append(render("untrusted-1.md"))
    if value.get("parameters") is not None:
        details.append(render("call-1.md", parameters=_json(value["parameters"])))
    if value.get("example") is not None:
        details.append(render("example-1.md", name=name, example=_json(value["example"])))
    if value.get("allowed_tools") is not None:
        names = ", ".join(map(str, value["allowed_tools"])) or "none"
        details.append(render("allowed-1.md", tools=names))
    if value.get("files"):
        details.append(render("files-1.md", files=", ".join(map(str, value["files"]))))
    text = render(
        "skill-1.md",
        name=name,
        instructions=_inside(str(value.get("instructions", ""))),
        details=_inside("\n".join(details)),
    )
    return text.removesuffix("</skill>").rstrip() + "\n</skill>"


def loaded_text(values: Iterable[Mapping[str, Any]]) -> str:
    """All loaded skills, in the order given."""
    return "\n\n".join(map(skill_text, values))


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _inside(text: str) -> str:
    """Text that can't end the fence it stands in."""
    return _FENCE_END.sub(r"<\\\1", text)
