"""Skills: one line each in the prompt, loaded on request, pinned by hash, parked until a person looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artelier.ports.lazy_names import load_on_use

if TYPE_CHECKING:
    from artelier.tools.skills.approval import Skills
    from artelier.tools.skills.catalog import SkillCatalog
    from artelier.tools.skills.folder import ArtifactSkills, SkillFolder, SkillsIn
    from artelier.tools.skills.listing import Listing, SkillLine, loaded_text, section_text, skill_text
    from artelier.tools.skills.meta_tools import META_NAMES
    from artelier.tools.skills.source import ToolSource
    from artelier.tools.skills.view import skills_view

_HOMES = {
    "META_NAMES": "meta_tools",
    "ArtifactSkills": "folder",
    "Listing": "listing",
    "SkillCatalog": "catalog",
    "SkillFolder": "folder",
    "SkillLine": "listing",
    "Skills": "approval",
    "SkillsIn": "folder",
    "ToolSource": "source",
    "loaded_text": "listing",
    "section_text": "listing",
    "skill_text": "listing",
    "skills_view": "view",
}

__all__ = [
    "META_NAMES",
    "ArtifactSkills",
    "Listing",
    "SkillCatalog",
    "SkillFolder",
    "SkillLine",
    "Skills",
    "SkillsIn",
    "ToolSource",
    "loaded_text",
    "section_text",
    "skill_text",
    "skills_view",
]

# Lazy, because the public Kernel needs the view and nothing else.
__getattr__ = load_on_use(__name__, _HOMES)
