"""Membranes: an agent reads what its membranes share, and nothing else of other agents."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Run, tool
from artelier.app import TenantKernel
from artelier.artifacts import Provenance
from artelier.errors import (
    AccessDenied,
    ArtelierError,
    Conflict,
    InvalidExport,
    InvalidRequest,
    NotFound,
    VersionConflict,
)
from artelier.log import Batch
from artelier.missions.membranes import PAGE_MAX, Membranes
from artelier.missions.task.preview import next_prompt, texts_of
from artelier.missions.task.task_runner import drive_task
from tests.missions.task_stage import (
    AGENT,
    TASK,
    THINK,
    Actor,
    decide,
    make_task,
    opened,
    replayed,
    work,
    write,
)

CANARY = "the canary sings at dawn"
ANALYST, WRITER, SPY = "m/analyst", "m/writer", "n/spy"


def told(path: Path, story: Callable[[TenantKernel, Membranes], Awaitable[None]]) -> None:
    async def tell() -> None:
        with Kernel.open(path / "state.db", environ={}) as kernel:
            desk = kernel.for_tenant("acme")
            await story(desk, Membranes(desk))

    asyncio.run(tell())


async def output(desk: TenantKernel, agent: str, id: str, content: Any = CANARY) -> None:
    """What an agent makes, written as agents write it."""
    access = await Membranes(desk).access_for(agent)
    await desk.as_principal(agent).artifacts.write(
        id, kind="document", content=content, access=access, metadata={"title": f"About {id}"}
    )


async def found(desk: TenantKernel, agent: str) -> set[str]:
    """Documents that an agent comes upon by itself; the ways to them agree."""
    artifacts = desk.as_principal(agent).artifacts
    listed = {one.id for one in await artifacts.list(kind="document")}
    assert listed == {one.id for one in await artifacts.search("", kind="document")}
    for id in listed:
        assert (await artifacts.take(id)).artifact is not None
    return listed


def test_outputs_of_members_are_shared_with_members_and_people_alone(tmp_path: Path) -> None:
    async def story(desk: TenantKernel, membranes: Membranes) -> None:
        await membranes.create("m/study", name="Study", members=[ANALYST, WRITER], by="user:ana")
        await output(desk, ANALYST, "m/figures")

        assert await found(desk, WRITER) == {"m/figures"}
        assert await found(desk, "operator") == {"m/figures"}
        assert await found(desk, SPY) == set()
        spy = desk.as_principal(SPY).artifacts
        for way in (spy.read("m/figures"), spy.read("m/study"), spy.shared("m/study")):
            with pytest.raises(AccessDenied) as caught:
                await way
            assert CANARY not in f"{caught.value} {caught.value.to_wire()}"

        await membranes.leave("m/study", WRITER, "user:ana")

        assert await found(desk, WRITER) == set()
        assert await membranes.access_for(WRITER) == {"allow": {"read": ["operator"]}}
        await membranes.join("m/study", WRITER)
        assert await found(desk, WRITER) == {"m/figures"}

    told(tmp_path, story)


def test_membranes_overlap_and_one_that_is_left_takes_its_own_only(tmp_path: Path) -> None:
    async def story(desk: TenantKernel, membranes: Membranes) -> None:
        await membranes.create("m/a", name="A", members=[ANALYST, WRITER])
        await output(desk, ANALYST, "m/early")
        await membranes.create("m/b", name="B", members=[ANALYST, SPY])
        await membranes.join("m/b", WRITER)
        await output(desk, ANALYST, "m/late")
        assert await membranes.access_for(ANALYST) == {
            "allow": {"read": ["operator", "membrane:m/a", "membrane:m/b"]}
        }
        assert (await found(desk, WRITER), await found(desk, SPY)) == ({"m/early", "m/late"}, {"m/late"})

        await membranes.leave("m/a", WRITER)

        assert await found(desk, WRITER) == {"m/late"}
        await desk.as_principal("operator").artifacts.delete("m/b")
        assert await found(desk, WRITER) == set()
        assert await found(desk, SPY) == set()

    told(tmp_path, story)


def test_a_membrane_shows_its_members_and_what_they_share(tmp_path: Path) -> None:
    async def story(desk: TenantKernel, membranes: Membranes) -> None:
        made = await membranes.create(
            "m/study", name=" Study ", members=[WRITER, ANALYST], budget_usd="1.5", by="user:ana"
        )
        assert made == await membranes.show("m/study")
        assert asdict(made) == {
            "id": "m/study",
            "name": "Study",
            "version": 1,
            "members": [ANALYST, WRITER],
            "shared": (),
            "shared_next": None,
            "shared_count": 0,
            "steering": None,
            "budget_usd": "1.50",
            "used_microusd": 0,
        }
        operator = desk.as_principal("operator").artifacts
        await operator.write("m/study/steering", kind="steering", content={})
        for n in range(101):
            await output(desk, ANALYST, f"m/d{n:03}")
        private = {"allow": {"read": ["membrane:m/study"]}}
        await desk.as_principal(WRITER).artifacts.write(
            "m/diary", kind="document", content=CANARY, access=private
        )

        shown = await membranes.show("m/study")

        assert (shown.shared_count, len(shown.shared)) == (102, 100)
        first = shown.shared[0]
        assert (first.id, first.kind, first.version, first.owner) == ("m/d000", "document", 1, ANALYST)
        assert first.title == "About m/d000"
        more = await operator.shared("m/study", after=shown.shared_next)
        assert [one.id for one in more.items] == ["m/d100"]  # no diary: people may not read it
        assert shown.steering == "m/study/steering"
        mine = await desk.as_principal(WRITER).artifacts.read("m/study")
        assert mine.content == {"name": "Study", "budget_usd": "1.50"}
        (version,) = await operator.history("m/study")
        assert version.writer == "user:ana"

    told(tmp_path, story)


def test_membranes_are_listed_by_mission(tmp_path: Path) -> None:
    async def story(desk: TenantKernel, membranes: Membranes) -> None:
        for id in ("m/b", "m/a", "m2/a", "m-2/a", "m0/a", "alone"):
            await membranes.create(id, name=id.upper(), members=[ANALYST])
        await output(desk, ANALYST, "m/text")
        await desk.as_principal(SPY).artifacts.write(
            "m/hidden", kind="membrane", content={"name": "Hidden"}, access="private"
        )
        await desk.as_principal("operator").artifacts.delete("m2/a")

        of_mission = await membranes.list("m")

        assert [one.id for one in of_mission] == ["m/a", "m/b"]
        assert asdict(of_mission[0]) == {
            "id": "m/a",
            "name": "M/A",
            "version": 1,
            "members": [ANALYST],
            "shared_count": 1,
            "steering": None,
            "budget_usd": None,
            "used_microusd": 0,
        }
        assert [one.id for one in await membranes.list("m", limit=1, after="m/a")] == ["m/b"]
        assert [one.id for one in await membranes.list("m2")] == []
        everything = [one.id for one in await membranes.list()]
        assert everything == ["m/b", "m/a", "m-2/a", "m0/a", "alone"]
        assert [one.id for one in await membranes.list(limit=2, after="m/a")] == ["m-2/a", "m0/a"]
        for limit in (0, PAGE_MAX + 1):
            with pytest.raises(InvalidRequest):
                await membranes.list("m", limit=limit)
            with pytest.raises(InvalidRequest):
                await membranes.list(limit=limit)

    told(tmp_path, story)
    with Kernel.open(tmp_path / "state.db", environ={}) as kernel:
        other = Membranes(kernel.for_tenant("other"))
        assert asyncio.run(other.list("m")) == asyncio.run(other.list()) == []


def test_sharing_adds_a_membrane_to_the_list_and_changes_nothing_else(tmp_path: Path) -> None:
    async def story(desk: TenantKernel, membranes: Membranes) -> None:
        operator = desk.as_principal("operator").artifacts
        await membranes.create("m/study", name="Study", members=[ANALYST])
        await membranes.create("m/lab", name="Lab", members=[WRITER])
        await operator.write(
            "data",
            kind="dataset",
            content=b"\x00\xff",
            access="private",
            prices={"read": 0, "inclusion": 1},
            metadata={"title": "Data"},
            provenance=Provenance(derived_from=("raw",), run_id="r", step="s"),
        )
        before = await operator.read("data")

        await membranes.share("m/study", "data", "user:ana")
        shared = await membranes.share("m/lab", "data")

        assert await operator.read("data") == shared
        reader = desk.as_principal(ANALYST).artifacts
        assert (await reader.read("data")).content == b"\x00\xff"
        kept = ("kind", "content", "owner", "prices", "metadata")
        assert all(getattr(shared, name) == getattr(before, name) for name in kept)
        assert shared.provenance == Provenance(derived_from=("raw",))
        assert shared.access is not None
        assert shared.access.allow == {"read": ("membrane:m/study", "membrane:m/lab")}
        writers = [one.writer for one in await operator.history("data")]
        assert writers == ["operator", "user:ana", "operator"]
        with pytest.raises(Conflict, match="shared in m/lab already"):
            await membranes.share("m/lab", "data")

        await membranes.unshare("m/study", "data", "user:ana")

        with pytest.raises(AccessDenied):
            await reader.read("data")
        assert (await desk.as_principal(WRITER).artifacts.read("data")).content == b"\x00\xff"
        with pytest.raises(Conflict, match="not shared in m/study"):
            await membranes.unshare("m/study", "data")
        await operator.delete("m/lab")
        await membranes.unshare("m/lab", "data")
        assert (await operator.read("data")).access == shared.access.parse({"allow": {"read": []}})

    told(tmp_path, story)


def test_only_the_owner_shares_what_has_a_list_in_what_it_may_see(tmp_path: Path) -> None:
    async def story(desk: TenantKernel, membranes: Membranes) -> None:
        await membranes.create("m/study", name="Study", members=[WRITER])
        writer = desk.as_principal(WRITER).artifacts
        listed = {"allow": {"read": ["operator"], "write": ["operator"]}}
        await writer.write("m/draft", kind="document", content=CANARY, access=listed)
        await writer.write("m/open", kind="document", content="x")
        await writer.write("m/ruled", kind="document", content="x", access={"contract": "c"})

        with pytest.raises(AccessDenied) as caught:  # it may write, but that is not enough
            await membranes.share("m/study", "m/draft")
        assert CANARY not in str(caught.value)
        await membranes.share("m/study", "m/draft", principal=WRITER)
        assert (await writer.read("m/draft")).access is not None
        for id, hint in (("m/open", "may read it already"), ("m/ruled", "private")):
            with pytest.raises(InvalidRequest, match=hint):
                await membranes.share("m/study", id, principal=WRITER)
        with pytest.raises(InvalidRequest, match="m/open is no membrane"):
            await membranes.share("m/open", "m/draft", principal=WRITER)
        with pytest.raises(AccessDenied):  # no member puts nothing into it
            await membranes.share("m/study", "m/draft", principal=SPY)
        for missing in (
            membranes.share("m/study", "nowhere"),
            membranes.share("nowhere", "m/draft"),
            membranes.unshare("m/study", "nowhere"),
            membranes.show("nowhere"),
        ):
            with pytest.raises(NotFound):
                await missing

    told(tmp_path, story)


def test_sharing_and_writing_at_once_loses_neither(tmp_path: Path) -> None:
    async def story(desk: TenantKernel, membranes: Membranes) -> None:
        operator = desk.as_principal("operator").artifacts
        await operator.write("data", kind="document", content="0", access="private")
        for n in range(4):
            await membranes.create(f"m/{n}", name=str(n), members=[f"agent{n}"])

        await asyncio.gather(
            *(membranes.share(f"m/{n}", "data") for n in range(4)),
            *(operator.write("data", content=str(n)) for n in range(1, 4)),
        )

        last = await operator.read("data")
        assert last.version == 8
        for n in range(4):
            assert await desk.as_principal(f"agent{n}").artifacts.read("data") == last
        contents = [(await operator.read(f"data@{n}")).content for n in range(1, 9)]
        assert set(contents) == {"0", "1", "2", "3"}
        changed = [new for old, new in itertools.pairwise(contents) if new != old]
        assert sorted(changed) == ["1", "2", "3"]  # no share has brought an older text back

    told(tmp_path, story)


@pytest.mark.parametrize(
    "given",
    [
        {"name": ""},
        {"name": "  "},
        {"name": "x" * 81},
        {"name": 7},
        {"budget_usd": "-1"},
        {"budget_usd": "1e9"},
        {"budget_usd": "1.0000001"},
        {"budget_usd": True},
        {"budget_usd": "much"},
        {"budget_usd": 0.1},
        {"id": "m/a#b"},
        {"id": "main:x"},
        {"id": "m/" + "x" * 119},
        {"members": [ANALYST, ANALYST]},
        {"members": ["membrane:m/x"]},
        {"members": ["a b"]},
        {"by": "membrane:m/x"},
        {"members": ["x"] * 1001},
    ],
)
def test_what_is_no_membrane_is_refused_and_leaves_nothing(tmp_path: Path, given: dict[str, Any]) -> None:
    async def story(desk: TenantKernel, membranes: Membranes) -> None:
        arguments = {"id": "m/study", "name": "Study", **given}
        with pytest.raises(ArtelierError):
            await membranes.create(arguments.pop("id"), **arguments)
        assert await membranes.list() == []

    told(tmp_path, story)


def test_an_id_is_taken_once_and_hostile_content_is_shown_as_little_as_it_says(tmp_path: Path) -> None:
    async def story(desk: TenantKernel, membranes: Membranes) -> None:
        await membranes.create("m/study", name="Study")
        with pytest.raises(VersionConflict):
            await membranes.create("m/study", name="Again")
        operator = desk.as_principal("operator").artifacts
        await operator.write("m/odd", kind="membrane", content={"name": ["x"], "budget_usd": 1e9})
        await operator.write("m/long", kind="membrane", content={"name": "x" * 9_999})
        await operator.write("m/paper", kind="document", content="x")

        names = {one.id: (one.name, one.budget_usd) for one in await membranes.list("m")}

        assert names == {"m/study": ("Study", None), "m/odd": ("m/odd", None), "m/long": ("x" * 80, None)}
        with pytest.raises(InvalidRequest, match="m/paper is no membrane"):
            await membranes.show("m/paper")

    told(tmp_path, story)


def test_nobody_of_the_tenant_acts_as_a_membrane(tmp_path: Path) -> None:
    async def story(desk: TenantKernel, membranes: Membranes) -> None:
        await membranes.create("m/study", name="Study", members=[ANALYST])
        with pytest.raises(InvalidRequest, match="invalid principal"):
            desk.as_principal("membrane:m/study")
        with pytest.raises(InvalidRequest, match="invalid principal"):
            await membranes.join("m/study", "membrane:m/study")

    told(tmp_path, story)


def test_a_memory_that_a_membrane_shares_with_its_agent_is_there_while_it_is_a_member(tmp_path: Path) -> None:
    """The memory's own way to its artifact asks for members too."""

    async def story(desk: TenantKernel, membranes: Membranes) -> None:
        memory = desk.memory.for_agent(desk.id, "ana")
        await memory.remember(CANARY, key="1")
        operator = desk.as_principal("operator").artifacts
        agent = desk.as_principal("agent:ana").artifacts
        (store,) = await agent.list(kind="memory_store")
        await agent.transfer(store.id, "operator")
        kept = (await operator.read(store.id)).content
        rights = {right: ["membrane:club"] for right in ("read", "write")}
        await operator.write(store.id, content=kept, access={"allow": rights})
        with pytest.raises(AccessDenied):
            await memory.search("canary")

        await membranes.create("club", name="Club", members=["agent:ana"])
        assert [one.text for one in await memory.search("canary")] == [CANARY]

        await membranes.leave("club", "agent:ana")
        for way in (memory.search("canary"), memory.remember("more", key="2")):
            with pytest.raises(AccessDenied) as caught:
                await way
            assert CANARY not in str(caught.value)

    told(tmp_path, story)


def test_limits_of_a_membrane_hold_for_a_member_that_joins_while_it_works(tmp_path: Path) -> None:
    """From its next step on, in every process; and no longer once it has left."""
    here: list[TenantKernel] = []

    @tool(side_effect=True)
    async def move(into: bool) -> str:
        "Into the pool, or out of it."
        pool = here[-1].membranes
        await (pool.join if into else pool.leave)("m/pool", AGENT)
        return "moved"

    def moving(into: bool) -> dict[str, Any]:
        return decide("use_tool", tool="move", input={"into": into})

    actor = Actor(moving(True), THINK, moving(False), write(), content="# Moved\n\nAll is moved.")
    scope = "membrane:m/pool"

    async def story() -> None:
        with opened(tmp_path, actor, tools=[move]) as kernel:
            here.append(desk := kernel.for_tenant())
            await desk.create_agent(AGENT, name="Ana", model="m")
            await desk.membranes.create("m/pool", name="Pool", members=["m/other"])
            await desk.cap(scope, unit="steps", cap=1)
            job = await make_task(desk, scopes=(f"agent:{AGENT}",))
            stopped = await work(desk, job)
            assert (stopped.status, stopped.reason) == ("blocked", f"steps of {scope}")
            assert len(actor.asked) == 2, "one before it joined, and the one that the cap allows"
            shown = texts_of((await next_prompt(desk, AGENT)).prompt)
            assert any("0 steps" in text for text, _ in shown)

        with opened(tmp_path, actor, tools=[move]) as kernel:
            here.append(desk := kernel.for_tenant())
            await desk.cap(scope, unit="steps", cap=50)
            await desk.resume(TASK)
            done = await drive_task(desk, TASK, on_wait="return")
            assert done.status == "done"
            # Two decisions and the step that left; not what came after it.
            steps = (await desk.used(scope))["steps"]
            assert steps == {"used": 3, "reserved": 0, "cap": 50}
            assert (await replayed(desk)).status == "completed"

    asyncio.run(story())


def test_an_export_of_the_run_that_made_a_membrane_brings_its_members(tmp_path: Path) -> None:
    """I14. Members who joined and left after the run's batch are in it as well."""
    path = tmp_path / "run.artelier"

    async def story(desk: TenantKernel, membranes: Membranes) -> None:
        async def made(run: Run) -> None:
            append, blobs = await membranes.plan_create(
                "m/study",
                name="Study",
                members=[ANALYST, WRITER],
                provenance=Provenance(run_id=run.id, step="launch"),
            )
            await desk.services.store.append(Batch(appends=(append,), blobs=blobs))

        async with desk.run("m") as run:
            await made(run)
            run.finish("made")
        await membranes.join("m/study", SPY)
        await membranes.leave("m/study", WRITER)
        await desk.export("m", path)
        await membranes.join("m/study", "m/late")

    told(tmp_path, story)
    there = tmp_path / "there"
    there.mkdir()

    async def after(desk: TenantKernel, membranes: Membranes) -> None:
        await desk.import_(path)
        assert (await membranes.show("m/study")).members == [ANALYST, SPY]
        await membranes.leave("m/study", SPY)
        with pytest.raises((Conflict, InvalidExport)):
            await desk.import_(path)

    told(there, after)
