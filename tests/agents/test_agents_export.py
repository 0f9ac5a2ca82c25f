"""An agent goes into one file and comes out of it elsewhere: runs as records, memory alive, skills parked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import AutonomousAgent, ContextBuilder, Kernel, SubAgentFactory, tool
from artelier.app import TenantKernel
from artelier.artifacts import Provenance
from artelier.errors import AccessDenied, Conflict, InvalidExport, InvalidRequest, NotFound, RunEnded
from artelier.kernel.events import RunsImported
from artelier.kernel.export.writer import streams_of
from artelier.log import tenant_stream
from artelier.memory import SQLiteMemoryStore
from artelier.memory.consolidation import consolidate
from artelier.testing import ScriptedModel, tool_call
from artelier.tools.skills import Skills
from tests.kernel.files import fields_of


@tool(side_effect=False)
def query_sales(quarter: int) -> dict[str, int]:
    """Query the sales of a quarter."""
    return {"total": 100 * quarter}


def append(content: str) -> Any:
    return tool_call("core_memory_append", {"content": content})


def remember(text: str, **more: Any) -> Any:
    return tool_call("remember", {"text": text, **more})


FIRST = [
    append("Kim likes charts."),
    remember("The vault code is 7741.", tags=["code"], importance=0.9),
    tool_call("load_skill", {"skill_name": "house-style"}),
    tool_call("query_sales", {"quarter": 3}),
    "300 in Q3.",
]
SECOND = [remember("Reports are due on Fridays."), "Noted."]


def style(folder: Path) -> Path:
    place = folder / "house-style"
    place.mkdir(exist_ok=True)
    (place / "SKILL.md").write_text(
        "---\nname: house-style\ndescription: How our reports look.\n---\nBegin with the total.\n"
    )
    return place


def opened(folder: Path, name: str, script: Any = ()) -> Kernel:
    place = folder / name
    place.mkdir(exist_ok=True)
    return Kernel.open(place / "s.db", models={"m": ScriptedModel(script)}, tools=[query_sales], environ={})


def agent_of(kernel: Kernel, folder: Path, *, store: Any = None) -> AutonomousAgent:
    builder = ContextBuilder(
        identity="You sell and remember.",
        personality="Brief.",
        rules="Never guess.",
        memory_store=store or kernel.memory,
        progressive_skills=True,
        native_tools=True,
        skills=[style(folder)],
    )
    return AutonomousAgent(kernel=kernel, context_builder=builder, agent_id="ana", max_iterations=9)


async def lived(kernel: Kernel, folder: Path, *, store: Any = None) -> AutonomousAgent:
    """Two runs, a fork, and a memory that was changed, forgotten, undone and consolidated."""
    agent = agent_of(kernel, folder, store=store)
    for run_id, prompt in (("one", "Sales of Q3?"), ("two", "When are reports due?")):
        done = await agent.run(run_id=run_id, tenant="acme", model="m", prompt=prompt)
        assert done.status == "completed"
    await kernel.for_tenant("acme").fork("one", new_id="one.fork-1")
    memory = (store or kernel.memory).for_agent("acme", "ana")
    await memory.attach("plan", key="p")
    await memory.append("Ship in March.", "plan", key="p1")
    await memory.replace("March", "April", "plan", key="p2")
    await memory.append("never written", "scratchpad", key="s1")
    gone = await memory.remember("The old code is 1111.", speaker="Kim", date="2026-01-02", key="o")
    await memory.forget(gone.id, key="f")
    back = await memory.remember("Kim has a dog called Rex.", tags=["kim", "pets"], key="d")
    await memory.forget(back.id, key="f2")
    await memory.undo((await memory.changes(1))[0].id, key="u")
    await memory.remember("As I said, Kim has a dog, called Rex.", tags=["kim"], key="d2")
    await consolidate(memory, anyway=True, key="tidy")
    return agent


async def memory_of(store: Any, tenant: str, agent: str = "ana") -> dict[str, Any]:
    """Every field of a memory that anybody can see, but for who asks."""
    memory = store.for_agent(tenant, agent)
    return {
        "blocks": await memory.blocks(),
        "entries": await memory.entries.entries(with_embedding=True),
        "changes": await memory.changes(100),
        "recalled": {
            query: await memory.recall(query, limit=10)
            for query in ("what is the code of the vault?", "Kim's dog", "Friday")
        },
        "found": await memory.search("Kim charts", 10),
    }


def test_an_agent_comes_back_in_every_field(tmp_path: Path) -> None:
    """I14: export(import(export(x))) holds the same events, content and keys."""
    first, second = tmp_path / "ana.artelier", tmp_path / "again.artelier"

    async def scenario() -> None:
        with opened(tmp_path, "there", [*FIRST, *SECOND]) as there, opened(tmp_path, "here") as here:
            await lived(there, tmp_path)
            origin, target = there.for_tenant("acme"), here.for_tenant("elsewhere")
            left = await origin.export_agent("ana", first)

            done = await target.import_agent(first)

            assert (done.agent_id, done.runs, done.sha256, done.events, done.blobs, done.card) == (
                left.agent_id,
                left.runs,
                left.sha256,
                left.events,
                left.blobs,
                left.card,
            )
            assert left.runs == ("one", "one.fork-1", "two")
            assert left.entries == done.entries >= 3
            assert await memory_of(here.memory, "elsewhere") == await memory_of(there.memory, "acme")
            again = await target.export_agent("ana", second)
            assert fields_of(first) == fields_of(second)
            assert (again.events, again.blobs, again.card) == (left.events, left.blobs, left.card)
            for kernel in (there, here):
                assert kernel.verify().findings == []
            for question in ("show", "steps", "tree"):
                for run in left.runs:
                    mine, theirs = [await getattr(runs, question)(run) for runs in (target, origin)]
                    assert _anonymous(mine) == _anonymous(theirs)

    asyncio.run(scenario())


def _anonymous(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _anonymous(item) for name, item in value.items() if name != "tenant"}
    return [_anonymous(item) for item in value] if isinstance(value, list) else value


async def carried(tmp_path: Path, there: Kernel, here: Kernel, **more: Any) -> TenantKernel:
    """The agent `ana` lives in one kernel and arrives in the other."""
    path = tmp_path / "ana.artelier"
    await lived(there, tmp_path)
    await there.for_tenant("acme").export_agent("ana", path, **more)
    target = here.for_tenant("acme")
    await target.import_agent(path)
    return target


def test_its_memory_lives_on_and_its_past_replays_without_a_call(tmp_path: Path) -> None:
    after = ScriptedModel([append("Kim moved."), remember("Kim's dog is old now."), "Rex."])

    async def scenario() -> None:
        with (
            opened(tmp_path, "there", [*FIRST, *SECOND]) as there,
            Kernel.open(tmp_path / "here.db", models={"m": after}, tools=[query_sales], environ={}) as here,
        ):
            target = await carried(tmp_path, there, here)
            agent = agent_of(here, tmp_path)
            for run in ("one", "two"):
                assert (await target.replay(run, agent.drive)).status == "completed"
            assert after.requests == []
            with pytest.raises(RunEnded, match="imported"):
                async with target.run("one.fork-1") as run:
                    await run.step("more", lambda: 1)

            done = await agent.run(
                run_id="three", tenant="acme", model="m", prompt="What is Kim's dog called?"
            )

            assert done.status == "completed"
            said = after.requests[0].canonical().decode()
            assert "Kim likes charts." in said and "Rex" in said and "April" in said
            memory = here.memory.for_agent("acme", "ana")
            blocks = {block.label: block for block in await memory.blocks()}
            assert (blocks["notes"].text, blocks["notes"].version) == ("Kim likes charts.\nKim moved.", 2)
            assert here.verify().findings == []

    asyncio.run(scenario())


def test_changes_of_before_can_be_undone_and_repeated_ones_stay_one(tmp_path: Path) -> None:
    """Keys, marks and versions came along: nothing is stored twice because it crossed a store."""

    async def scenario() -> None:
        with opened(tmp_path, "there", [*FIRST, *SECOND]) as there, opened(tmp_path, "here") as here:
            await carried(tmp_path, there, here)
            memory = here.memory.for_agent("acme", "ana")
            count = len(await memory.entries.entries())

            known = await memory.remember("the vault code is 7741", trust="untrusted", key="new")
            assert known.deduplicated
            same = await memory.remember("Kim has a dog called Rex.", tags=["kim", "pets"], key="d")
            assert same.text == "Kim has a dog called Rex." and not same.deduplicated
            with pytest.raises(Conflict, match="this key"):
                await memory.remember("Something else.", key="d")
            assert len(await memory.entries.entries()) == count

            changes = {change.id: change for change in await memory.changes(100)}
            (replaced,) = [c for c in changes.values() if c.summary.startswith("replace: block plan")]
            await memory.undo(replaced.id, key="back")
            plan = next(block for block in await memory.blocks() if block.label == "plan")
            assert (plan.text, plan.version) == ("Ship in March.", 3)
            forgot = next(c for c in changes.values() if "1111" in c.summary and "forgot" in c.summary)
            await memory.undo(forgot.id, key="old")
            assert "1111" in (await memory.recall("What was the old code?"))[0].text
            history = await memory.history().search("Sales of Q3?", 5)
            assert any(hit.run_id == "one" for hit in history)
            assert here.verify().findings == []

    asyncio.run(scenario())


def test_the_card_names_everything_and_changes_only_with_the_agent(tmp_path: Path) -> None:
    path = tmp_path / "ana.artelier"

    async def scenario() -> None:
        with opened(tmp_path, "there", [*FIRST, *SECOND, "Fine."]) as there:
            agent = await lived(there, tmp_path)
            desk = there.for_tenant("acme")

            first = await desk.export_agent("ana", path, by="user:kim")
            second = await desk.export_agent("ana", path)

            assert first.card == second.card == "agents/ana@1"
            artifacts = desk.as_principal("agent:ana").artifacts
            card = await artifacts.read("agents/ana")
            (version,) = await artifacts.history("agents/ana")
            assert (card.kind, card.owner, version.writer) == ("agent", "agent:ana", "user:kim")
            said = card.content
            assert said["prompts"] == {
                "identity": "You sell and remember.",
                "personality": "Brief.",
                "rules": ["Never guess."],
            }
            assert (said["model"], said["max_iterations"]) == ("m", 9)
            assert said["compaction"] == agent.compaction.settings()
            assert said["memory"] == {
                "store": "memory/ana:entries",
                "embedder": "hashing",
                "blocks": {
                    "notes": "memory/ana/core/notes@1",
                    "plan": "memory/ana/core/plan@2",
                    "scratchpad": "memory/ana/core/scratchpad@1",
                },
            }
            pins = {pin["skill"]: pin for pin in await Skills(there.services, "acme").list()}
            assert said["skills"] == [
                {name: pins[skill][name] for name in ("skill", "hash", "source", "origin")}
                for skill in ("house-style", "query_sales")
            ]
            with pytest.raises(Exception, match="may not read"):
                await desk.as_principal("agent:bob").artifacts.read("agents/ana")

            await agent.run(run_id="three", tenant="acme", model="m", prompt="Fine?")
            assert (await desk.export_agent("ana", path)).card == "agents/ana@1"
            await there.memory.for_agent("acme", "ana").append("New.", key="n")
            assert (await desk.export_agent("ana", path)).card == "agents/ana@2"

    asyncio.run(scenario())


def test_skills_arrive_parked_and_a_decision_of_the_importer_stands(tmp_path: Path) -> None:
    """Trust does not travel; the developer's own code needs none."""
    path, after = tmp_path / "ana.artelier", ScriptedModel(["Hm.", "Hm."])

    async def scenario() -> None:
        with (
            opened(tmp_path, "there", [*FIRST, *SECOND]) as there,
            Kernel.open(tmp_path / "here.db", models={"m": after}, tools=[query_sales]) as here,
        ):
            await lived(there, tmp_path)
            await there.for_tenant("acme").export_agent("ana", path)
            skills = Skills(here.services, "acme")

            done = await here.for_tenant("acme").import_agent(path)

            assert done.skills == ("house-style",)
            shown = await skills.show("house-style")
            assert (shown["status"], shown["usable"]) == ("parked", True)
            assert "Begin with the total." in shown["definition"]
            assert "came with agent ana" in shown["reasons"][0]
            agent = agent_of(here, tmp_path)
            await agent.run(run_id="three", tenant="acme", model="m", prompt="Go.")
            said = after.requests[-1].canonical().decode()
            assert "How our reports look" not in said and "query_sales" in said
            await skills.approve("house-style")
            await agent.run(run_id="four", tenant="acme", model="m", prompt="Go.")
            assert "How our reports look" in after.requests[-1].canonical().decode()

            approving = here.for_tenant("other")
            await agent_of(here, tmp_path).kit(approving)  # pinned here, before anything is imported
            done = await approving.import_agent(path)
            assert done.skills == ()
            (kept,) = [
                one for one in await Skills(here.services, "other").list() if one["skill"] == "house-style"
            ]
            assert kept["status"] == "active"
            assert here.verify().findings == []

    asyncio.run(scenario())


def test_a_memory_in_a_file_of_its_own_comes_along_when_it_is_named(tmp_path: Path) -> None:
    path, again = tmp_path / "ana.artelier", tmp_path / "again.artelier"

    async def scenario() -> None:
        with (
            opened(tmp_path, "there", [*FIRST, *SECOND]) as there,
            opened(tmp_path, "here") as here,
            SQLiteMemoryStore(tmp_path / "memory.db") as store,
        ):
            await lived(there, tmp_path, store=store)
            desk, target = there.for_tenant("acme"), here.for_tenant("acme")
            with pytest.raises(InvalidRequest, match="another file") as refused:
                await desk.export_agent("ana", path)
            assert "memory.db" in str(refused.value.got)
            assert not path.exists()

            left = await desk.export_agent("ana", path, memory=store)
            await target.import_agent(path)

            assert await memory_of(here.memory, "acme") == await memory_of(store, "acme")
            assert left.entries >= 3
            await target.export_agent("ana", again)
            assert fields_of(path) == fields_of(again)
            bare = await desk.export_agent("ana", again, without_memory=True)
            other = here.for_tenant("other")
            await other.import_agent(again)
            assert bare.entries == 0
            assert await here.memory.for_agent("other", "ana").entries.entries() == []
            assert here.verify().findings == []

    asyncio.run(scenario())


@pytest.mark.parametrize("bob", ["bob", "x:skills", "b/o.b-", "b" * 300])
def test_an_agent_that_only_remembers_is_carried_too(tmp_path: Path, bob: str) -> None:
    path, again = tmp_path / "bob.artelier", tmp_path / "again.artelier"

    async def scenario() -> None:
        with opened(tmp_path, "there") as there, opened(tmp_path, "here") as here:
            memory = there.memory.for_agent("acme", bob)
            await memory.remember("The key is under the mat.", key="1")
            left = await there.for_tenant("acme").export_agent(bob, path)
            await here.for_tenant("acme").import_agent(path)
            await here.for_tenant("acme").export_agent(bob, again)

            assert left.runs == () and left.entries == 1
            assert fields_of(path) == fields_of(again)
            hits = await here.memory.for_agent("acme", bob).recall("key")
            assert [hit.text for hit in hits] == ["The key is under the mat."]

    asyncio.run(scenario())


def test_sub_agents_and_shared_blocks_come_along_and_others_do_not(tmp_path: Path) -> None:
    path = tmp_path / "boss.artelier"
    model = ScriptedModel(
        [tool_call("scout", {"prompt": "Look."}), append("Scouted."), "Seen.", "Done.", "Mine."]
    )

    async def scenario() -> None:
        with (
            Kernel.open(tmp_path / "there.db", models={"m": model}, environ={}) as there,
            opened(tmp_path, "here") as here,
        ):
            factory = SubAgentFactory(kernel=there, model="m", memory_store=there.memory)
            boss = AutonomousAgent(
                kernel=there,
                agent_id="boss",
                identity="Lead.",
                tools=[factory.create(name="scout", description="Scouts.", system_prompt="Scout.")],
            )
            await boss.run(run_id="b", tenant="acme", model="m", prompt="Go.")
            await AutonomousAgent(kernel=there, agent_id="bossy", identity="Else.").run(
                run_id="x", tenant="acme", model="m", prompt="Go."
            )
            shared = there.for_tenant("acme").as_principal("user:kim").artifacts
            await shared.write("team/rules", kind="document", content="Be kind.", access="public")
            await there.memory.for_agent("acme", "boss").attach("team", "team/rules", key="t")
            left = await there.for_tenant("acme").export_agent("boss", path)
            target = here.for_tenant("acme")

            await target.import_agent(path)

            assert len(left.runs) == 2 and left.runs[0] == "b"
            rows = (await target.agents())["items"]
            assert [row["agent"] for row in rows] == ["boss", "boss/scout"]
            assert (await target.show_agent("boss"))["sub_agents"] == ["boss/scout"]
            blocks = await here.memory.for_agent("acme", "boss/scout").blocks()
            assert "Scouted." in [block.text for block in blocks]
            blocks = await here.memory.for_agent("acme", "boss").blocks()
            assert "Be kind." in [block.text for block in blocks]
            with pytest.raises(NotFound):
                await target.show("x")
            assert here.verify().findings == []

    asyncio.run(scenario())


def test_what_is_here_already_refuses_the_whole_import(tmp_path: Path) -> None:
    path = tmp_path / "ana.artelier"

    async def taken(kernel: Kernel, name: str, what: str) -> None:
        target = kernel.for_tenant(name)
        await target.state()
        agent = {"runs": "ana", "below": "ana/scout"}.get(what)
        if what == "run":  # of the same name, by somebody else
            async with target.run("one", agent="bob") as run:
                run.finish(1)
        elif agent:
            async with target.run("mine", agent=agent) as run:
                run.finish(1)
        elif what == "memory":
            await kernel.memory.for_agent(name, "ana").remember("Mine.", key="1")
        else:
            owner = target.as_principal("user:kim").artifacts
            await owner.write(what, kind="agent", content={"agent_id": "x"})

    async def scenario() -> None:
        with opened(tmp_path, "there", [*FIRST, *SECOND]) as there, opened(tmp_path, "here") as here:
            await carried(tmp_path, there, here)
            for number, what in enumerate(
                ("runs", "below", "run", "memory", "agents/ana", "memory/ana/core/x", "skillsets/ana")
            ):
                name = f"t{number}"
                await taken(here, name, what)
                root = await here.store.root()
                with pytest.raises(Conflict, match="already"):
                    await here.for_tenant(name).import_agent(path)
                assert await here.store.root() == root, what
            with pytest.raises(Conflict, match="has an agent ana already"):
                await here.for_tenant("acme").import_agent(path)
            assert here.verify().findings == []

    asyncio.run(scenario())


def test_a_run_and_an_agent_are_not_taken_for_each_other(tmp_path: Path) -> None:
    run, agent = tmp_path / "one.artelier", tmp_path / "ana.artelier"

    async def scenario() -> None:
        with opened(tmp_path, "there", [*FIRST, *SECOND]) as there, opened(tmp_path, "here") as here:
            target = await carried(tmp_path, there, here)
            await there.for_tenant("acme").export("one", run)
            with pytest.raises(InvalidExport, match="run one") as refused:
                await target.import_agent(run)
            assert "artelier import FILE" in str(refused.value.hint)
            with pytest.raises(InvalidExport, match="agent ana") as refused:
                await target.import_(agent)
            assert "artelier agents import FILE" in str(refused.value.hint)
            with pytest.raises(NotFound, match="no agent"):
                await target.export_agent("nobody", run)
            with pytest.raises(InvalidRequest, match="agent id"):
                await target.export_agent("a b", run)

    asyncio.run(scenario())


def test_an_agent_at_work_is_carried_as_it_is_at_one_moment(tmp_path: Path) -> None:
    """What begins after that moment is not in the file, not even its name."""
    path, again = tmp_path / "ana.artelier", tmp_path / "again.artelier"

    async def scenario() -> None:
        with opened(tmp_path, "there") as there, opened(tmp_path, "here") as here:
            desk, target = there.for_tenant("acme"), here.for_tenant("acme")
            async with desk.run("one", agent="ana") as run:
                await run.step("a", lambda: 1)
                position, _root = await there.store.root()
                async with desk.run("one::child", agent="ana/scout", parent=run) as child:
                    child.finish(2)
                streams = await streams_of(there.services, "acme", ["one"], position=position)
                assert {stream.id for stream in streams} == {"one"}
                left = await desk.export_agent("ana", path)
                run.finish(3)

            await target.import_agent(path)

            assert left.runs == ("one", "one::child")
            assert (await target.show("one"))["status"] == "running"
            await target.export_agent("ana", again)
            assert fields_of(path) == fields_of(again)
            assert here.verify().findings == []

    asyncio.run(scenario())


def test_what_no_import_would_take_is_not_exported(tmp_path: Path) -> None:
    path = tmp_path / "ana.artelier"

    async def scenario() -> None:
        with opened(tmp_path, "there") as there:
            desk = there.for_tenant("acme")
            async with desk.run("one", agent="ana") as run:
                run.finish(1)
            await there.memory.for_agent("acme", "bob").remember("Mine.", key="1")
            bob = desk.as_principal("agent:bob").artifacts
            config = (await bob.read("memory/bob:entries")).content
            written = Provenance(run_id="one")
            await bob.write("memory/bob:entries", content=config, provenance=written)

            with pytest.raises(InvalidExport, match="memory of somebody else"):
                await desk.export_agent("ana", path)
            assert list(tmp_path.glob("*ana*")) == []

            theirs = desk.as_principal("user:kim").artifacts
            await theirs.write("agents/bob", kind="document", content="Keep out.")
            with pytest.raises(AccessDenied):
                await desk.export_agent("bob", path)

    asyncio.run(scenario())


def test_one_name_in_two_stores_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ana.artelier"

    async def scenario() -> None:
        with opened(tmp_path, "there") as there, opened(tmp_path, "beside") as beside:
            desk = there.for_tenant("acme")
            async with desk.run("one", agent="ana") as run:
                run.finish(1)
            for kernel in (there, beside):
                await kernel.for_tenant("acme").state()
                team = kernel.for_tenant("acme").as_principal("user:kim").artifacts
                await team.write(
                    "team/rules",
                    kind="document",
                    content="Be kind.",
                    access="public",
                    provenance=Provenance(run_id="one"),
                )
            await beside.memory.for_agent("acme", "ana").attach("team", "team/rules", key="t")

            with pytest.raises(Conflict, match="in both stores"):
                await desk.export_agent("ana", path, memory=beside.memory)
            assert not path.exists()

    asyncio.run(scenario())


def test_the_tenant_is_told_who_came(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, "there", [*FIRST, *SECOND]) as there, opened(tmp_path, "here") as here:
            await carried(tmp_path, there, here)
            events = await here.store.read(tenant_stream("acme"))
            told = next(event for event in events if event.kind == "runs.imported")

            data = told.decode()
            assert isinstance(data, RunsImported)
            assert (data.agent, data.tenant, told.actor) == ("ana", "acme", "operator")
            assert [event.kind for event in events][-2:] == ["import.settled", "skill.parked"]

    asyncio.run(scenario())
