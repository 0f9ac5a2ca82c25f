"""Public doubles for tests of agents: what a test needs and production does not."""

from artelier.models.scripted import ScriptedMediaModel, ScriptedModel, tool_call
from artelier.testing.clock import ManualClock

__all__ = ["ManualClock", "ScriptedMediaModel", "ScriptedModel", "tool_call"]
