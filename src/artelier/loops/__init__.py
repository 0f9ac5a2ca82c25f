"""The one step cycle: agent, task loop and chat run are configurations of it. A tick of a world is not."""

from artelier.loops.cycle import Outcome, Parts, cycle

__all__ = ["Outcome", "Parts", "cycle"]
