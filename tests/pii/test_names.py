"""Names hold no personal data: whatever a person or a model can call something is refused, or replaced.

Values are put at every name that can be chosen; then every byte of every file, every log record and every
span is searched for them. A place that forgets to look shows here.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from artelier import AutonomousAgent, Kernel, Policy, Run, Session, Tenant, tool
from artelier.app import TenantKernel
from artelier.artifacts import Provenance
from artelier.errors import ArtelierError, Conflict, InvalidRequest, RunStopped, RunSuspended
from artelier.kernel import Limits
from artelier.pii.vault import placeholders_in
from artelier.ports.model import ToolCall
from artelier.telemetry import OpenTelemetry
from artelier.testing import ScriptedModel, tool_call
from artelier.world.genesis import found
from tests.kernel.stage import play, user
from tests.telemetry.watch import Watch

KEY = {"ARTELIER_VAULT_KEY": "a vault key for tests"}
ACME = Tenant("acme", grants={"*"})

EMAIL = "rosa.diaz@example.org"
IBAN = "DE89370400440532013000"
"""It fits wherever an id does."""
TRACES = (EMAIL, EMAIL.upper(), "rosa.diaz", IBAN, IBAN.lower())

Doing = Callable[[], Awaitable[Any]]


def opened(folder: Path, model: Any = None, *tools: Any, **more: Any) -> Kernel:
    policy = Policy(pii=True, backoff_s=0)
    model = model or ScriptedModel(lambda request: "well")
    return Kernel.open(folder / "s.db", models={"m": model}, tools=tools, environ=KEY, policy=policy, **more)


def assert_clean(text: str, where: str) -> None:
    for trace in TRACES:
        at = text.find(trace)
        assert at < 0, f"{trace} in {where}: {text[max(0, at - 200) : at + 80]!r}"


def assert_nowhere(folder: Path) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            assert_clean(file.read_bytes().decode("latin-1"), file.name)


async def assert_refused(places: dict[str, Doing]) -> None:
    """Each of them is an `InvalidRequest`."""
    passed: list[str] = []
    for place, do in places.items():
        try:
            await do()
        except InvalidRequest as error:
            if "personal data" not in str(error) and "holds a value" not in str(error):
                passed.append(f"{place}: {error}")
        except ArtelierError as error:
            passed.append(f"{place}: {type(error).__name__}: {error}")
        else:
            passed.append(place)
    assert passed == []


async def opened_once(opening: Any) -> None:
    async with opening as run:
        run.finish("done")


def test_what_a_person_calls_something_tells_nothing_of_a_person(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path) as kernel:
            desk = kernel.for_tenant(ACME)
            await opened_once(desk.run("r"))
            mine = desk.as_principal("user:kim").artifacts
            await mine.write("note", content="hello", kind="document")
            store = kernel.memory
            memory = store.for_agent("acme", "clerk")
            group = desk.membranes
            async with await found(desk, "w", {"agents": []}, seed=1) as world:
                await world.run(ticks=1)
            chat = await Session.open(kernel, "talk", model="m", tenant=ACME)
            await chat.generate("hello")
            await desk.schedules.add("nightly", every=3600, goal="count", model="m")

            await assert_refused(
                {
                    "tenant": lambda: kernel.for_tenant(IBAN).state(),
                    "run": lambda: opened_once(desk.run(IBAN)),
                    "scope": lambda: opened_once(desk.run("r2", scopes=(f"agent:{IBAN}",))),
                    "agent": lambda: opened_once(desk.run("r3", agent=EMAIL)),
                    "fork": lambda: desk.fork("r", at=1, new_id=f"of-it/{IBAN}"),
                    "cap": lambda: desk.cap(f"agent:{IBAN}", unit="steps", cap=3),
                    "signal": lambda: desk.signal("r", EMAIL, 1),
                    "artifact": lambda: mine.write(f"x/{IBAN}", content="x", kind="document"),
                    "source": lambda: mine.write(
                        "x2", content="x", kind="document", provenance=Provenance(derived_from=(f"{IBAN}@1",))
                    ),
                    "owner": lambda: desk.as_principal(f"user:{IBAN}").artifacts.write(
                        "x3", content="x", kind="document"
                    ),
                    "receiver": lambda: mine.transfer("note", to=f"user:{IBAN}"),
                    "reader": lambda: mine.write(
                        "x4", content="x", kind="document", access={"allow": {"read": [f"user:{IBAN}"]}}
                    ),
                    "group": lambda: group.create(f"g/{IBAN}", name="Kin"),
                    "memory": lambda: store.for_agent("acme", IBAN).append("x", key="k1"),
                    "memory's key": lambda: memory.append("x", key=f"k/{IBAN}"),
                    "world": lambda: found(desk, IBAN, {"agents": []}, seed=1),
                    "agent of a world": lambda: found(
                        desk, "w2", {"agents": [{"id": f"of-{IBAN.lower()}/{IBAN}"}]}, seed=1
                    ),
                    "chat": lambda: Session.open(kernel, IBAN, model="m", tenant=ACME),
                    "branch of a chat": lambda: chat.branch(IBAN, at_turn=0),
                    "schedule": lambda: desk.schedules.add(IBAN, every=3600, goal="x", model="m"),
                    "mission": lambda: desk.plan("count", mission_id=IBAN, model="m"),
                    "task": lambda: desk.tasks.create(
                        goal="count", success_criteria="a number", id=f"t/{IBAN}"
                    ),
                    "mission's agent": lambda: desk.create_agent(IBAN, name="Clerk", model="m"),
                    "pattern": lambda: kernel.tenants.update("acme", patterns={"WHO": EMAIL}),
                    "grant": lambda: kernel.tenants.update("acme", grants=[f"tools:{EMAIL}"]),
                }
            )
            assert kernel.verify().ok

    play(scenario())
    assert_nowhere(tmp_path)


def test_a_name_in_a_run_is_refused_at_the_door_and_the_run_goes_on(tmp_path: Path) -> None:
    places: dict[str, Callable[[Run], Awaitable[Any]]] = {
        "key of a model": lambda run: run.step_model(model="m", messages=[user("x")], key=EMAIL),
        "key of a tool": lambda run: run.step_tool("look", {}, key=f"look/{EMAIL}"),
        "key of a value": lambda run: run.step("count", lambda: 1, key=IBAN),
        "name of a value": lambda run: run.step(EMAIL, lambda: 1),
        "key of a question": lambda run: run.approve("well?", key=EMAIL),
        "signal": lambda run: run.wait_for(EMAIL, timeout_s=0),
        "branch": lambda run: run.branch(EMAIL).step("one", lambda: 1),
        "version": lambda run: run.version(EMAIL),
        "version, asked again": lambda run: run.version(EMAIL),
    }
    calls: list[int] = []

    @tool(side_effect=False)
    async def look() -> str:
        """Look."""
        calls.append(1)
        return "seen"

    async def code(run: Run) -> Any:
        passed: list[str] = []
        for place, do in places.items():
            with pytest.raises(InvalidRequest) as refused:
                await do(run)
            if EMAIL in str(refused.value) or not placeholders_in(str(refused.value)):
                passed.append(place)
        with pytest.raises(InvalidRequest):
            run.conversation(EMAIL)
        assert passed == []
        talk = run.conversation()
        talk.append(user("hello"))
        talk.append(await run.step_model(model="m", messages=talk))
        talk.append(await run.step_tool("look", {}))
        return (await run.step_model(model="m", messages=talk)).text

    async def scenario() -> None:
        with opened(tmp_path, None, look) as kernel:
            desk = kernel.for_tenant(ACME)
            async with desk.run("r", limits=Limits(steps=10)) as run:
                run.finish(await code(run))
            assert calls == [1]
            assert (await desk.show("r"))["status"] == "completed"
            replayed = await desk.replay("r", code)
            assert replayed.status == "completed"
            assert kernel.verify().ok

    play(scenario())
    assert_nowhere(tmp_path)


def test_what_a_model_makes_up_is_replaced_and_the_run_goes_on(tmp_path: Path) -> None:
    replies = [
        [tool_call(EMAIL, {"a": 1}, id="c1"), tool_call(f"mail_to/{IBAN}", {}, id=EMAIL)],
        tool_call("write_artifact", {"id": f"letters/{IBAN}", "content": "x"}),
        tool_call("core_memory_append", {"label": EMAIL, "content": "x"}),
        f"done, {EMAIL}",
    ]
    model = ScriptedModel(replies)

    async def scenario() -> None:
        with opened(tmp_path, model) as kernel:
            agent = AutonomousAgent(kernel=kernel, agent_id="clerk")
            done = await agent.run(run_id="r", tenant=ACME, model="m", prompt="go")
            assert done.status == "completed", (done.reason, done.text)
            for request in model.requests:
                assert_clean(str(request), "a prompt")

            async def code(run: Run) -> Any:
                made_up = ToolCall(id=f"{EMAIL}", name=EMAIL, arguments={})
                talk = run.conversation()
                talk.append(user("hi"))
                refused = await run.step_tool(made_up.name, {}, call=made_up)
                assert refused.is_error
                talk.append(refused)
                return (await run.step_tool(f"x-{IBAN}", {}, key="two")).value

            async with kernel.for_tenant(ACME).run("own") as run:
                run.finish(await code(run))
            assert (await kernel.for_tenant(ACME).replay("own", code)).status == "completed"
            assert kernel.verify().ok

    play(scenario())
    assert_nowhere(tmp_path)


def test_who_acts_is_kept_as_a_placeholder(tmp_path: Path) -> None:
    async def asks(run: Run) -> Any:
        return (await run.approve("may I?")).by

    async def scenario() -> None:
        with opened(tmp_path) as kernel:
            desk = kernel.for_tenant(ACME)
            with pytest.raises(RunSuspended):
                async with desk.run("r", on_wait="suspend") as run:
                    await asks(run)
            await desk.inject("r", f"I am {EMAIL}", by=EMAIL)
            await desk.pause("r", by=f"user:{EMAIL}", note=EMAIL)
            await desk.resume("r", by=EMAIL)
            await desk.approve("r", by=EMAIL, note=EMAIL)
            async with desk.run("r") as run:
                by = await asks(run)
                run.finish(by)
            assert placeholders_in(by)
            assert await desk.restored(by) == EMAIL
            with pytest.raises(RunStopped):
                async with desk.run("stopped"):
                    await desk.cancel("stopped", by=EMAIL, note=f"{EMAIL} wants it")
            await desk.schedules.add("n", every=3600, goal=EMAIL, model="m", by=EMAIL)
            await desk.schedules.pause("n", by=EMAIL, note=EMAIL)
            await kernel.tenants.update("acme", budget_usd="3.00", by=EMAIL)
            assert kernel.verify().ok

    play(scenario())
    assert_nowhere(tmp_path)
    with opened(tmp_path) as kernel:  # what they stand for is there in another process
        shown = play(kernel.for_tenant(ACME).restored({"by": _actors(kernel)}))
        assert EMAIL in shown["by"]


def _actors(kernel: Kernel) -> list[str]:
    return [actor for (actor,) in kernel.store.look("SELECT DISTINCT actor FROM events", ())]


def test_a_subject_is_a_keyed_name_that_erase_finds_in_another_process(tmp_path: Path) -> None:
    async def served(kernel: Kernel) -> None:
        async with kernel.for_tenant(ACME).run("r", subject=EMAIL) as run:
            run.finish(await run.step("one", lambda: "said in private"))

    with opened(tmp_path) as kernel:
        play(served(kernel))
    assert_nowhere(tmp_path)
    with opened(tmp_path) as kernel:
        play(served(kernel))  # the same subject, and no other one
        done = play(kernel.for_tenant(ACME).erase(subject=EMAIL, by="bo@example.net"))
        assert (done.keys, done.runs) == (1, ("r",))
        assert play(kernel.for_tenant(ACME).erase(subject=EMAIL)).again
    assert_nowhere(tmp_path)
    assert b"said in private" not in (tmp_path / "s.db").read_bytes()


def test_subjects_of_before_there_was_a_vault_key_are_named_anew(tmp_path: Path) -> None:
    async def served(kernel: Kernel, *, subject: str = EMAIL) -> None:
        async with kernel.for_tenant("acme").run("r", subject=subject) as run:
            run.finish(await run.step("one", lambda: "said in private"))

    with Kernel.open(tmp_path / "s.db", environ={}) as kernel:
        play(served(kernel))
    assert EMAIL.encode() in (tmp_path / "s.db").read_bytes()
    with opened(tmp_path) as kernel:
        play(served(kernel))  # found by its text
        play(kernel.collect())
        assert_nowhere(tmp_path)
        play(served(kernel))
        with pytest.raises(Conflict):
            play(served(kernel, subject="bo@example.net"))
        assert play(kernel.for_tenant("acme").erase(subject=EMAIL)).runs == ("r",)
        assert kernel.verify().ok


def test_words_of_failures_reach_neither_file_nor_log_nor_span(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    watch = Watch()

    @tool(side_effect=False)
    async def breaks(who: str) -> str:
        """Break."""
        raise ValueError(f"no {who}, and nobody called {EMAIL}")

    async def fails(run: Run) -> None:
        assert (await run.step_tool("breaks", {"who": EMAIL})).is_error
        with pytest.raises(ValueError):
            await run.step("broken", lambda: int(EMAIL))
        raise RuntimeError(f"{EMAIL} was here, {IBAN}")

    def odd(request: Any) -> Any:
        raise OSError(f"the provider knows {EMAIL}")

    async def scenario() -> None:
        telemetry = OpenTelemetry(tracer_provider=watch.tracers, meter_provider=watch.meters, content=True)
        with opened(tmp_path, ScriptedModel(odd), breaks, telemetry=telemetry) as kernel:
            desk = kernel.for_tenant(ACME)
            with pytest.raises(RuntimeError):
                async with desk.run("r") as run:
                    await fails(run)
            with pytest.raises(Exception, match="provider"):
                async with desk.run("asks") as run:
                    await run.step_model(model="m", messages=[user(f"hi {EMAIL}")])
            async with desk.run("fails") as run:
                run.fail(EMAIL, f"because of {EMAIL}", result={EMAIL: IBAN})
            logger = logging.getLogger("artelier.server")
            try:
                raise RuntimeError(f"{EMAIL} again")
            except RuntimeError:
                logger.exception("a request failed: %s %s", "GET", f"/runs/{EMAIL}")
            logger.warning("%s and %s", IBAN, EMAIL)
            await desk.export("r", tmp_path / "r.artelier")
            assert kernel.verify().ok

    play(scenario())
    assert_nowhere(tmp_path)
    assert watch.spans
    assert_clean("\n".join(span.to_json() for span in watch.spans), "spans")
    assert "<EMAIL> again" in caplog.text
    assert_clean(caplog.text, "log lines")
    for record in caplog.records:
        assert_clean(f"{record.__dict__}", "a log record")


def test_an_error_of_a_tool_that_reads_the_store_proves_no_placeholder(tmp_path: Path) -> None:
    sent: list[str] = []
    stolen: list[str] = []

    @tool(side_effect=False, reads_store=True, grant="tools:find pii:restore")
    async def find(name: str) -> str:
        """Find something."""
        raise ValueError(f"nothing is called {name}")

    @tool(side_effect=True, grant="pii:restore")
    async def send(to: str) -> str:
        """Send a letter."""
        sent.append(to)
        return "sent"

    async def hears(run: Run) -> Any:
        stolen.extend(placeholders_in(await run.step("said", lambda: f"I am {EMAIL}")))

    async def steals(run: Run) -> Any:
        await run.step_tool("find", {"name": stolen[0]})
        await run.step_tool("send", {"to": stolen[0]})

    async def scenario() -> None:
        with opened(tmp_path, None, find, send) as kernel:
            desk: TenantKernel = kernel.for_tenant(ACME)
            for name, code in (("a", hears), ("b", steals)):
                async with desk.run(name) as run:
                    await code(run)
                    run.finish(None)
            assert sent == stolen

    play(scenario())


def test_names_are_looked_at_together_as_they_are_alone(tmp_path: Path) -> None:
    """What stands before or behind a name in one batch neither hides a value nor makes one."""
    harmless = [
        "phone",
        "version",
        "41/model",
        "tool.requested",
        "iban DE89",
        "card 4111",
        "id",
        "rev",
        "run:r",
        "2026-03-28T12:00:00",
        "0301 23",
        "tel",
        "runs/r/1",
        "1.2.3.4.5",
        "order",
    ]
    harmful = [EMAIL, IBAN, "203.0.113.77", "tel:+4915112345678", "4111-1111-1111-1111"]
    with opened(tmp_path) as kernel:
        play(kernel.for_tenant(ACME).state())
        for before in harmless:
            for behind in harmless:
                kernel.services.personal("acme").check_names([before, behind])  # pyright: ignore[reportOptionalCall] - it is on
                for value in harmful:
                    scrubber = kernel.services.personal("acme")  # pyright: ignore[reportOptionalCall] - it is on
                    scrubber.forget()
                    with pytest.raises(InvalidRequest):
                        scrubber.check_names([before, value, behind])


def test_the_refusal_of_a_name_shows_the_placeholder(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path) as kernel:
            desk = kernel.for_tenant(ACME)
            with pytest.raises(InvalidRequest, match="tells nothing of a person") as refused:
                await desk.signal("r", EMAIL) if await _is_there(desk) else None
            assert placeholders_in(str(refused.value))
            assert_clean("".join(traceback.format_exception(refused.value)[-1:]), "the refusal")

    asyncio.run(scenario())


async def _is_there(desk: TenantKernel) -> bool:
    await opened_once(desk.run("r"))
    return True


def doings_of(desk: TenantKernel, world: Any, memory: Any, chat: Session, folder: Path) -> dict[str, Doing]:
    """What a person may do, under a value."""
    who, account = f"user:{EMAIL}", f"user:{IBAN}"
    return {
        "world": lambda: world.run(ticks=1),
        "injected": lambda: world.inject(EMAIL, by=who),
        "told": lambda: world.inject("x", to=[IBAN]),
        "world paused": lambda: world.pause(by=who),
        "world resumed": lambda: world.resume(by=who),
        "left": lambda: world.leave("ann", by=who),
        "world forked": lambda: world.fork(new_id="w2"),
        "world's fork": lambda: world.fork(new_id=IBAN),
        "world exported": lambda: world.export(folder / "w.artelier"),
        "run exported": lambda: desk.export("r", folder / "r.artelier"),
        "chat": lambda: chat.generate(f"I am {EMAIL}"),
        "chat exported": lambda: desk.export_chat("talk", folder / "t.artelier"),
        "remembered": lambda: memory.append(EMAIL, key="k", by=who),
        "kept": lambda: memory.remember(EMAIL, key=IBAN),
        "task": lambda: desk.tasks.create(goal=EMAIL, success_criteria=EMAIL, id="t", by=account),
        "task's agent": lambda: desk.tasks.change("t", assigned_agent_id=IBAN, by=account),
        "task cancelled": lambda: desk.tasks.cancel("t", by="user:kim", note=EMAIL),
        "group": lambda: desk.membranes.create("g", name=EMAIL, by=account),
        "joined": lambda: desk.membranes.join("g", f"user:{IBAN}"),
        "agent": lambda: desk.create_agent("a", name=EMAIL, role=EMAIL, model="m"),
        "forked": lambda: desk.fork("r", new_id="r-b", by=who),
        "scheduled": lambda: desk.schedules.add("n", every=60, goal=EMAIL, model="m", by=who),
        "fired": lambda: desk.schedules.fire("n", by=who),
        "unscheduled": lambda: desk.schedules.remove("n", by=who),
    }


def test_nothing_that_a_person_may_do_under_a_value_leaves_it_behind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Refused or replaced, whichever it is: worlds, tasks, membranes, memories, chats, forks, files."""
    caplog.set_level(logging.DEBUG)
    watch = Watch()

    async def tried(doing: Doing) -> bool:
        try:
            await doing()
        except ArtelierError:
            return False
        return True

    async def scenario() -> None:
        telemetry = OpenTelemetry(tracer_provider=watch.tracers, meter_provider=watch.meters, content=True)
        with opened(tmp_path, telemetry=telemetry) as kernel:
            desk = kernel.for_tenant(ACME)
            await opened_once(desk.run("r", goal=EMAIL, settings={EMAIL: IBAN}))
            mine = desk.as_principal("user:kim").artifacts
            await mine.write("note", content=EMAIL, kind="document", metadata={EMAIL: IBAN})
            world = await found(desk, "w", {"agents": [{"id": "ann", "policy": "noop"}]}, by=f"user:{EMAIL}")
            memory = kernel.memory.for_agent("acme", "clerk")
            chat = await Session.open(kernel, "talk", model="m", tenant=ACME, user=EMAIL)
            doings = doings_of(desk, world, memory, chat, tmp_path)
            refused = [name for name, do in doings.items() if not await tried(do)]
            assert refused == ["told", "world's fork", "kept", "task's agent", "joined"]
            await kernel.collect()
            assert kernel.verify().ok

    play(scenario(), within_s=60)
    assert_nowhere(tmp_path)
    assert_clean("\n".join(span.to_json() for span in watch.spans), "spans")
    assert_clean(caplog.text, "log lines")


def test_an_agent_of_a_world_that_calls_something_by_a_value_is_rejected_alone(tmp_path: Path) -> None:
    def writes(facts: Any) -> dict[str, Any]:
        id = f"of/{IBAN}" if facts["agent_id"] == "ann" else "memo"
        return {"action": "write", "artifact_id": id, "kind": "document", "content": "x"}

    setup = {"agents": [{"id": name, "policy": "writes"} for name in ("ann", "bob")]}

    async def scenario() -> None:
        with opened(tmp_path) as kernel:
            desk = kernel.for_tenant(ACME)
            async with await found(desk, "w", setup, policies={"writes": writes}) as world:
                (passed,) = await world.run(ticks=1)
                assert (passed.acted, passed.rejected) == (2, 1)
            assert kernel.verify().ok

    play(scenario())
    assert_nowhere(tmp_path)
