"""Reflexes act before any model is asked, or fall through with a reason. They reach only their facts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from artelier.errors import InvalidArtifact
from artelier.sandbox import MontySandbox
from artelier.world.actions import Invoke, Noop
from artelier.world.mind_artifacts import ReflexJob, ReflexOutcome, facts_of, run_reflex, run_reflexes
from artelier.world.mind_artifacts.reflex import check_reflex

T = TypeVar("T")

FACTS = facts_of(agent_id="alice", tick=3, balance=20, my_artifacts=["notes", "tool_x"])

HAWKER = """
def reflex(context):
    # Runs the first tool it owns.
    if context["balance"] < 5:
        return None
    for name in context["my_artifacts"]:
        if name.startswith("tool"):
            return {"action": "invoke", "artifact_id": name, "args": {"tick": context["tick"]}}
    return None  # nothing to do"""


def in_sandbox(story: Callable[[MontySandbox], Awaitable[T]], *, workers: int = 2) -> T:
    async def tell() -> T:
        sandbox = MontySandbox(workers=workers)
        try:
            return await story(sandbox)
        finally:
            await sandbox.close()

    return asyncio.run(tell())


def outcome_of(code: object, facts: dict[str, Any] | None = None) -> ReflexOutcome:
    return in_sandbox(lambda sandbox: run_reflex(sandbox, code, FACTS if facts is None else facts))


@pytest.mark.parametrize("content", [HAWKER, {"code": HAWKER}])
def test_a_reflex_acts_on_facts(content: object) -> None:
    outcome = outcome_of(content)

    assert outcome.action == Invoke(artifact_id="tool_x", args={"tick": 3})
    assert outcome.why == "acted"


def test_none_falls_through_to_the_model() -> None:
    outcome = outcome_of(HAWKER, {**FACTS, "balance": 1})

    assert outcome == ReflexOutcome(why="none")


@pytest.mark.parametrize(
    ("body", "why", "detail"),
    [
        ("return 1 / 0", "error", "line 2: "),
        ("return context['gone']", "error", "gone"),
        ("raise ValueError('{agent_id}')", "error", "{agent_id}"),
        ("while True: pass", "timeout", "100 ms"),
        ("return [0] * 10**9", "memory", "memory"),
        ("return reflex(context)", "error", "recursion"),
        ("return 'noop'", "wrong_type", "got str"),
        ("return [{'action': 'noop'}]", "wrong_type", "got list"),
        ("return True", "wrong_type", "got bool"),
        ("return lambda: 1", "wrong_type", ""),
        ("return {1: 2}", "wrong_type", ""),
        ("return {'x': 'y' * 1_000_000}", "wrong_type", ""),
        ("return {}", "malformed", "`action` must be one of"),
        ("return {'action': 'steal'}", "malformed", "'steal'"),
        ("return {'action': 'transfer', 'to': 'bob', 'amount': -5}", "malformed", ">= 1"),
        ("return {'action': 'transfer', 'to': 'bob', 'amount': 1.5}", "malformed", "float"),
        ("return read('notes')", "error", "read"),
        ("return open('/etc/passwd').read()", "error", ""),
        ("import os; return {'action': 'message', 'to': 'x', 'text': os.environ['PATH']}", "", ""),
        ("import subprocess", "error", ""),
    ],
)
def test_every_failure_falls_through_with_a_reason(body: str, why: str, detail: str) -> None:
    outcome = outcome_of(f"def reflex(context):\n    {body}")

    assert outcome.action is None
    assert outcome.why == why or (not why and outcome.why == "error")
    assert detail.lower() in outcome.detail.lower()
    assert len(outcome.detail) <= 300


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("", "error"),
        ("def other(context): return None", "error"),
        ("def reflex(): return None", "error"),
        ("def reflex(context:", "error"),
        ("reflex = {'action': 'noop'}", "error"),
        ("async def reflex(context): return None", "wrong_type"),
        (None, "unusable"),
        (b"def reflex(context): return None", "unusable"),
        ({"source": "x"}, "unusable"),
        ("'''", "error"),
        ("\ud800", "error"),
        ("x = 1 #" * 40_000, "error"),
    ],
)
def test_code_that_is_no_reflex_falls_through(code: object, why: str) -> None:
    outcome = outcome_of(code)

    assert outcome.action is None
    assert outcome.why == why


def test_facts_are_given_by_value() -> None:
    facts = {**FACTS, "inner": {"list": [1]}}

    outcome = outcome_of(
        "def reflex(context):\n"
        "    context['inner']['list'].append(2)\n"
        "    context['balance'] = 0\n"
        "    return {'action': 'noop', 'reasoning': str(context['inner'])}",
        facts,
    )

    assert outcome.action == Noop(reasoning="{'list': [1, 2]}")
    assert facts["inner"] == {"list": [1]}
    assert facts["balance"] == 20


def test_the_same_facts_give_the_same_action() -> None:
    code = (
        "import random\n"
        "def reflex(context):\n"
        "    return {'action': 'noop', 'reasoning': str(random.random())}"
    )

    async def story(sandbox: MontySandbox) -> list[ReflexOutcome]:
        return [await run_reflex(sandbox, code, FACTS) for _ in range(3)]

    outcomes = in_sandbox(story)

    assert outcomes[0].why == "acted"
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_nothing_is_kept_from_one_reflex_to_the_next() -> None:
    code = (
        "seen = []\n"
        "def reflex(context):\n"
        "    seen.append(context['agent_id'])\n"
        "    return {'action': 'noop', 'reasoning': str(seen)}"
    )

    async def story(sandbox: MontySandbox) -> list[ReflexOutcome]:
        jobs = [ReflexJob(code, {**FACTS, "agent_id": name}) for name in ("alice", "bob")]
        return await run_reflexes(sandbox, jobs)

    assert [outcome.action for outcome in in_sandbox(story)] == [
        Noop(reasoning="['alice']"),
        Noop(reasoning="['bob']"),
    ]


def test_a_reflex_may_not_do_what_its_agent_may_not() -> None:
    async def story(sandbox: MontySandbox) -> ReflexOutcome:
        return await run_reflex(sandbox, HAWKER, FACTS, allowed=("noop", "read"))

    outcome = in_sandbox(story)

    assert outcome.why == "malformed"
    assert "must be one of noop, read" in outcome.detail


def test_facts_that_cannot_cross_fall_through() -> None:
    assert outcome_of(HAWKER, {"balance": object()}).why == "unusable"


def test_a_closed_sandbox_is_no_error_of_the_agent() -> None:
    async def story(sandbox: MontySandbox) -> ReflexOutcome:
        await sandbox.close()
        return await run_reflex(sandbox, HAWKER, FACTS)

    assert in_sandbox(story).why == "unusable"


def test_many_reflexes_keep_their_order_and_none_waits_too_long() -> None:
    """More jobs than a pool can serve within its waiting time, if all of them waited there."""

    async def tell() -> list[ReflexOutcome]:
        slow = "def reflex(context):\n    for i in range(80_000): pass\n" + (
            "    return {'action': 'noop', 'reasoning': str(context['n'])}"
        )
        # Half as long as all of them take, on this machine as it is now.
        measured = MontySandbox(workers=1)
        try:
            await run_reflex(measured, slow, {"n": 0})
            began = time.perf_counter()
            for n in range(10):
                await run_reflex(measured, slow, {"n": n})
            each_s = (time.perf_counter() - began) / 10
        finally:
            await measured.close()
        sandbox = MontySandbox(workers=1, wait_s=250 * each_s)
        try:
            jobs = (ReflexJob(slow, {"n": n}) for n in range(500))
            return await run_reflexes(sandbox, jobs, at_once=1)
        finally:
            await sandbox.close()

    outcomes = asyncio.run(tell())

    # Both limits count the time of the machine, also while other programs have it: a few may meet one. If all
    # of them waited in the pool, many would find no worker.
    late = {n for n, outcome in enumerate(outcomes) if "no sandbox worker was free" in outcome.detail}
    held_up = {n for n, outcome in enumerate(outcomes) if "ran longer than 100 ms" in outcome.detail}
    assert len(late) < 100 and len(held_up) < len(outcomes) == 500
    for n, outcome in enumerate(outcomes):
        assert outcome.action == (None if n in late | held_up else Noop(reasoning=str(n))), outcome


@pytest.mark.parametrize(
    "code",
    [
        HAWKER,
        "def reflex(context): return None",
        "def reflex(context, extra=1): return None",
        "def reflex(*args): return None",
        "def helper(): return None\ndef reflex(context, /): return helper()",
    ],
)
def test_a_sound_reflex_can_be_saved(code: str) -> None:
    check_reflex(code)
    check_reflex({"code": code})


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({"source": "x"}, "code as text"),
        (7, "code as text"),
        ("def reflex(context:", "line 1"),
        ("def other(context): return None", "def reflex(context)"),
        ("def reflex(): return None", "def reflex(context)"),
        ("def reflex(a, b): return None", "def reflex(context)"),
        ("def reflex(a, *, b): return None", "def reflex(context)"),
        ("async def reflex(context): return None", "def reflex(context)"),
        ("if True:\n    def reflex(context): return None", "def reflex(context)"),
        ("import subprocess\ndef reflex(context): return None", "subprocess"),
        ("x" * 300_000, "cannot run"),
        ("\ud800", "cannot run"),
    ],
)
def test_a_reflex_that_could_not_run_is_refused_when_saved(content: object, why: str) -> None:
    with pytest.raises(InvalidArtifact) as caught:
        check_reflex(content)

    assert why in str(caught.value)
