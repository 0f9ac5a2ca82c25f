"""Transforms: what steps do, what is refused before, and that none of them outlives its time."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from artelier.child import IDLE_MAX
from artelier.errors import InvalidRequest
from artelier.operations.transforms.transform import (
    TransformFailed,
    TransformNoMatch,
    TransformTimeout,
    TransformTooLarge,
    apply,
    parse_steps,
)
from tests.processes import children

DOC: dict[str, Any] = {
    "name": "Mira",
    "tags": ["calm", "strong"],
    "items": [{"k": "a", "n": 1}, {"k": "b", "n": 20}],
    "ok": True,
    "a/b~c": 5,
}


def changed(value: Any, *steps: dict[str, Any], time_s: float = 10.0) -> Any:
    """Generous with time: what is no attack must not fail on a busy machine."""
    return asyncio.run(apply(parse_steps(list(steps)), value, time_s=time_s))


def patch(*operations: dict[str, Any]) -> dict[str, Any]:
    return {"op": "json_patch", "patch": list(operations)}


def path(text: str, **more: Any) -> dict[str, Any]:
    return {"op": "extract", "path": text, **more}


def pattern(text: str, **more: Any) -> dict[str, Any]:
    return {"op": "extract", "regex": text, **more}


def regex(text: str, replace: str, **more: Any) -> dict[str, Any]:
    return {"op": "regex", "pattern": text, "replace": replace, **more}


@pytest.mark.parametrize(
    ("value", "steps", "expected"),
    [
        # case and trim
        ("Über ALLES", [{"op": "case", "to": "lower"}], "über alles"),
        ("straße", [{"op": "case", "to": "upper"}], "STRASSE"),
        ("don't  STOP\nme", [{"op": "case", "to": "title"}], "Don't  Stop\nMe"),
        ("  ONE. two! 3? ok", [{"op": "case", "to": "sentence"}], "  One. Two! 3? Ok"),
        ("  a b \n", [{"op": "trim"}], "a b"),
        ("--a-b--", [{"op": "trim", "chars": "-"}], "a-b"),
        ("  abcdef", [{"op": "trim", "max_chars": 3}], "abc"),
        ("", [{"op": "trim"}, {"op": "case", "to": "title"}], ""),
        ("unchanged", [], "unchanged"),
        (DOC, [], DOC),
        # regex
        ("a1b22", [regex(r"\d+", "#")], "a#b#"),
        ("a1b22", [regex(r"(?P<d>\d)", r"<\g<d>>", count=1)], "a<1>b22"),
        ("Ab\naB", [regex("^a", "x", flags="im")], "xb\nxB"),
        ("{{ user }}", [regex("user", "{% x %}")], "{{ {% x %} }}"),
        ("none", [regex("z", "y")], "none"),
        # extract by pattern
        ("HP: 12, MP: 7", [pattern(r"(\w+): (\d+)", group=2)], "12"),
        ("HP: 12, MP: 7", [pattern(r"(?P<n>\d+)", group="n", many=True)], ["12", "7"]),
        ("HP: 12", [pattern(r"\d+")], "12"),
        ("HP", [pattern(r"\d+", many=True)], []),
        ("ab", [pattern("(x)?b", group=1)], ""),
        # extract by path
        (DOC, [path("$.items[1].k")], "b"),
        (DOC, [path("$.items[?@.n > 5].k", many=True)], ["b"]),
        (DOC, [path("$..n", many=True)], [1, 20]),
        (DOC, [path("$.tags[-1]"), {"op": "case", "to": "upper"}], "STRONG"),
        (DOC, [path("$.none", many=True)], []),
        ('{"a": [1, 2]}', [path("$.a")], [1, 2]),
        (5, [path("$")], 5),
        (DOC, [path("$.items[?match(@.k, '[ab]')].n", many=True)], [1, 20]),
        # JSON Patch
        ({"a": 1}, [patch({"op": "add", "path": "/b", "value": {"c": None}})], {"a": 1, "b": {"c": None}}),
        ([1, 3], [patch({"op": "add", "path": "/1", "value": 2})], [1, 2, 3]),
        ([1], [patch({"op": "add", "path": "/-", "value": 2})], [1, 2]),
        ({"a": [1, 2]}, [patch({"op": "remove", "path": "/a/0"})], {"a": [2]}),
        ({"a": 1}, [patch({"op": "replace", "path": "/a", "value": 2})], {"a": 2}),
        ({"a": 1}, [patch({"op": "replace", "path": "", "value": [0]})], [0]),
        ({"a": {"b": 1}}, [patch({"op": "move", "from": "/a/b", "path": "/c"})], {"a": {}, "c": 1}),
        ([1, 2, 3], [patch({"op": "move", "from": "/0", "path": "/2"})], [2, 3, 1]),
        (
            {"a": [1]},
            [patch({"op": "copy", "from": "/a", "path": "/b"}, {"op": "add", "path": "/b/-", "value": 2})],
            {"a": [1], "b": [1, 2]},
        ),
        (DOC, [patch({"op": "test", "path": "/a~1b~0c", "value": 5.0}), path("$.ok")], True),
        ('{"a": 1}', [patch({"op": "add", "path": "/\\u0062", "value": 2})], {"a": 1, "\\u0062": 2}),
    ],
)
def test_steps_change_the_value(value: Any, steps: list[dict[str, Any]], expected: Any) -> None:
    assert changed(value, *steps) == expected


def test_the_value_that_was_given_is_not_changed() -> None:
    value = {"a": [1]}

    assert changed(value, patch({"op": "add", "path": "/a/-", "value": 2})) == {"a": [1, 2]}
    assert value == {"a": [1]}


@pytest.mark.parametrize(
    ("value", "step", "code"),
    [
        (DOC, {"op": "case", "to": "upper"}, "transform_error"),
        (None, {"op": "trim"}, "transform_error"),
        (DOC, regex("a", "b"), "transform_error"),
        ("no json", path("$.a"), "transform_error"),
        ('{"a": NaN}', path("$.a"), "transform_error"),
        ("no json", patch({"op": "remove", "path": "/a"}), "transform_error"),
        (DOC, path("$.none"), "transform_no_match"),
        (5, path("$.a"), "transform_no_match"),
        ("HP", pattern(r"\d"), "transform_no_match"),
        (DOC, patch({"op": "remove", "path": "/none"}), "transform_error"),
        (DOC, patch({"op": "replace", "path": "/none", "value": 1}), "transform_error"),
        (DOC, patch({"op": "remove", "path": ""}), "transform_error"),
        (DOC, patch({"op": "test", "path": "/ok", "value": 1}), "transform_error"),
        (DOC, patch({"op": "move", "from": "/items", "path": "/items/0"}), "transform_error"),
        (DOC, patch({"op": "add", "path": "/tags/9", "value": 1}), "transform_error"),
        (DOC, patch({"op": "add", "path": "/tags/01", "value": 1}), "transform_error"),
        (DOC, patch({"op": "add", "path": "/tags/-1", "value": 1}), "transform_error"),
        (DOC, patch({"op": "remove", "path": "/tags/-"}), "transform_error"),
        (DOC, patch({"op": "add", "path": "/name/x", "value": 1}), "transform_error"),
        (DOC, patch({"op": "replace", "path": "/#name", "value": 1}), "transform_error"),
        ("x" * (5 * 1024 * 1024), {"op": "trim"}, "transform_too_large"),
        ("x" * (10 * 1024 * 1024), pattern("(x+x+)+y"), "transform_too_large"),
        ("x" * (2 * 1024 * 1024), {"op": "trim"}, "transform_too_large"),
        ("x" * 50_000, regex("x", "y" * 60_000), "transform_too_large"),
        ("a\ud800", {"op": "trim"}, "transform_error"),
        ({"a": object()}, {"op": "trim"}, "transform_error"),
    ],
)
def test_what_can_not_be_done_has_a_code(value: Any, step: dict[str, Any], code: str) -> None:
    with pytest.raises(TransformFailed) as caught:
        changed(value, step)

    assert caught.value.code == code
    assert isinstance(caught.value, TransformNoMatch) == (code == "transform_no_match")
    assert "Mira" not in str(caught.value)


def test_a_failure_names_the_step() -> None:
    with pytest.raises(TransformFailed, match="step 1") as caught:
        changed("x", {"op": "trim"}, path("$.a"))

    assert caught.value.facts["step"] == 1


def test_a_cyclic_or_deep_value_is_refused() -> None:
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    for value in (cyclic, deep):
        with pytest.raises(TransformFailed) as caught:
            changed(value, path("$..*", many=True))
        assert caught.value.code == "transform_error"


def _nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value, "b": [value] if levels < 8 else 2}
    return value


ENDLESS = {
    "repetition": ("a" * 40 + "!", pattern("(a+)+$")),
    "replacement": ("a" * 40 + "!", regex("(a|a)*$", "b")),
    "alternatives": ("a" * 60, pattern(r"(a|aa)+b")),
    "path": (_nested(60), path("$..*..*..*..*", many=True)),
    "pattern in a path": (["a" * 60 + "!"], path("$[?search(@, '(a|aa)+$')]", many=True)),
}


@pytest.mark.slow
@pytest.mark.parametrize(("value", "step"), ENDLESS.values(), ids=ENDLESS.keys())
def test_a_step_without_end_is_stopped(value: Any, step: dict[str, Any]) -> None:
    """Without a limit these take years; the next transform works again."""
    with pytest.raises(TransformTimeout) as caught:
        changed(value, step, time_s=0.2)

    assert caught.value.code == "transform_timeout"
    assert changed("a1", pattern(r"\d")) == "1"


@pytest.mark.slow
def test_a_pattern_that_is_slow_to_prepare_is_stopped_too() -> None:
    step = regex("[\0-\U0010ffff]" * 150, "", flags="i")

    with pytest.raises(TransformTimeout):
        changed("a", step, time_s=0.1)


@pytest.mark.slow
def test_a_patch_that_doubles_without_end_is_stopped() -> None:
    double = [{"op": "copy", "from": "", "path": "/a"}, {"op": "copy", "from": "", "path": "/b"}]

    with pytest.raises(TransformFailed) as caught:
        changed({}, patch(*double * 50), time_s=0.5)

    assert isinstance(caught.value, TransformTimeout | TransformTooLarge)


@pytest.mark.slow
def test_transforms_run_side_by_side() -> None:
    steps = parse_steps([pattern(r"\d+")])

    async def many() -> list[Any]:
        return await asyncio.gather(*(apply(steps, f"n{i}", time_s=10.0) for i in range(5)))

    assert asyncio.run(many()) == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("step", "where", "what"),
    [
        ({"op": "eval", "code": "1"}, "[0]", "does not match any of the expected tags"),
        ({}, "[0]", "op"),
        ("trim", "[0]", "dictionary"),
        ({"op": "trim", "more": 1}, "[0].more", "Extra inputs"),
        ({"op": "trim", "max_chars": -1}, "[0].max_chars", "greater than"),
        ({"op": "trim", "chars": ""}, "[0].chars", "at least 1"),
        ({"op": "case", "to": "snake"}, "[0].to", "'lower'"),
        (regex("(", ""), "[0].pattern", "not a regular expression"),
        (regex("a" * 1_001, ""), "[0].pattern", "at most 1000"),
        (regex("(" * 900, ""), "[0].pattern", "not a regular expression"),
        (regex("a", r"\1"), "[0]", "not a replacement"),
        (regex("a", r"\g<n>"), "[0]", "not a replacement"),
        (regex("a", "", flags="q"), "[0].flags", "match"),
        (regex("a", "", count=-1), "[0].count", "greater than"),
        (regex("a", "", count=True), "[0].count", "integer"),
        (pattern("(a)", group=2), "[0]", "has 1 groups"),
        (pattern("(a)", group="n"), "[0]", "no group of this name"),
        (path("$.a", regex="a"), "[0]", "exactly one"),
        ({"op": "extract"}, "[0]", "exactly one"),
        (path("$.a", group=1), "[0]", "belongs to `regex`"),
        (path("a.b"), "[0].path", "not a JSONPath"),
        (path("$.a[?@.x =~ /(a+)+/]"), "[0].path", "not a JSONPath"),
        (path("$.a.~"), "[0].path", "not a JSONPath"),
        (path("$" + "[?(@" * 200), "[0].path", "not a JSONPath"),
        (patch(), "[0].patch", "at least 1"),
        (patch({"op": "inc", "path": "/a"}), "[0].patch", "[0].op: one of add"),
        (patch({"op": "add", "path": "a", "value": 1}), "[0].patch", "begins with `/`"),
        (patch({"op": "add", "path": "/~2", "value": 1}), "[0].patch", "stands only in"),
        (patch({"op": "remove", "path": "/a"}, {"op": "move", "path": 5}), "[0].patch", "[1].from"),
    ],
)
def test_parse_refuses(step: Any, where: str, what: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_steps([step])

    (problem,) = caught.value.facts["problems"]
    assert problem["path"] == where
    assert what in problem["message"]


@pytest.mark.parametrize("raw", [None, "x", {"op": "trim"}, 5, [None] * 1_000])
def test_parse_refuses_what_is_no_list_of_steps(raw: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_steps(raw)

    assert len(str(caught.value)) < 8_000


def test_parse_names_all_problems() -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_steps([{"op": "case", "to": "x"}, {"op": "trim"}, regex("(", 5), path("a")])  # type: ignore[arg-type]

    paths = [problem["path"] for problem in caught.value.facts["problems"]]
    assert paths == ["[0].to", "[2].pattern", "[2].replace", "[3].path"]
    assert "[3].path" in str(caught.value)


def test_parse_gives_values_that_go_in_again() -> None:
    steps = parse_steps(({"op": "trim"}, regex("a", "b", flags="i")))

    assert [type(step).__name__ for step in steps] == ["Trim", "Regex"]
    assert asyncio.run(apply(steps, " A ", time_s=10.0)) == "b"


def test_a_pattern_is_not_compiled_in_this_process() -> None:
    """Reading a hostile pattern is quick; only making it ready to run takes long."""
    assert len(parse_steps([regex("[\0-\U0010ffff]" * 150, "", flags="i")])) == 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_few_processes_stay() -> None:
    from artelier.operations.transforms import transform

    test_transforms_run_side_by_side()

    assert transform._pool().idle <= IDLE_MAX  # pyright: ignore[reportPrivateUsage]


class _Refusing(ThreadPoolExecutor):
    """The loop's own threads, which are for others."""

    def submit(self, *args: Any, **named: Any) -> Any:
        raise AssertionError("a transform has taken a thread of the loop")


@pytest.mark.slow
def test_transforms_take_no_thread_of_the_loop() -> None:
    async def scenario() -> Any:
        asyncio.get_running_loop().set_default_executor(_Refusing())
        return await apply(parse_steps([pattern(r"\d")]), "a1", time_s=10.0)

    assert asyncio.run(scenario()) == "1"


def _helpers() -> int:
    """How many helper processes there are."""
    found = 0
    for child in children():
        with suppress(OSError):
            found += b"artelier.operations.transforms.worker" in Path(f"/proc/{child}/cmdline").read_bytes()
    return found


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("waits", [True, False], ids=["at work", "at once"])
def test_an_abandoned_transform_gives_back_its_thread_and_its_process(waits: bool) -> None:
    """Left alone, these would hold all threads for half an hour."""
    from artelier.operations.transforms import transform

    value, step = ENDLESS["repetition"]
    endless, harmless = parse_steps([step]), parse_steps([pattern(r"\d")])
    count = transform.AT_ONCE_MAX + 2

    async def scenario() -> Any:
        async with asyncio.timeout(120):
            tasks = [asyncio.ensure_future(apply(endless, value, time_s=600)) for _ in range(count)]
            await asyncio.sleep(0)
            while waits and _helpers() < transform.AT_ONCE_MAX:
                await asyncio.sleep(0.02)
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(one, asyncio.CancelledError) for one in ended)
            found = await apply(harmless, "a1", time_s=10.0)
            while _helpers() > IDLE_MAX:
                await asyncio.sleep(0.02)
            return found

    assert asyncio.run(scenario()) == "1"
