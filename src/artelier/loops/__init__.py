"""The one step cycle: agent, task loop, chat run and world tick are configurations of it."""

from artelier.loops.cycle import Outcome, Parts, cycle

__all__ = ["Outcome", "Parts", "cycle"]
