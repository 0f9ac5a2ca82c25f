"""The minds of agents: what they read, what a reflex or a model decides, how a workflow moves on."""

from artelier.world.mind.moving import move
from artelier.world.mind.think import think

__all__ = ["move", "think"]
