"""Laws of random profiles: in whatever way operations run, they come to the same and commit in one order."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from artelier import Kernel, ModelRequest, OperationProfile, Session
from artelier.operations.graph.plan import in_commit_order
from artelier.testing import ManualClock, ScriptedModel
from tests.kernel.stage import EAGER
from tests.operations.rules.stage import AFTER, BEFORE, BROKEN, asks, flags, insert, keep, op, play

Data = dict[str, Any]
TURNS = ("generate", "generate", "regenerate", "generate")


@st.composite
def _operations(draw: st.DrawFn) -> list[Data]:
    """A DAG of operations at both hooks, with failures, guards, activations and feeds among them."""
    made: list[Data] = []
    for number in range(draw(st.integers(1, 7))):
        hook = draw(st.sampled_from((BEFORE, AFTER)))
        same = [one for one in made if one["hooks"] == [hook]]
        above = draw(st.lists(st.sampled_from(same), unique_by=id, max_size=3)) if same else []
        usage: Data = {
            "hooks": [hook],
            "depends_on": [one["operation_id"] for one in above],
            "order": draw(st.sampled_from((-1, 0, 0.5, 2))),
            "enabled": draw(st.integers(0, 9)) > 0,
            "required": draw(st.integers(0, 9)) == 0,
        }
        guards = [one for one in above if one["kind"] == "guard"]
        if guards:
            operator = draw(st.sampled_from(("is_true", "is_false")))
            usage["run_conditions"] = [
                {"source": guards[0]["operation_id"], "key": "yes", "operator": operator}
            ]
        if draw(st.integers(0, 4)) == 0:
            usage["activation"] = {"every_n_turns": draw(st.integers(1, 3))}
        if draw(st.integers(0, 4)) == 0:
            usage["triggers"] = [draw(st.sampled_from(("generate", "regenerate")))]
        made.append(_operation(draw, f"o{number}", hook, usage))
    return made


def _operation(draw: st.DrawFn, id_: str, hook: str, usage: Data) -> Data:
    tag = id_
    persistence = draw(st.sampled_from(("persisted", "persisted", "run_only")))
    appends = persistence == "persisted" and draw(st.booleans())
    effects: list[Data] = [
        keep(
            tag,
            draw(st.sampled_from(("internal", "ui_only", "prompt+ui"))),
            persistence=persistence,
            write_mode="append" if appends else "replace",
        )
    ]
    if draw(st.booleans()):
        effects.append(
            insert("i")
            if hook == BEFORE
            else {"type": "turn.assistant_variant.patch", "mode": "append", "text": id_}
        )
    kind = draw(st.sampled_from(("template", "template", "llm", "guard", "broken", "sum")))
    if kind == "llm":
        return asks(id_, f"aux {id_} {{{{ text }}}}", *effects, **usage)
    if kind == "guard":
        guard = flags(id_, draw(st.sampled_from(("true", "false"))), **{**usage})
        return guard
    text = {"template": f"{id_}{{{{ text }}}}", "broken": BROKEN, "sum": _sum(usage)}[kind]
    return op(id_, text, *_hushed(effects, kind), strict=kind == "broken", **usage)


def _sum(usage: Data) -> str:
    """All that the operation sees of those it depends on, and of itself a turn ago."""
    return "".join(f"{{{{ art.{id_}.value }}}}," for id_ in usage["depends_on"]) + "{{ chat.turn }}"


def _hushed(effects: list[Data], kind: str) -> list[Data]:
    """A sum shows what others hide, so it is for nobody."""
    if kind != "sum":
        return effects
    return [{**one, "usage": "internal"} if "usage" in one else one for one in effects]


class _Dawdling:
    """Answers questions of operations late, each after a number of rounds of its own."""

    def __init__(self, rounds: list[int]) -> None:
        self.rounds = rounds
        self.asked = 0

    async def __call__(self, request: ModelRequest) -> str:
        last = request.messages[-1].text
        if last.startswith("aux"):
            self.asked += 1
            for _ in range(self.rounds[self.asked % len(self.rounds)]):
                await asyncio.sleep(0)
        return f"re {last}"


async def _story(operations: list[Data], mode: str, limit: int, rounds: list[int]) -> list[Any]:
    """All that can be told of some turns, without names of runs."""
    data = {"profile_id": "p", "operations": operations, "execution_mode": mode, "parallel_max": limit}
    model = ScriptedModel(_Dawdling(rounds))
    told: list[Any] = []
    with Kernel.open(
        ":memory:", models={"m": model}, environ={}, policy=EAGER, clock=ManualClock()
    ) as kernel:
        used = OperationProfile.parse(data)
        session = await Session.open(kernel, "c", model="m", profile=used)
        for number, trigger in enumerate(TURNS):
            turn = await (session.regenerate() if trigger == "regenerate" else session.generate(f"t{number}"))
            shown = await session.show(turn.run_id)
            ended = sorted(
                (one["hook"], one["operation_id"], one["status"], one.get("reason", ""), one.get("code", ""))
                for one in shown["operations"]
            )
            arts = await session.arts(internal=True)
            state = {tag: (one["value"], one["version"]) for tag, one in arts.items()}
            main = [one for one in model.requests if not one.messages[-1].text.startswith("aux")]
            prompt = msgspec.to_builtins(main[-1].messages) if main else []
            told.append((turn.status, turn.text, turn.failed, ended, shown["reports"], state, prompt))
            _check_order(used, shown["reports"])
        await kernel.aclose()
    return told


def _check_order(used: OperationProfile, reports: list[Data]) -> None:
    """Effects stand in the order of commit: never before those of what their operation depends on."""
    place = {one.operation_id: index for index, one in enumerate(in_commit_order(used.operations))}
    needs = {one.operation_id: one.depends_on for one in used.operations}
    for hook in (BEFORE, AFTER):
        listed = [one for one in reports if one["hook"] == hook]
        ids = list(dict.fromkeys(one["operation_id"] for one in listed))
        assert [one["operation_id"] for one in listed] == [
            id_ for id_ in ids for one in listed if one["operation_id"] == id_
        ], "the effects of one operation stand together"
        for index, id_ in enumerate(ids):
            assert not set(needs[id_]) & set(ids[index:])
        for first, second in itertools.pairwise(ids):
            free = not needs[first] and not needs[second]
            assert not free or place[first] < place[second]


@settings(max_examples=12)
@given(
    operations=_operations(),
    limit=st.integers(1, 4),
    rounds=st.lists(st.integers(0, 12), min_size=1, max_size=5),
)
def test_how_operations_run_changes_nothing(operations: list[Data], limit: int, rounds: list[int]) -> None:
    async def scenario() -> None:
        alone = await _story(operations, "sequential", 8, [0])
        assert await _story(operations, "concurrent", limit, rounds) == alone
        assert await _story(operations[::-1], "concurrent", 8, rounds[::-1]) == alone

    play(scenario())
