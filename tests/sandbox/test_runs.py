"""Runs: values in and out, the functions of the host, clock and chance, isolation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from artelier.errors import (
    AccessDenied,
    InsufficientFunds,
    InvalidRequest,
    LeaseLost,
    RunSuspended,
    VersionConflict,
)
from artelier.ports.sandbox import Sandbox, SandboxLimits, SandboxResult
from artelier.sandbox import MontySandbox, SandboxError


def run(sandbox: MontySandbox, code: str, **options: Any) -> SandboxResult:
    return asyncio.run(sandbox.run(code, **options))


def test_sandbox_satisfies_the_port(sandbox: MontySandbox):
    port: Sandbox = sandbox

    assert asyncio.run(port.run("1 + 1")).value == 2


def test_value_is_that_of_the_last_expression_and_prints_are_kept(sandbox: MontySandbox):
    result = run(sandbox, "print('a', 1)\nx = {'k': (1, 2.5, None, True, 'ä')}\nx")

    assert result == SandboxResult(value={"k": [1, 2.5, None, True, "ä"]}, printed="a 1\n")


def test_runs_share_nothing(sandbox: MontySandbox):
    run(sandbox, "x = 41\nimport random\nrandom.seed(3)")

    with pytest.raises(SandboxError, match="name 'x' is not defined"):
        run(sandbox, "x")


def test_inputs_are_copies(sandbox: MontySandbox):
    rows = [{"n": 1}]

    result = run(sandbox, "rows.append({'n': 2})\nlen(rows)", inputs={"rows": rows})

    assert result.value == 2
    assert rows == [{"n": 1}]


@pytest.mark.parametrize(
    "inputs",
    [
        {"x": object()},
        {"x": b"bytes"},
        {"x": {1, 2}},
        {"x": float("nan")},
        {"x": 2**64},
        {"x": {1: 2}},
        {"x": open},
        {"x": "\ud800"},
        {"x": "a" * 10_000_000},
        {"not a name": 1},
        {"__builtins__": 1},
        {"class": 1},
    ],
)
def test_inputs_that_are_no_data_are_refused(sandbox: MontySandbox, inputs: dict[str, Any]):
    with pytest.raises(InvalidRequest):
        run(sandbox, "1", inputs=inputs)


@pytest.mark.parametrize(
    "code",
    [
        "b'bytes'",
        "{1, 2}",
        "{1: 2}",
        "float('inf')",
        "print",
        "int",
        "...",
        "1j",
        "class A: pass\nA()",
        "import datetime\ndatetime.date(2026, 1, 1)",
        "from decimal import Decimal\nDecimal(1)",
        "[[{'a': [b'x']}]]",
    ],
)
def test_values_that_are_no_data_are_refused(sandbox: MontySandbox, code: str):
    with pytest.raises(SandboxError) as caught:
        run(sandbox, code)

    assert caught.value.reason == "output"


def test_host_functions_are_called_in_order_plain_or_async(sandbox: MontySandbox):
    seen: list[object] = []

    async def fetch(name: str, *, times: int = 1) -> dict[str, object]:
        await asyncio.sleep(0)
        seen.append(name)
        return {"name": name, "times": times}

    def note(text: str) -> None:
        seen.append(text)

    code = "print('start')\na = fetch('x', times=2)\nnote('between')\nb = fetch('y')\nprint('end')\n[a, b]"
    result = run(sandbox, code, functions={"fetch": fetch, "note": note})

    assert result.value == [{"name": "x", "times": 2}, {"name": "y", "times": 1}]
    assert result.printed == "start\nend\n"
    assert seen == ["x", "between", "y"]


def test_nested_runs_need_no_more_workers_than_the_pool_has():
    """A waiting caller frees its worker, so depth is not bounded by the pool."""

    async def scenario() -> list[int]:
        sandbox = MontySandbox(workers=1, wait_s=5)

        async def descend(depth: int) -> int:
            if depth == 0:
                return 0
            result = await sandbox.run(
                "descend(depth - 1) + 1", inputs={"depth": depth}, functions={"descend": descend}
            )
            return result.value

        depths = await asyncio.gather(*(descend(10) for _ in range(4)))
        await sandbox.close()
        return depths

    assert asyncio.run(scenario()) == [10] * 4


def test_time_inside_adds_up_over_host_calls(sandbox: MontySandbox):
    code = "while True:\n    for i in range(300000): pass\n    helper()"

    with pytest.raises(SandboxError) as caught:
        run(sandbox, code, functions={"helper": lambda: None})

    assert caught.value.reason == "timeout"


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (ValueError("secret at /home/ada/keys.txt"), "helper() failed"),
        (AccessDenied("read of /srv/data/x.txt denied"), "access_denied: read of <path> denied"),
        (InsufficientFunds("tenant acme has 3"), "insufficient_funds"),
        (VersionConflict("version 3 is newer"), "version_conflict: version 3 is newer"),
    ],
)
def test_host_exception_enters_as_a_clean_message(sandbox: MontySandbox, failure: Exception, message: str):
    def helper() -> None:
        raise failure

    code = "try:\n    helper()\nexcept RuntimeError as e:\n    r = str(e)\nr"
    assert run(sandbox, code, functions={"helper": helper}).value == message


@pytest.mark.parametrize(
    "failure", [RunSuspended("r1", status="waiting"), LeaseLost("stale"), KeyboardInterrupt(), SystemExit()]
)
def test_what_ends_the_host_s_run_cannot_be_caught_inside(sandbox: MontySandbox, failure: BaseException):
    async def scenario() -> None:
        def helper() -> None:
            raise failure

        code = "while True:\n    try:\n        helper()\n    except:\n        pass"
        try:
            await sandbox.run(code, functions={"helper": helper})
        except BaseException as error:
            assert error is failure
        else:
            pytest.fail("the failure was hidden")

    asyncio.run(scenario())


def test_host_function_that_returns_no_data_is_the_host_s_fault(sandbox: MontySandbox):
    with pytest.raises(InvalidRequest, match="helper"):
        run(sandbox, "helper()", functions={"helper": object})


@pytest.mark.parametrize("argument", ["b'x'", "open", "{1}", "float('nan')", "'x' * 20000"])
def test_arguments_that_are_no_data_never_reach_the_host(sandbox: MontySandbox, argument: str):
    calls: list[object] = []

    with pytest.raises(SandboxError, match="TypeError: helper"):
        run(sandbox, f"helper({argument})", functions={"helper": calls.append})

    assert calls == []


@pytest.mark.parametrize(
    "code",
    [
        "x = 1\n(  # a remark\n  [x,\n   2]\n)  # the end",
        "x = 1; [x, 2];",
        "x = 1\r\n'é' and [x, 2]",
        "x = 1\r[x, 2]",
        "x, y = 1, 2\nx, y",
        "async def f(): return [1, 2]\nawait f()",
        "(x := [1, 2])",
        "[1, *[2]]  # \\",
    ],
)
def test_value_is_the_last_expression_however_it_is_written(sandbox: MontySandbox, code: str):
    assert run(sandbox, code).value == [1, 2]
    assert run(sandbox, code, functions={"helper": lambda: None}).value == [1, 2]


@pytest.mark.parametrize("code", ["x = 1", "", "# nothing", "if 1:\n    5", "def f(): return 1"])
def test_what_ends_in_a_statement_has_no_value(sandbox: MontySandbox, code: str):
    assert run(sandbox, code).value is None


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("x = 1\n\nhelper(1)", 3),
        ("def f():\n    helper({1})\n\nf()", 2),
        ("x = 1\n1 / 0", 2),
        ("x = 1\nhelper(\n  nothing)", 3),
    ],
)
def test_lines_are_those_of_the_code_also_around_host_calls(sandbox: MontySandbox, code: str, line: int):
    def helper(value: object) -> None:
        raise ValueError(value)

    with pytest.raises(SandboxError) as caught:
        run(sandbox, code, functions={"helper": helper})

    assert (caught.value.reason, caught.value.line) == ("error", line)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("[1, {'a': {(1, 2): 3}}]", r"the value\[1\]\.a has a key of type tuple; keys are text"),
        ("{'a': [1, {2}]}", r"the value\.a\[1\] is of type set; only JSON data"),
        ("class Odd: pass\n[Odd()]", r"the value\[0\] is of type Odd; only JSON data"),
        ("a = []\na.append(a)\na", "nested"),
    ],
)
def test_refusal_of_a_result_says_where_and_why(sandbox: MontySandbox, code: str, says: str):
    with pytest.raises(SandboxError, match=says) as caught:
        run(sandbox, code)

    assert caught.value.reason == "output"


def test_code_cannot_call_the_host_by_its_inner_name(sandbox: MontySandbox):
    calls: list[object] = []
    code = "try:\n    __artelier_host('helper', (1,), {})\nexcept NameError as e:\n    r = str(e)\nr"

    result = run(sandbox, code, functions={"helper": calls.append})

    assert result.value == "name '__artelier_host' is not defined"
    assert calls == []


def test_value_that_was_cut_on_its_way_out_is_refused(sandbox: MontySandbox):
    """Deep in the stack the interpreter would hand over a text in place of the rest of a value."""
    calls: list[object] = []
    code = "def down(n):\n    if n: return down(n - 1)\n    return helper([[[[[[[[1]]]]]]]])\ndown(93)"

    with pytest.raises(SandboxError, match="nested too deeply"):
        run(sandbox, code, functions={"helper": calls.append})

    assert calls == []


def test_clock_is_what_the_caller_says(sandbox: MontySandbox):
    code = "import datetime, time\n[str(datetime.datetime.now()), time.time(), time.monotonic()]"

    result = run(sandbox, code, at_us=1_767_225_600_000_000)

    assert result.value == ["2026-01-01 00:00:00", 1767225600.0, 1767225600.0]


def test_without_a_clock_the_time_is_an_error_and_not_an_invention(sandbox: MontySandbox):
    with pytest.raises(SandboxError, match=r"datetime\.now"):
        run(sandbox, "import datetime\ndatetime.datetime.now()")


def test_chance_is_seeded_also_across_host_calls(sandbox: MontySandbox):
    def draw(seed: int | str) -> object:
        code = "import random\na = random.random()\nhelper()\n[a, random.random()]"
        return run(sandbox, code, functions={"helper": lambda: None}, seed=seed).value

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)
    assert draw("tick-41/bob") == draw("tick-41/bob")


@pytest.mark.parametrize(
    ("code", "reason", "line"),
    [
        ("x = 1\ny = = 2", "syntax", 2),
        ("'\ud800'", "syntax", None),
        ("x = 1\nclass A(dict): pass", "unsupported", 2),
        ("x = 1\n\nimport socket", "unsupported", 3),
        ("def f():\n    yield 1", "unsupported", 2),
        ("x = 1\n\n1 / 0", "error", 3),
        ("def f():\n    raise ValueError('no')\nf()", "error", 2),
        ("def f():\n    return nothing\nf()", "error", 2),
    ],
)
def test_failure_has_a_reason_and_a_line(sandbox: MontySandbox, code: str, reason: str, line: int | None):
    with pytest.raises(SandboxError) as caught:
        run(sandbox, code)

    assert (caught.value.reason, caught.value.line) == (reason, line)
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize(
    "limits",
    [
        SandboxLimits(time_ms=0),
        SandboxLimits(time_ms=60_000),
        SandboxLimits(memory_bytes=1),
        SandboxLimits(memory_bytes=2**40),
        SandboxLimits(output_bytes=0),
        SandboxLimits(depth=0),
        SandboxLimits(depth=100_000),
    ],
)
def test_limits_that_do_not_bound_are_refused(sandbox: MontySandbox, limits: SandboxLimits):
    with pytest.raises(InvalidRequest):
        run(sandbox, "1", limits=limits)


def test_host_calls_are_bounded(sandbox: MontySandbox):
    helper: Callable[[], None] = lambda: None  # noqa: E731

    with pytest.raises(SandboxError, match="more than 1000 times"):
        run(sandbox, "for i in range(2000): helper()", functions={"helper": helper})


def test_many_small_programs_are_run_in_their_order_and_fail_alone() -> None:
    jobs: list[tuple[str, dict[str, Any]]] = [(f"n * {i}", {"n": 2}) for i in range(20)]
    jobs[3] = ("while True:\n    pass", {})
    jobs[7] = ("n +", {})
    jobs[11] = ("n", {"n": object()})
    jobs[13] = ("[0] * 10**9", {})
    jobs[17] = ("a = (1,)\nfor i in range(60): a = (a, a)\n{a: 1}", {})

    async def scenario() -> list[Any]:
        sandbox = MontySandbox(workers=2)
        try:
            return await sandbox.run_many(jobs, limits=SandboxLimits(time_ms=200))
        finally:
            await sandbox.close()

    done = asyncio.run(scenario())

    reasons = {n: one.reason for n, one in enumerate(done) if isinstance(one, SandboxError)}
    assert reasons == {3: "timeout", 7: "syntax", 13: "memory", 17: "output"}
    assert isinstance(done[11], InvalidRequest)
    values = [one.value for one in done if isinstance(one, SandboxResult)]
    assert values == [2 * i for i in range(20) if i not in (3, 7, 11, 13, 17)]
