"""The effects of actions: one function per action, over the working state of its step."""

from artelier.world.actions.effects.dispatch import perform, reject

__all__ = ["perform", "reject"]
