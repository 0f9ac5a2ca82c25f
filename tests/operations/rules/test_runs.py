"""A turn as a run: phases, plan, events with their numbers, how many at once, and how the main call ends."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import ModelReply, ModelRequest
from artelier.chat.session.event_stream import RunEvent
from artelier.chat.turn.turn_loop import replay_turn
from artelier.chat.turn.turn_runner import TurnResult, recorded_job
from artelier.errors import MissingKey, ModelRefusedCall, ModelTimeout, ProviderUnavailable, RateLimited
from artelier.operations import events as ev
from tests.kernel.stage import events
from tests.operations.rules.stage import (
    AFTER,
    BEFORE,
    BROKEN,
    Stage,
    after,
    asks,
    echo,
    flags,
    keep,
    op,
    play,
    profile,
    stage_test,
)

PHASES = ["planning", "before_main_llm", "barrier", "main_llm", "after_main_llm", "commit", "finished"]


async def _order(stage: Stage) -> None:
    """Everything in its phase, numbered from 1 without a gap; the plan is written before anything runs."""
    used = profile(
        op("a", "A", keep("a")),
        op("off", enabled=False),
        asks("b", "aux", order=2, depends_on=["a"]),
        after("c", "C", keep("c")),
    )
    session = await stage.chat(used)
    turn = await session.generate("x")
    stored = await events(stage.kernel, turn.run_id)
    assert [one.seq for one in stored] == list(range(1, len(stored) + 1))

    kinds = await stage.kinds(turn.run_id)
    assert [one.split()[1] for one in kinds if one.startswith("run.phase_changed")] == PHASES
    shown = [one for one in kinds if one.split()[0].startswith(("operation", "model", "commit"))]
    assert shown == [
        "operation.finished off",
        "operation.started a",
        "operation.finished a",
        "operation.started b",
        "model.requested",
        "model.completed",
        "operation.finished b",
        "commit.reported",
        "model.requested",
        "model.completed",
        "operation.started c",
        "operation.finished c",
        "commit.reported",
    ]
    at = {kind: index for index, kind in enumerate(kinds)}
    first = next(i for i, kind in enumerate(kinds) if kind.startswith("operation."))
    assert at["run.phase_changed planning"] < first
    assert at["run.phase_changed commit"] < len(kinds) - 1 - kinds[::-1].index("commit.reported")

    told = await session.events(turn.run_id, limit=1_000)
    names = [one.type for one in told]
    assert names.count("main_llm.started") == names.count("main_llm.finished") == 1
    assert (names[0], names[-1]) == ("run.started", "run.finished")
    assert {one.seq for one in told} <= {one.seq for one in stored}
    for start in range(len(stored) + 1):
        rest = [one for one in told if one.seq is not None and one.seq > start]
        assert await session.events(turn.run_id, after=start, limit=1_000) == rest
        assert [one async for one in session.watch(turn.run_id, after=start)] == rest


test_events_of_a_run_stand_in_their_order = stage_test(_order)


async def _plan(stage: Stage) -> None:
    """The plan has every operation at every hook, also those that will be skipped, in order of commit."""
    used = profile(
        flags("g", "false"),
        op("z", order=0.5, required=True),
        op("off", enabled=False, order=-1),
        op("re", triggers=["regenerate"]),
        op("later", activation={"every_n_turns": 9}),
        op(
            "cond",
            depends_on=["g"],
            order=7,
            run_conditions=[{"source": "g", "key": "yes", "operator": "is_true"}],
        ),
        op("both", hooks=[BEFORE, AFTER], order=3),
        after("last", BROKEN),
    )
    turn = await (await stage.chat(used)).generate("x")
    planning = (await stage.of(turn.run_id, ev.PhaseChanged))[0]
    told = [(one.hook, one.operation_id, one.skipped, one.required) for one in planning.plan]
    assert told == [
        (BEFORE, "off", "disabled", False),
        (BEFORE, "g", "", False),
        (BEFORE, "z", "", True),
        (BEFORE, "later", "not_due", False),
        (BEFORE, "re", "trigger_mismatch", False),
        (BEFORE, "both", "", False),
        (BEFORE, "cond", "", False),
        (AFTER, "last", "", False),
        (AFTER, "both", "", False),
    ]
    ended = await stage.of(turn.run_id, ev.OperationFinished)
    assert {(one.hook, one.operation_id) for one in ended} == {one[:2] for one in told}


test_the_plan_has_every_operation = stage_test(_plan)


class _Busy:
    """Answers questions of operations when enough are asked at once; counts how many that are."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.now = self.most = 0
        self.order: list[str] = []
        self.enough = asyncio.Event()

    async def __call__(self, request: ModelRequest) -> str:
        if not request.messages[-1].text.startswith("aux"):
            return echo(request)
        self.order.append(request.messages[-1].text)
        self.now += 1
        self.most = max(self.most, self.now)
        if self.now >= self.wanted:
            self.enough.set()
        await self.enough.wait()
        for _ in range(20):  # whoever else would start does so meanwhile
            await asyncio.sleep(0)
        self.now -= 1
        return "answer"


@pytest.mark.parametrize(
    ("mode", "limit", "expected"), [("concurrent", 3, 3), ("concurrent", 1, 1), ("sequential", 8, 1)]
)
@pytest.mark.parametrize("hook", [BEFORE, AFTER])
def test_so_many_operations_run_at_once(
    mode: str, limit: int, expected: int, hook: str, tmp_path: Path
) -> None:
    operations = [asks(f"o{n}", f"aux {n}", order=-n, hooks=[hook]) for n in range(7)]

    async def scenario() -> None:
        busy = _Busy(expected)
        stage = Stage(tmp_path, busy)
        with stage.kernel:
            used = profile(*operations, execution_mode=mode, parallel_max=limit)
            turn = await (await stage.chat(used)).generate("x")
            assert set(turn.operations.values()) == {"done"}
            assert busy.most == expected
            if expected == 1:
                assert busy.order == [f"aux {n}" for n in range(6, -1, -1)], "in order of commit"
            await stage.kernel.aclose()

    play(scenario())


async def _one_call(stage: Stage) -> None:
    """Each run has exactly one main call, or none; a replay of it has none at all."""
    used = profile(op("a", "A", keep("a")), asks("b", "aux"), after("c", "C", keep("c")))
    session = await stage.chat(used)
    runs = [
        (await session.generate("x")).run_id,
        (await session.regenerate()).run_id,
        (await session.continue_()).run_id,
    ]
    assert len(stage.main) == 3 and len(stage.auxiliary) == 2
    assert all(
        one.count("main_llm.started") == 1
        for one in [[event.type for event in await session.events(run)] for run in runs]
    )
    asked = len(stage.model.requests)
    desk = stage.kernel.for_tenant()
    for run_id in runs:
        job = await recorded_job(desk, run_id)
        assert job is not None
        replayed = await desk.replay(run_id, _replay(job.settings()))
        assert (replayed.status, replayed.model_calls) == ("completed", 0)
    assert len(stage.model.requests) == asked


def _replay(settings: Any) -> Any:
    return lambda run: replay_turn(run, settings)


test_one_main_call_and_none_in_a_replay = stage_test(_one_call)

ENDS: dict[str, tuple[Any, str, str]] = {
    "stop": (ModelReply(text="fine"), "completed", "completed"),
    "length": (ModelReply(text="cut o", finish_reason="length"), "completed", "completed"),
    "filter": (ModelReply(text="", finish_reason="content_filter"), "policy_error", "failed"),
    "other": (ModelReply(text="hm", finish_reason="other"), "unknown", "failed"),
    "rate": (RateLimited("slow down"), "rate_limited", "failed"),
    "time": (ModelTimeout("too slow"), "timeout", "failed"),
    "refused": (ModelRefusedCall("no"), "policy_error", "failed"),
    "down": (ProviderUnavailable("down"), "provider_error", "failed"),
    "key": (MissingKey("no key"), "provider_error", "failed"),
}


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("name", list(ENDS))
def test_how_a_main_call_ends(name: str, streamed: bool, tmp_path: Path) -> None:
    answer, reason, status = ENDS[name]

    def reply(request: ModelRequest) -> Any:
        if request.messages[-1].text != "x":
            return echo(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def scenario(stage: Stage) -> None:
        session = await stage.chat(profile(op("a", "A", keep("a", "ui_only")), after("b", "B", keep("b"))))
        if streamed:
            *items, turn = [one async for one in session.stream("x")]
            assert isinstance(turn, TurnResult)
            told = [one for one in items if isinstance(one, RunEvent) and one.type == "main_llm.finished"]
        else:
            turn = await session.generate("x")
            told = [one for one in await session.events(turn.run_id) if one.type == "main_llm.finished"]
        assert (turn.finish_reason, turn.status) == (reason, status)
        assert [one.data["finish_reason"] for one in told][-1] == reason
        assert (await session.turn()).variants[0].finish_reason == reason
        if status == "failed":
            assert turn.failed is not None and turn.failed["failed_type"] == "main_llm"
            assert turn.failed["message"] and turn.failed["code"]
            assert await stage.values(session) == {"a": "A"}
        else:
            assert await stage.values(session) == {"a": "A", "b": "B"}
        assert (await session.generate("next")).status == "completed"

    stage_test(scenario, reply)(tmp_path)
