"""Models behind one port: scripted, recorded, offline, and every provider of the registry."""

from artelier.models.provider import ProviderModel, openai_compatible
from artelier.models.registry import ModelRegistry, Resolved
from artelier.models.scripted import RecordedModel, ScriptedModel, UnexpectedCall, request_key, tool_call

__all__ = [
    "ModelRegistry",
    "ProviderModel",
    "RecordedModel",
    "Resolved",
    "ScriptedModel",
    "UnexpectedCall",
    "openai_compatible",
    "request_key",
    "tool_call",
]
