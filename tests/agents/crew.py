"""A family that works with the outside, for tests that kill its process; run as a program, it hangs there.

`python -m tests.agents.crew FOLDER POINT` works until POINT (`model`, `pay` or `look`) in the child and never
answers it; a file of the same name in FOLDER says that it is there.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from artelier import AutonomousAgent, Kernel, ModelRequest, ToolContext, tool
from artelier.errors import ToolFailed
from artelier.testing import ScriptedModel, tool_call
from tests.agents.family import boss, hand, worker
from tests.kernel.stage import EAGER, World


class Crew:
    """Boss and worker with all that they do outside, written down in order."""

    def __init__(self, world: World, *, folder: Path | None = None, hang: str = "") -> None:
        self.world = world
        self._folder = folder
        self._hang = hang
        self._kernel: Kernel | None = None

    async def _at(self, point: str) -> None:
        if self._folder is not None and point == self._hang:
            while not await self._is_recorded():
                await asyncio.sleep(0.01)
            (self._folder / point).touch()
            await asyncio.Event().wait()

    async def _is_recorded(self) -> bool:
        """Return True once each reply so far is in the log: a harmless tool does not wait for that."""
        assert self._kernel is not None
        replies = sum(" model " in deed for deed in self.world.done)
        rows = await self._kernel.store.query("SELECT count(*) FROM events WHERE kind = 'model.completed'")
        return rows[0][0] >= replies

    def _done(self, deed: str) -> None:
        self.world.done.append(deed)
        if self._folder is not None:
            with (self._folder / "world").open("a") as file:
                file.write(f"{deed}\n")

    def models(self) -> dict[str, Any]:
        async def answer(request: ModelRequest) -> Any:
            results = sum(message.role == "tool" for message in request.messages)
            if results == 1:
                await self._at("model")
            self._done(f"worker model {results}")
            if "nothing was paid" in request.messages[-1].text:  # as the probe found
                return tool_call("pay", {"to": "ana"})
            return [tool_call("look"), tool_call("pay", {"to": "ana"}), "paid", "paid"][results]

        def lead(request: ModelRequest) -> Any:
            results = sum(message.role == "tool" for message in request.messages)
            self._done(f"boss model {results}")
            return [hand("pay ana"), "all done"][results]

        return {"boss": ScriptedModel(lead), "worker": ScriptedModel(answer)}

    def tools(self) -> list[Any]:
        async def look() -> str:
            "Look."
            await self._at("look")
            self._done("look")
            return "seen"

        async def pay(to: str, ctx: ToolContext) -> str:
            "Pay."
            await self._at("pay")
            self._done(f"pay {ctx.idempotency_key}")
            return f"paid {to}"

        async def found(key: str, arguments: dict[str, Any]) -> str:
            if f"pay {key}" not in self.world.done:
                raise ToolFailed("nothing was paid")
            return f"paid {arguments['to']}"

        return [tool(side_effect=False)(look), tool(side_effect=True, probe=found)(pay)]

    def open(self, path: Path, **more: Any) -> tuple[Kernel, AutonomousAgent]:
        kernel = Kernel.open(path, models=self.models(), policy=EAGER, **more)
        self._kernel = kernel
        return kernel, boss(kernel, worker(kernel, tools=self.tools()))


async def main(folder: Path, point: str) -> None:
    crew = Crew(World(), folder=folder, hang=point)
    kernel, agent = crew.open(folder / "s.db")
    with kernel:
        await agent.run(run_id="r", model="boss", prompt="Have it done.")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
