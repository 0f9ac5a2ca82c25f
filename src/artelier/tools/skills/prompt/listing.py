"""The list of skills in a prompt: one line each. A listing is journaled, so that a replay asks no source."""

from __future__ import annotations

import re
from typing import Literal

from artelier.ports.model import Value
from artelier.tools.skills.approval.injection_heuristics import invisible
from artelier.tools.skills.prompt.template import render

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
