"""How operations end: every status, every reason, what `required` means, and what a barrier lets through."""

from __future__ import annotations

from typing import Any

import pytest

from artelier.errors import ProviderUnavailable
from artelier.operations import events as ev
from artelier.operations.profile.operation_profile import OperationProfile
from tests.operations.rules.stage import (
    AFTER,
    BEFORE,
    BROKEN,
    SYSTEM,
    Stage,
    after,
    asks,
    flags,
    insert,
    keep,
    op,
    profile,
    stage_test,
)

YES = [{"source": "g", "key": "yes", "operator": "is_true"}]
NO = [{"source": "g", "key": "yes", "operator": "is_false"}]


def _all_ways(hook: str, **usage: Any) -> list[dict[str, Any]]:
    """One operation for each way to end; `usage` is what the last ones have besides."""
    here: dict[str, Any] = {"hooks": [hook]}
    guarded = {**here, "depends_on": ["g"], **usage}
    return [
        flags("g", "true", **here),
        op("fine", **here),
        op("broken", BROKEN, **here),
        op("disabled", enabled=False, **here, **usage),
        op("trigger_mismatch", triggers=["regenerate"], **here, **usage),
        op("not_due", activation={"every_n_turns": 2}, **here, **usage),
        op("guard_not_matched", run_conditions=NO, **guarded),
        op("guard_matched", run_conditions=YES, **guarded),
    ]


WAYS = {
    "g": "done",
    "fine": "done",
    "broken": "error:template_undefined",
    "disabled": "skipped:disabled",
    "trigger_mismatch": "skipped:trigger_mismatch",
    "not_due": "skipped:not_due",
    "guard_not_matched": "skipped:guard_not_matched",
    "guard_matched": "done",
}


async def _ways(stage: Stage) -> None:
    for hook in (BEFORE, AFTER):
        for required in (False, True):
            name = f"{hook}-{required}"
            used = profile(*_all_ways(hook, required=required), profile_id=name)
            turn = await (await stage.chat(used, chat=name)).generate("a")
            assert await stage.ends(turn.run_id) == WAYS
            assert turn.status == "completed", "none of these reasons blocks"


test_operations_end_in_every_way_at_both_hooks = stage_test(_ways)


async def _failed_dependencies(stage: Stage) -> None:
    """Of each way not to be done: what waits for it is skipped, or an error if it is required."""
    not_done = [id_ for id_, end in WAYS.items() if end != "done"]
    for hook, failed_type in ((BEFORE, "before_barrier"), (AFTER, "after_main_llm")):
        here: dict[str, Any] = {"hooks": [hook]}
        for id_ in not_done:
            waits = op("waits", **here, depends_on=[id_])
            further = op("further", **here, depends_on=["waits"])
            must = op("must", **here, depends_on=["fine", id_], required=True)
            for extra, status in (((waits, further), "completed"), ((waits, must), "failed")):
                name = f"{failed_type}-{id_}-{status}"
                used = profile(*_all_ways(hook), *extra, profile_id=name)
                turn = await (await stage.chat(used, chat=name)).generate("a")
                ends = await stage.ends(turn.run_id)
                assert ends["waits"] == "skipped:dependency_failed"
                assert turn.status == status, name
                if status == "completed":
                    assert ends["further"] == "skipped:dependency_failed"
                    continue
                assert ends["must"] == "error:dependency_failed"
                assert turn.failed is not None
                told = {key: turn.failed[key] for key in ("failed_type", "operation", "code")}
                assert told == {"failed_type": failed_type, "operation": "must", "code": "dependency_failed"}


test_what_waits_for_one_that_is_not_done_is_skipped_or_an_error = stage_test(_failed_dependencies)


async def _seen_values(stage: Stage) -> None:
    """A skipped operation says which flag it saw, so that nobody has to guess."""
    guard = flags("g", '{"yes": true, "calm": false}', "yes", "calm")
    conditions = [*YES, {"source": "g", "key": "calm", "operator": "is_true"}]
    used = profile(guard, op("x", depends_on=["g"], run_conditions=conditions))
    session = await stage.chat(used)
    turn = await session.generate("a")

    details = await stage.json((await stage.finished(turn.run_id))["x"].details)
    assert [(one["key"], one["operator"], one["seen"]) for one in details["conditions"]] == [
        ("yes", "is_true", True),
        ("calm", "is_true", False),
    ]
    shown = next(one for one in (await session.show(turn.run_id))["operations"] if one["operation_id"] == "x")
    assert shown.get("details") == details


test_a_condition_that_does_not_match_says_what_it_saw = stage_test(_seen_values)


async def _conditions(stage: Stage) -> None:
    """Conditions are joined by and; only true is true, and only false is false."""
    cases = {
        "tt": (("a", "is_true"), ("b", "is_true")),
        "tf": (("a", "is_true"), ("b", "is_false")),
        "ft": (("a", "is_false"), ("b", "is_true")),
        "ff": (("a", "is_false"), ("b", "is_false")),
    }
    guard = flags("g", '{"a": true, "b": false}', "a", "b")
    operations = [
        op(
            id_,
            depends_on=["g"],
            run_conditions=[{"source": "g", "key": key, "operator": operator} for key, operator in case],
        )
        for id_, case in cases.items()
    ]
    turn = await (await stage.chat(profile(guard, *operations))).generate("a")
    done = [id_ for id_, status in turn.operations.items() if status == "done" and id_ != "g"]
    assert done == ["tf"]


test_conditions_are_all_needed = stage_test(_conditions)


async def _barrier(stage: Stage) -> None:
    """Nothing of a barrier that holds is in any artifact, and the model is not asked."""
    used = profile(
        op("state", "new", keep("state")),
        op("log", "entry", keep("log", write_mode="append")),
        op("words", "other", {"type": "turn.user_variant.upsert_and_select"}),
        op("gate", "{% if text == 'bad' %}{{ nobody }}{% endif %}", required=True, order=9),
        after("late", "late", keep("late")),
    )
    session = await stage.chat(used)
    await session.generate("good")
    before, calls = await session.arts(internal=True), len(stage.model.requests)

    turn = await session.generate("bad")

    assert (turn.status, turn.variant, turn.text) == ("failed", 0, "")
    assert turn.failed is not None and turn.failed["failed_type"] == "before_barrier"
    assert (turn.failed["operation"], turn.failed["code"]) == ("gate", "template_undefined")
    assert await session.arts(internal=True) == before
    assert len(stage.model.requests) == calls
    assert await stage.reports(turn.run_id) == []
    assert (await session.turn()).user == "bad", "the person's words are what they were"
    assert await stage.ends(turn.run_id) == {
        "gate": "error:template_undefined",
        "late": "aborted:run_ended",
        "log": "done",
        "state": "done",
        "words": "done",
    }
    kinds = await stage.kinds(turn.run_id)
    assert "run.phase_changed main_llm" not in kinds and kinds[-1] == "run.failed"

    assert (await session.generate("good")).status == "completed"
    assert await session.art("log") == ["entry", "entry"]


test_a_barrier_that_holds_leaves_no_trace = stage_test(_barrier)


async def _durable(stage: Stage) -> None:
    """What passed the barrier stays when the main call fails, and operations after are not begun."""
    used = profile(op("state", "{{ text }}", keep("state")), after("late", "late", keep("late")))
    session = await stage.chat(used)
    turn = await session.generate("bad")
    assert turn.failed is not None and turn.failed["failed_type"] == "main_llm"
    assert await stage.values(session) == {"state": "bad"}
    assert await stage.ends(turn.run_id) == {"state": "done", "late": "aborted:run_ended"}


def _fails(request: Any) -> str:
    raise ProviderUnavailable(request.messages[-1].text)


test_what_passed_the_barrier_outlives_a_failed_main_call = stage_test(_durable, _fails)


async def _required_after(stage: Stage) -> None:
    """It makes the run failed and rolls nothing back: the reply and the other effects are there."""
    used = profile(
        after("fine", "fine", keep("fine")),
        after("must", BROKEN, keep("must"), required=True),
        after("later", "later", keep("later"), order=5),
    )
    session = await stage.chat(used)
    turn = await session.generate("a")
    assert (turn.status, turn.text, turn.finish_reason) == ("failed", "re: a", "completed")
    assert turn.failed is not None
    assert (turn.failed["failed_type"], turn.failed["operation"]) == ("after_main_llm", "must")
    assert await stage.values(session) == {"fine": "fine", "later": "later"}
    assert (await session.turn()).text == "re: a"
    assert stage.prompt() == [("system", SYSTEM), ("user", "a")]
    await session.generate("b")
    assert ("assistant", "re: a") in stage.prompt()


test_a_required_operation_after_rolls_nothing_back = stage_test(_required_after)


async def _optional(stage: Stage) -> None:
    """Errors of operations that are not required leave the turn alone, and commit nothing."""
    used = profile(
        op("a", BROKEN, keep("a")),
        asks("b", "aux", keep("b"), params={"output": "json"}),
        after("c", BROKEN, keep("c")),
        op("d", "d", insert()),
    )
    session = await stage.chat(used)
    turn = await session.generate("x")
    assert turn.status == "completed" and await stage.values(session) == {}
    assert turn.operations == {"a": "error", "b": "error", "c": "error", "d": "done"}
    assert [one.operation_id for one in await stage.reports(turn.run_id)] == ["d"]


test_errors_of_optional_operations_change_nothing = stage_test(_optional, lambda _: "{nonsense")


async def _plain(stage: Stage) -> None:
    used = profile(
        op("a", "A", keep("a"), required=True),
        after("b", BROKEN, required=True),
        enabled=False,
        system="Not said.",
        inclusions=[{"source": "art.zzz", "on_missing": "error"}],
    )
    session = await stage.chat(used)
    turn = await session.generate("x")
    assert (turn.status, turn.operations) == ("completed", {})
    assert stage.prompt() == [("system", SYSTEM), ("user", "x")]
    assert await stage.of(turn.run_id, ev.OperationFinished) == []


test_a_profile_that_is_disabled_is_a_plain_call = stage_test(_plain)


@pytest.mark.parametrize("trigger", ["generate", "regenerate", "continue"])
def test_an_error_is_bounded_and_says_what_is_wrong(trigger: str, tmp_path: Any) -> None:
    """Of whatever trigger, a message has at most 2000 characters and none that moves a cursor."""

    async def scenario(stage: Stage) -> None:
        text = "{% assign x = '\x1b[2J' | append: text %}{{ x | date: x }}{{ nobody[x] }}"
        session = await stage.chat(profile(op("bad", text)))
        turn = await session.generate("y" * 10_000)
        if trigger != "generate":
            turn = await (session.regenerate() if trigger == "regenerate" else session.continue_())
        ended = (await stage.finished(turn.run_id))["bad"]
        if trigger == "continue":
            assert (ended.status, ended.reason) == ("skipped", "trigger_mismatch")
            return
        message = await stage.json(ended.message)
        assert ended.status == "error" and 0 < len(message) <= 2_000 and "\x1b" not in message

    stage_test(scenario)(tmp_path)


def test_a_definition_and_its_use_may_stand_apart() -> None:
    """An operation is a definition and a config; a profile takes them in one or in two."""
    used = op("a", "A", keep("a"), required=True)
    definition = {name: used.pop(name) for name in ("operation_id", "kind")}
    apart = {"profile_id": "p", "operations": [{**definition, "config": used}]}
    assert OperationProfile.parse(apart) == profile({**definition, **used})
