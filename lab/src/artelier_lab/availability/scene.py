"""The scene that an input works with, and the definition of an input."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from artelier_lab.availability.client import Client
from artelier_lab.availability.processes import Process

Attack = Callable[["Scene"], Awaitable[str]]
Twin = Callable[["Scene"], Awaitable[bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One attack, or one twin of it."""

    attacker: Client
    colleagues: tuple[Client, ...]
    """Other users of the attacker's tenant."""
    stranger: Client
    served: Process
    name: str
    """Unique, for ids."""

    async def run_agent(self, reply: str, *, count: int = 1) -> str:
        """Return how the attacker's agents ended. Errors: `TimeoutError` if the server is frozen."""
        wanted: dict[str, Any] = {"run_id": self.name, "reply": reply, "count": count}
        return (await self.served.ask({"agent": wanted}))["ended"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """Something hostile, and a decent twin that goes through the same door."""

    name: str
    attack: Attack
    """Returns what the server answered, in a word or two."""
    twin: Twin
