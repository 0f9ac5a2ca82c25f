"""Exports restore every field elsewhere, and move no money."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier import Kernel, Limits, Run, RunSuspended, Tenant
from artelier.app import TenantKernel
from artelier.errors import Conflict, NotFound, RunEnded
from artelier.kernel import events as ev
from artelier.log import Batch, Draft, StreamAppend, blob_ref, tenant_stream
from tests.kernel.files import exported, fields_of, forged
from tests.kernel.sample import ACME, everything, kernels, model, same_run
from tests.kernel.stage import ask, assert_conserved, balances, drive, echo, kinds, play, result_of, user


def test_an_import_restores_every_field_of_an_export(tmp_path: Path) -> None:
    path = tmp_path / "run.artelier"

    async def scenario() -> None:
        with kernels(tmp_path) as there, kernels(tmp_path, "here") as here:
            origin = there.for_tenant(ACME)
            assert await drive(origin, everything) == "completed"
            done = await origin.export("r", path)

            found = await here.for_tenant("acme").import_(path)

            assert found == done
            assert (found.run_id, found.runs) == ("r", ("r",))
            await same_run(origin, here.for_tenant("acme"), "r", back=path)
            assert await result_of(here.for_tenant("acme")) == await result_of(origin)
            for kernel in (there, here):
                assert kernel.verify().findings == []

    play(scenario())


def test_another_tenant_can_take_an_export_and_spends_nothing_for_it(tmp_path: Path) -> None:
    path = tmp_path / "run.artelier"

    async def scenario() -> None:
        with kernels(tmp_path) as there, kernels(tmp_path, "here") as here:
            origin = there.for_tenant(ACME)
            await drive(origin, everything, limits=Limits(usd="1.00", tokens=100_000))
            await origin.export("r", path)
            poor = here.for_tenant(Tenant("poor", budget_usd="0.000001"))
            await poor.state()
            before = await balances(here, "poor")

            await poor.import_(path)

            assert await balances(here, "poor") == before
            shown = await here.tenants.show("poor")
            assert (shown["spent_usd"], shown["available_usd"]) == ("0.00", "0.000001")
            await assert_conserved(here, "poor")
            assert (await poor.show("r"))["cost_microusd"] > 0
            await same_run(origin, poor, "r", back=path)
            assert here.verify().findings == []
            with pytest.raises(NotFound):
                await here.for_tenant("acme").show("r")

    play(scenario())


def test_caps_of_the_importing_tenant_neither_refuse_nor_count_an_import(tmp_path: Path) -> None:
    """A cap on the whole tenant stands before and after as it was, however full it is."""
    path = tmp_path / "run.artelier"

    async def scenario() -> None:
        with kernels(tmp_path) as there, kernels(tmp_path, "here") as here:
            origin, target = there.for_tenant("acme"), here.for_tenant("acme")
            for kernel in (there, here):
                await capped(kernel, "acme", cap=200_000 if kernel is there else 0)
            await drive(origin, everything)
            await origin.export("r", path)
            sql = "SELECT cap, reserved, used FROM limits WHERE scope = 'tenant'"

            await target.import_(path)

            assert await here.store.query(sql) == [(0, 0, 0)]
            assert (await there.store.query(sql))[0][2] > 0
            assert here.verify().findings == []

    play(scenario())


async def capped(kernel: Kernel, tenant: str, *, cap: int) -> None:
    await kernel.for_tenant(tenant).state()
    data = ev.LimitSet(scope="tenant", unit="tokens", cap=cap)
    append = StreamAppend(tenant_stream(tenant), [Draft(data, 1, "test")])
    await kernel.store.append(Batch(appends=[append]))


def test_a_run_in_flight_is_exported_with_its_open_hold_and_drives_nowhere_else(tmp_path: Path) -> None:
    path = tmp_path / "run.artelier"

    async def broken(run: Run) -> Any:
        await ask(run, "a")
        return await run.approve("go on?")

    async def scenario() -> None:
        with kernels(tmp_path) as there, kernels(tmp_path, "here") as here:
            origin, target = there.for_tenant(ACME), here.for_tenant(ACME)
            assert await drive(origin, broken, on_wait="suspend") == "waiting_approval"
            await origin.inject("r", "a note")
            await origin.export("r", path)

            await target.import_(path)

            await same_run(origin, target, "r", back=path)
            with pytest.raises(Conflict, match="another store"):
                await target.approve("r")
            with pytest.raises(Conflict, match="another store"):
                await target.cancel("r")
            with pytest.raises(RunEnded, match="was imported"):
                async with target.run("r") as run:
                    await broken(run)
            assert await kinds(here, tenant="acme") == await kinds(there, tenant="acme")
            await origin.approve("r")
            assert await drive(origin, broken) == "completed"

    play(scenario())


def test_a_half_asked_question_leaves_no_money_behind(tmp_path: Path) -> None:
    """Cut an origin between request and reply: the export has a hold that nobody settles."""
    path = tmp_path / "run.artelier"

    async def scenario() -> None:
        with kernels(tmp_path) as there, kernels(tmp_path, "here") as here:
            origin, target = there.for_tenant(ACME), here.for_tenant(ACME)
            await drive(origin, lambda run: ask(run, "a"))
            name = await origin.fork("r", at=3, new_id="f")
            await origin.export(name, path)

            found = await target.import_(path)

            assert found.runs == ("f", "r")
            assert await kinds(here, "r", tenant="acme") == [
                "run.started",
                "context.assembled",
                "model.requested",
            ]
            await assert_conserved(here, "acme")
            assert await balances(here, "acme") == {"tenant": 5_000_000, "source:budget": -5_000_000}
            assert here.verify().findings == []

    play(scenario())


def test_an_imported_run_is_forked_and_the_fork_is_driven_here(tmp_path: Path) -> None:
    path, again = tmp_path / "run.artelier", tmp_path / "fork.artelier"

    async def scenario() -> None:
        scripted = model()
        with kernels(tmp_path) as there, kernels(tmp_path, "here", model=scripted) as here:
            origin, target = there.for_tenant(ACME), here.for_tenant(ACME)
            await drive(origin, everything)
            await origin.export("r", path)
            await target.import_(path)
            at = next(s for s in await target.steps("r") if s["key"] == "shaped")["requested_seq"]

            name = await target.fork("r", at=at - 2)
            await target.inject(name, "words of this store")
            assert await drive(target, everything, name) == "completed"
            assert await drive(target, everything, name) == "completed"

            assert await result_of(target, name) == await result_of(origin)
            assert len(scripted.requests) == 3
            assert (await target.diff("r", name))["first_divergence"] is None
            for key, request in zip(("shaped", "7/0/1"), scripted.requests, strict=False):
                assert await target.render(name, key) == request
            await assert_conserved(here, "acme")
            # What was stored here for the fork has the imported key and this store's: both travel.
            await target.export(name, again)
            with kernels(tmp_path, "third") as third:
                last = third.for_tenant("third")
                assert (await last.import_(again)).runs == ("r", name)
                await same_run(target, last, name, back=again)
                await last.replay(name, everything)
                assert third.verify().findings == []

    play(scenario())


def test_children_commands_and_artifacts_come_along(tmp_path: Path) -> None:
    path = tmp_path / "run.artelier"

    async def scenario() -> None:
        with kernels(tmp_path) as there, kernels(tmp_path, "here") as here:
            origin, target = there.for_tenant(ACME), here.for_tenant(ACME)

            async def parent(run: Run) -> Any:
                async with origin.run("r::child", parent=run) as child:
                    child.finish(await ask(child, "below"))
                await run.wait_for("go")
                return (await run.step_tool("big", {"size": 100_000})).ref

            await drive(origin, parent, on_wait="suspend")
            await origin.signal("r", "go", {"by": "hand"})
            assert await drive(origin, parent) == "completed"
            await drive(origin, lambda run: ask(run, "somebody else's"), "other")
            await origin.export("r", path)

            found = await target.import_(path)

            assert found.runs == ("r", "r::child")
            await same_run(origin, target, "r", back=path)
            await same_run(origin, target, "r::child", back=path)
            ref = await result_of(target)
            reader = "run:r"
            artifact = await here.for_tenant("acme").as_principal(reader).artifacts.read(ref)
            assert artifact == await origin.as_principal(reader).artifacts.read(ref)
            with pytest.raises(NotFound):
                await target.show("other")
            streams = {line["stream"].partition(":")[0] for line in fields_of(path)["events"]}
            assert streams == {"run", "control", "artifact"}

    play(scenario())


def test_a_fork_brings_the_part_of_its_origins_that_it_shares_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "run.artelier"

    async def scenario() -> None:
        with kernels(tmp_path) as there, kernels(tmp_path, "here") as here:
            origin, target = there.for_tenant(ACME), here.for_tenant(ACME)
            await drive(origin, everything)
            middle = await origin.fork("r", at=9)
            await origin.pause(middle)
            deep = await origin.fork(middle)
            await drive(origin, everything, deep)
            await origin.export(deep, path)

            found = await target.import_(path)

            assert found.runs == ("r", middle, deep)
            assert (await kinds(here, "r", tenant="acme")) == (await kinds(there, "r", tenant="acme"))[:9]
            result = (await target.replay(deep, everything)).result
            assert result == await result_of(origin, deep)
            for key in ("1", "2", "shaped"):
                assert await target.render(deep, key) == await origin.render(deep, key)

    play(scenario())


def test_what_is_here_already_is_not_overwritten(tmp_path: Path) -> None:
    path, other = tmp_path / "run.artelier", tmp_path / "other.artelier"

    async def scenario() -> None:
        with kernels(tmp_path) as there, kernels(tmp_path, "here") as here:
            origin, target = there.for_tenant(ACME), here.for_tenant(ACME)
            await drive(origin, everything)
            await origin.export("r", path)
            await target.import_(path)
            head = await here.head()

            with pytest.raises(Conflict, match="exist already"):
                await target.import_(path)
            with pytest.raises(Conflict, match="exist already"):
                await origin.import_(path)
            await drive(there.for_tenant("t"), lambda run: ask(run, "a"), "orphan", parent=None)
            await drive(target, lambda run: ask(run, "a"), "p")

            async def child(run: Run) -> Any:
                async with origin.run("p::c", parent=run) as below:
                    below.finish(1)

            await drive(origin, child, "p")
            await origin.export("p::c", other)
            with pytest.raises(Conflict, match="child of run 'p'"):
                await target.import_(other)
            assert here.verify(head=head).truncation == "excluded"

    play(scenario())


def test_the_file_is_lines_that_people_can_read(tmp_path: Path) -> None:
    path = exported(tmp_path, lambda run: ask(run, "a"))

    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]

    order = [line["t"] for line in lines]
    assert order[0] == "header"
    assert order[-2:] == ["end", "seal"]
    assert lines[0]["format"] == "artelier.export"
    assert lines[0]["head"]
    assert set(order) == {"header", "key", "run", "event", "blob", "end", "seal"}


def test_the_model_that_answered_is_in_the_export(tmp_path: Path) -> None:
    path = exported(tmp_path, lambda run: ask(run, "a"), model=echo())

    kinds_there = [line["kind"] for line in fields_of(path)["events"]]

    assert kinds_there.count("model.completed") == 1


def test_content_that_a_loops_settings_name_comes_along(tmp_path: Path) -> None:
    """Settings are JSON of a loop; what looks like a reference there and is none does no harm."""
    path = tmp_path / "run.artelier"

    async def scenario() -> None:
        with kernels(tmp_path) as there, kernels(tmp_path, "here") as here:
            origin, target = there.for_tenant(ACME), here.for_tenant(ACME)
            await drive(origin, lambda run: run.step("kept", lambda: "kept for later"), "first")
            rows = await there.store.query("SELECT name FROM blobs")
            refs = [blob_ref(name) for (name,) in rows]
            settings = {"named": refs, "not one": "b:" + "A" * 43}
            await drive(origin, lambda run: ask(run, "a"), loop="test", settings=settings)

            await origin.export("r", path)
            await target.import_(path)

            for (name,) in rows:
                kept = await there.store.blob("acme", name)
                assert await here.store.blob("acme", name) == kept
            assert here.verify().findings == []

    play(scenario())


def test_a_run_whose_content_has_plain_names_is_exported_too(tmp_path: Path) -> None:
    path, again = tmp_path / "plain.artelier", tmp_path / "again.artelier"
    forged(path, [("run:r", ev.RunStarted()), ("run:r", ev.RunCompleted())])

    async def scenario() -> None:
        with kernels(tmp_path) as there:
            await there.for_tenant("acme").import_(path)
            await there.for_tenant("acme").export("r", again)
        assert fields_of(again) == fields_of(path)

    play(scenario())


# Random runs

_steps = st.lists(
    st.one_of(
        st.tuples(st.just("model"), st.text(max_size=40)),
        st.tuples(st.just("look"), st.text(max_size=10)),
        st.tuples(st.just("pay"), st.integers(min_value=-3, max_value=3)),
        st.tuples(st.just("big"), st.sampled_from([0, 70_000, 1_500_000])),
        st.tuples(st.just("bad"), st.just(0)),
        st.tuples(
            st.just("compute"),
            st.recursive(
                st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=10),
                lambda inner: (
                    st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
                ),
                max_leaves=5,
            ),
        ),
        st.tuples(st.just("fork"), st.integers(min_value=1, max_value=30)),
        st.tuples(st.just("fail"), st.just(0)),
    ),
    max_size=6,
)


def _code(steps: list[tuple[str, Any]]) -> Any:
    async def code(run: Run) -> list[Any]:
        conversation = run.conversation()
        out: list[Any] = []
        for kind, value in steps:
            if kind == "model":
                conversation.append(user(value))
                reply = await run.step_model(model="m", messages=conversation)
                conversation.append(reply)
                out.append(reply.text)
            elif kind == "compute":
                out.append(await run.step("value", lambda value=value: value))
            elif kind == "bad":
                out.append((await run.step_tool("nothing", {})).value)
            elif kind == "fail":
                run.fail("gave_up")
                return out
            elif kind != "fork":
                name = {"look": "at", "pay": "amount", "big": "size"}[kind]
                out.append((await run.step_tool(kind, {name: value})).is_error)
        return out

    return code


@given(steps=_steps)
def test_any_run_comes_back_as_it_was(tmp_path_factory: Any, steps: list[tuple[str, Any]]) -> None:
    """Law: restore(export(x)) == x, for the run and for what was forked from it."""
    tmp_path = tmp_path_factory.mktemp("law")
    code, path = _code(steps), tmp_path / "run.artelier"

    async def driven(runs: TenantKernel, run: str) -> None:
        with suppress(RunSuspended):  # a payment that a fork cut through has an unknown outcome
            async with runs.run(run) as opened:
                value = await code(opened)
                if not opened.finished:
                    opened.finish(value)

    async def scenario() -> None:
        with kernels(tmp_path) as there, kernels(tmp_path, "here") as here:
            origin, target = there.for_tenant(ACME), here.for_tenant("elsewhere")
            await driven(origin, "r")
            name = "r"
            for kind, value in steps:
                if kind == "fork":
                    count = len(await kinds(there, name, tenant="acme"))
                    name = await origin.fork(name, at=min(value, count))
                    await driven(origin, name)
            await origin.export(name, path)

            await target.import_(path)

            await same_run(origin, target, name, back=path)
            if (await target.show(name))["status"] in ("completed", "failed"):
                await target.replay(name, code)
            await assert_conserved(here, "elsewhere")
            for kernel in (there, here):
                assert kernel.verify().findings == []

    play(scenario())
