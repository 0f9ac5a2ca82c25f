"""Published holes of other systems in tasks, by their numbers; none is here."""

from __future__ import annotations

from pathlib import Path

from artelier.errors import ModelRefusedCall
from artelier.missions.steering_document import SteeringStore
from tests.missions.task_stage import (
    AGENT,
    DONE,
    THINK,
    Actor,
    decide,
    look,
    opened,
    play,
    sales_of,
    text_of,
    work,
    write,
)
from tests.missions.test_task_acts import agent


def test_hole_31_a_task_without_a_passed_evaluation_is_not_done(tmp_path: Path) -> None:
    """Out of iterations, failed by its model, or only claimed: none of it is `done`."""

    async def scenario() -> None:
        scripts = [
            (Actor(look(), THINK, look("Bergen"), THINK, look("Molde")), "max_iterations"),
            (Actor(ModelRefusedCall("no")), ModelRefusedCall.code),
            (Actor(DONE), "stuck"),
            (Actor(look(), write(), DONE, judge=lambda request: {"passed": True}), "stuck"),
        ]
        for number, (actor, reason) in enumerate(scripts):
            (folder := tmp_path / str(number)).mkdir()
            with opened(folder, actor) as kernel:
                result = await work(kernel.for_tenant())
                rows = await kernel.store.query("SELECT status FROM runs")

                assert (result.status, result.reason) == ("failed", reason)
                assert rows == [("failed",)]

    play(scenario())


def test_hole_31_success_criteria_are_evaluated(tmp_path: Path) -> None:
    async def scenario() -> None:
        actor = Actor(look(), write())
        with opened(tmp_path, actor) as kernel:
            await work(kernel.for_tenant(), success_criteria="- It names Oslo, canary-criterion.")

            (request,) = actor.requests("Verdict")
            assert "canary-criterion" in text_of(request)
            rows = await kernel.store.query("SELECT count(*) FROM events WHERE kind = 'task.evaluated'")
            assert rows == [(1,)]

    play(scenario())


def test_hole_32_what_is_switched_off_does_not_run_and_sliders_are_limits(tmp_path: Path) -> None:
    async def scenario() -> None:
        actor = Actor(look(), write(), THINK, DONE)
        with opened(tmp_path, actor) as kernel:
            desk = kernel.for_tenant()
            await agent(desk)
            patch = {"tools": {"sales_of": False}, "sliders": {"iterations": 2, "output_bytes": 1000}}
            await SteeringStore(desk).change(AGENT, patch, by="operator")
            result = await work(desk)

            assert (result.reason, result.iterations) == ("max_iterations", 2)
            kinds = await kernel.store.query(
                "SELECT kind, count(*) FROM events WHERE kind LIKE 'tool.%' GROUP BY kind"
            )
            assert kinds == [("tool.refused", 1)]
            for request in actor.requests():
                assert "### sales_of" not in text_of(request)
                assert "at most 2 iterations" in text_of(request)

    play(scenario())


def test_hole_32_the_prompt_that_is_shown_is_the_one_that_was_sent(tmp_path: Path) -> None:
    async def scenario() -> None:
        actor = Actor(look(), "nonsense", write())
        with opened(tmp_path, actor) as kernel:
            desk = kernel.for_tenant()
            await work(desk)
            keys = ["c1/decision", "c2/decision", "c2/decision/repair", "c2/content", "c2/evaluation"]
            for key, (_, request) in zip(keys, actor.asked, strict=True):
                assert (await desk.render("m/figures", key)).canonical() == request.canonical()

    play(scenario())


def test_hole_33_figures_that_no_tool_returned_are_no_findings(tmp_path: Path) -> None:
    """A tool that has nothing says so, and a report that knows more than its sources is not done."""

    async def scenario() -> None:
        from artelier import tool
        from artelier.errors import ToolFailed

        @tool(side_effect=False)
        async def forecast_of(city: str) -> int:
            "What a city will sell."
            raise ToolFailed("there is no forecast")

        invented = "# Oslo\n\nOslo sold 4711 and will sell 5200 next year."
        ask = decide("use_tool", tool="forecast_of", input={"city": "Oslo"})
        actor = Actor(look(), ask, write(), DONE, content=invented)
        with opened(tmp_path, actor, tools=[sales_of, forecast_of]) as kernel:
            result = await work(kernel.for_tenant(), max_iterations=4)

            assert (result.status, result.reason) == ("failed", "max_iterations")
            assert "there is no forecast" in text_of(actor.requests()[2])
            assert "unfounded_figure" in text_of(actor.requests()[3])
            assert "5200" in text_of(actor.requests()[3])

    play(scenario())
