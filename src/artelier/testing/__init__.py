"""Public doubles for tests of agents: what a test needs and production does not."""

from artelier.models.scripted import ScriptedModel, tool_call
from artelier.testing.clock import ManualClock

__all__ = ["ManualClock", "ScriptedModel", "tool_call"]
