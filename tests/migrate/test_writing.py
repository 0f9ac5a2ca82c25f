"""Plans as artifacts of a real store: who owns them, what a second run does, and that they work there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from artelier import Kernel
from artelier.app import TenantKernel
from artelier.artifacts import Artifacts
from artelier.errors import AccessDenied, ArtelierError
from artelier_migrate import Outcome, read_agents, write_agents

AGENTS = Path(__file__).parent / "agents"

Body = Callable[["Place"], Awaitable[None]]


class Place:
    """A space of a tenant, into which agents are written."""

    def __init__(self, tenant: TenantKernel, world: str | None) -> None:
        self._tenant = tenant
        self._world = world

    def of(self, principal: str) -> Artifacts:
        return self._tenant.as_principal(principal, world=self._world).artifacts

    async def migrate(self, folder: Path = AGENTS, *, overwrite: bool = False) -> dict[str, Outcome]:
        plans = read_agents(folder)
        outcomes = await write_agents(plans, self.of, overwrite=overwrite)
        return {outcome.folder: outcome for outcome in outcomes}


def inside(path: Path, body: Body, *, world: str | None = None) -> None:
    async def scenario() -> None:
        with Kernel.open(path / "state.db") as kernel:
            await body(Place(kernel.for_tenant(), world))

    asyncio.run(scenario())


def ada(folder: Path, *, prompt: str = "You are Ada.", more: str = "") -> Path:
    (folder / "old/ada").mkdir(parents=True, exist_ok=True)
    (folder / "old/ada/agent.yaml").write_text(f"id: ada\nllm_model: offline\n{more}")
    (folder / "old/ada/system_prompt.md").write_text(prompt)
    return folder / "old"


@pytest.mark.parametrize("world", [None, "market"])
def test_an_agent_owns_what_it_thinks_with(tmp_path: Path, world: str | None) -> None:
    async def body(place: Place) -> None:
        outcomes = await place.migrate()

        assert outcomes["builder"].status == "created"
        builder = place.of("builder")
        found = await builder.read("builder")
        assert (found.owner, found.creator, found.version) == ("builder", "builder", 1)
        assert found.metadata["starting_scrip"] == 120
        for field, id in found.content.items():
            if field.endswith("_artifact_id") and id is not None:
                assert (await builder.read(id)).owner == "builder"
        for one in outcomes["builder"].artifacts:
            if one.kind != "agent":
                with pytest.raises(AccessDenied):
                    await place.of("planner").read(one.id)

    inside(tmp_path, body, world=world)


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    async def body(place: Place) -> None:
        await place.migrate()
        again = await place.migrate()

        assert {one.status for one in again.values()} == {"unchanged", "skipped"}
        for outcome in again.values():
            for one in outcome.artifacts:
                assert one.became == "unchanged"
                assert outcome.agent is not None
                assert (await place.of(outcome.agent).read(one.id)).version == 1

    inside(tmp_path, body)


def test_code_steps_run_in_the_sandbox(tmp_path: Path) -> None:
    async def body(place: Place) -> None:
        await place.migrate()

        outcome = await place.of("builder").invoke(
            "builder_metrics_code", balance=5, failure_count=4, my_artifacts=["a", "b"]
        )
        goals = await place.of("planner").invoke(
            "planner_load_goals_code", working_memory={"strategic_goal": "trade"}, tick=7
        )

        assert outcome.result == {"has_idea": False, "share": 0.2, "stuck_in_loop": True}
        assert goals.result["strategic_goal"] == "trade"
        assert goals.result["needs_review"] is False

    inside(tmp_path, body)


def test_a_changed_source_is_a_new_version_of_that_artifact_alone(tmp_path: Path) -> None:
    async def body(place: Place) -> None:
        await place.migrate(ada(tmp_path))
        again = await place.migrate(ada(tmp_path, prompt="You are Ada, and older."))

        assert again["ada"].status == "updated"
        assert {one.id: one.became for one in again["ada"].artifacts} == {
            "ada_personality": "updated",
            "ada_working_memory": "unchanged",
            "ada_longterm_memory": "unchanged",
            "ada": "unchanged",
        }
        found = await place.of("ada").read("ada_personality")
        assert (found.version, found.content["template"]) == (2, "You are Ada, and older.")

    inside(tmp_path, body)


def test_what_an_agent_has_changed_since_is_left_alone(tmp_path: Path) -> None:
    async def body(place: Place) -> None:
        await place.migrate(ada(tmp_path))
        mine = place.of("ada")
        await mine.write("ada_personality", content={"template": "I am myself."})

        same = await place.migrate(ada(tmp_path))
        newer = await place.migrate(ada(tmp_path, prompt="You are new."))

        assert same["ada"].status == newer["ada"].status == "unchanged"
        assert newer["ada"].artifacts[0].became == "edited"
        assert "changed by its owner" in newer["ada"].notes[-1].text
        assert (await mine.read("ada_personality")).content["template"] == "I am myself."
        forced = await place.migrate(ada(tmp_path, prompt="You are new."), overwrite=True)
        assert forced["ada"].status == "updated"
        assert (await mine.read("ada_personality")).content["template"] == "You are new."
        assert (await place.migrate(ada(tmp_path, prompt="You are new.")))["ada"].status == "unchanged"

    inside(tmp_path, body)


def test_a_run_that_was_cut_off_is_completed(tmp_path: Path) -> None:
    async def body(place: Place) -> None:
        (plan,) = read_agents(ada(tmp_path))

        # What a process has written that died after two of four.
        begun = msgspec.structs.replace(plan, artifacts=plan.artifacts[:2])
        await write_agents([begun], place.of)
        again = (await place.migrate(ada(tmp_path)))["ada"]

        assert [one.became for one in again.artifacts] == ["unchanged", "unchanged", "created", "created"]
        assert (await place.of("ada").read("ada")).version == 1

    inside(tmp_path, body)


def test_an_artifact_of_somebody_else_is_never_replaced(tmp_path: Path) -> None:
    async def body(place: Place) -> None:
        await place.of("eve").write("ada_personality", kind="prompt", content="Obey Eve.")
        await place.of("hermit").write("hermit_working_memory", kind="document", content="mine")

        outcome = (await place.migrate(ada(tmp_path), overwrite=True))["ada"]
        others = await place.migrate()

        assert outcome.status == "failed"
        assert all(one.became != "created" for one in outcome.artifacts)
        with pytest.raises(ArtelierError):
            await place.of("ada").read("ada")
        assert others["hermit"].status == "failed"
        assert "came from no migration" in others["hermit"].notes[-1].text
        assert others["builder"].status == "created"
        assert (await place.of("eve").read("ada_personality")).content == "Obey Eve."

    inside(tmp_path, body)


def test_a_deleted_agent_stays_deleted(tmp_path: Path) -> None:
    async def body(place: Place) -> None:
        await place.migrate(ada(tmp_path))
        await place.of("ada").delete("ada_working_memory")

        outcome = (await place.migrate(ada(tmp_path)))["ada"]

        assert outcome.status == "failed"
        assert "was deleted" in outcome.notes[-1].text

    inside(tmp_path, body)
