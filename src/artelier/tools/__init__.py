"""Tools: the `@tool` decorator, the registry and the tools that ship."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

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
    "ToolRegistry": "function",
    "http_json_tool": "http_json",
    "workspace_tools": "built_in",
}


def __getattr__(name: str) -> object:
    # Lazy, because the helper process lives below this package and must start fast.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'function')}"), name)
