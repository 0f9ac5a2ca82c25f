"""The minds of agents: what they read, what a reflex or a model decides, how a workflow moves on."""

from artelier.world.mind.decision import think
from artelier.world.mind.workflow_transitions import move

__all__ = ["move", "think"]
