"""Where a task ends: done by a passed evaluation and by nothing else."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, ModelReply, ModelRequest, Price
from artelier.errors import ArtelierError, Conflict, ModelRefusedCall, OutputInvalid
from artelier.kernel import Limits
from artelier.missions.task.preview import next_prompt
from artelier.missions.task.task_runner import drive_task
from tests.missions.task_stage import (
    AGENT,
    CRITERIA,
    DONE,
    GOAL,
    REPORT,
    TASK,
    THINK,
    Actor,
    approve,
    as_json,
    decide,
    kinds,
    look,
    make_task,
    opened,
    play,
    read,
    reject,
    replayed,
    text_of,
    work,
    write,
)

OWN = ("task", "decision")


def test_a_task_is_done_by_a_passed_evaluation(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, Actor(look(), write())) as kernel:
            desk = kernel.for_tenant()

            result = await work(desk)

            assert (result.status, result.reason, result.iterations) == ("done", "", 2)
            assert result.outputs == ("m/report@1",)
            assert result.text == REPORT
            assert await read(desk, "m/report@1") == REPORT
            assert [kind for kind in await kinds(kernel) if kind.startswith(OWN)] == [
                "task.begun",
                "decision.taken",
                "decision.executed",
                "decision.taken",
                "decision.executed",
                "task.evaluated",
                "task.ended",
            ]
            again = await replayed(desk)
            assert (again.status, again.model_calls) == ("completed", 0)
            assert again.result["outputs"] == ["m/report@1"]

    play(scenario())


def test_the_version_is_in_the_batch_of_its_receipt_and_says_where_it_is_from(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, Actor(look(), write())) as kernel:
            desk = kernel.for_tenant()
            await work(desk)

            artifact = await desk.as_principal("operator").artifacts.read("m/report")
            rows = await kernel.store.query(
                "SELECT c.first_position, e.kind FROM events e JOIN commits c"
                " ON e.position BETWEEN c.first_position AND c.last_position"
                " WHERE e.kind IN ('artifact.written', 'decision.executed')"
                " ORDER BY e.position DESC LIMIT 2"
            )

            assert (artifact.owner, artifact.kind) == ("m/analyst", "report")
            assert (artifact.provenance.run_id, artifact.provenance.step) == (TASK, "c2/content")
            assert {kind for _, kind in rows} == {"artifact.written", "decision.executed"}
            assert rows[0][0] == rows[1][0]

    play(scenario())


def test_a_claim_of_completion_is_never_enough(tmp_path: Path) -> None:
    """Without outputs no evaluator is asked, and the same claim again and again is being stuck."""

    async def scenario() -> None:
        actor = Actor(DONE)
        with opened(tmp_path, actor) as kernel:
            result = await work(kernel.for_tenant())

            assert (result.status, result.reason, result.iterations) == ("failed", "stuck", 3)
            assert actor.requests("Verdict") == []
            assert (await replayed(kernel.for_tenant())).status == "failed"

    play(scenario())


def test_a_claim_that_names_what_is_missing_blocks_at_once(tmp_path: Path) -> None:
    """The reason is told in words; a person brings what is missing, and the same run goes on."""
    lacks = decide("complete_task", target="the sales of 2025") | {"reason": "No tool knows them."}

    async def scenario() -> None:
        actor = Actor(lacks, look(), write())
        with opened(tmp_path, actor) as kernel:
            desk = kernel.for_tenant()
            first = await work(desk)
            shown = await desk.tasks.show(TASK)

            assert (first.status, first.reason, first.iterations) == ("blocked", "missing_input", 1)
            assert shown["message"] == "No tool knows them. Missing: the sales of 2025"
            assert [one["action"] for one in shown["iterations"]] == ["complete_task"]
            assert actor.requests("Verdict") == []
            assert (await replayed(desk)).reason == "missing_input"

            await desk.retry(TASK)
            ahead = await next_prompt(desk, "m/analyst")
            second = await drive_task(desk, TASK, on_wait="return")

            assert (second.status, second.iterations) == ("done", 3)
            assert "asked for another attempt" in text_of(actor.requests()[1])
            assert (ahead.iteration, "another attempt" in str(ahead.prompt.parts)) == (2, True)
            assert (await desk.tasks.show(TASK))["message"] == ""
            assert (await replayed(desk)).status == "completed"

    play(scenario())


def test_a_claim_with_an_output_is_judged_whatever_it_names(tmp_path: Path) -> None:
    async def scenario() -> None:
        claim = decide("complete_task", target="more data")
        with opened(tmp_path, Actor(look(), write(), claim, THINK, judge=reject)) as kernel:
            result = await work(kernel.for_tenant(), max_iterations=4)

            assert (result.status, result.reason) == ("failed", "max_iterations")

    play(scenario())


def test_outputs_that_the_evaluator_refuses_end_at_the_limit(tmp_path: Path) -> None:
    async def scenario() -> None:
        actor = Actor(look(), write(), THINK, DONE, look("Bergen"), judge=reject)
        with opened(tmp_path, actor) as kernel:
            result = await work(kernel.for_tenant())

            assert (result.status, result.reason, result.iterations) == ("failed", "max_iterations", 5)
            assert result.outputs == ("m/report@1",)
            assert len(actor.requests("Verdict")) == 1  # the verdict on unchanged outputs stands
            assert "The amount is missing." in text_of(actor.requests()[2])

    play(scenario())


def test_three_equal_decisions_end_a_task_and_the_prompt_before_warns(tmp_path: Path) -> None:
    async def scenario() -> None:
        actor = Actor(THINK, decide("analyze") | {"reason": "In other words."}, THINK)
        with opened(tmp_path, actor) as kernel:
            result = await work(kernel.for_tenant())

            assert (result.status, result.reason, result.iterations) == ("failed", "stuck", 3)
            warned = ["Stuck:" in text_of(request) for request in actor.requests()]
            assert warned == [False, False, True]

    play(scenario())


def test_an_equal_call_that_tells_something_new_is_no_repetition(tmp_path: Path) -> None:
    from artelier import tool

    ticks = iter(range(100, 200))

    @tool(side_effect=False)
    async def poll() -> int:
        "Poll."
        return next(ticks)

    async def scenario() -> None:
        actor = Actor(decide("use_tool", tool="poll", input={}))
        with opened(tmp_path, actor, tools=[poll]) as kernel:
            result = await work(kernel.for_tenant())

            assert (result.reason, result.iterations) == ("max_iterations", 5)

    play(scenario())


def test_a_reply_that_is_no_decision_is_repaired_once_and_then_fails_the_task(tmp_path: Path) -> None:
    fenced = f"```json\n{as_json(THINK)}\n```"

    async def scenario() -> None:
        actor = Actor(fenced, f"Sure! {as_json(THINK)}")
        with opened(tmp_path, actor) as kernel:
            result = await work(kernel.for_tenant())

            assert (result.status, result.reason) == ("failed", "decision_invalid")
            assert len(actor.asked) == 2
            assert "not one JSON value" in text_of(actor.requests()[1])
            assert "decision.invalid" in await kinds(kernel)
            assert (await replayed(kernel.for_tenant())).reason == "decision_invalid"

    play(scenario())


def test_a_repaired_decision_counts_and_is_what_the_conversation_shows(tmp_path: Path) -> None:
    async def scenario() -> None:
        actor = Actor({"action": "dance", "reason": "x"}, look(), write())
        with opened(tmp_path, actor) as kernel:
            result = await work(kernel.for_tenant())

            assert (result.status, result.iterations) == ("done", 2)
            assert "action" in actor.requests()[1].messages[-1].text
            assert "dance" not in text_of(actor.requests()[2])
            assert (await replayed(kernel.for_tenant())).status == "completed"

    play(scenario())


def test_an_error_of_the_model_fails_the_task_and_a_retry_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        actor = Actor(look(), ModelRefusedCall("too rude"), write())
        with opened(tmp_path, actor) as kernel:
            desk = kernel.for_tenant()
            first = await work(desk)
            assert (first.status, first.reason) == ("failed", ModelRefusedCall.code)
            replay = await replayed(desk)
            assert replay.reason == ModelRefusedCall.code

            await desk.retry(TASK)
            second = await drive_task(desk, TASK, on_wait="return")

            assert (second.status, second.iterations) == ("done", 2)
            assert (await replayed(desk)).status == "completed"

    play(scenario())


def test_a_note_reaches_the_decision_that_is_asked_anew(tmp_path: Path) -> None:
    """It was asked as before, and the task was done without anybody having read the note."""

    async def scenario() -> None:
        refused = ModelRefusedCall("too rude")
        actor = Actor(look(), refused, refused, write())
        with opened(tmp_path, actor) as kernel:
            desk = kernel.for_tenant()
            await work(desk)
            for note in ("Only Oslo counts.", "In kroner."):
                await desk.resume(TASK, note=note)
                ahead = await next_prompt(desk, "m/analyst")
                assert note in str(ahead.prompt.parts)
                result = await drive_task(desk, TASK, on_wait="return")

            assert (result.status, result.iterations) == ("done", 2)
            assert [text_of(one).count("Only Oslo counts.") for one in actor.requests()] == [0, 0, 1, 1]
            assert [text_of(one).count("In kroner.") for one in actor.requests()] == [0, 0, 0, 1]
            assert (await replayed(desk)).status == "completed"

    play(scenario())


@pytest.mark.parametrize("fails", [False, True])
def test_a_note_is_read_before_a_task_is_judged(tmp_path: Path, fails: bool) -> None:
    """It was lost if it came while the output was written, or with the retry of an evaluator."""

    async def scenario() -> None:
        kernels: list[Kernel] = []

        async def content(request: ModelRequest) -> str:
            if not fails and len(actor.requests("content")) == 1:
                await kernels[0].for_tenant().inject(TASK, "Say the year.")
            return REPORT

        judges = [ModelRefusedCall("busy"), approve] if fails else approve
        actor = Actor(look(), write(), DONE, content=content, judge=judges)
        with opened(tmp_path, actor) as kernel:
            kernels.append(kernel)
            desk = kernel.for_tenant()
            result = await work(desk)
            if fails:
                assert (result.status, result.reason) == ("failed", ModelRefusedCall.code)
                await desk.resume(TASK, note="Say the year.")
                result = await drive_task(desk, TASK, on_wait="return")

            assert (result.status, result.iterations) == ("done", 3)
            last = text_of(actor.requests()[-1])
            assert last.count("Say the year.") == 1 and "not judged yet" in last
            assert len(actor.requests("Verdict")) == (2 if fails else 1)
            assert (await replayed(desk)).status == "completed"

    play(scenario())


@pytest.mark.parametrize("failure", [ModelRefusedCall("busy"), OutputInvalid("not read")])
@pytest.mark.parametrize("at", ["decision", "content", "retry"])
def test_a_note_reaches_the_text_that_is_asked_for_next(
    tmp_path: Path, at: str, failure: ArtelierError
) -> None:
    """A retry asked for the text as before, in the last iteration the task was done without the note; and
    behind a text that could not be read it asked for nothing."""

    async def scenario() -> None:
        kernels: list[Kernel] = []

        async def decide_next(request: ModelRequest) -> Any:
            if at == "decision":
                await kernels[0].for_tenant().inject(TASK, "Say the year.")
            return write()

        async def content(request: ModelRequest) -> str:
            if len(actor.requests("content")) > 1:
                return REPORT
            if at == "content":
                await kernels[0].for_tenant().inject(TASK, "Say the year.")
            raise failure

        actor = Actor(look(), decide_next, content=content)
        with opened(tmp_path, actor) as kernel:
            kernels.append(kernel)
            desk = kernel.for_tenant()
            failed = await work(desk, max_iterations=2)
            assert (failed.status, failed.reason) == ("failed", failure.code)
            if at == "retry":
                await desk.resume(TASK, note="Say the year.")
            else:
                await desk.retry(TASK)
            ahead = await next_prompt(desk, "m/analyst")
            result = await drive_task(desk, TASK, on_wait="return")

            assert "Say the year." in str(ahead.prompt.parts)
            assert (result.status, result.iterations) == ("done", 2)
            heard = [text_of(one).count("Say the year.") for one in actor.requests("content")]
            assert heard == ([1, 1] if at == "decision" else [0, 1])
            assert (await replayed(desk)).status == "completed"

    play(scenario())


def test_a_note_that_nothing_was_asked_after_is_read_when_the_task_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        actor = Actor(look(), write(), judge=[ModelRefusedCall("busy"), approve])
        with opened(tmp_path, actor) as kernel:
            desk = kernel.for_tenant()
            await work(desk, max_iterations=2)
            await desk.resume(TASK, note="Say the year.")
            with pytest.raises(Conflict, match="last decision"):
                await next_prompt(desk, AGENT)
            done = await drive_task(desk, TASK, on_wait="return")
            assert (done.status, done.iterations) == ("done", 2)
            assert not any("Say the year." in text_of(one) for _, one in actor.asked)
            assert (await desk.tasks.show(TASK))["message"].startswith("1 note came behind its last decision")

            await desk.tasks.judge(TASK, accepted=False, by="user:kim", note="Too short.")
            await desk.tasks.retry(TASK)
            await drive_task(desk, TASK, on_wait="return")

            assert text_of(actor.requests()[2]).count("Say the year.") == 1
            assert "note" not in (await desk.tasks.show(TASK))["message"]

    play(scenario())


@pytest.mark.parametrize("fails", [False, True], ids=["once", "retried"])
def test_of_many_notes_none_is_lost(tmp_path: Path, fails: bool) -> None:
    """Of more than twenty, the oldest were taken and shown to nobody."""
    marks = [f"Note {n:02}." for n in range(45)]

    async def scenario() -> None:
        kernels: list[Kernel] = []

        async def noted(request: ModelRequest) -> Any:
            for mark in marks:
                await kernels[0].for_tenant().inject(TASK, mark)
            return look()

        actor = Actor(noted, *([ModelRefusedCall("busy")] if fails else []), write())
        with opened(tmp_path, actor) as kernel:
            kernels.append(kernel)
            desk = kernel.for_tenant()
            result = await work(desk)
            if fails:
                await desk.retry(TASK)
                ahead = await next_prompt(desk, AGENT)
                assert all(mark in str(ahead.prompt.parts) for mark in marks)
                result = await drive_task(desk, TASK, on_wait="return")

            assert result.status == "done"
            assert [mark for mark in marks if text_of(actor.requests()[-1]).count(mark) != 1] == []
            assert (await replayed(desk)).status == "completed"

    play(scenario())


def test_a_note_that_comes_in_the_last_iteration_does_not_keep_the_task_from_its_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        kernels: list[Kernel] = []

        async def content(request: ModelRequest) -> str:
            await kernels[0].for_tenant().inject(TASK, "Say the year.")
            return REPORT

        with opened(tmp_path, Actor(look(), write(), content=content)) as kernel:
            kernels.append(kernel)
            result = await work(kernel.for_tenant(), max_iterations=2)

            assert (result.status, result.iterations) == ("done", 2)
            assert (await replayed(kernel.for_tenant())).status == "completed"

    play(scenario())


def test_a_missing_input_blocks_and_a_retry_looks_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        actor = Actor(look(), write())
        with opened(tmp_path, actor) as kernel:
            desk = kernel.for_tenant()
            job = await make_task(desk, inputs=["m/brief"])
            first = await work(desk, job)
            assert (first.status, first.reason) == ("blocked", "missing_input")
            assert "m/brief" in first.text
            assert actor.asked == []
            assert (await replayed(desk)).reason == "missing_input"

            await desk.as_principal("operator").artifacts.write(
                "m/brief", kind="document", content="Only 2025 counts."
            )
            await desk.retry(TASK)
            second = await drive_task(desk, TASK, on_wait="return")

            assert second.status == "done"
            assert "Only 2025 counts." in text_of(actor.requests()[0])
            assert (await replayed(desk)).status == "completed"

    play(scenario())


def test_an_input_that_the_agent_may_not_read_blocks(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, Actor(THINK)) as kernel:
            desk = kernel.for_tenant()
            await desk.as_principal("bob").artifacts.write(
                "secret", kind="document", content="canary", access="private"
            )
            result = await work(desk, inputs=["secret"])

            assert (result.status, result.reason) == ("blocked", "missing_input")
            rows = await kernel.store.query("SELECT blocked_by FROM tasks WHERE task = ?", (TASK,))
            assert rows == [("secret",)]

    play(scenario())


def test_a_retry_after_the_limit_counts_anew_and_goes_on_where_it_was(tmp_path: Path) -> None:
    async def scenario() -> None:
        actor = Actor(look(), THINK, look("Bergen"), write())
        with opened(tmp_path, actor) as kernel:
            desk = kernel.for_tenant()
            first = await work(desk, max_iterations=2)
            assert (first.status, first.reason, first.iterations) == ("failed", "max_iterations", 2)

            await desk.retry(TASK)
            second = await drive_task(desk, TASK, on_wait="return")

            assert (second.status, second.iterations) == ("done", 4)
            assert "Iteration 3 of 4" in text_of(actor.requests()[2])
            assert (await replayed(desk)).status == "completed"

    play(scenario())


@pytest.mark.parametrize(("begun_with", "fails_at", "wished"), [(4, 2, 2), (2, 1, 1)])
def test_a_task_whose_last_iteration_was_asked_for_anew_ends_at_its_limit_and_replays(
    tmp_path: Path, begun_with: int, fails_at: int, wished: int
) -> None:
    """The limit that the retry had set was read in the run, and not in its replay, which took steps."""

    async def scenario() -> None:
        script: list[Any] = [look(), look("Bergen"), look("Voss"), look("Moss")]
        script.insert(fails_at - 1, ModelRefusedCall("rude"))
        with opened(tmp_path, Actor(*script)) as kernel:
            desk = kernel.for_tenant()
            await desk.create_agent(AGENT, name="Ana", role="careful", model="m", tools=["sales_of"])
            wanted = {"goal": GOAL, "success_criteria": CRITERIA, "max_iterations": begun_with}
            await desk.tasks.create(id=TASK, assigned_agent_id=AGENT, **wanted)
            await desk.tasks.start(TASK)
            assert (await desk.tasks.show(TASK))["reason"] == "model_refused_call"
            await desk.tasks.retry(TASK, max_iterations=wished)
            await desk.tasks.start(TASK)
            assert (await desk.tasks.show(TASK))["reason"] == "max_iterations"
            assert (await replayed(desk)).status == "failed"

    play(scenario())


def test_a_retry_after_being_stuck_or_undecided_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        actor = Actor(THINK, THINK, THINK, "no", "no", look(), write())
        with opened(tmp_path, actor) as kernel:
            desk = kernel.for_tenant()
            assert (await work(desk, max_iterations=6)).reason == "stuck"
            await desk.retry(TASK)
            assert (await drive_task(desk, TASK, on_wait="return")).reason == "decision_invalid"
            await desk.retry(TASK)
            last = await drive_task(desk, TASK, on_wait="return")

            assert (last.status, last.iterations) == ("done", 6)
            assert (await replayed(desk)).status == "completed"

    play(scenario())


def test_a_task_out_of_budget_is_blocked_and_goes_on_when_the_cap_is_raised(tmp_path: Path) -> None:
    async def scenario() -> None:
        actor = Actor(look(), write())
        actor.model.price = Price(input=Decimal(1), output=Decimal(2))
        with opened(tmp_path, actor) as kernel:
            desk = kernel.for_tenant()
            job = await make_task(desk)
            first = await drive_task(desk, TASK, job, on_wait="return", limits=Limits(usd="0.000001"))
            assert (first.status, first.run_status) == ("blocked", "budget_exhausted")

            await desk.limit(TASK, unit="usd", cap="5")
            await desk.resume(TASK)
            second = await drive_task(desk, TASK, on_wait="return")

            assert second.status == "done"

    play(scenario())


def test_a_cancelled_task_says_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        async def cancel(_: object) -> ModelReply:
            await desk.cancel(TASK)
            return ModelReply(text=as_json(THINK))

        with opened(tmp_path, Actor(cancel)) as kernel:
            desk = kernel.for_tenant()
            result = await work(desk)

            assert (result.status, result.run_status) == ("cancelled", "cancelled")

    play(scenario())


def test_a_paused_task_goes_on_where_it_stopped(tmp_path: Path) -> None:
    async def scenario() -> None:
        async def pause(_: object) -> str:
            await desk.pause(TASK)
            return as_json(look())

        actor = Actor(pause, write())
        with opened(tmp_path, actor) as kernel:
            desk = kernel.for_tenant()
            first = await work(desk)
            assert (first.status, first.run_status) == ("active", "paused")
            await desk.inject(TASK, "Mind the gap.")
            await desk.resume(TASK)
            second = await drive_task(desk, TASK, on_wait="return")

            assert second.status == "done"
            assert len(actor.requests()) == 2
            assert "Mind the gap." in text_of(actor.requests()[1])
            assert (await replayed(desk)).status == "completed"

    play(scenario())


def test_an_error_of_the_evaluator_fails_the_task_and_a_retry_judges_the_same_version(tmp_path: Path) -> None:
    async def scenario() -> None:
        actor = Actor(look(), write(), judge=[ModelRefusedCall("busy"), approve])
        with opened(tmp_path, actor) as kernel:
            desk = kernel.for_tenant()
            first = await work(desk)
            assert (first.status, first.reason) == ("failed", ModelRefusedCall.code)
            await desk.retry(TASK)
            second = await drive_task(desk, TASK, on_wait="return")

            assert (second.status, second.outputs) == ("done", ("m/report@1",))
            assert len(actor.requests("content")) == 1
            assert (await replayed(desk)).status == "completed"

    play(scenario())


def test_broken_steering_stops_a_task_until_it_is_mended(tmp_path: Path) -> None:
    async def scenario() -> None:
        actor = Actor(look(), write())
        with opened(tmp_path, actor) as kernel:
            desk = kernel.for_tenant()
            artifacts = desk.as_principal("operator").artifacts
            broken = {"sliders": {"iterations": "many"}, "tools": {"sales_of": "no"}}
            # As the kind itself it would be refused.
            await artifacts.write("m/analyst/steering", kind="document", content=broken)
            first = await work(desk)
            assert (first.status, actor.asked) == ("failed", [])
            assert "/sliders/iterations" in first.text

            await artifacts.write("m/analyst/steering", content={"sliders": {"iterations": 3}})
            await desk.retry(TASK)
            second = await drive_task(desk, TASK, on_wait="return")

            assert second.status == "done"
            assert (await replayed(desk)).status == "completed"

    play(scenario())
