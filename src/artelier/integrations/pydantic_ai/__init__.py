"""Agents of PydanticAI as durable runs: `Durable` is the door."""

from artelier.integrations.pydantic_ai.durable import Durable, current_call

__all__ = ["Durable", "current_call"]
