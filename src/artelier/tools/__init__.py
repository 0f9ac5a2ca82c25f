"""Tools: the `@tool` decorator, the registry and the tools that ship."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artelier.ports.lazy_names import load_on_use

if TYPE_CHECKING:
    from artelier.tools.built_in import workspace_tools
    from artelier.tools.function import Tool, ToolRegistry, ToolResultInvalid, ToolReturn, tool
    from artelier.tools.http_json import http_json_tool
    from artelier.tools.http_rules import HttpRule
    from artelier.tools.skills import ArtifactSkills, SkillCatalog, SkillFolder, SkillsIn

__all__ = [
    "ArtifactSkills",
    "HttpRule",
    "SkillCatalog",
    "SkillFolder",
    "SkillsIn",
    "Tool",
    "ToolRegistry",
    "ToolResultInvalid",
    "ToolReturn",
    "http_json_tool",
    "tool",
    "workspace_tools",
]

_HOMES = {
    "ArtifactSkills": "skills",
    "SkillCatalog": "skills",
    "SkillFolder": "skills",
    "SkillsIn": "skills",
    "HttpRule": "http_rules",
    "Tool": "function",
    "ToolRegistry": "function",
    "ToolResultInvalid": "function",
    "ToolReturn": "function",
    "http_json_tool": "http_json",
    "tool": "function",
    "workspace_tools": "built_in",
}

# Lazy, because the helper process lives below this package and must start fast.
__getattr__ = load_on_use(__name__, _HOMES)
