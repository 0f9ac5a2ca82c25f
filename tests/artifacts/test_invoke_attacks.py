"""Hostile programs: none reaches its caller's money, another's artifacts, the host, or stops the pool."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from artelier.artifacts import Call, Decisions, InvocationFailed, InvocationLimits, Tree, Working, in_scope
from artelier.errors import AccessDenied, InvalidArtifact, InvalidRequest, NotFound
from artelier.sandbox import MontySandbox
from tests.artifacts.places import LEDGER, Place, held, in_place, total  # noqa: F401
from tests.artifacts.test_invoke import tool


@pytest.mark.parametrize("kind", ["tool", "contract", "reflex"])
@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("return f'" + "{1}" * 9_000 + "'", "more than 2000 opening braces"),
        ("x" + "\u0301\u0316" * 7_000 + " = 1", "more than 30 combining characters"),
        ("return '" + "x" * 32_768 + "'", "longer than 32768 bytes"),
    ],
)
def test_code_that_would_be_slow_to_read_is_not_stored(
    tmp_path: Path, kind: str, code: str, says: str
) -> None:
    async def story(here: Place) -> None:
        with pytest.raises(InvalidArtifact, match=says):
            await here.as_("eve").write("x", kind=kind, content={"code": f"def run():\n    {code}"})

    in_place(tmp_path, story)


QUICK = InvocationLimits(run_ms=100, time_ms=400)


@pytest.mark.parametrize(
    "body",
    [
        "pay('eve', 5)",
        "invoke('thief', price_max=5)",
        "read('paper', price_max=9)",
        "pay('eve', 5, caller)",
        "pay(to='eve', amount=5, source='bob')",
        "pay('eve', -5)",
        "pay('eve', True)",
        "pay('eve', 5.0)",
        "pay('artifact:x', 1)",
        "pay('b b', 1)",
        "pay('eve', 10 ** 18)",
        "caller = 'bob'\nprincipal = 'bob'\npay('eve', 5)",
        "invoke('x', caller='bob')",
    ],
)
def test_hole_22_code_cannot_move_its_callers_money(tmp_path: Path, sandbox: MontySandbox, body: str) -> None:
    async def story(here: Place) -> None:
        await here.fund("bob", 50)
        await tool(here.as_("eve"), "thief", "return 1", prices={"invoke": 5})
        await here.as_("eve").write("paper", kind="document", content="x", prices={"read": 5})
        await tool(here.as_("eve"), "x", body, prices={"invoke": 1})

        with pytest.raises(InvocationFailed):
            await here.as_("bob").invoke("x")
        assert (await here.scrip("bob"), await here.scrip("eve"), await held(here)) == (50, 0, 0)

    in_place(tmp_path, story, interpreter=sandbox)


def test_success_takes_the_agreed_price_and_no_more(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        await here.fund("bob", 50)
        greedy = (
            "for how in (lambda: pay('eve', 9), lambda: invoke('x'), lambda: read('mine')):\n"
            "    try:\n        how()\n    except Exception:\n        pass\nreturn 'done'"
        )
        await tool(here.as_("eve"), "x", greedy, prices={"invoke": 2})
        await here.as_("bob").write("mine", kind="prompt", content="secret")

        assert (await here.as_("bob").invoke("x")).result == "done"
        assert (await here.scrip("bob"), await here.scrip("eve")) == (48, 2)

    in_place(tmp_path, story, interpreter=sandbox)


@pytest.mark.parametrize(
    "body",
    [
        "import os\nreturn os.listdir('/')",
        "import os\nreturn os.system('id')",
        "import os\nreturn os.environ['HOME']",
        "return open('/etc/passwd').read()",
        "return read.__globals__",
        "return read.__self__",
        "return read.__code__",
        "return ().__class__.__base__.__subclasses__()",
        "return eval('1')",
        "exec('1')",
        "import sys\nreturn sys.modules",
        "from pathlib import Path\nreturn Path('/').iterdir()",
        "return getattr(invoke, '__closure__')",
        "return __builtins__",
        "return f'{read.__class__}'",
    ],
)
def test_hole_22_code_does_not_reach_the_host(tmp_path: Path, sandbox: MontySandbox, body: str) -> None:
    async def story(here: Place) -> None:
        try:
            await tool(here.as_("eve"), "x", body)
            result = (await here.as_("bob").invoke("x")).result
        except (InvocationFailed, InvalidArtifact):
            return
        assert not any(word in str(result) for word in ("root", "/home", "artelier", "object at"))

    in_place(tmp_path, story, interpreter=sandbox)


@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "while True:\n    try:\n        while True: pass\n    except:\n        pass",
        "while True:\n    try:\n        balance()\n    except:\n        pass",
        "def f():\n    try:\n        f()\n    except:\n        f()\nf()",
        "x = 'a'\nwhile True:\n    x = x + x",
        "return [0] * 10 ** 10",
        "return 9 ** 9 ** 9",
        "import time\ntime.sleep(100)\nwhile 1: pass",
        "import re\nreturn re.match('(a+)+$', 'a' * 40 + 'b')",
        # Small inside, immense to whoever hashes it outside.
        "a = (1,)\nfor i in range(60): a = (a, a)\nreturn {a: 1}",
        "a = (1,)\nfor i in range(60): a = (a, a)\npay({a: 1}, 1)",
        "a = (1,)\nfor i in range(60): a = (a, a)\nread(artifact_id={a})",
    ],
)
def test_hole_22_code_that_hangs_or_swells_is_stopped_and_the_pool_lives(
    tmp_path: Path, sandbox: MontySandbox, body: str
) -> None:
    async def story(here: Place) -> None:
        await tool(here.as_("eve"), "x", body, prices={"invoke": 1})
        await tool(here.as_("eve"), "fine", "return 1")
        await here.fund("bob", 5)

        try:
            await here.as_("bob", limits=QUICK).invoke("x")
        except InvocationFailed:
            assert (await here.scrip("bob"), await held(here)) == (5, 0)

        assert (await here.as_("bob").invoke("fine")).result == 1

    in_place(tmp_path, story, interpreter=sandbox)


def test_ten_deep_passes_with_two_workers_and_eleven_is_refused(
    tmp_path: Path, sandbox: MontySandbox
) -> None:
    async def story(here: Place) -> None:
        for n in range(1, 12):
            body = f"return invoke('t{n + 1}') + 1" if n < 11 else "return 1"
            await tool(here.as_("alice"), f"t{n}", body)
        bob = here.as_("bob")

        assert (await bob.invoke("t2")).result == 10
        with pytest.raises(InvocationFailed, match="nested deeper than 10"):
            await bob.invoke("t1")
        # Five trees at once, each ten deep, on two workers: a waiting caller holds none.
        done = await asyncio.gather(*(bob.invoke("t2") for _ in range(5)))
        assert [one.result for one in done] == [10] * 5

    in_place(tmp_path, story, interpreter=sandbox)


@pytest.mark.parametrize(
    "body", ["return invoke('x')", "while True:\n    try:\n        invoke('x')\n    except:\n        pass"]
)
def test_recursion_without_end_ends(tmp_path: Path, sandbox: MontySandbox, body: str) -> None:
    async def story(here: Place) -> None:
        await tool(here.as_("eve"), "x", body)

        with pytest.raises(InvocationFailed) as caught:
            await here.as_("bob").invoke("x")
        assert caught.value.reason in ("error", "calls", "time")

    in_place(tmp_path, story, interpreter=sandbox)


def test_code_cannot_catch_the_end_of_its_time_or_calls(tmp_path: Path, sandbox: MontySandbox) -> None:
    """Nor can a caller of it: the bound is that of the whole tree."""

    async def story(here: Place) -> None:
        forever = "while True:\n    try:\n        balance()\n    except:\n        pass"
        await tool(here.as_("eve"), "x", forever)
        await tool(here.as_("eve"), "outer", "try:\n    invoke('x')\nexcept:\n    pass\nreturn 'got away'")
        bob = here.as_("bob", limits=InvocationLimits(calls=20))

        with pytest.raises(InvocationFailed, match="more than 20 calls"):
            await bob.invoke("outer")
        with pytest.raises(InvocationFailed, match="took longer than 30 ms") as caught:
            slow = InvocationLimits(calls=10_000, time_ms=30)
            await here.as_("bob", limits=slow).invoke("outer")
        assert caught.value.wall == {"0": "time"}

    in_place(tmp_path, story, interpreter=sandbox)


@pytest.mark.parametrize(
    "body",
    [
        "write('theirs', 'mine')",
        "write('theirs', 'mine', access='public')",
        "write('own', 'x', kind='document', owner='bob')",
        "read('theirs@1#x')",
        "write('x', {'code': 'def run(): return 1'})",
        "write('a#b', 1, kind='document')",
        "write('artifact:x', 1, kind='document')",
        "write('own', 1, kind='nonsense')",
        "write('own', b'bytes', kind='document')",
        "write(1, 2, kind='document')",
        "write()",
        "write('own', 1, kind='document', access='root')",
        "read('main:theirs')",
        "read(7)",
        "write('tool2', {'code': 'import socket'}, kind='tool')",
        "invoke('private')",
        "write('own', 1, kind='document', prices={'read': -1})",
        "search_memory('x')",
    ],
)
def test_code_writes_and_reads_as_itself_only(tmp_path: Path, sandbox: MontySandbox, body: str) -> None:
    """The caller could do most of this; the artifact may not, and nobody lends it the right."""

    async def story(here: Place) -> None:
        bob = here.as_("bob")
        await bob.write("theirs", kind="document", content="bob's", access="private")
        await tool(bob, "private", "return 1", access="private")
        await tool(here.as_("eve"), "x", body)

        with pytest.raises(InvocationFailed):
            await bob.invoke("x")

        assert (await bob.read("theirs")).version == 1
        with pytest.raises(NotFound):
            await here.as_("artifact:x").read("own")

    in_place(tmp_path, story, interpreter=sandbox)


def test_no_artifact_can_have_the_name_of_a_programs_principal(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        with pytest.raises(InvalidRequest, match="reserved"):
            await here.as_("eve").write("artifact:shop", kind="agent", content={})

    in_place(tmp_path, story)


def test_code_sees_no_other_tenant_or_space(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        for bob in (here.as_("bob", tenant="other"), here.as_("bob", space="world:w")):
            await bob.write("there", kind="document", content="CANARY")
        body = (
            "found = []\nfor ref in ('there', 'main:there', 'other/there', 'there@1'):\n    try:\n"
            "        found.append(read(ref))\n    except Exception as e:\n"
            "        found.append(str(e))\nreturn found"
        )
        await tool(here.as_("eve"), "x", body)

        result = (await here.as_("bob").invoke("x")).result

        assert "CANARY" not in str(result)
        assert result[0] == result[3] == "not_found"

    in_place(tmp_path, story, interpreter=sandbox)


def test_errors_of_the_host_say_nothing_about_it(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        body = (
            "said = []\nfor f in (lambda: read('gone'), lambda: read(1), lambda: write('a', 1),\n"
            "          lambda: pay('eve', 10), lambda: search_memory('x')):\n    try:\n        f()\n"
            "    except Exception as e:\n        said.append(str(e))\nreturn said"
        )
        await tool(here.as_("eve"), "x", body)

        said = (await here.as_("bob").invoke("x")).result

        assert len(said) == 5
        for text in said:
            assert len(text) <= 400
            assert not any(w in text for w in ("/", "Traceback", "principal:", "0x", "sqlite"))

    in_place(tmp_path, story, interpreter=sandbox)


def test_writes_of_a_tree_are_bounded_failed_parts_included(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        many = "for i in range(60):\n    write('n' + str(i), i, kind='document')"
        large = "for i in range(20):\n    write('big', 'x' * 100_000, kind='document')"
        hidden = (
            "for i in range(20):\n    try:\n        invoke('part')\n    except Exception as e:\n"
            "        why = str(e)\nreturn why"
        )
        await tool(here.as_("eve"), "many", many)
        await tool(here.as_("eve"), "large", large)
        await tool(here.as_("eve"), "hidden", hidden)
        await tool(here.as_("eve"), "part", "write('p', 'x' * 100_000, kind='document')\n1 / 0")
        bob = here.as_("bob")

        for id in ("many", "large"):
            with pytest.raises(InvocationFailed, match="writes at most"):
                await bob.invoke(id)
        assert "writes at most" in (await bob.invoke("hidden")).result
        rows = await here.store.query("SELECT COUNT(*) FROM artifacts")
        assert rows[0][0] == 4

    in_place(tmp_path, story, interpreter=sandbox)


def test_a_program_changed_by_itself_still_runs_as_it_was(tmp_path: Path, sandbox: MontySandbox) -> None:
    """A program that may write itself: the running code is the old one, the next call runs the new."""

    async def story(here: Place) -> None:
        body = "write('x', {'code': 'def run():\\n    return 2'})\nreturn 1"
        access = {"allow": {"invoke": ["*"], "write": ["artifact:x"]}}
        await tool(here.as_("eve"), "x", body, access=access)
        bob = here.as_("bob")

        results = [(await bob.invoke("x")).result for _ in range(2)]

        assert results == [1, 2]

    in_place(tmp_path, story, interpreter=sandbox)


def test_rights_lost_while_the_code_ran_count(tmp_path: Path, sandbox: MontySandbox) -> None:
    """What was decided over an older state is not appended."""

    async def story(here: Place) -> None:
        alice = here.as_("alice")
        await alice.write("board", kind="document", content="a", access={"allow": {"write": ["artifact:x"]}})
        body = "write('board', 'b')\nfor i in range(60):\n    balance()"
        await tool(here.as_("eve"), "x", body)
        task = asyncio.create_task(here.as_("bob").invoke("x"))
        await asyncio.sleep(0.01)

        await alice.write("board", content="mine", access="private")

        with pytest.raises((InvocationFailed, AccessDenied)):
            await task
        assert (await alice.read("board")).content == "mine"
        assert await total(here) == 0

    in_place(tmp_path, story, interpreter=sandbox)


def test_a_recorded_timeout_is_used_again(tmp_path: Path, sandbox: MontySandbox) -> None:
    """A replay does not depend on how fast this machine is."""

    async def story(here: Place) -> None:
        body = "try:\n    invoke('maybe')\nexcept Exception:\n    return 'late'\nreturn 'in time'"
        await tool(here.as_("alice"), "outer", body)
        await tool(here.as_("alice"), "maybe", "return 1")
        door = here.as_("bob")._door

        results: list[object] = []
        for recorded in ({}, {"0.1": "timeout"}, {"0": "timeout"}, {"0": "time"}):
            tree = Tree(sandbox, in_scope, decisions=Decisions(recorded=recorded))
            try:
                results.append(await tree.act(Working(door.stage()), Call("bob", "outer", {})))
            except InvocationFailed as error:
                assert error.wall == recorded  # what is replayed is recorded again
                results.append(error.reason)
        assert results == ["in time", "late", "timeout", "time"]

    in_place(tmp_path, story, interpreter=sandbox)


def test_a_rule_of_a_dropped_invocation_opens_nothing(tmp_path: Path, sandbox: MontySandbox) -> None:
    """The nested part writes version 2 of a rule, uses it and fails; then version 2 is written otherwise."""
    rule = "def check(caller, action, target, context):\n    return "
    body = f"""\
if nested:
    write('rule', {rule + "True"!r})
    read('secret')
    1 / 0
try:
    invoke('x', nested=True)
except Exception as error:
    failed = str(error)
write('rule', {rule + "False"!r})
try:
    return read('secret')
except Exception as error:
    return failed + str(error)"""

    async def story(here: Place) -> None:
        alice = here.as_("alice")
        writable = {"allow": {"write": ["artifact:x"], "invoke": ["*"]}}
        await alice.write("rule", kind="contract", content=rule + "False", access=writable)
        await alice.write("secret", kind="document", content="s", access={"contract": "rule"})
        await tool(here.as_("eve"), "x", body, args="nested=False")

        result = (await here.as_("bob").invoke("x")).result

        assert "ZeroDivisionError" in result
        assert "access_denied" in result

    in_place(tmp_path, story, interpreter=sandbox)
