"""Skills: one line each in the prompt, loaded on request, pinned by hash, parked until a person looks."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from artelier.tools.skills.catalog import SkillCatalog
    from artelier.tools.skills.handle import Skills
    from artelier.tools.skills.prompt.listing import Listing, SkillLine, loaded_text, section_text, skill_text
    from artelier.tools.skills.prompt.meta_tools import META_NAMES
    from artelier.tools.skills.sources.artifact_skills import ArtifactSkills
    from artelier.tools.skills.sources.folder import SkillFolder, SkillsIn
    from artelier.tools.skills.sources.source import ToolSource
    from artelier.tools.skills.view import skills_view

_HOMES = {
    "META_NAMES": "prompt.meta_tools",
    "ArtifactSkills": "sources.artifact_skills",
    "Listing": "prompt.listing",
    "SkillCatalog": "catalog",
    "SkillFolder": "sources.folder",
    "SkillLine": "prompt.listing",
    "Skills": "handle",
    "SkillsIn": "sources.folder",
    "ToolSource": "sources.source",
    "loaded_text": "prompt.listing",
    "section_text": "prompt.listing",
    "skill_text": "prompt.listing",
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


def __getattr__(name: str) -> Any:
    # Lazy, because the public Kernel needs the view and nothing else.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
