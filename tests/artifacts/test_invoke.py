"""Invocation through the public handle: results, money, effects, and that a failure leaves nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier.artifacts import (
    ArtifactHeld,
    Artifacts,
    Call,
    InvocationFailed,
    InvocationLimits,
    Tree,
    artifact_stream,
    in_scope,
)
from artelier.artifacts.invocation_store import HeldPrice, Invoker, hold_of
from artelier.errors import (
    AccessDenied,
    InsufficientFunds,
    InvalidArguments,
    InvalidArtifact,
    InvalidRequest,
    NotFound,
)
from artelier.log import Batch, Draft, Stream, StreamAppend, blob_name
from artelier.sandbox import MontySandbox
from tests.artifacts.places import LEDGER, Place, held, in_place, total  # noqa: F401

QUICK = InvocationLimits(run_ms=50)


async def tool(maker: Artifacts, id: str, body: str, *, args: str = "", **more: Any) -> None:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    await maker.write(id, kind="tool", content={"code": f"def run({args}):\n{lines}"}, **more)


def test_an_invocation_returns_what_run_returns(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        await tool(here.as_("alice"), "add", "return {'sum': a + b, 'for': caller}", args="a, b=2")

        outcome = await here.as_("bob").invoke("add", a=1)

        assert outcome.result == {"sum": 3, "for": "bob"}
        assert (outcome.version, outcome.price, outcome.calls, outcome.wall) == (1, 0, 0, {})
        event = (await here.store.read(Stream("acme", "main", "artifact:add")))[-1]
        assert (event.kind, event.actor) == ("artifact.invoked", "bob")
        data = event.plain()
        assert (data["caller"], data["outcome"], data["version"]) == ("bob", "done", 1)
        assert b"sum" not in event.data  # what code says is in blobs

    in_place(tmp_path, story, interpreter=sandbox)


def test_the_price_goes_to_the_owner_on_success_only(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        body = "if fail:\n    raise ValueError('no luck')\nreturn 1"
        await tool(here.as_("alice"), "x", body, args="fail", prices={"invoke": 3})
        await here.fund("bob", 10)
        bob = here.as_("bob")

        with pytest.raises(InvocationFailed, match="no luck") as caught:
            await bob.invoke("x", fail=True)
        assert caught.value.reason == "error"
        assert (await here.scrip("bob"), await here.scrip("alice"), await held(here)) == (10, 0, 0)

        outcome = await bob.invoke("x", fail=False)
        assert (outcome.price, outcome.payer) == (3, "bob")
        assert (await here.scrip("bob"), await here.scrip("alice"), await held(here)) == (7, 3, 0)
        kinds = [e.kind for e in await here.store.read(Stream("acme", "main", "artifact:x"))]
        assert kinds[1:] == ["artifact.held", "artifact.invoked"] * 2
        assert await total(here) == 0

    in_place(tmp_path, story, interpreter=sandbox)


def test_the_owner_invokes_for_free(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        await tool(here.as_("alice"), "x", "return 1", prices={"invoke": 3})

        assert (await here.as_("alice").invoke("x")).price == 0

    in_place(tmp_path, story, interpreter=sandbox)


def test_without_money_or_agreement_nothing_runs(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        await tool(here.as_("alice"), "x", "write('ran', 1, kind='document')", prices={"invoke": 3})
        await here.fund("bob", 10)

        with pytest.raises(InsufficientFunds):
            await here.as_("eve").invoke("x")
        with pytest.raises(AccessDenied, match="costs more than agreed"):
            await here.as_("bob").invoke("x", price_max=2)
        for wrong in (-1, 1.5, True, "3"):
            with pytest.raises(InvalidArguments):
                await here.as_("bob").invoke("x", price_max=wrong)  # pyright: ignore[reportArgumentType] - hostile

        with pytest.raises(NotFound):
            await here.as_("bob").read("ran")
        assert await here.scrip("bob") == 10

    in_place(tmp_path, story, interpreter=sandbox)


def test_money_is_held_while_the_code_runs(tmp_path: Path, sandbox: MontySandbox) -> None:
    """Two at once, money for one: exactly one is refused, before its code has run."""

    async def story(here: Place) -> None:
        await tool(here.as_("alice"), "x", "return balance()", prices={"invoke": 3})
        await here.fund("bob", 5)
        bob = here.as_("bob")

        done = await asyncio.gather(*(bob.invoke("x") for _ in range(2)), return_exceptions=True)

        assert sum(isinstance(one, InsufficientFunds) for one in done) == 1
        assert (await here.scrip("bob"), await here.scrip("alice"), await held(here)) == (2, 3, 0)

    in_place(tmp_path, story, interpreter=sandbox)


def test_what_it_makes_belongs_to_the_artifact(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        body = "write('log', text, kind='document', access={'allow': {'read': [caller]}})\n"
        body += "return write('log', read('log') + '!')"
        await tool(here.as_("alice"), "x", body, args="text")

        outcome = await here.as_("bob").invoke("x", text="hi")

        log = await here.as_("bob").read("log")
        assert outcome.result == {"id": "log", "version": 2}
        assert (log.content, log.owner, log.creator) == ("hi!", "artifact:x", "artifact:x")
        with pytest.raises(AccessDenied):
            await here.as_("alice").read("log")

    in_place(tmp_path, story, interpreter=sandbox)


def test_a_failed_invocation_leaves_no_effect_at_all(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        body = "write('made', 1, kind='document')\npay('eve', 4)\ninvoke('helper')\n1 / 0"
        await tool(here.as_("alice"), "x", body)
        await tool(here.as_("alice"), "helper", "write('helped', 1, kind='document')")
        await here.fund("artifact:x", 10)

        with pytest.raises(InvocationFailed, match="ZeroDivisionError"):
            await here.as_("bob").invoke("x")

        for id in ("made", "helped"):
            with pytest.raises(NotFound):
                await here.as_("artifact:x").read(id)
        assert (await here.scrip("artifact:x"), await here.scrip("eve")) == (10, 0)
        last = (await here.store.read_all())[-1]
        assert (last.kind, last.plain()["outcome"]) == ("artifact.invoked", "failed")
        assert last.plain()["reason"] == "error"

    in_place(tmp_path, story, interpreter=sandbox)


def test_a_caught_failure_drops_the_nested_part_alone(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        alice = here.as_("alice")
        body = "write('mine', 1, kind='document')\ntry:\n    invoke('bad')\nexcept Exception as e:\n"
        await tool(alice, "good", body + "    return [str(e), balance()]")
        await tool(
            alice,
            "bad",
            "write('theirs', 1, kind='document')\npay('eve', 2)\n1 / 0",
            prices={"invoke": 3},
            access={"allow": {"invoke": ["*"]}},
        )
        await here.fund("artifact:good", 5)
        await here.fund("artifact:bad", 5)

        outcome = await here.as_("bob").invoke("good")

        assert outcome.result[0].startswith("invocation_failed: artifact bad failed")
        assert outcome.result[1] == 5
        assert (await here.as_("artifact:good").read("mine")).content == 1
        with pytest.raises(NotFound):
            await here.as_("artifact:bad").read("theirs")
        scrip = [await here.scrip(who) for who in ("artifact:good", "artifact:bad", "eve", "alice")]
        assert scrip == [5, 5, 0, 0]

    in_place(tmp_path, story, interpreter=sandbox)


def test_a_nested_price_is_paid_by_the_artifact_that_invokes(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        await tool(here.as_("alice"), "outer", "return invoke('inner', a=1)")
        await tool(here.as_("carol"), "inner", "return [a, caller]", args="a", prices={"invoke": 4})
        await here.fund("artifact:outer", 5)
        await here.fund("bob", 5)

        outcome = await here.as_("bob").invoke("outer")

        assert outcome.result == [1, "artifact:outer"]  # the immediate caller, not bob
        scrip = [await here.scrip(who) for who in ("bob", "artifact:outer", "carol", "alice")]
        assert scrip == [5, 1, 4, 0]
        invoked = [e.plain() for e in await here.store.read_all() if e.kind == "artifact.invoked"]
        assert [(one["id"], one["caller"]) for one in invoked] == [
            ("inner", "artifact:outer"),
            ("outer", "bob"),
        ]

    in_place(tmp_path, story, interpreter=sandbox)


def test_reads_see_the_artifacts_own_pending_writes_and_payments(
    tmp_path: Path, sandbox: MontySandbox
) -> None:
    async def story(here: Place) -> None:
        body = (
            "write('a', {'n': 1}, kind='document')\nwrite('a', {'n': 2})\npay('eve', 3)\n"
            "return [read('a'), read('a@1'), balance()]"
        )
        await tool(here.as_("alice"), "x", body)
        await here.fund("artifact:x", 10)

        assert (await here.as_("bob").invoke("x")).result == [{"n": 2}, {"n": 1}, 7]
        assert (await here.scrip("artifact:x"), await here.scrip("eve")) == (7, 3)

    in_place(tmp_path, story, interpreter=sandbox)


def test_a_priced_read_is_paid_by_the_artifact(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        await here.as_("carol").write("paper", kind="document", content="text", prices={"read": 4})
        await tool(here.as_("alice"), "x", "return read('paper', price_max=most)", args="most")
        await here.fund("artifact:x", 5)
        await here.fund("bob", 50)
        bob = here.as_("bob")

        with pytest.raises(InvocationFailed, match="costs more than agreed"):
            await bob.invoke("x", most=3)
        assert (await bob.invoke("x", most=4)).result == "text"
        with pytest.raises(InvocationFailed, match="insufficient_funds"):
            await bob.invoke("x", most=4)

        assert [await here.scrip(who) for who in ("bob", "artifact:x", "carol")] == [50, 1, 4]

    in_place(tmp_path, story, interpreter=sandbox)


def test_library_parts_are_read_from_code(tmp_path: Path, sandbox: MontySandbox) -> None:
    """Hole 20."""

    async def story(here: Place) -> None:
        content = {"prompts": {"ideate": "think of {tick}", "observe": "look"}}
        await here.as_("alice").write("lib", kind="library", content=content)
        await tool(here.as_("alice"), "x", "return read(ref)", args="ref")
        bob = here.as_("bob")

        assert (await bob.invoke("x", ref="lib#ideate")).result == "think of {tick}"
        assert (await bob.invoke("x", ref="lib@1#observe")).result == "look"
        with pytest.raises(InvocationFailed, match="not_found"):
            await bob.invoke("x", ref="lib#gone")

    in_place(tmp_path, story, interpreter=sandbox)


def test_a_changed_world_makes_it_decide_again(tmp_path: Path, sandbox: MontySandbox) -> None:
    """Twenty at once count up one artifact; none is lost, because each was decided over what stood."""

    async def story(here: Place) -> None:
        alice = here.as_("alice")
        await alice.write(
            "n", kind="document", content=0, access={"allow": {"read": ["*"], "write": ["artifact:count"]}}
        )
        await tool(alice, "count", "return write('n', read('n') + 1)['version']")
        bob = here.as_("bob")

        done = await asyncio.gather(*(bob.invoke("count") for _ in range(8)), return_exceptions=True)

        won = [one for one in done if not isinstance(one, BaseException)]
        lost = [one for one in done if isinstance(one, BaseException)]
        assert len(won) >= 3
        assert {getattr(one, "code", None) for one in lost} <= {"version_conflict"}
        assert (await bob.read("n")).content == len(won)

    in_place(tmp_path, story, interpreter=sandbox)


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 13, 100])
def test_a_cancelled_caller_gets_its_money_back_whenever_it_leaves(
    tmp_path: Path, sandbox: MontySandbox, turns: int
) -> None:
    async def story(here: Place) -> None:
        await tool(here.as_("alice"), "slow", "while True: pass", prices={"invoke": 3})
        await here.fund("bob", 3)
        task = asyncio.create_task(here.as_("bob", limits=QUICK).invoke("slow"))
        for _ in range(turns):
            await asyncio.sleep(0)

        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert (await here.scrip("bob"), await held(here)) == (3, 0)

    in_place(tmp_path, story, interpreter=sandbox)


def test_a_caller_cancelled_at_the_end_has_paid_or_has_not(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        await tool(here.as_("alice"), "x", "write('done', 1, kind='document')", prices={"invoke": 1})
        await here.fund("bob", 40)
        for turns in range(0, 40, 2):
            task = asyncio.create_task(here.as_("bob").invoke("x"))
            for _ in range(turns):
                await asyncio.sleep(0.0002)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        assert await held(here) == 0
        assert await here.scrip("bob") + await here.scrip("alice") == 40
        versions = await here.store.query("SELECT COUNT(*) FROM artifact_versions WHERE id = 'done'")
        assert versions[0][0] == await here.scrip("alice")  # paid for exactly what was done

    in_place(tmp_path, story, interpreter=sandbox)


def test_what_a_dead_process_held_comes_back(tmp_path: Path, sandbox: MontySandbox) -> None:
    """The process dies between holding and settling: the hold outlives it, and is given back once."""

    async def story(here: Place) -> None:
        await tool(here.as_("alice"), "x", "return 1", prices={"invoke": 3})
        await here.fund("bob", 5)
        invoker = Invoker(here.as_("bob")._door)
        tree = Tree(sandbox, in_scope)
        admitted = await tree.admit(invoker._door.stage(), Call("bob", "x", {}))
        await invoker._hold(admitted, hold_of(admitted))
        bob = here.as_("bob")

        assert (await bob.release_abandoned(), await held(here)) == (0, 3)
        with pytest.raises(InsufficientFunds):
            await bob.invoke("x")
        here.clock.us += 121 * 1_000_000
        assert (await bob.invoke("x")).price == 3

        assert (await here.scrip("bob"), await here.scrip("alice"), await held(here)) == (2, 3, 0)
        assert await bob.release_abandoned() == 0

    in_place(tmp_path, story, interpreter=sandbox)


def test_a_forged_hold_is_not_paid_out_of_anybody_elses(tmp_path: Path, sandbox: MontySandbox) -> None:
    """Events come from exports too: a hold that nothing stands behind is worth nothing."""

    async def story(here: Place) -> None:
        await tool(here.as_("alice"), "x", "return 1", prices={"invoke": 3})
        await here.fund("bob", 3)
        await Invoker(here.as_("bob")._door)._hold(
            await Tree(sandbox, in_scope).admit(here.as_("bob")._door.stage(), Call("bob", "x", {})),
            HeldPrice("real", 3),
        )
        forged = ArtifactHeld(id="x", hold="forged", caller="eve", payer="eve", amount=3, until_us=0)
        stream = artifact_stream("acme", "main", "x")
        draft = Draft(forged, 0, "eve")
        await here.store.append(Batch(appends=(StreamAppend(stream, (draft,)),)))

        await here.as_("eve").release_abandoned()

        assert (await here.scrip("eve"), await held(here)) == (0, 3)

    in_place(tmp_path, story, interpreter=sandbox)


def test_what_is_no_program_cannot_be_invoked(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        alice = here.as_("alice")
        await alice.write("doc", kind="document", content={"code": "def run():\n    return 1"})
        await alice.write("text", kind="tool", content="def run():\n    return 1")
        rule = "def check(caller, action, target, context):\n    return True"
        await alice.write("rule", kind="contract", content=rule)
        await tool(alice, "mine", "return 1", access="private")
        await tool(alice, "gone", "return 1")
        await alice.delete("gone")
        bob = here.as_("bob")

        for id in ("doc", "text", "rule"):
            with pytest.raises(InvalidArtifact, match="cannot be invoked"):
                await bob.invoke(id)
        with pytest.raises(AccessDenied):
            await bob.invoke("mine")
        for id in ("gone", "never"):
            with pytest.raises(NotFound):
                await bob.invoke(id)
        for id in ("a#b", "x@1", "", "main:x"):
            with pytest.raises(InvalidRequest):
                await bob.invoke(id)

    in_place(tmp_path, story, interpreter=sandbox)


def test_arguments_are_checked_before_anything_runs(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        schema = {
            "type": "object",
            "properties": {"n": {"type": "integer"}, "text": {"type": ["string", "null"]}},
            "required": ["n", "text"],
        }
        interface = {"tools": [{"name": "run", "inputSchema": schema}]}
        await tool(here.as_("alice"), "x", "return n", args="n, text=None", interface=interface)
        bob = here.as_("bob")
        hostile: list[dict[str, Any]] = [
            {},
            {"n": 1},
            {"n": "1", "text": "x"},
            {"n": True, "text": "x"},
            {"n": 1, "text": "x", "m": 1},
            {"n": 1, "text": 1},
            {"n": 1, "text": "x" * 70_000},
            {"n": object(), "text": "x"},
            {"n": 1, "text": b"x"},
            {"n": float("nan"), "text": ""},
        ]

        for args in hostile:
            with pytest.raises(InvalidArguments):
                await bob.invoke("x", **args)
        assert (await bob.invoke("x", n=1, text=None)).result == 1

    in_place(tmp_path, story, interpreter=sandbox)


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("def walk():\n    return 1", "needs one function `run`"),
        ("x = lambda: 1", "needs one function `run`"),
        ("def run():\n    return 1\ndef run():\n    return 2", "2 of them"),
        ("def run(a, /):\n    return 1", "by name"),
        ("def run(*rest):\n    return 1", "by name"),
        ("def run(price_max):\n    return 1", "price_max"),
        ("async def run():\n    return 1", "needs one function `run`"),
        ("import subprocess\ndef run():\n    return 1", "line 1: no module 'subprocess'"),
        ("def run():\n    x = [1]\n    del x[0]", "line 3: del is not supported"),
        ("def run(:", "not Python"),
        ("def run():\n    return 1\n'''", "not Python"),
        ("def run():\n    return '" + "x" * 300_000 + "'", "longer than"),
    ],
)
def test_code_that_cannot_run_is_refused_when_stored_and_explained(
    tmp_path: Path, code: str, what: str
) -> None:
    async def story(here: Place) -> None:
        with pytest.raises(InvalidArtifact, match=what):
            await here.as_("alice").write("x", kind="tool", content={"code": code})

    in_place(tmp_path, story)


@pytest.mark.parametrize(
    "interface",
    [
        {"tools": "run"},
        {},
        {"tools": [{"inputSchema": {}}]},
        {"tools": [{"name": 1}]},
        {"tools": [{"name": "run", "inputSchema": []}]},
        {"tools": [{"name": "run", "inputSchema": {"type": "array"}}]},
        {"tools": [{"name": "run", "inputSchema": {"properties": 1}}]},
    ],
)
def test_an_interface_that_is_none_is_refused(tmp_path: Path, interface: dict[str, Any]) -> None:
    async def story(here: Place) -> None:
        with pytest.raises(InvalidArtifact, match="interface"):
            await tool(here.as_("alice"), "x", "return 1", interface=interface)

    in_place(tmp_path, story)


@pytest.mark.parametrize(
    "body",
    [
        "return 'x' * 70_000",
        "return b'x'",
        "return {1: 2}",
        "return [1, set()]",
        "return float('nan')",
        "return 2 ** 63",
        "return 2 ** 64",
        "raise ValueError('\\ud800')",
    ],
)
def test_a_result_that_is_no_bounded_json_fails_and_costs_nothing(
    tmp_path: Path, sandbox: MontySandbox, body: str
) -> None:
    async def story(here: Place) -> None:
        await tool(here.as_("alice"), "x", body, prices={"invoke": 1})
        await here.fund("bob", 1)

        with pytest.raises(InvocationFailed):
            await here.as_("bob").invoke("x")
        assert (await here.scrip("bob"), await held(here)) == (1, 0)

    in_place(tmp_path, story, interpreter=sandbox)


def test_arguments_and_result_can_be_looked_up_later(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        await tool(here.as_("alice"), "x", "return {'twice': n * 2}", args="n")
        await here.as_("bob").invoke("x", n=4)

        event = (await here.store.read_all())[-1].plain()
        stored = [await here.store.blob("acme", blob_name(event[name])) for name in ("arguments", "result")]
        assert stored == [b'{"n":4}', b'{"twice":8}']

    in_place(tmp_path, story, interpreter=sandbox)


def test_deleting_a_program_hands_its_money_to_the_owner(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        await tool(here.as_("alice"), "x", "return balance()")
        await here.fund("artifact:x", 7)

        await here.as_("alice").delete("x")

        assert (await here.scrip("artifact:x"), await here.scrip("alice")) == (0, 7)

    in_place(tmp_path, story, interpreter=sandbox)


def test_without_a_sandbox_nothing_is_invoked(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await tool(here.as_("alice"), "x", "return 1")

        with pytest.raises(InvocationFailed, match="no sandbox"):
            await here.as_("bob").invoke("x")

    in_place(tmp_path, story)


def test_limits_of_a_handle_hold(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        await tool(here.as_("alice"), "x", "for i in range(n):\n    balance()\nreturn n", args="n")
        bob = here.as_("bob", limits=InvocationLimits(calls=3))

        assert (await bob.invoke("x", n=3)).calls == 3
        with pytest.raises(InvocationFailed, match="more than 3 calls") as caught:
            await bob.invoke("x", n=4)
        assert caught.value.reason == "calls"

    in_place(tmp_path, story, interpreter=sandbox)
