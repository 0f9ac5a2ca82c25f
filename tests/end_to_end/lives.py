"""Lives of a process that ends by a real `kill -9` at its n-th dangerous instant.

Dangerous are the kernel's own points (before and after each commit, around each call) and those that a
scenario names itself. `lived` starts one life in a process of its own, forked off a server that has imported
everything already, so that hundreds of deaths take seconds.
"""

from __future__ import annotations

import multiprocessing
import os
import secrets
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from artelier import Kernel, tool
from artelier.errors import ToolFailed
from artelier.ports.tool import ToolContext, ToolPort
from tests.kernel.stage import EAGER, echo, play
from tests.processes import PATIENCE_S

EVERY = 6
"""Of so many dangerous instants, a test that kills at each of them takes one."""

STORE, OUTSIDE = "s.db", "outside.txt"


def instants() -> range:
    """Return every sixth dangerous instant from a drawn one on: each run of the tests takes others."""
    return range(1 + secrets.randbelow(EVERY), 500, EVERY)


class Life:
    """One process: its kernel, and the outside as a file that outlives it."""

    def __init__(self, folder: Path, deadly: int) -> None:
        self.folder = folder
        self._left = deadly

    def at(self, point: str) -> None:
        """Die here if it is time."""
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def did(self, line: str) -> None:
        """Something happens outside: at its beginning and its end the process may die."""
        self.at(f"before {line}")
        with (self.folder / OUTSIDE).open("a") as file:
            file.write(f"{line}\n")
        self.at(f"after {line}")

    def open(self, **more: Any) -> Kernel:
        return Kernel.open(
            self.folder / STORE,
            models=echo(),
            tools=shop(self),
            policy=EAGER,
            fault=self.at,
            environ={},
            **more,
        )


def outside(folder: Path) -> list[str]:
    """All that was ever done, in order."""
    file = folder / OUTSIDE
    return file.read_text().splitlines() if file.exists() else []


def shop(life: Life) -> list[ToolPort]:
    """`pay` can be undone; `stubborn` cannot be undone at the first try; `mail` cannot be at all."""

    async def refund(arguments: dict[str, Any], result: Any, ctx: ToolContext) -> dict[str, Any]:
        life.did(f"undo {arguments['to']} {ctx.idempotency_key}")
        return {"refunded": result["paid"]}

    async def give_in(arguments: dict[str, Any], result: Any, ctx: ToolContext) -> None:
        if not ctx.idempotency_key.endswith("/2"):
            raise ToolFailed("not the first time")
        life.did(f"undo {arguments['to']} {ctx.idempotency_key}")

    @tool(side_effect=True, compensate=refund)
    async def pay(to: str, ctx: ToolContext) -> dict[str, int]:
        "Pay."
        life.did(f"pay {to} {ctx.idempotency_key}")
        return {"paid": len(to)}

    @tool(side_effect=True, compensate=give_in)
    async def stubborn(to: str, ctx: ToolContext) -> None:
        "Pay."
        life.did(f"pay {to} {ctx.idempotency_key}")

    @tool(side_effect=True)
    async def mail(to: str, ctx: ToolContext) -> str:
        "Mail."
        life.did(f"mail {to} {ctx.idempotency_key}")
        return "sent"

    return [pay, stubborn, mail]


Scenario = Callable[[Life], Awaitable[None]]


def lived(scenario: Scenario, folder: Path, *, deadly: int = 0) -> bool:
    """Whether a life came to its end; False if it died at its `deadly`-th instant. 0: it never dies."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.end_to_end.lives", "pydantic.main"])
    process = context.Process(target=_live, args=(scenario, folder, deadly))
    process.start()
    process.join(PATIENCE_S)
    if process.exitcode is None:
        process.kill()
        process.join()
    assert process.exitcode in (0, -signal.SIGKILL), f"a life ended with {process.exitcode}"
    return process.exitcode == 0


def _live(scenario: Scenario, folder: Path, deadly: int) -> None:
    async def whole() -> None:
        await scenario(Life(folder, deadly))

    play(whole(), within_s=PATIENCE_S)
    sys.stdout.flush()
