"""What a child may do, and how a factory makes one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from artelier import ContextBuilder, Kernel, Tenant, tool
from artelier.agents import SubAgentFactory
from artelier.errors import InvalidRequest
from artelier.ports.model import Usage
from artelier.testing import ScriptedModel, tool_call
from tests.agents.family import CHILD, boss, hand, open_family, task_of, told, work, worker
from tests.kernel.stage import kinds, play


def error_of(text: str) -> dict[str, Any]:
    return json.loads(text)["error"]


# Grants


@tool(side_effect=False)
async def secret() -> str:
    "Tells the secret."
    return "the secret"


@tool(side_effect=False)
async def weather() -> str:
    "Tells the weather."
    return "rain"


@pytest.mark.parametrize(
    ("tenant", "parent", "child", "reached"),
    [
        ({"tools:*"}, None, None, [True, True]),
        ({"tools:worker", "tools:weather"}, None, None, [False, True]),
        ({"tools:worker", "tools:weather"}, None, {"tools:*"}, [False, True]),
        ({"tools:*"}, {"tools:worker", "tools:weather"}, None, [False, True]),
        ({"tools:*"}, None, {"tools:weather"}, [False, True]),
        ({"tools:*"}, {"tools:worker", "tools:weather"}, {"tools:secret"}, [False, False]),
    ],
)
def test_a_child_reaches_no_more_than_its_parent(
    tmp_path: Path, tenant: Any, parent: Any, child: Any, reached: list[bool]
) -> None:
    models = {
        "boss": ScriptedModel([hand("a"), "ok"]),
        "worker": ScriptedModel([[tool_call("secret"), tool_call("weather")], "told"]),
    }

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            await kernel.tenants.open(Tenant("acme", grants=tenant))
            agent = boss(kernel, worker(kernel, {"grants": child}, tools=[secret, weather]))
            await work(agent, tenant="acme", grants=parent)

            assert [text in ("the secret", "rain") for text in told(models["worker"])] == reached
            offered = {schema.name for schema in models["worker"].requests[0].tools}
            assert ("secret" in offered, "weather" in offered) == tuple(reached)

    play(scenario())


def test_a_parent_without_the_grant_cannot_delegate(tmp_path: Path) -> None:
    models = {"boss": ScriptedModel([hand("a"), "ok"]), "worker": ScriptedModel([])}

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            await work(boss(kernel, worker(kernel)), grants={"tools:weather"})

            assert error_of(told(models["boss"])[0])["code"] == "not_granted"

    play(scenario())


# Making


def test_a_sub_agent_needs_a_model_and_one_identity(tmp_path: Path) -> None:
    with open_family(tmp_path, {}) as kernel:
        factory = SubAgentFactory(kernel=kernel)
        with pytest.raises(InvalidRequest, match="needs a model"):
            factory.create(name="worker", description=".")
        with pytest.raises(InvalidRequest, match="one identity"):
            factory.create(
                name="worker",
                description=".",
                model="worker",
                system_prompt="You work.",
                context_builder=ContextBuilder(identity="You play."),
            )
        with pytest.raises(InvalidRequest, match="not a tool name"):
            factory.create(name="no name", description=".", model="worker")


def test_a_model_is_told_that_a_child_sees_only_its_prompt(tmp_path: Path) -> None:
    with open_family(tmp_path, {}) as kernel:
        short = worker(kernel, description="Counts\nthings.").schema.description
        long = worker(kernel, description="x" * 5_000).schema.description

        assert short.startswith("Agent: Counts things. It sees nothing but the prompt")
        assert short.endswith("all that it needs to know.")
        assert worker(kernel, description="An agent.").schema.description.startswith("An agent. It")
        assert len(long) == 1_024
        assert long.endswith("all that it needs to know.")


def test_a_builder_that_several_share_keeps_its_own_identity(tmp_path: Path) -> None:
    shared = ContextBuilder(rules="Be brief.")
    models = {
        "boss": ScriptedModel([[hand("a"), hand("b", to="critic")], "ok"]),
        "worker": ScriptedModel(task_of),
    }

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            critic = worker(kernel, name="critic", system_prompt="You judge.", context_builder=shared)
            await work(boss(kernel, worker(kernel, context_builder=shared), critic))

            systems = {
                "\n".join(m.text for m in request.messages if m.role == "system")
                for request in models["worker"].requests
            }
            assert shared.identity == ""
            assert len(systems) == 2
            assert all("Be brief." in text for text in systems)
            assert {("You work." in text, "You judge." in text) for text in systems} == {
                (True, False),
                (False, True),
            }

    play(scenario())


def test_a_tool_without_a_driver_takes_no_children(tmp_path: Path) -> None:
    """A run that another kernel drives, or none, has no budget that a child could share here."""
    models = {"boss": ScriptedModel([hand("a"), "ok"]), "worker": ScriptedModel([])}

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel, Kernel.open(tmp_path / "o.db") as other:
            await work(boss(kernel, worker(other)))

            assert error_of(told(models["boss"])[0])["code"] == "not_found"

    play(scenario())


def test_the_first_event_of_a_child_says_whose_it_is(tmp_path: Path) -> None:
    models = {"boss": ScriptedModel([hand("a"), "ok"]), "worker": ScriptedModel(["x"])}

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            await work(boss(kernel, worker(kernel)))

            assert (await kinds(kernel, CHILD))[0] == "run.started"
            usage = (await kernel.for_tenant().show(CHILD))["usage"]
            assert usage["input_tokens"] > 0
            assert Usage(**usage).output_tokens > 0

    play(scenario())
