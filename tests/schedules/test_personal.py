"""What a schedule starts is known like what a person starts by hand, and it can be erased."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from artelier import Kernel, ModelRequest, Policy, Tenant, tool
from artelier.agents import Worker
from artelier.app import TenantKernel
from artelier.pii.vault import placeholders_in
from artelier.testing import ScriptedModel, tool_call

KEY = {"ARTELIER_VAULT_KEY": "a vault key for tests"}
ACME = Tenant("acme", grants={"*"})
TYPED = "<EMAIL_ABCDEF>"


class Post:
    """What was handed to the mail server."""

    def __init__(self, folder: Path, model: ScriptedModel) -> None:
        self.to: list[str] = []

        @tool(side_effect=True, grant="pii:restore")
        async def send_mail(to: str) -> str:
            self.to.append(to)
            return "sent"

        self.kernel = Kernel.open(
            folder / "state.db", models={"m": model}, tools=[send_mail], policy=Policy(pii=True), environ=KEY
        )
        self.desk: TenantKernel = self.kernel.for_tenant(ACME)

    async def fired(self) -> str:
        """The newest run of the schedule, after a round of a worker."""
        await self.desk.schedules.fire("s", by="user:kim")
        await Worker(self.kernel, self.kernel.services).once()
        return (await self.desk.schedules.get("s"))["runs"][0]["run_id"]


def test_a_scheduled_run_has_received_the_values_of_its_goal(tmp_path: Path) -> None:
    def reply(request: ModelRequest) -> object:
        asked = "\n".join(message.text for message in request.messages)
        return tool_call("send_mail", {"to": placeholders_in(asked)[0]})

    model = ScriptedModel([reply, "done"])

    async def scenario() -> None:
        post = Post(tmp_path, model)
        with post.kernel:
            await post.desk.schedules.add(
                "s", every="1h", goal="Write to ana@example.org.", model="m", solo=True
            )
            await post.fired()
            assert post.to == ["ana@example.org"]

    asyncio.run(scenario())


@pytest.mark.parametrize("solo", [True, False])
def test_a_typed_placeholder_in_a_scheduled_goal_stands_for_nothing(tmp_path: Path, solo: bool) -> None:
    async def scenario() -> None:
        post = Post(tmp_path, ScriptedModel(["done"]))
        with post.kernel:
            goal = f"Write to {TYPED} and to ana@example.org."
            made = await post.desk.schedules.add("s", every="1h", goal=goal, model="m", solo=solo)
            assert await post.desk.restored(made["goal"]) == goal
            changed = await post.desk.schedules.change("s", max_failures=3)
            assert changed["goal"] == made["goal"]
            run = await post.fired()
            stored = (await post.desk.show(run))["goal"]
            assert "<\\EMAIL_ABCDEF>" in stored
            assert await post.desk.restored(stored) == goal
            rows = await post.kernel.store.query("SELECT DISTINCT placeholder FROM received")
            assert len(rows) == 1 and rows[0][0] in stored

    asyncio.run(scenario())


def test_schedules_are_listed_after_everything_was_erased(tmp_path: Path) -> None:
    async def scenario() -> None:
        post = Post(tmp_path, ScriptedModel([]))
        with post.kernel:
            await post.desk.schedules.add("s", every="1h", goal="Count.", model="m", solo=True)
            await post.desk.erase()
            [line] = (await post.desk.schedules.list())["items"]
            assert (line["goal"], line["loop"], line["every"]) == ("[erased]", "[erased]", "1h")
            shown = await post.desk.schedules.pause("s")
            assert (shown["goal"], shown["status"]) == ("[erased]", "paused")

    asyncio.run(scenario())
