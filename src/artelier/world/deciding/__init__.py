"""The effects of actions: one function per action, over the working state of its step."""

from artelier.world.deciding.dispatch import perform, reject

__all__ = ["perform", "reject"]
