"""The list of skills in a prompt: one line each. A listing is journaled, so that a replay asks no source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import msgspec

from artelier.ports.model import Value
from artelier.tools.skills.approval.injection_heuristics import invisible

# --------------------------------------------------------------------------- template
# Wording for models: template files with a version, filled once with values that are only data.


_SLOT = re.compile(r"\{\{([a-z_]+)\}\}")


@cache
def _template(name: str) -> str:
    return (files("artelier.tools.skills") / "templates" / name).read_text("utf-8").strip()


def render(name: str, /, **values: str) -> str:
    """A template with its slots filled; what looks like a slot inside a value stays text."""
    return _SLOT.sub(lambda slot: values[slot[1]], _template(name))


# --------------------------------------------------------------------------- listing


MANY = 30
"""With more skills, lines are shorter and `search_skills` is offered."""
LINE_CHARS_MAX = 80
LINE_CHARS_MANY = 60

_SENTENCE = re.compile(r"(?<=[.!?])\s")


class SkillLine(Value, frozen=True, kw_only=True):
    """One skill of a listing."""

    name: str
    line: str
    """`name: what it is for`; of a parked skill empty."""
    hash: str
    status: Literal["active", "parked"]


class Listing(Value, frozen=True, kw_only=True):
    """The skills of a tenant at one moment, by name. Refused ones are left out."""

    skills: tuple[SkillLine, ...] = ()
    silent: tuple[str, ...] = ()
    """Sources that could not be asked; what they had before is still listed."""

    def find(self, name: str) -> SkillLine | None:
        """The line of a skill, to compare its hash with that of a loaded one."""
        return next((one for one in self.skills if one.name == name), None)


def short_line(name: str, description: str, *, many: bool) -> str:
    """`name: first sentence`, on one line, bounded."""
    hidden = set(invisible(description))
    flat = " ".join("".join(one for one in description if one not in hidden).split())
    flat = flat.replace("<", "‹").replace(">", "›")
    sentence = _SENTENCE.split(flat, maxsplit=1)[0].rstrip(".")
    limit = LINE_CHARS_MANY if many else LINE_CHARS_MAX
    if len(sentence) > limit:
        sentence = sentence[: limit - 1].rsplit(" ", 1)[0].rstrip(" ,;:") + "…"
    return f"{name}: {sentence}" if sentence else name


def section_text(listing: Listing) -> str:
    """The prompt's section about skills; empty if there are none. Pure."""
    active = [one.line for one in listing.skills if one.status == "active"]
    parked = [one.name for one in listing.skills if one.status == "parked"]
    lines = [f"- {line}" for line in active]
    if parked:
        lines += [""] * bool(active) + [render("parked-1.md", names=", ".join(parked))]
    return render("skills-1.md", skills="\n".join(lines)) if lines else ""


# --------------------------------------------------------------------------- loaded
# The answer of `load_skill`, and the same value as text of a prompt.


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
