"""Tools: the `@tool` decorator, the registry and the tools that ship."""

from artelier.tools.registry import ToolRegistry
from artelier.tools.tool import Tool, ToolResultInvalid, tool

__all__ = ["Tool", "ToolRegistry", "ToolResultInvalid", "tool"]
