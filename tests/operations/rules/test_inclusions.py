"""What prompts include: every place, order, depth, what is missing, what is too long, and why it is there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artelier import ModelRequest
from artelier.errors import ModelRefusedCall
from artelier.operations.profile.operation_profile import mistakes_in
from tests.operations.chats import kernel_of
from tests.operations.rules.stage import SYSTEM, Stage, after, echo, insert, keep, op, profile, stage_test

Data = dict[str, Any]
OLD = ["a", "re: a"]
"""The conversation before the turn that is looked at."""


def rule(tag: str, **more: Any) -> Data:
    return {"source": f"art.{tag}", "template": "<{{ value }}>", **more}


def _writes(*tags: str, usage: str = "prompt_only") -> list[Data]:
    return [op(f"w-{tag}", tag.upper(), keep(tag, usage), order=n) for n, tag in enumerate(tags)]


PLACES: dict[str, list[str]] = {
    "system_prepend": ["<X>", SYSTEM, *OLD, "b"],
    "system_append": [SYSTEM, "<X>", *OLD, "b"],
    "after_last_user": [SYSTEM, *OLD, "b", "<X>"],
    "before_last_user": [SYSTEM, *OLD, "<X>", "b"],
    "depth(0)": [SYSTEM, *OLD, "b", "<X>"],
    "depth(1)": [SYSTEM, *OLD, "<X>", "b"],
    "depth(2)": [SYSTEM, "a", "<X>", "re: a", "b"],
    "depth(3)": [SYSTEM, "<X>", *OLD, "b"],
    "depth(99999)": [SYSTEM, "<X>", *OLD, "b"],
    "tail": [SYSTEM, *OLD, "b", "<X>"],
}
AS_SYSTEM: dict[str, list[str]] = {
    **PLACES,
    "system_prepend": [f"<X>\n\n{SYSTEM}", *OLD, "b"],
    "system_append": [f"{SYSTEM}\n\n<X>", *OLD, "b"],
}
"""A text of the system is a part of the system prompt where it stands beside it; any other is a message."""


@pytest.mark.parametrize("persistence", ["persisted", "run_only"])
@pytest.mark.parametrize("role", ["system", "user", "assistant"])
@pytest.mark.parametrize("place", list(PLACES))
def test_an_artifact_stands_where_its_rule_says(
    place: str, role: str, persistence: str, tmp_path: Path
) -> None:
    async def scenario(stage: Stage) -> None:
        session = await stage.chat(None)
        await session.generate("a")
        writer = op("w", "X", keep("x", "prompt_only", persistence=persistence))
        await session.change(profile=profile(writer, inclusions=[rule("x", place=place, role=role)]))
        turn = await session.generate("b")
        expected_texts = AS_SYSTEM[place] if role == "system" else PLACES[place]
        assert [text for _, text in stage.prompt()] == expected_texts
        assert {text: said for said, text in stage.prompt()}.get("<X>", "system") == role

        shown = (await session.show(turn.run_id))["prompt"]
        part = next(one for one in shown if one["tag"] == "art.x")
        why = part["src"][0]
        expected = ["art.x", "operation w", "profile p@1", place]
        expected += ["version 1"] if persistence == "persisted" else []
        assert all(word in why for word in expected), why
        assert turn.run_id in why or "this run" in why

    stage_test(scenario)(tmp_path)


async def _several(stage: Stage) -> None:
    """Several at one place stand in the order of the rules; effects come before them, at the user's side."""
    tags = ["p", "q"]
    cases: dict[str, list[str]] = {
        "system_prepend": [f"<Q>\n\n<P>\n\n{SYSTEM}", "b", "E", "D"],
        "system_append": [f"{SYSTEM}\n\n<Q>\n\n<P>", "b", "E", "D"],
        "before_last_user": [SYSTEM, "<Q>", "<P>", "b", "E", "D"],
        "after_last_user": [SYSTEM, "b", "E", "<Q>", "<P>", "D"],
        "depth(0)": [SYSTEM, "b", "E", "D", "<Q>", "<P>"],
        "tail": [SYSTEM, "b", "E", "D", "<Q>", "<P>"],
    }
    for number, (place, expected) in enumerate(cases.items()):
        effects = [insert("E"), {"type": "prompt.insert_at_depth", "depth_from_end": 0, "text": "D"}]
        used = profile(
            *_writes(*tags),
            op("e", "e", *effects),
            profile_id=f"p{number}",
            inclusions=[rule("q", place=place), rule("p", place=place)],
        )
        await (await stage.chat(used, chat=place.strip(")").replace("(", "-"))).generate("b")
        assert [text for _, text in stage.prompt()] == expected, place


test_several_inclusions_keep_the_order_of_their_rules = stage_test(_several)


async def _twice(stage: Stage) -> None:
    """One artifact may be included by several rules; then no default is added."""
    rules = [rule("x", place="tail"), rule("x", place="system_append", template="again {{ value }}")]
    await (await stage.chat(profile(*_writes("x"), inclusions=rules))).generate("b")
    assert [text for _, text in stage.prompt()] == [f"{SYSTEM}\n\nagain X", "b", "<X>"]


test_an_artifact_may_stand_in_several_places = stage_test(_twice)


async def _default(stage: Stage) -> None:
    """Without a rule: at the tail, as system, under its tag; by tag; feeds as lists, JSON as JSON."""
    used = profile(
        op("b", "B", keep("b", "prompt+ui")),
        op("a", '{"n": [1, null]}', keep("a", "prompt_only"), output="json"),
        op("f", "{{ text }}", keep("f", "prompt_only", write_mode="append")),
        op("r", "R", keep("r", "prompt_only", persistence="run_only")),
        op("ui", "U", keep("ui", "ui_only")),
        op("i", "I", keep("i", "internal")),
        op("empty", "{% if false %}x{% endif %}", keep("e", "prompt_only")),
    )
    session = await stage.chat(used)
    await session.generate("1")
    turn = await session.generate("2")
    assert stage.prompt()[-4:] == [
        ("system", '## a\n{"n":[1,null]}'),
        ("system", "## b\nB"),
        ("system", "## f\n- 1\n- 2"),
        ("system", "## r\nR"),
    ]
    dropped = {one["tag"]: one["why"] for one in (await session.show(turn.run_id))["dropped"]}
    assert dropped == {"art.e": "empty"}


test_without_a_rule_the_default_holds = stage_test(_default)


async def _after_values(stage: Stage) -> None:
    """What an operation after the call writes is in the next prompt, with the run that wrote it."""
    session = await stage.chat(profile(after("s", "{{ text }}!", keep("s", "prompt_only"))))
    await session.generate("1")
    assert stage.prompt()[-1] == ("user", "1")
    turn = await session.generate("2")
    assert stage.prompt()[-1] == ("system", "## s\n1!")
    part = (await session.show(turn.run_id))["prompt"][-1]
    for word in ("version 1", "operation s", "run c/r000001"):
        assert word in part["src"][0]


test_what_was_written_after_a_call_is_in_the_next_prompt = stage_test(_after_values)


async def _missing(stage: Stage) -> None:
    """`skip` leaves it out and says so; `error` stops before the call and leaves the barrier's work."""
    used = profile(op("s", "S", keep("s", "prompt_only")), inclusions=[rule("never"), rule("s")])
    session = await stage.chat(used)
    turn = await session.generate("b")
    assert stage.prompt()[1:] == [("user", "b"), ("system", "<S>")]
    dropped = (await session.show(turn.run_id))["dropped"]
    assert [(one["tag"], one["why"]) for one in dropped] == [("art.never", "missing")]

    broken = used.model_copy(
        update={"inclusions": (used.inclusions[0].model_copy(update={"on_missing": "error"}),)}
    )
    await session.change(profile=broken)
    calls = len(stage.model.requests)
    turn = await session.generate("c")
    assert turn.failed is not None
    assert (turn.failed["failed_type"], turn.failed["code"]) == ("main_llm", "inclusion_failed")
    assert "art.never" in turn.failed["message"]
    assert len(stage.model.requests) == calls
    assert (await session.arts(internal=True))["s"]["version"] == 1  # the same value again


test_a_missing_artifact_is_skipped_or_an_error = stage_test(_missing)

CONDITIONS: dict[str, bool] = {
    "{{ value }}": True,
    "true": True,
    "anything": True,
    "0.0": True,
    "": False,
    "  ": False,
    "false": False,
    "FALSE": False,
    "0": False,
    "no": False,
    "null": False,
    "{% if value == 'X' %}1{% endif %}": True,
    "{% if text == 'b' %}yes{% endif %}": True,
    "{% if art.other.value == 1 %}yes{% endif %}": False,
    "{{ chat.turn }}": True,
}


async def _when(stage: Stage) -> None:
    for number, (condition, holds) in enumerate(CONDITIONS.items()):
        used = profile(
            *_writes("x"), profile_id=f"p{number}", inclusions=[rule("x", when={"condition": condition})]
        )
        session = await stage.chat(used, chat=f"c{number}")
        turn = await session.generate("b")
        assert (("system", "<X>") in stage.prompt()) is holds, condition
        dropped = [one["why"] for one in (await session.show(turn.run_id))["dropped"]]
        assert dropped == ([] if holds else ["condition_false"]), condition


test_a_rule_holds_when_its_condition_does = stage_test(_when)


async def _triggers(stage: Stage) -> None:
    used = profile(
        *_writes("x", "y"),
        inclusions=[rule("x", when={"trigger": "generate"}), rule("y", when={"trigger": "regenerate"})],
    )
    session = await stage.chat(used)
    await session.generate("b")
    assert stage.prompt()[-1] == ("system", "<X>")
    turn = await session.regenerate()
    assert stage.prompt()[-1] == ("system", "<Y>")
    dropped = (await session.show(turn.run_id))["dropped"]
    assert [(one["tag"], one["why"]) for one in dropped] == [("art.x", "trigger_mismatch")]


test_a_rule_holds_for_its_trigger = stage_test(_triggers)

LONG = "word " * 400


def _shortening(request: ModelRequest) -> str:
    """The model that is asked to shorten gives a summary; the main one echoes."""
    last = request.messages[-1].text
    return "SUMMARY" if last.startswith("<word") else echo(request)


@pytest.mark.parametrize(("on_trim", "expected"), [("drop", None), ("keep", LONG), ("summarise", "SUMMARY")])
def test_what_is_too_long_is_dropped_kept_or_summarised(
    on_trim: str, expected: str | None, tmp_path: Path
) -> None:
    async def scenario(stage: Stage) -> None:
        writer = op("w", LONG, keep("x", "prompt_only"))
        rules = [rule("x", max_tokens=50, on_trim=on_trim, role="user")]
        session = await stage.chat(profile(writer, inclusions=rules))
        turn = await session.generate("b")
        assert turn.status == "completed"
        texts = [text for _, text in stage.prompt()[2:]]
        assert len(texts) == (expected is not None)
        if expected == "SUMMARY":
            assert texts == ["SUMMARY"]
            asked = stage.model.requests[0]
            assert "50" in asked.messages[0].text and asked.messages[1].text == f"<{LONG}>"
        elif expected is not None:
            assert texts == [f"<{LONG}>"]
        else:
            dropped = (await session.show(turn.run_id))["dropped"]
            assert [one["tag"] for one in dropped] == ["art.x"]

    stage_test(scenario, _shortening)(tmp_path)


def _is_asked_to_shorten(request: ModelRequest) -> bool:
    return "Use at most" in request.messages[0].text


def _unable(request: ModelRequest) -> str:
    if _is_asked_to_shorten(request):
        raise ModelRefusedCall("no")
    return echo(request)


def _talkative(request: ModelRequest) -> str:
    return LONG if _is_asked_to_shorten(request) else echo(request)


def _silent(request: ModelRequest) -> str:
    return " " if _is_asked_to_shorten(request) else echo(request)


@pytest.mark.parametrize(
    ("answer", "cut", "why"),
    [
        (_shortening, "", "shortened by model m"),
        (_talkative, "end", "shortened by model m"),
        (_unable, "end", "cut, the model failed: model_refused_call"),
        (_silent, "end", "cut, the model gave nothing"),
    ],
    ids=["shortens", "says too much", "fails", "says nothing"],
)
def test_the_manifest_says_how_a_text_was_shortened(
    answer: Callable[[ModelRequest], str], cut: str, why: str, tmp_path: Path
) -> None:
    async def scenario(stage: Stage) -> None:
        writer = op("w", LONG, keep("x", "prompt_only"))
        rules = [rule("x", max_tokens=50, on_trim="summarise", role="user")]
        session = await stage.chat(profile(writer, inclusions=rules))
        turn = await session.generate("b")
        assert turn.status == "completed"
        shown = {one["tag"]: one for one in (await session.show(turn.run_id))["prompt"]}
        assert shown["art.x"]["cut"] == cut
        assert why in shown["art.x"]["src"][0]
        assert ("left out" in stage.prompt()[-1][1]) == bool(cut)
        rendered = await kernel_of(session).render(turn.run_id, "main/model")
        assert rendered.messages == stage.model.requests[-1].messages

    stage_test(scenario, answer)(tmp_path)


def test_a_limit_without_room_for_any_text_leaves_it_out(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        writer = op("w", LONG, keep("x", "prompt_only"))
        rules = [rule("x", max_tokens=5, on_trim="summarise")]
        session = await stage.chat(profile(writer, inclusions=rules))
        turn = await session.generate("b")
        shown = await session.show(turn.run_id)
        assert (turn.status, len(stage.prompt())) == ("completed", 2)
        assert [(one["tag"], one["why"]) for one in shown["dropped"]] == [("art.x", "over_limit")]

    stage_test(scenario, _unable)(tmp_path)


async def _lowest_first(stage: Stage) -> None:
    """Over the prompt's budget the lowest priority goes first; what is kept is never cut."""
    word = "abcdefg " * 2_500
    used = profile(
        op("low", word, keep("low", "prompt_only")),
        op("high", word, keep("high", "prompt_only")),
        op("kept", word, keep("kept", "prompt_only")),
        inclusions=[
            rule("low", priority=10),
            rule("high", priority=20),
            rule("kept", priority=0, on_trim="keep"),
        ],
    )
    session = await stage.chat(used)
    budget = stage.kernel.for_tenant().services.window_of("m").context_tokens
    turn = await session.generate("b", max_output_tokens=max(1, budget - 9_000))
    shown = await session.show(turn.run_id)
    assert [one["tag"] for one in shown["prompt"] if one["tag"].startswith("art.")][-1] == "art.kept"
    assert [one["tag"] for one in shown["dropped"]][:1] == ["art.low"]
    assert ("system", f"<{word}>") in stage.prompt()


test_the_lowest_priority_is_left_out_first = stage_test(_lowest_first)

REFUSED: dict[str, Data] = {
    "place": rule("x", place="somewhere"),
    "depth": rule("x", place="depth(x)"),
    "negative": rule("x", place="depth(-1)"),
    "source": {"source": "x"},
    "tag": rule("X!"),
    "template": rule("x", template="{{ value"),
    "on_missing": rule("x", on_missing="guess"),
    "on_trim": rule("x", on_trim="shred"),
    "max_tokens": rule("x", max_tokens=0),
    "priority": rule("x", priority=101),
    "role": rule("x", role="tool"),
    "field": rule("x", zzz=1),
    "condition": rule("x", when={"condition": "{% if %}"}),
    "trigger": rule("x", when={"trigger": "continue"}),
    "usage": rule("hidden"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_a_rule_that_is_none_is_refused_when_saved(name: str) -> None:
    operations = [*_writes("x"), *_writes("hidden", usage="ui_only")]
    data = {"profile_id": "p", "operations": operations, "inclusions": [REFUSED[name]]}
    found = mistakes_in(data)
    assert found and all(one["path"].startswith("inclusions[0]") for one in found)


async def _explained(stage: Stage) -> None:
    """Each part of a prompt with operations says down to operation, version and run where it is from."""
    used = profile(
        op("e", "E", insert()),
        op("sys", "SYS", {"type": "prompt.system_update", "mode": "append"}),
        op("d", "D", {"type": "prompt.insert_at_depth", "depth_from_end": 1}),
        op("x", "{{ text }}", keep("x", "prompt_only")),
        after("y", "Y", keep("y", "prompt_only")),
        inclusions=[rule("x", place="before_last_user")],
    )
    session = await stage.chat(used)
    await session.generate("1")
    turn = await session.generate("2")
    parts = {one["tag"]: one["src"] for one in (await session.show(turn.run_id))["prompt"]}
    told = {tag: " ".join(map(str, src)) for tag, src in parts.items() if tag != "conversation"}
    for id_, place in (("e", "after_last_user"), ("sys", "system"), ("d", "depth(1)")):
        assert f"operation:{id_}" in told[f"effect:{id_}"] and place in told[f"effect:{id_}"]
    assert "version 2" in told["art.x"] and "this run" in told["art.x"]
    assert "version 1" in told["art.y"] and "run c/r000001" in told["art.y"]
    assert all("p@1" in text for tag, text in told.items() if tag != "system")


test_every_part_of_a_prompt_is_explained = stage_test(_explained)
