"""A process that dies in an operation: the next one takes the recorded steps, and asks nobody twice."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, ModelReply, ModelRequest, Run, ToolContext, tool
from artelier.app import TenantKernel
from artelier.errors import ModelRefusedCall, ToolFailed
from artelier.operations.kinds import OperationFailed
from artelier.ports.model import Usage
from artelier.testing import ManualClock, ScriptedModel
from artelier.testing.clock import START_US
from tests.kernel.crashes import Death, Deaths
from tests.kernel.stage import EAGER, PRICE, World, play
from tests.operations.kinds.stage import PRINCIPAL, operate

FORM = {"type": "object", "properties": {"mood": {"type": "string"}}, "required": ["mood"]}

OPERATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "lore": ("rag", {"source": {"documents": ["handbook"]}, "query": "sword"}),
    "mood": (
        "llm",
        {
            "prompt": "{{ text }}",
            "output": "json",
            "schema": FORM,
            "retries": 2,
            "max_output_tokens": 100,
            "max_cost_usd": 1,
        },
    ),
    "fight": ("guard", {"output_contract": ["is_combat"], "prompt": "Fight?", "retries": 0}),
    "look": (
        "llm",
        {
            "prompt": "Look",
            "tail": "{{ text }}",
            "media": {"artifacts": ["handbook"]},
            "model": "down",
            "fallbacks": ["m"],
            "max_output_tokens": 100,
            "max_cost_usd": 1,
        },
    ),
    "send": ("tool", {"name": "send", "arguments": {"text": "{{ user.name }}"}}),
    "dice": ("compute", {"code": "import random\ndef run(ctx):\n    return random.randint(1, 999)"}),
    "note": ("template", {"template": "{{ char.name }}"}),
}


class Mouth:
    """A model whose answer depends on nothing but the request; counts what it was asked."""

    def __init__(self, world: World) -> None:
        self.world = world

    def __call__(self, request: ModelRequest) -> ModelReply:
        said = [message.text for message in request.messages]
        asked = said[0]
        self.world.done.append(f"asked {request.model} {asked} {len(said)}")
        if request.model == "openai:down":
            raise ModelRefusedCall("no quota")
        if asked.startswith("Look"):
            return ModelReply(text=asked, usage=Usage(input_tokens=9, output_tokens=5))
        text = '{"is_combat": true}'
        if asked != "Fight?":
            text = ['{"mood": 5}', "no json", '{"mood": "dark"}'][len(said) // 2]
        return ModelReply(text=text, usage=Usage(input_tokens=9, output_tokens=5))


def _kernel(path: Path, world: World, *, fault: Any = None, at_s: int = 0) -> Kernel:
    """A kernel whose clock stands; a later one may take what an earlier one has left."""

    @tool(side_effect=True, probe=lambda key, _: _probe(world, f"sent {key}"))
    async def send(text: str, ctx: ToolContext) -> str:
        """Send."""
        world.done.append(f"sent {ctx.idempotency_key}")
        return f"sent to {text}"

    model = ScriptedModel(Mouth(world), price=PRICE)
    return Kernel.open(
        path,
        models=model,
        tools=[send],
        policy=EAGER,
        fault=fault,
        clock=ManualClock(start_us=START_US + at_s * 1_000_000),
    )


def _probe(world: World, deed: str) -> str:
    if deed not in world.done:
        raise ToolFailed("nothing was sent")
    return "sent to Ann"


async def _turn(run: Run, desk: TenantKernel | None) -> dict[str, Any]:
    """Operations one after another, and two at once."""

    async def one(name: str) -> Any:
        kind, params = OPERATIONS[name]
        try:
            return (await operate(run, kind, params, desk=desk, op=name)).value
        except OperationFailed as error:
            return error.code

    first = {name: await one(name) for name in ("lore", "look", "send", "note", "dice")}
    mood, fight = await asyncio.gather(one("mood"), one("fight"))
    return {**first, "mood": mood, "fight": fight}


async def _drive(kernel: Kernel) -> dict[str, Any]:
    runs = kernel.for_tenant()
    async with runs.run("r") as run:
        run.finish(await _turn(run, runs))
    return (await runs.show("r"))["result"]


@pytest.mark.slow
def test_resume_after_every_kill_point_ends_the_same(tmp_path: Path) -> None:
    """Everything that has an outcome on disk is taken from there: it is the same, and asked for once."""

    async def live() -> tuple[dict[str, Any], list[str], list[Death]]:
        world = World()
        path = tmp_path / "s.db"
        deaths = Deaths(path, world)
        with _kernel(path, world, fault=deaths) as kernel:
            space = kernel.for_tenant().as_principal(PRINCIPAL)
            await space.artifacts.write("handbook", kind="document", content="A sword is sharp.")
            result = await _drive(kernel)
            await kernel.aclose()
        return result, world.done, deaths.found

    async def resumed(death: Death) -> tuple[dict[str, Any], list[str]]:
        known = len(death.world.done)
        with _kernel(death.path, death.world, at_s=60) as kernel:
            rows = await kernel.store.query("SELECT 1 FROM artifacts WHERE id = 'handbook'", ())
            if not rows:
                return {}, []
            result = await _drive(kernel)
            await kernel.aclose()
        return result, death.world.done[known:]

    async def scenario() -> None:
        result, done, deaths = await live()
        assert result["mood"] == {"mood": "dark"}
        assert result["fight"] == {"is_combat": True}
        assert "A sword is sharp." in result["look"] and result["look"].endswith("I draw my sword!")
        assert len([deed for deed in done if deed.startswith("asked")]) == 6
        tried = 0
        for death in deaths:
            before = list(death.world.done)
            again, after = await resumed(death)
            if not again:
                continue
            tried += 1
            sent = [deed for deed in death.world.done if deed.startswith("sent")]
            # Dispatched, and killed before it acted: it is never dispatched again, and that is said.
            expected = result if sent else {**result, "send": "tool_error"}
            assert again == expected, death
            assert len(sent) <= 1, death
            # What had no recorded answer is asked again: of two operations at work, one question each.
            assert all(after.count(deed) == 1 for deed in after), death
            assert len(set(before) & set(after)) <= 2, death
        assert tried >= 8

    play(scenario(), within_s=120)


def test_replay_asks_nobody(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World()
        with _kernel(tmp_path / "s.db", world) as kernel:
            runs = kernel.for_tenant()
            space = runs.as_principal(PRINCIPAL)
            await space.artifacts.write("handbook", kind="document", content="A sword is sharp.")
            async with runs.run("r") as run:
                values = await _steps_alone(run, runs)
                run.finish(values)
            done = list(world.done)

            async def again(run: Run) -> None:
                run.finish(await _steps_alone(run, None))

            await runs.replay("r", again)
            assert world.done == done

    play(scenario())


async def _steps_alone(run: Run, desk: TenantKernel | None) -> dict[str, Any]:
    """The operations whose work is steps of their own; the others are recorded by who runs them."""
    found: dict[str, Any] = {}
    for name in ("lore", "look", "mood", "fight", "send"):
        kind, params = OPERATIONS[name]
        found[name] = (await operate(run, kind, params, desk=desk, op=name)).value
    return found
