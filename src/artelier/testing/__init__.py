"""Public doubles for tests of agents: what a test needs and production does not."""

from artelier.models.scripted import ScriptedModel, tool_call

__all__ = ["ScriptedModel", "tool_call"]
