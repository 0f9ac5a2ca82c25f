"""Law of garbage: whatever was done, collecting takes nothing that anybody could read, and leaves none."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from artelier import Kernel
from artelier.app import TenantKernel
from artelier.chat import Session
from artelier.errors import ArtelierError, Erased
from artelier.log import Batch, make_blob
from artelier.testing import ScriptedModel
from artelier.world import World
from tests.erasure.test_subjects import KEY, look_up
from tests.kernel.stage import play, user

NAMES = st.integers(0, 2)
WORDS = st.sampled_from(["tea", "quartz " * 300, "b:" + "A" * 43, "é\n"])
SUBJECTS = st.sampled_from(["", "ana", "ben"])
STEPS = st.one_of(
    st.tuples(st.just("run"), NAMES, WORDS, SUBJECTS),
    st.tuples(st.just("write"), NAMES, WORDS, SUBJECTS),
    st.tuples(st.just("edit"), NAMES, WORDS, st.none()),
    st.tuples(st.just("delete"), NAMES, st.none(), st.none()),
    st.tuples(st.just("prune"), NAMES, st.none(), st.none()),
    st.tuples(st.just("remember"), NAMES, WORDS, st.none()),
    st.tuples(st.just("note"), NAMES, WORDS, st.none()),
    st.tuples(st.just("forget"), NAMES, st.none(), st.none()),
    st.tuples(st.just("chat"), NAMES, WORDS, SUBJECTS),
    st.tuples(st.just("fork"), NAMES, st.none(), st.none()),
    st.tuples(st.just("carry"), NAMES, st.none(), st.none()),
    st.tuples(st.just("tick"), st.none(), st.none(), st.none()),
    st.tuples(st.just("garbage"), NAMES, WORDS, st.none()),
    st.tuples(st.just("erase"), st.none(), st.none(), SUBJECTS),
)
Step = tuple[str, Any, Any, Any]


@given(st.lists(STEPS, min_size=4, max_size=14), st.booleans())
def test_collecting_takes_nothing_that_can_be_read(steps: list[Step], is_sealed: bool) -> None:
    async def scenario(folder: Path) -> None:
        model = ScriptedModel(lambda request: f"re: {request.messages[-1].text}")
        environ = KEY if is_sealed else {}
        with Kernel.open(folder / "s.db", models=model, tools=[look_up], environ=environ) as kernel:
            desk, other = kernel.for_tenant("acme"), kernel.for_tenant("other")
            for number, step in enumerate(steps):
                try:
                    await apply(desk, other, folder, step, number)
                except ArtelierError:
                    continue  # what is not there, was erased or is another's
            before = [await all_of(one) for one in (desk, other)]

            found = await kernel.collect()

            assert [await all_of(one) for one in (desk, other)] == before
            report = kernel.verify()
            assert report.ok, report.findings
            again = await kernel.collect(dry=True)
            assert (again.blobs, again.resealed, found.busy) == (0, 0, ())
        with Kernel.open(folder / "s.db", models=model, environ=environ) as kernel:
            desk, other = kernel.for_tenant("acme"), kernel.for_tenant("other")
            assert [await all_of(one) for one in (desk, other)] == before

    with tempfile.TemporaryDirectory() as folder:
        play(scenario(Path(folder)), within_s=120)


async def apply(desk: TenantKernel, other: TenantKernel, folder: Path, step: Step, number: int) -> None:
    """Do one thing. Errors: `ArtelierError` where it cannot be done as things stand."""
    name, which, word, subject = step
    artifacts = desk.as_principal("operator").artifacts
    memory = desk.memory.for_agent(desk.id, "ana")
    if name == "run":
        async with desk.run(f"r{which}", subject=subject) as run:
            talk = run.conversation()
            talk.append(user(word))
            await run.step_model(model="m", messages=talk)
            talk.append(await run.step_tool("look_up", {"customer": word}))
            await run.step_model(model="m", messages=talk)
            run.finish({"said": word})
    elif name == "write":
        bound = artifacts.about(subject) if subject else artifacts
        await bound.write(f"a{which}", kind="document", content=word, metadata={"about": word})
    elif name == "edit":
        await artifacts.write(f"a{which}", content={"now": word, "n": number})
    elif name == "delete":
        await artifacts.delete(f"a{which}")
    elif name == "prune":
        await artifacts.prune(f"a{which}", max_versions=1)
    elif name == "remember":
        await memory.remember(f"{word} {which}", key=str(number))
    elif name == "note":
        await memory.append(word, key=str(number))
    elif name == "forget":
        for entry in (await memory.entries.entries())[:1]:
            await memory.forget(entry.id, key=str(number))
    elif name == "chat":
        session = await Session.open(desk, f"c{which}", model="m", subject=subject)
        await session.generate(word)
    elif name == "fork":
        await desk.fork(f"r{which}")
    elif name == "carry":
        file = folder / f"{number}.artelier"
        await desk.export(f"r{which}", file)
        await other.import_(file)
    elif name == "tick":
        worlds = await desk.services.store.query("SELECT 1 FROM worlds")
        world = World.open(desk, "w") if worlds else await World.new(desk, "w")
        await world.as_principal("operator").artifacts.write(
            f"w{number}", kind="document", content=f"seen at {number}"
        )
        await world.tick()
        await world.close()
    elif name == "garbage":
        key = await desk.services.store.data_key(desk.id)
        _, blob = make_blob(desk.id, key, f"nobody needs {word} {number}".encode())
        await desk.services.store.append(Batch(blobs=[blob]))
    elif subject:
        await desk.erase(subject=subject)


async def all_of(desk: TenantKernel) -> dict[str, Any]:
    """Everything that a tenant could read, byte for byte."""
    found: dict[str, Any] = {}
    artifacts = desk.as_principal("operator").artifacts
    for run in (await desk.runs(limit=1_000))["items"]:
        found[run["id"]] = await desk.show(run["id"])
        for step in await desk.steps(run["id"]):
            if step["kind"] == "model":
                request, erased = await desk.shown(run["id"], step["key"])
                found[f"{run['id']}:{step['key']}"] = (request.canonical(), erased)
    for one in await artifacts.list(limit=1_000):
        for version in await artifacts.history(one.id):
            place = f"{one.id}@{version.version}"
            try:
                found[place] = await artifacts.read(place)
            except ArtelierError as error:
                found[place] = error.code
    memory = desk.memory.for_agent(desk.id, "ana")
    found["memory"] = (await memory.blocks(), await memory.entries.entries(limit=1_000))
    for chat in (await desk.chats())["items"]:
        try:
            turns = await (await Session.open(desk, chat["chat_id"])).turns()
            found[chat["chat_id"]] = [(turn.user, turn.variants) for turn in turns]
        except Erased:
            found[chat["chat_id"]] = "erased"
    for (world,) in await desk.services.store.query("SELECT id FROM worlds WHERE tenant = ?", (desk.id,)):
        found[f"world {world}"] = await World.open(desk, world).hash()
    return found
