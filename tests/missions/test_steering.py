"""Steering: what is accepted, what it means, how several come together, and that the kernel keeps to it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier import Kernel, Policy, Price, Run, Tenant, tool
from artelier.app import TenantKernel
from artelier.errors import (
    ArtelierError,
    Conflict,
    InvalidArtifact,
    InvalidRequest,
    NotFound,
    VersionConflict,
)
from artelier.missions.membranes import Membranes
from artelier.missions.steering_document import (
    LEVELS,
    SAFETY,
    Steering,
    SteeringStore,
    apply,
    bias,
    effective,
    level,
)
from artelier.testing import ScriptedModel
from tests.kernel.stage import GateModel, ask, billed, drive, result_of
from tests.missions.task_stage import DONE, Actor, work

ANALYST = "m/analyst"

unit = st.floats(0, 1, allow_nan=False)
steerings = st.builds(
    Steering,
    x=unit,
    y=unit,
    budget=st.none() | st.integers(0, 10**15 - 1),
    iterations=st.integers(1, 20),
    delegation_depth=st.integers(0, 5),
    safety=st.sampled_from(SAFETY),
    output_bytes=st.integers(1_000, 1_000_000),
    tools=st.dictionaries(st.sampled_from("abcdef"), st.booleans()),
)


# What is accepted


def test_an_empty_document_has_the_defaults() -> None:
    assert Steering.parse({}) == Steering()
    assert Steering.parse({}).content() == {
        "xy": {"x": 0.5, "y": 0.5},
        "axes": {"x": ["focused", "exploratory"], "y": ["terse", "thorough"]},
        "sliders": {
            "budget_usd": None,
            "iterations": 5,
            "delegation_depth": 1,
            "safety": "open",
            "output_bytes": 65_536,
        },
        "tools": {},
    }


@given(steerings)
def test_what_is_written_is_read_back(steering: Steering) -> None:
    assert Steering.parse(steering.content()) == steering


def test_all_mistakes_of_a_document_are_named_with_their_paths() -> None:
    wrong = {
        "xy": {"x": 1.5, "y": True, "z": 0},
        "axes": {"x": ["one"]},
        "sliders": {
            "budget_usd": "0.0000001",
            "iterations": 0,
            "delegation_depth": "deep",
            "safety": ["open"],
            "output_bytes": 10**5000,
            "speed": 9,
        },
        "tools": {"web_fetch": "off", "": True},
        "colour": "red",
    }

    with pytest.raises(InvalidRequest) as refused:
        Steering.parse(wrong)

    paths = (
        "/xy/x",
        "/xy/y",
        "/xy has no 'z'",
        "/axes/x",
        "/sliders/budget_usd",
        "/sliders/iterations",
        "/sliders/delegation_depth",
        "/sliders/safety",
        "/sliders/output_bytes",
        "/sliders has no 'speed'",
        "/tools/web_fetch",
        "/tools takes names",
        "/ has no 'colour'",
    )
    assert len(refused.value.facts["mistakes"]) == len(paths)
    assert all(path in str(refused.value) for path in paths)


def _endless() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        "x",
        7,
        {"xy": None},
        {"xy": {"x": float("nan")}},
        {"xy": {"y": float("inf")}},
        {"xy": {"x": -0.1}},
        {"sliders": []},
        {"sliders": {"budget_usd": 0.6}},
        {"sliders": {"budget_usd": "-1"}},
        {"sliders": {"budget_usd": "1e9"}},
        {"sliders": {"budget_usd": "٣"}},
        {"sliders": {"iterations": 5.0}},
        {"sliders": {"iterations": True}},
        {"sliders": {"output_bytes": 999}},
        {"sliders": {"safety": "none"}},
        {"tools": ["a"]},
        {"tools": {"a\n": True}},
        {"tools": {"a": None}},
        {"tools": {f"t{n}": True for n in range(501)}},
        {"axes": {"x": ["a", "b" * 41]}},
        {"axes": "xy"},
        {10**5000: 1},
        {"xy": _endless()},
    ],
)
def test_hostile_documents_are_refused_with_words(document: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Steering.parse(document)
    assert len(str(refused.value)) < 2_500


def test_a_document_of_mistakes_alone_names_some_and_counts_the_rest() -> None:
    with pytest.raises(InvalidRequest) as refused:
        Steering.parse({f"k{n}": n for n in range(1_000)})
    assert "and 980 more" in str(refused.value)


# What the puck means


def test_each_step_of_an_axis_asks_for_something_else_and_never_for_less() -> None:
    places = [n / (LEVELS - 1) for n in range(LEVELS)]
    assert [level(place) for place in places] == list(range(LEVELS))
    by_x = [bias(Steering(x=place)) for place in places]
    by_y = [bias(Steering(y=place)) for place in places]
    for line in (by_x, by_y):
        assert len({one.text for one in line}) == LEVELS
    for left, right in itertools.pairwise(by_x):
        assert left.temperature < right.temperature
        assert left.alternatives <= right.alternatives
        assert (left.breadth or 0) < (right.breadth or 1_000)
    for left, right in itertools.pairwise(by_y):
        assert left.sources_min <= right.sources_min
        assert left.words_target < right.words_target
    assert by_x[-1].breadth is None, "exploratory lists all tools"


@given(steerings)
def test_the_policy_is_pure_and_says_its_own_numbers(steering: Steering) -> None:
    asked = bias(steering)
    assert asked == bias(Steering.parse(steering.content()))
    assert f"{asked.words_target:,} words" in asked.text
    assert f"at least {asked.sources_min} source" in asked.text
    assert "{" not in asked.text
    assert 0.0 <= asked.temperature <= 1.0 and 1 <= asked.alternatives <= 4


# Several at once


@given(st.none() | steerings, st.lists(steerings, max_size=4), st.none() | steerings)
def test_what_holds_is_never_laxer_than_any_of_its_sources(
    agent: Steering | None, membranes: list[Steering], changed: Steering | None
) -> None:
    changes = {} if changed is None else {"steering": changed.content()}
    own = agent if changed is None else changed
    holds = effective(agent, membranes, changes)
    sources = [*([] if own is None else [own]), *membranes]
    for source in sources:
        assert source.budget is None or (holds.budget is not None and holds.budget <= source.budget)
        assert holds.iterations <= source.iterations
        assert holds.delegation_depth <= source.delegation_depth
        assert holds.output_bytes <= source.output_bytes
        assert SAFETY.index(holds.safety) >= SAFETY.index(source.safety)
        assert all(not holds.tools[name] for name, on in source.tools.items() if not on)
    if sources:
        on = {name for name, is_on in holds.tools.items() if is_on}
        assert all(source.tools.get(name, True) for name in on for source in sources)
    if own is not None:
        assert (holds.x, holds.y) == (own.x, own.y)
    assert holds == effective(agent, membranes[::-1], changes), "the order of membranes is no matter"
    assert Steering.parse(holds.content()) == holds


def test_without_a_puck_of_its_own_an_agent_has_the_mean_of_its_membranes() -> None:
    holds = effective(None, [Steering(x=0.0, y=1.0), Steering(x=0.5, y=0.5)])
    assert (holds.x, holds.y) == (0.25, 0.75)
    assert effective(None) == Steering()


def test_a_fork_with_what_is_no_steering_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        effective(None, [], {"steering": {"sliders": {"iterations": 99}}})


# The kernel keeps to it


def told(path: Path, story: Callable[[TenantKernel, SteeringStore], Awaitable[None]], **opened: Any) -> None:
    async def tell() -> None:
        with Kernel.open(path / "state.db", environ={}, **opened) as kernel:
            desk = kernel.for_tenant(Tenant("acme", grants={"tools:*", "artifacts:*"}))
            await desk.state()
            artifacts = desk.as_principal("operator").artifacts
            await artifacts.write(ANALYST, kind="agent", content={"name": "Analyst"})
            async with asyncio.timeout(60):
                await story(desk, SteeringStore(desk))

    asyncio.run(tell())


@tool(side_effect=True, risk="medium")
def send() -> str:
    """Send."""
    return "sent"


@tool(side_effect=False, risk="high")
def spy() -> str:
    """Look where it hurts."""
    return "seen"


@tool(side_effect=False)
def look() -> str:
    """Look."""
    return "x" * 5_000


def _codes(run_tools: list[str], steering: Steering) -> Callable[[Run], Awaitable[Any]]:
    async def code(run: Run) -> Any:
        apply(run.core, steering)
        await ask(run, "hello", tools=None)
        results = [await run.step_tool(name, key=name) for name in run_tools]
        return [one.value["error"]["code"] if one.is_error else "done" for one in results]

    return code


def test_a_tool_that_is_switched_off_is_not_offered_and_refused(tmp_path: Path) -> None:
    model = ScriptedModel(["hi"])

    async def story(desk: TenantKernel, store: SteeringStore) -> None:
        steering = Steering(tools={"look": False, "spy": True})
        assert await drive(desk, _codes(["look", "spy"], steering)) == "completed"
        assert await result_of(desk) == ["not_granted", "done"]
        assert [tool.name for tool in model.requests[0].tools] == ["send", "spy"]

    told(tmp_path, story, models=model, tools=[send, spy, look])


def test_read_only_leaves_tools_without_side_effects(tmp_path: Path) -> None:
    model = ScriptedModel(["hi"])

    async def story(desk: TenantKernel, store: SteeringStore) -> None:
        code = _codes(["send", "spy", "look"], Steering(safety="read_only"))
        assert await drive(desk, code) == "completed"
        assert await result_of(desk) == ["not_granted", "not_granted", "done"]
        assert [tool.name for tool in model.requests[0].tools] == ["look"]

    told(tmp_path, story, models=model, tools=[send, spy, look])


@pytest.mark.parametrize(
    ("safety", "policy", "name", "asks"),
    [
        ("open", None, "spy", False),
        ("open", "high", "spy", True),
        ("approve_high", None, "spy", True),
        ("approve_high", None, "send", False),
        ("approve_medium", None, "send", True),
        ("approve_high", "medium", "send", True),
    ],
)
def test_safety_asks_people_at_least_where_the_tenants_policy_does(
    tmp_path: Path, safety: str, policy: str | None, name: str, asks: bool
) -> None:
    async def story(desk: TenantKernel, store: SteeringStore) -> None:
        code = _codes([name], Steering(safety=safety))
        status = await drive(desk, code, on_wait="suspend")
        assert status == ("waiting_approval" if asks else "completed")

    told(tmp_path, story, models=ScriptedModel(["hi"]), tools=[send, spy], policy=Policy(approve_risk=policy))


def test_output_size_bounds_what_a_model_sees_of_a_result(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        apply(run.core, Steering(output_bytes=1_000))
        small = await run.step_tool("look")
        apply(run.core, Steering())
        whole = await run.step_tool("look")
        return [small.ref is not None, whole.ref is not None]

    async def story(desk: TenantKernel, store: SteeringStore) -> None:
        assert await drive(desk, code) == "completed"
        assert await result_of(desk) == [True, False]

    told(tmp_path, story, tools=[look])


# Where it is kept


def test_a_change_is_a_version_that_says_who_made_it(tmp_path: Path) -> None:
    async def story(desk: TenantKernel, store: SteeringStore) -> None:
        before = await store.show(ANALYST)
        assert (before.version, before.id) == (0, f"{ANALYST}/steering")
        patch = {"xy": {"x": 1}, "tools": {"look": False}}
        after = await store.change(ANALYST, patch, by="user:eve")
        steers = after.steering.content()
        assert (after.version, steers["xy"], steers["tools"]) == (1, {"x": 1.0, "y": 0.5}, {"look": False})
        assert after.policy.temperature == 1.0 and after.policy.breadth is None
        back = await store.change(after.id, {"tools": {"look": None}}, by="user:kim")
        assert (back.version, back.steering.content()["tools"]) == (2, {})
        actors = await desk.services.store.query(
            "SELECT e.actor FROM events e JOIN streams s ON s.id = e.stream WHERE s.name LIKE ?"
            " ORDER BY e.seq",
            (f"%artifact:{ANALYST}/steering",),
        )
        assert [actor for (actor,) in actors] == ["user:eve", "user:kim"]

        mine = await desk.as_principal(ANALYST).artifacts.read(f"{ANALYST}/steering")
        assert mine.owner == "operator"
        for principal in (ANALYST, "m/other"):
            with pytest.raises(ArtelierError):
                await desk.as_principal(principal).artifacts.write(
                    f"{ANALYST}/steering", content={"sliders": {"iterations": 20}}
                )
        with pytest.raises(ArtelierError):
            await desk.as_principal("m/other").artifacts.read(f"{ANALYST}/steering")

    told(tmp_path, story)


def test_steering_cannot_be_deleted_and_is_mended_by_a_change(tmp_path: Path) -> None:
    async def story(desk: TenantKernel, store: SteeringStore) -> None:
        await Membranes(desk).create("m/study", name="Study", members=[ANALYST], by="user:eve")
        artifacts = desk.as_principal("operator").artifacts
        for about in (ANALYST, "m/study"):
            await store.change(about, {"sliders": {"safety": "read_only"}}, by="user:eve")
            with pytest.raises(Conflict) as refused:
                await artifacts.delete(f"{about}/steering")
            assert "null puts a default back" in str(refused.value)
            assert (await store.show(about)).steering.safety == "read_only"
        opened = await store.change("m/study", {"sliders": {"safety": None}}, by="user:eve")
        assert (opened.version, opened.steering.safety) == (2, "open")

    told(tmp_path, story)


def test_what_is_no_steering_is_refused_at_every_door(tmp_path: Path) -> None:
    async def story(desk: TenantKernel, store: SteeringStore) -> None:
        artifacts = desk.as_principal("operator").artifacts
        broken = {"sliders": {"safety": "none"}}
        with pytest.raises(InvalidArtifact) as refused:
            await artifacts.write(f"{ANALYST}/steering", kind="steering", content=broken)
        assert "/sliders/safety" in str(refused.value)
        await store.change(ANALYST, {"xy": {"x": 1}}, by="user:eve")
        with pytest.raises(InvalidArtifact):
            await artifacts.write(f"{ANALYST}/steering", content=broken)
        with pytest.raises(InvalidArtifact):
            await artifacts.edit(f"{ANALYST}/steering", '"open"', '"none"')
        assert (await store.show(ANALYST)).version == 1

    told(tmp_path, story)


@pytest.mark.parametrize("about", [ANALYST, "m/study"])
def test_steering_that_is_gone_bars_everything(tmp_path: Path, about: str) -> None:
    """Of a store in which it could be deleted: there is a tombstone, and nobody knows what it said."""
    actor = Actor(DONE)

    async def story(desk: TenantKernel, store: SteeringStore) -> None:
        await Membranes(desk).create("m/study", name="Study", members=[ANALYST], by="user:eve")
        artifacts = desk.as_principal("operator").artifacts
        await artifacts.write(f"{about}/steering", kind="document", content={})
        await artifacts.delete(f"{about}/steering")
        for asked in (store.show(about), store.show(ANALYST), store.change(about, {"xy": {}}, by="user:eve")):
            with pytest.raises(Conflict) as refused:
                await asked
            assert f"{about}/steering was deleted" in str(refused.value)

        result = await work(desk)
        assert (result.status, result.reason, actor.asked) == ("failed", "conflict", [])
        assert f"{about}/steering was deleted" in result.text
        if about != ANALYST:
            await Membranes(desk).leave(about, ANALYST)
            assert (await store.show(ANALYST)).in_force.safety == "open"

    told(tmp_path, story, models={"m": actor.model})


def test_a_change_is_refused_whole(tmp_path: Path) -> None:
    async def story(desk: TenantKernel, store: SteeringStore) -> None:
        await store.change(ANALYST, {"xy": {"x": 0.1}}, by="user:eve")
        for patch in ({"xy": {"x": 2}}, {"sliders": {"safety": "off"}}, {"nonsense": 1}, [], "x"):
            with pytest.raises(InvalidRequest):
                await store.change(ANALYST, patch, by="user:eve")  # type: ignore[arg-type]
        deep: Any = {}
        for _ in range(5_000):
            deep = {"xy": deep}
        with pytest.raises(InvalidRequest):
            await store.change(ANALYST, deep, by="user:eve")
        with pytest.raises(VersionConflict):
            await store.change(ANALYST, {}, by="user:eve", expected_version=7)
        with pytest.raises(NotFound):
            await store.change("m/nobody", {}, by="user:eve")
        await desk.as_principal("operator").artifacts.write("m/d", kind="document", content="x")
        with pytest.raises(InvalidRequest):
            await store.show("m/d")
        assert (await store.show(ANALYST)).version == 1

    told(tmp_path, story)


def test_changes_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    async def story(desk: TenantKernel, store: SteeringStore) -> None:
        patches = [{"tools": {name: False}} for name in "abc"]
        await asyncio.gather(*(store.change(ANALYST, one, by="user:eve") for one in patches))
        shown = await store.show(ANALYST)
        assert (shown.version, shown.steering.content()["tools"]) == (3, {"a": False, "b": False, "c": False})

    told(tmp_path, story)


def test_a_lowered_budget_stops_a_running_agent_and_a_raised_one_lets_it_go_on(tmp_path: Path) -> None:
    gate = GateModel()
    gate.price = Price(input=Decimal(1), output=Decimal(2))

    async def code(run: Run) -> Any:
        return [await ask(run, text, max_output_tokens=100) for text in ("a", "b")]

    async def story(desk: TenantKernel, store: SteeringStore) -> None:
        scope = f"agent:{ANALYST}"
        await store.change(ANALYST, {"sliders": {"budget_usd": "1.00"}}, by="user:eve")
        work = asyncio.create_task(drive(desk, code, scopes=(scope,)))
        await gate.asked("a")
        await store.change(ANALYST, {"sliders": {"budget_usd": "0.000001"}}, by="user:eve")
        gate.answer("a")
        assert await work == "budget_exhausted"
        assert (await desk.show("r"))["reason"] == f"usd of {scope}"
        await store.change(ANALYST, {"sliders": {"budget_usd": None}}, by="user:eve")
        assert (await desk.used(scope))["usd"]["cap"] is None
        await desk.resume("r")
        gate.answer("b")
        assert await drive(desk, code) == "completed"

    told(tmp_path, story, models=gate)


def test_a_membranes_steering_and_budget_hold_for_its_members(tmp_path: Path) -> None:
    model = ScriptedModel([billed("x")], price=Price(input=Decimal(1), output=Decimal(2)))

    async def code(run: Run) -> Any:
        return await ask(run, "a", max_output_tokens=100)

    async def story(desk: TenantKernel, store: SteeringStore) -> None:
        await Membranes(desk).create("m/study", name="Study", members=[ANALYST], by="user:eve")
        patch = {"sliders": {"budget_usd": "0.0001", "safety": "read_only"}, "xy": {"x": 1}}
        own = await store.change("m/study", patch, by="user:eve")
        assert own.in_force.safety == "read_only"
        await store.change(ANALYST, {"tools": {"look": False}}, by="user:eve")
        holds = (await store.show(ANALYST)).in_force
        assert (holds.safety, holds.content()["tools"]) == ("read_only", {"look": False})
        assert holds.x == 0.5, "the agent's own puck counts"
        status = await drive(desk, code, scopes=(f"agent:{ANALYST}", "membrane:m/study"))
        assert status == "budget_exhausted"
        assert (await desk.show("r"))["reason"] == "usd of membrane:m/study"
        reader = desk.as_principal(ANALYST).artifacts
        assert (await reader.read("m/study/steering")).version == 1

    told(tmp_path, story, models=model)
