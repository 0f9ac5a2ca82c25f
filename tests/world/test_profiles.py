"""Agents of a world with a profile: operations around their model step, with the facts of the tick."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, OperationProfile
from artelier.errors import Conflict
from artelier.testing import ManualClock
from artelier.world import World
from tests.kernel.crashes import Deaths
from tests.kernel.stage import World as Outside
from tests.operations.chats import Chat
from tests.operations.profiles import template
from tests.world.flows import words
from tests.world.places import add, balance, events
from tests.world.speaking import NOOP, Speaking

CONFIG = {"seed": 7, "model": "m"}
GIVE = {"action": "transfer", "to": "bob", "amount": 1}
DICE = "import random\ndef run(ctx):\n    return random.randint(1, 1000000)\n"
KEEPER: dict[str, Any] = {
    "profile_id": "keeper",
    "operations": [
        template(
            "seen",
            "{{ world.agent_id }} had {{ world.balance }} in tick {{ world.tick }}, {{ now }}",
            hook="before_main_llm",
            tag="seen",
            usage="prompt_only",
            write_mode="append",
        ),
        {
            "operation_id": "dice",
            "kind": "compute",
            "order": 2,
            "hooks": ["before_main_llm"],
            "params": {
                "code": DICE,
                "effects": [{"type": "artifact.upsert", "tag": "dice", "usage": "prompt+ui"}],
            },
        },
        template("count", "{% if art.count %}{{ art.count.value }}{% endif %}x", tag="count"),
        template("hidden", "{{ reply }}", tag="hidden", usage="internal"),
    ],
}


def keeper(*more: dict[str, Any], **fields: Any) -> OperationProfile:
    data = {**KEEPER, "operations": [*KEEPER["operations"], *more], **fields}
    return OperationProfile.parse(data)


def by_dice(text: str) -> dict[str, Any]:
    """Gives away what the dice say: the world differs if they do."""
    return {**GIVE, "amount": 1 + int(text.partition("## dice\n")[2].split()[0]) % 3}


def open_kernel(path: Path, speaking: Speaking | None = None, **more: Any) -> Kernel:
    model = (speaking or Speaking({"ana": by_dice, "bob": NOOP})).model
    return Kernel.open(path, models={"m": model}, environ={}, **more)


async def made(kernel: Kernel, profile: OperationProfile | None = None, *, named: str = "") -> World:
    """A world in which `ana` has a profile and `bob` has none."""
    ref = await (profile or keeper()).save(kernel)
    world = await World.new(kernel, "w", CONFIG)
    await add(world, ana={"system_prompt": "Give.", "profile": named or ref}, bob={"system_prompt": "Rest."})
    return world


async def kept(kernel: Kernel) -> Mapping[str, list[Any]]:
    return await Chat(kernel, "w/ana").state(scope="keeper/default")


def test_operations_see_the_tick_and_keep_their_artifacts_from_tick_to_tick(tmp_path: Path) -> None:
    async def scenario() -> None:
        speaking = Speaking({"ana": GIVE, "bob": NOOP})
        with open_kernel(tmp_path / "s.db", speaking) as kernel:
            world = await made(kernel)
            passed = await world.run(ticks=3)
            assert [one.rejected for one in passed] == [0, 0, 0]
            assert await balance(world, "bob") == 103
            found = await kept(kernel)
            assert found["count"] == ["xxx", "xx", "x"]
            assert found["seen"] == [
                "ana had 98 in tick 3, 1970-01-01T00:00:03Z",
                "ana had 99 in tick 2, 1970-01-01T00:00:02Z",
                "ana had 100 in tick 1, 1970-01-01T00:00:01Z",
            ]
            assert [json.loads(text) for text in found["hidden"]] == [GIVE] * 3
            first, _, third = speaking.shown("ana")
            assert "## count" not in first and "## count\nxx" in third and "tick 2" in third
            assert "## seen" not in str(speaking.shown("bob"))
            steps = {step["key"] for step in await kernel.for_tenant().steps("w/ana")}
            assert {"t1/session", "t2/before_main_llm/dice", "t3/model", "t3/commit/after_main_llm"} <= steps
            for tick in (1, 3):
                rendered = await kernel.for_tenant().render("w/ana", f"t{tick}/model")
                assert "\n\n".join(m.text for m in rendered.messages) == speaking.shown("ana")[tick - 1]
            await world.close()
            assert kernel.verify().ok

    asyncio.run(scenario())


def test_the_same_seed_gives_the_same_world_with_and_without_deaths(tmp_path: Path) -> None:
    """In a store of its own, and out of each copy that a death at a commit leaves."""

    async def scenario() -> None:
        deaths = Deaths(tmp_path / "s.db", Outside(), skip=("commit.before",))
        with open_kernel(tmp_path / "s.db", clock=ManualClock(), fault=deaths) as kernel:
            world = await made(kernel)
            before = len(deaths.found)
            await world.run(ticks=2)
            expected, state = await world.hash(), await kept(kernel)
            await world.close()
        (tmp_path / "again").mkdir()
        with open_kernel(tmp_path / "again" / "s.db") as kernel:  # by the clock on the wall
            world = await made(kernel)
            await world.run(ticks=2)
            assert (await world.hash(), await kept(kernel)) == (expected, state)
            await world.close()

        assert len(deaths.found) - before > 10
        for death in deaths.found[before:]:
            clock = ManualClock()
            clock.advance(3600)  # the dead process's lease has expired
            with open_kernel(death.path, clock=clock) as kernel:
                world = World(kernel, "w")
                while await world.tick_now() < 2:
                    await world.tick()
                assert (await world.hash(), await kept(kernel)) == (expected, state), death
                await world.close()

    asyncio.run(scenario())


def test_another_seed_throws_other_dice(tmp_path: Path) -> None:
    async def scenario() -> None:
        thrown: list[Any] = []
        for seed in (7, 8):
            with open_kernel(tmp_path / f"{seed}.db") as kernel:
                ref = await keeper().save(kernel)
                world = await World.new(kernel, "w", {**CONFIG, "seed": seed})
                await add(world, ana={"profile": ref}, bob={})
                await world.tick()
                thrown.append((await kept(kernel))["dice"])
                await world.close()
        assert thrown[0] != thrown[1]

    asyncio.run(scenario())


NEVER = {"kind": "template", "order": 9, "required": True, "params": {"template": "{{ nothing.here }}"}}
TOOL = {
    "operation_id": "call",
    "kind": "tool",
    "order": 9,
    "hooks": ["before_main_llm"],
    "params": {"name": "look", "arguments": {}},
}
WORDS = template(
    "words",
    "Hm.",
    order=9,
    hook="before_main_llm",
    effects=({"type": "turn.user_variant.upsert_and_select"},),
)
NO_NEWS = {"inclusions": [{"source": "art.count", "on_missing": "error"}]}


@pytest.mark.parametrize(
    ("profile", "ref", "asked", "said"),
    [
        (keeper({"operation_id": "gate", "hooks": ["before_main_llm"], **NEVER}), "", 0, "'gate' is error"),
        (keeper({"operation_id": "gate", "hooks": ["after_main_llm"], **NEVER}), "", 1, "'gate' is error"),
        (keeper(**NO_NEWS), "", 0, "art.count"),
        (keeper(TOOL), "", 0, "has no place"),
        (keeper(WORDS), "", 0, "has no place"),
        (keeper(), "keeper", 0, "names its profile with its version"),
        (keeper(), "keeper@9", 0, "keeper"),
        (keeper(), "nobody@1", 0, "nobody"),
    ],
)
def test_an_agent_whose_operations_fail_does_nothing_and_is_told_why(
    tmp_path: Path, profile: OperationProfile, ref: str, asked: int, said: str
) -> None:
    async def scenario() -> None:
        speaking = Speaking({"ana": GIVE, "bob": NOOP})
        with open_kernel(tmp_path / "s.db", speaking) as kernel:
            world = await made(kernel, profile, named=ref)
            first, second = await world.run(ticks=2)

            assert (first.rejected, second.rejected) == (1, 1)
            assert await balance(world, "bob") == 100
            told = [data for _, _, data in await events(world, "action.rejected")]
            assert len(told) == 2
            for data in told:
                assert data["code"] == "operations_failed"
                assert said in await words(world, data["reason"])
            assert len(speaking.shown("ana")) == asked * 2 and len(speaking.shown("bob")) == 2
            assert kernel.verify().ok
            await world.close()

    asyncio.run(scenario())


def test_an_operation_that_changes_the_reply_changes_the_action(tmp_path: Path) -> None:
    async def scenario() -> None:
        patch = template(
            "meek",
            json.dumps({**GIVE, "amount": 9}),
            order=9,
            effects=({"type": "turn.assistant_variant.patch", "mode": "replace"},),
        )
        with open_kernel(tmp_path / "s.db", Speaking({"ana": GIVE, "bob": NOOP})) as kernel:
            world = await made(kernel, keeper(patch))
            await world.tick()
            assert await balance(world, "bob") == 109
            await world.close()

    asyncio.run(scenario())


def test_tokens_of_operations_count_against_what_an_agent_may_use(tmp_path: Path) -> None:
    async def scenario() -> None:
        ask = {
            "operation_id": "muse",
            "kind": "llm",
            "order": 9,
            "hooks": ["after_main_llm"],
            "params": {"prompt": "Muse on {{ reply }}."},
        }
        used: list[int] = []
        for name, profile in (("plain", keeper()), ("musing", keeper(ask))):
            with open_kernel(tmp_path / f"{name}.db", Speaking({"ana": GIVE, "bob": NOOP})) as kernel:
                world = await made(kernel, profile)
                await world.tick()
                rows = await kernel.store.query("SELECT tokens FROM world_usage WHERE agent = 'ana'")
                used.append(rows[0][0])
                await world.close()
        assert used[1] > used[0] > 0

    asyncio.run(scenario())


def test_a_world_whose_agents_keep_artifacts_is_neither_forked_nor_exported(tmp_path: Path) -> None:
    """Their sessions would be left behind, so the agents are named; before the first tick there are none."""

    async def scenario() -> None:
        with open_kernel(tmp_path / "s.db") as kernel:
            world = await made(kernel)
            early = await world.fork(new_id="early")
            await world.tick()
            with pytest.raises(Conflict, match="ana"):
                await world.fork()
            with pytest.raises(Conflict, match="ana"):
                await world.export(tmp_path / "w.artelier")
            assert not (tmp_path / "w.artelier").exists()
            again = await world.fork(at=0, new_id="again")
            for fork in (early, again):
                await fork.tick()
                assert await fork.hash() == await world.hash()
                await fork.close()
            await world.close()

    asyncio.run(scenario())


def test_agents_without_operations_leave_no_session(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path / "s.db") as kernel:
            world = await World.new(kernel, "w", CONFIG)
            await add(world, ana={"system_prompt": "Rest."}, bob={"profile": 7})
            await world.tick()
            assert await kernel.store.query("SELECT chat FROM chats") == []
            await world.fork()
            await world.close()

    asyncio.run(scenario())
