"""A turn that dies at any commit is resumed to the same end, and no recorded question is asked again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, ModelRequest, Session
from artelier.testing import ManualClock, ScriptedModel
from artelier.testing.clock import START_US
from tests.kernel.crashes import Death, Deaths
from tests.kernel.stage import EAGER, World, events
from tests.operations.rules.stage import BROKEN, after, asks, flags, insert, keep, op, play, profile

AFTER = ["after_main_llm"]

USED = profile(
    flags("g", "true"),
    op("state", "{{ art.state.value }}{{ text }}", keep("state"), strict=False),
    asks("b1", "aux b1", keep("b1", "prompt_only"), insert(), order=2),
    asks("b2", "aux b2 {{ art.b1.value }}", keep("once", persistence="run_only"), depends_on=["b1"], order=3),
    op(
        "feed",
        "{{ text }}",
        keep("feed", "ui_only", write_mode="append"),
        depends_on=["g"],
        run_conditions=[{"source": "g", "key": "yes", "operator": "is_true"}],
    ),
    op("broken", BROKEN, keep("broken")),
    asks("a1", "aux a1 {{ reply }}", keep("a1"), hooks=AFTER),
    asks("a2", "aux a2", {"type": "turn.assistant_variant.patch", "mode": "append"}, hooks=AFTER, order=2),
    after("log", "{{ art.a1.value }}", keep("log", write_mode="append"), depends_on=["a1"]),
    after("last", "last", keep("last"), required=True, order=9, activation={"every_n_turns": 2}),
    inclusions=[{"source": "art.state", "place": "system_append"}],
)

QUESTIONS = {"aux b1", "aux b2", "aux a1", "aux a2", "two"}


class _Mouth:
    """A model whose answer depends on the question alone; it writes down what it was asked."""

    def __init__(self, world: World) -> None:
        self.world = world

    def __call__(self, request: ModelRequest) -> str:
        question = _question(request)
        self.world.done.append(question)
        return f"({question})"


def _question(request: ModelRequest) -> str:
    last = request.messages[-1].text
    if last.startswith("aux"):
        return " ".join(last.split()[:2])
    return next(one.text for one in reversed(request.messages) if one.role == "user")


def _open(path: Path, world: World, *, fault: Any = None, at_s: int = 0) -> Kernel:
    """A later kernel may take over what an earlier one has left."""
    clock = ManualClock(start_us=START_US + at_s * 1_000_000)
    model = ScriptedModel(_Mouth(world))
    return Kernel.open(path, models={"m": model}, environ={}, policy=EAGER, fault=fault, clock=clock)


async def _told(kernel: Kernel, session: Session, run_id: str) -> dict[str, Any]:
    """Everything that a crash must not change: artifacts, history, words, how operations ended, effects."""
    found = await events(kernel, run_id)
    ended = sorted(
        (data.hook, data.operation_id, data.status, data.reason, data.code)
        for one in found
        if one.kind == "operation.finished" and (data := one.decode())
    )
    arts = await session.arts(internal=True)
    shown = await session.show(run_id)
    return {
        "ended": ended,
        "arts": {tag: (one["value"], one["version"], one["run_id"]) for tag, one in arts.items()},
        "history": {
            tag: [(one["value"], one["version"]) for one in await session.history(tag, internal=True)]
            for tag in arts
        },
        "turns": [
            (one.number, one.user, one.text, one.selected, len(one.variants)) for one in await session.turns()
        ],
        "reports": shown["reports"],
        "plan": shown["plan"],
        "prompt": [(one["tag"], one["tokens"]) for one in shown["prompt"]],
        "phases": [one.decode().phase for one in found if one.kind == "run.phase_changed"],
        "status": shown["status"],
    }


class _Once:
    """Copies are made of one turn only, when it is said so."""

    def __init__(self, deaths: Deaths) -> None:
        self.deaths = deaths
        self.is_on = False

    def __call__(self, point: str) -> None:
        if self.is_on:
            self.deaths(point)


@pytest.mark.slow
@pytest.mark.parametrize("trigger", ["generate", "regenerate"])
def test_a_turn_that_dies_at_any_commit_ends_the_same(trigger: str, tmp_path: Path) -> None:
    async def live() -> tuple[dict[str, Any], str, list[Death]]:
        world, path = World(), tmp_path / "s.db"
        once = _Once(Deaths(path, world))
        with _open(path, world, fault=once) as kernel:
            session = await Session.open(kernel, "c", model="m", profile=USED)
            await session.generate("one")
            if trigger == "regenerate":
                await session.generate("two")
            world.done.clear()
            once.is_on = True
            turn = await (session.generate("two") if trigger == "generate" else session.regenerate())
            once.is_on = False
            assert sorted(world.done) == sorted(QUESTIONS)
            assert turn.operations["broken"] == "error" and turn.status == "completed"
            found = await _told(kernel, session, turn.run_id)
            await kernel.aclose()
        return found, turn.run_id, once.deaths.found

    async def resumed(death: Death, run_id: str) -> dict[str, Any] | None:
        with _open(death.path, death.world, at_s=300) as kernel:
            session = await Session.open(kernel, "c")
            if (await session.branch_row()).run != run_id:
                return None
            recorded = await _recorded(kernel, run_id)
            before = list(death.world.done)
            assert (await session.resume()).status == "completed", death
            asked = death.world.done[len(before) :]
            assert not set(asked) & recorded, (death, "a recorded answer was asked for again")
            assert len(asked) == len(set(asked)) and set(before) | set(asked) == QUESTIONS, death
            found = await _told(kernel, session, run_id)
            assert (await session.generate("next")).status == "completed"
            await kernel.aclose()
        return found

    async def scenario() -> None:
        expected, run_id, deaths = await live()
        tried = 0
        for death in deaths:
            found = await resumed(death, run_id)
            if found is None:
                continue
            tried += 1
            assert found == expected, death
        assert tried >= 10

    play(scenario(), within_s=300)


async def _recorded(kernel: Kernel, run_id: str) -> set[str]:
    """Questions whose answers are in the log."""
    found: set[str] = set()
    for one in await events(kernel, run_id):
        if one.kind == "model.completed":
            key = one.decode().key
            found.add("two" if key.startswith("main") else f"aux {key.split('/')[1]}")
    return found
