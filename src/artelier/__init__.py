"""Artelier: a durable runtime for LLM agents.

Everything an agent thinks with, does and makes is an artifact; everything that happens is an event; every
prompt is a pure function of both, with a manifest that explains it. Names load on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artelier.agents import AutonomousAgent, SubAgentFactory
    from artelier.app import Kernel, TenantKernel
    from artelier.chat import Session, TurnResult
    from artelier.context import CompactionStrategy, Context, ContextBuilder, Section
    from artelier.errors import ArtelierError, RunStopped, RunSuspended
    from artelier.kernel import (
        AgentResult,
        Approval,
        Limits,
        ModelResult,
        Policy,
        Rate,
        Run,
        Tenant,
        TenantContext,
        ToolResult,
    )
    from artelier.operations import OperationProfile
    from artelier.ports.model import ChatMessage, ModelReply, ModelRequest, Price, ToolCall, Usage
    from artelier.ports.tool import ToolContext, happened, not_happened, unsure
    from artelier.tokens import Window
    from artelier.tools import ToolReturn, tool
    from artelier.tools.mcp import McpServer
    from artelier.world import World, WorldConfig

__all__ = [
    "AgentResult",
    "Approval",
    "ArtelierError",
    "AutonomousAgent",
    "ChatMessage",
    "CompactionStrategy",
    "Context",
    "ContextBuilder",
    "Kernel",
    "Limits",
    "McpServer",
    "ModelReply",
    "ModelRequest",
    "ModelResult",
    "OperationProfile",
    "Policy",
    "Price",
    "Rate",
    "Run",
    "RunStopped",
    "RunSuspended",
    "Section",
    "Session",
    "SubAgentFactory",
    "Tenant",
    "TenantContext",
    "TenantKernel",
    "ToolCall",
    "ToolContext",
    "ToolResult",
    "ToolReturn",
    "TurnResult",
    "Usage",
    "Window",
    "World",
    "WorldConfig",
    "happened",
    "not_happened",
    "tool",
    "unsure",
]

_HOME = {
    "Kernel": "app",
    "TenantKernel": "app",
    "AutonomousAgent": "agents",
    "SubAgentFactory": "agents",
    "CompactionStrategy": "context",
    "Context": "context",
    "ContextBuilder": "context",
    "Section": "context",
    "ArtelierError": "errors",
    "RunStopped": "errors",
    "RunSuspended": "errors",
    "AgentResult": "kernel",
    "Approval": "kernel",
    "Limits": "kernel",
    "ModelResult": "kernel",
    "Policy": "kernel",
    "Rate": "kernel",
    "Run": "kernel",
    "Tenant": "kernel",
    "TenantContext": "kernel",
    "ToolResult": "kernel",
    "OperationProfile": "operations",
    "Session": "chat",
    "TurnResult": "chat",
    "ChatMessage": "ports.model",
    "ModelReply": "ports.model",
    "ModelRequest": "ports.model",
    "Price": "ports.model",
    "ToolCall": "ports.model",
    "Usage": "ports.model",
    "McpServer": "tools.mcp",
    "ToolContext": "ports.tool",
    "happened": "ports.tool",
    "not_happened": "ports.tool",
    "unsure": "ports.tool",
    "Window": "tokens",
    "World": "world",
    "WorldConfig": "world",
    "ToolReturn": "tools",
    "tool": "tools",
}


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'artelier' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"artelier.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
