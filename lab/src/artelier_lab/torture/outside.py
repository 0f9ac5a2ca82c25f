"""The outside world: a bank and a board that outlive every process, and the books of what was done to them.

The books are what an operator looks at to settle an unknown outcome, and what the invariants are checked
against. They see each dispatch, each effect, and each model call.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Transfer:
    """The outcome of one request to the bank."""

    op: str
    amount: int
    applied: int = 0
    """How often it was carried out."""
    in_flight: int = 0
    """Requests on their way: nobody can say yet."""

    @property
    def receipt(self) -> dict[str, Any]:
        """The answer of the bank, the same at any time."""
        return {"op": self.op, "paid": self.amount}


@dataclass(slots=True)
class Outside:
    """Everything that is not in the database."""

    transfers: dict[str, Transfer] = field(default_factory=dict[str, Transfer])
    """By idempotency key."""
    dispatched: Counter[str] = field(default_factory=Counter[str])
    """How often a side effect that must not be repeated was entered, by idempotency key."""
    decisions: Counter[str] = field(default_factory=Counter[str])
    """How often somebody decided to repeat one."""
    not_happened: Counter[str] = field(default_factory=Counter[str])
    """How often the bank was asked and knew nothing of a transfer, by `<run>:<step>`: each word allows one
    more dispatch, and no further effect."""
    board: dict[str, str] = field(default_factory=dict[str, str])
    """What idempotent writes left, by idempotency key."""
    received: dict[str, list[tuple[str, bytes]]] = field(
        default_factory=lambda: defaultdict[str, list[tuple[str, bytes]]](list)
    )
    """Per run: the tag and the canonical bytes of every request that the adapter got."""
    violations: list[str] = field(default_factory=list[str])
    """What was seen to be wrong at the moment it happened."""
    failures: dict[str, int] = field(default_factory=dict[str, int])
    """Tries of a call that still fail, by call."""
    calls: Counter[str] = field(default_factory=Counter[str])
    """Calls of models and tools, by kind."""
    keys: dict[str, str] = field(default_factory=dict[str, str])
    """Step key of each question that was answered, by tag."""
    denied: set[str] = field(default_factory=set[str])
    """Runs in which the bank was asked and said that a transfer will never be: their tools have failed."""
    releases: dict[str, int] = field(default_factory=dict[str, int])
    """By program: the newest code that it may be driven with, where a newer one did not fit the record."""
    code: dict[str, int] = field(default_factory=dict[str, int])
    """By run: the code that brought it to its end."""
    replaying: bool = False
    """Nothing may be called now."""

    def called(self, kind: str, what: str) -> None:
        """A model or a tool is entered."""
        self.calls[kind] += 1
        if self.replaying:
            self.violations.append(f"a replay of a finished run called {kind} {what}")

    def dispatch(self, key: str) -> None:
        """A side effect that must not be repeated is entered."""
        self.dispatched[key] += 1
        allowed = 1 + self.decisions[key] + self.not_happened[key.partition("/")[2]]
        if self.dispatched[key] > allowed:
            self.violations.append(
                f"{key} was dispatched {self.dispatched[key]} times, decided {allowed} times"
            )

    def request(self, key: str, op: str, amount: int) -> Transfer:
        return self.transfers.setdefault(key, Transfer(op, amount))

    async def carry_out(self, transfer: Transfer, *, after_s: float) -> None:
        """The bank does it, whether or not anybody still listens."""
        transfer.in_flight += 1
        await asyncio.sleep(after_s)
        transfer.in_flight -= 1
        transfer.applied += 1
