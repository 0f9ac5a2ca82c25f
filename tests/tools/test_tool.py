"""The decorator: facts, schema, calling."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from artelier.errors import InvalidArguments, InvalidRequest, ToolFailed
from artelier.ports.tool import ToolContext, ToolPort
from artelier.tools import Tool, tool
from artelier.tools.built_in import workspace_tools

from .contexts import Recorder


class Receipt(BaseModel):
    to: str
    amount: Decimal
    key: str


@tool(side_effect=True, grant="payments:send", timeout_s=30, idempotent=False, risk="high")
async def send_payment(to: str, amount_usd: Decimal, ctx: ToolContext, memo: str = "") -> Receipt:
    """Send money to somebody.

    A second paragraph that no model sees.
    """
    ctx.progress("sending")
    await ctx.spend(amount_usd)
    return Receipt(to=to, amount=amount_usd, key=ctx.idempotency_key)


def call(subject: Tool, arguments: object, recorder: Recorder | None = None):
    context = (recorder or Recorder()).context()
    return asyncio.run(subject.call(subject.validate(arguments), context))


def test_tool_satisfies_the_port_and_keeps_its_facts():
    port: ToolPort = send_payment

    assert port.name == "send_payment"
    assert port.description == "Send money to somebody."
    assert (port.side_effect, port.idempotent, port.risk) == (True, False, "high")
    assert (port.grant, port.timeout_s, port.heartbeat_timeout_s) == ("payments:send", 30, None)
    assert port.trust == "untrusted"
    assert port.probe is None


@pytest.mark.parametrize(
    ("facts", "risk"),
    [
        ({}, "high"),
        ({"side_effect": True}, "high"),
        ({"side_effect": True, "risk": "low"}, "low"),
        ({"side_effect": True, "risk": "medium"}, "medium"),
        ({"side_effect": True, "idempotent": True}, "low"),
        ({"idempotent": True}, "low"),
        ({"side_effect": False}, "low"),
        ({"side_effect": False, "risk": "high"}, "high"),
    ],
)
def test_what_acts_and_must_not_be_repeated_is_of_high_risk_unless_it_says_otherwise(
    facts: dict[str, Any], risk: str
):
    def act(what: str) -> None: ...

    assert tool(**facts)(act).risk == risk
    if not facts:
        assert tool(act).risk == risk


def test_shipped_tools_that_act_state_their_risk(tmp_path: Path):
    from artelier.tools.http_json import http_json_tool

    kit = [*workspace_tools(tmp_path), http_json_tool(["https://api.example.com/v1/"])]
    acting = {one.name: one.risk for one in kit if one.side_effect}
    assert acting == {"write_file": "medium", "http_json": "high"}


def test_schema_is_closed_and_hides_the_context():
    schema = send_payment.schema

    assert schema.name == "send_payment"
    assert schema.parameters == {
        "type": "object",
        "properties": {
            "to": {"type": "string"},
            "amount_usd": {"anyOf": [{"type": "number"}, {"type": "string"}]},
            "memo": {"type": "string", "default": ""},
        },
        "required": ["to", "amount_usd"],
        "additionalProperties": False,
    }


def test_call_gives_typed_values_and_returns_json():
    recorder = Recorder()

    result = call(send_payment, {"to": "bob", "amount_usd": "12.50"}, recorder)

    assert result == {"to": "bob", "amount": "12.50", "key": "r1:c1/tool/0"}
    assert recorder.notes == ["sending"]
    assert recorder.spent == [12_500_000]


@pytest.mark.parametrize(("count", "is_aside"), [(3, False), (200_000, True)])
def test_a_large_result_is_made_json_data_beside_the_event_loop(count: int, is_aside: bool):
    threads: list[int] = []

    class Watched(dict[str, int]):
        def items(self):
            threads.append(threading.get_ident())
            return super().items()

    @tool(side_effect=False)
    async def find() -> dict[str, int]:
        """Find."""
        return Watched({f"key{number}": number for number in range(count)})

    found = asyncio.run(find.call({}, Recorder().context()))

    assert type(found) is dict and len(found) == count
    assert [one != threading.get_ident() for one in threads] == [is_aside]


def test_validate_returns_what_was_sent_as_json_data():
    assert send_payment.validate('{"to": "bob", "amount_usd": 3}') == {"to": "bob", "amount_usd": 3}
    assert send_payment.validate({"to": "bob", "amount_usd": Decimal("1.10")}) == {
        "to": "bob",
        "amount_usd": "1.10",
    }


def test_bare_tool_counts_as_side_effecting():
    @tool
    def touch(path: str) -> str:
        return path

    assert (touch.side_effect, touch.idempotent) == (True, False)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"side_effect": False}, (False, False)),
        ({"idempotent": True}, (True, True)),
        ({"side_effect": True, "idempotent": True}, (True, True)),
    ],
)
def test_given_facts_hold(facts, expected):
    @tool(**facts)
    def look(path: str) -> str:
        return path

    assert (look.side_effect, look.idempotent) == expected


def test_decorated_function_stays_callable_as_itself():
    @tool(side_effect=False)
    def double(number: int) -> int:
        """Twice the number."""
        return number * 2

    assert double(21) == 42
    assert double.name == "double"
    assert double.__doc__ == "Twice the number."


def test_plain_function_runs_beside_the_loop():
    @tool(side_effect=False)
    def where() -> str:
        return threading.current_thread().name

    assert call(where, {}) != threading.current_thread().name


def test_plain_function_that_blocks_does_not_block_the_loop():
    entered, release = threading.Event(), threading.Event()

    @tool(side_effect=False)
    def block() -> bool:
        entered.set()
        return release.wait(10)

    async def scenario() -> object:
        task = asyncio.create_task(block.call({}, Recorder().context()))
        while not entered.is_set():
            await asyncio.sleep(0)
        release.set()
        return await task

    assert asyncio.run(scenario()) is True


def test_cancelled_caller_leaves_the_thread_and_the_loop_alive():
    release = threading.Event()

    @tool(side_effect=False)
    def block() -> None:
        release.wait(10)

    async def scenario() -> object:
        task = asyncio.create_task(block.call({}, Recorder().context()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        release.set()
        return await double_call()

    async def double_call() -> object:
        return await answer.call({}, Recorder().context())

    @tool(side_effect=False)
    def answer() -> int:
        return 42

    assert asyncio.run(scenario()) == 42


@pytest.mark.parametrize("kind", [StopIteration, SystemExit, KeyboardInterrupt])
def test_exception_that_would_end_the_program_is_contained(kind):
    @tool(side_effect=False)
    def leave() -> None:
        raise kind

    with pytest.raises(RuntimeError, match=kind.__name__):
        call(leave, {})


def test_async_tool_cannot_exit_the_program():
    @tool(side_effect=False)
    async def leave() -> None:
        sys.exit(3)

    with pytest.raises(RuntimeError, match="SystemExit"):
        call(leave, {})


@pytest.mark.parametrize("failure", [ToolFailed("no such order"), ValueError("boom")])
def test_own_exceptions_pass_unchanged(failure):
    @tool(side_effect=False)
    def fail() -> None:
        raise failure

    with pytest.raises(type(failure)) as caught:
        call(fail, {})
    assert caught.value is failure


def test_types_defined_in_a_function_are_found():
    class Point(BaseModel):
        x: int
        y: int

    @dataclass
    class Box:
        corner: int

    @tool(side_effect=False)
    def area(point: Point, box: Box | None = None) -> int:
        return point.x * point.y * (box.corner if box else 1)

    assert call(area, {"point": {"x": 2, "y": 3}}) == 6
    assert call(area, {"point": {"x": 2, "y": 3}, "box": {"corner": 2}}) == 12


def test_a_tool_that_is_defined_again_and_again_has_its_model_made_once():
    def made(default: Any, kind: Any = int) -> Tool[..., Any]:
        @tool(side_effect=False)
        def count(upto: kind = default) -> None:  # pyright: ignore[reportInvalidTypeForm] - made of a variable
            """Count."""

        return count

    first, again = made(0), made(0)

    assert again.schema == first.schema
    assert _model_of(again) is _model_of(first)
    # What only looks equal is another definition.
    assert _model_of(made(False)) is not _model_of(first)
    assert made(0, str).schema.parameters["properties"]["upto"]["type"] == "string"
    assert made([0], list[int]).schema.parameters["properties"]["upto"]["default"] == [0]


def _model_of(one: Tool[..., Any]) -> type[BaseModel]:
    return one._parameters.model


def test_nested_objects_are_closed_too():
    class Point(BaseModel):
        x: int

    @tool(side_effect=False)
    def show(point: Point) -> int:
        return point.x

    assert show.schema.parameters["$defs"]["Point"]["additionalProperties"] is False
    with pytest.raises(InvalidArguments, match=r"point\.y: expected no such key"):
        show.validate({"point": {"x": 1, "y": 2}})


def test_parameter_names_that_pydantic_reserves_work():
    @tool(side_effect=False)
    def odd(schema: str, copy: int, model_config: int, _hidden: int = 4) -> list[object]:
        return [schema, copy, model_config, _hidden]

    assert call(odd, {"schema": "a", "copy": 1, "model_config": 2, "_hidden": 3}) == ["a", 1, 2, 3]
    assert call(odd, {"schema": "a", "copy": 1, "model_config": 2}) == ["a", 1, 2, 4]


def test_annotated_facts_reach_the_schema():
    @tool(side_effect=False)
    def pick(
        mode: Literal["fast", "slow"], count: Annotated[int, Field(description="How many.", ge=1, le=5)] = 1
    ) -> str:
        return mode * count

    properties = pick.schema.parameters["properties"]
    assert properties["mode"] == {"enum": ["fast", "slow"], "type": "string"}
    assert properties["count"] == {
        "default": 1,
        "description": "How many.",
        "maximum": 5,
        "minimum": 1,
        "type": "integer",
    }


def test_default_without_json_form_stays_with_the_function():
    marker = object()

    @tool(side_effect=False)
    def look(path: str, cache: str = marker) -> bool:  # type: ignore[assignment]
        return cache is marker

    assert "default" not in look.schema.parameters["properties"]["cache"]
    assert call(look, {"path": "a"}) is True


def test_probe_gets_the_values_of_the_call_and_returns_json():
    seen: list[object] = []

    def probe(key: str, arguments: dict[str, object]) -> object:
        seen.append((key, arguments))
        return Receipt(to="bob", amount=Decimal("1.0"), key=key)

    @tool(probe=probe)
    def pay(to: str, amount: Decimal, times: int = 1) -> None: ...

    assert pay.compensate is None
    assert pay.probe is not None
    result = asyncio.run(_await(pay.probe("k1", {"to": "bob", "amount": "1.0"})))
    assert result == {"to": "bob", "amount": "1.0", "key": "k1"}
    assert seen == [("k1", {"to": "bob", "amount": Decimal("1.0"), "times": 1})]


async def _await(awaitable):
    return await awaitable


def _variadic(*parts: str) -> None: ...


def _keywords(**parts: str) -> None: ...


def _positional(part: str, /) -> None: ...


def _bare(part) -> None: ...


@pytest.mark.parametrize("function", [_variadic, _keywords, _positional, _bare, lambda: 1])
def test_signature_that_no_model_can_call_is_refused(function):
    with pytest.raises(InvalidRequest):
        tool(function)


@pytest.mark.parametrize(
    "facts",
    [
        {"name": "has space"},
        {"name": ""},
        {"name": "x" * 65},
        {"grant": " "},
        {"timeout_s": 0},
        {"timeout_s": float("nan")},
        {"heartbeat_timeout_s": -1},
        {"risk": "none"},
        {"trust": "maybe"},
    ],
)
def test_fact_that_cannot_hold_is_refused(facts):
    with pytest.raises(InvalidRequest):

        @tool(**facts)
        def look(path: str) -> str:
            return path


def test_tool_of_a_tool_is_refused():
    with pytest.raises(InvalidRequest, match="can't be made a tool"):
        tool(send_payment)  # type: ignore[arg-type]


def test_annotation_that_exists_only_for_type_checkers_is_explained():
    def look(path: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(InvalidRequest, match="TYPE_CHECKING"):
        _ = tool(look).schema


@pytest.mark.parametrize("kind", [Recorder, Callable[[int], int], 5, "list[", "asyncio.nothing"])
def test_a_parameter_that_no_json_becomes_is_explained(kind: Any):
    def look(path):
        """Look."""

    look.__annotations__ = {"path": kind}

    with pytest.raises(InvalidRequest, match="parameter"):
        _ = tool(look).schema


def test_a_function_that_yields_is_no_tool():
    def lines(path: str):
        yield path

    async def pieces(path: str):
        yield path

    for one in (lines, pieces):
        with pytest.raises(InvalidRequest, match="yields"):
            tool(one)


def test_a_default_of_pydantic_is_the_default_of_the_parameter():
    @tool(side_effect=False)
    def look(path: str, limit: int = Field(3, le=9, description="Most lines.")) -> int:
        return limit

    assert look.schema.parameters["properties"]["limit"] == {
        "default": 3, "description": "Most lines.", "maximum": 9, "type": "integer",
    }  # fmt: skip
    assert (call(look, {"path": "p"}), call(look, {"path": "p", "limit": 4})) == (3, 4)
    with pytest.raises(InvalidArguments, match="less than or equal to 9"):
        call(look, {"path": "p", "limit": 10})


def test_context_is_found_without_resolving_its_name():
    namespace: dict[str, object] = {}
    source = "def look(path: str, ctx: 'ports.ToolContext') -> str:\n    return path + ctx.run_id\n"
    exec(source, namespace)
    look = tool(namespace["look"])  # type: ignore[arg-type]

    assert list(look.schema.parameters["properties"]) == ["path"]
    assert call(look, {"path": "p/"}) == "p/r1"


def test_bound_method_can_be_a_tool():
    class Desk:
        def __init__(self) -> None:
            self.names = ["ada"]

        def find(self, name: str) -> bool:
            """Whether somebody works here."""
            return name in self.names

    find = tool(Desk().find)

    assert find.name == "find"
    assert call(find, {"name": "ada"}) is True


def test_decorator_imports_no_pydantic():
    code = (
        "import sys, json\n"
        "from artelier.tools import tool, ToolRegistry\n"
        "@tool\n"
        "def f(x: int) -> int: return x\n"
        "ToolRegistry([f])\n"
        "print(json.dumps([m for m in ('pydantic', 'duckdb') if m in sys.modules]))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(output.stdout) == []
