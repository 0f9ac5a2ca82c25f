"""Schemas and replies that others choose: each check ends, says why, and leaves the event loop alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, ModelReply, ModelRequest, Price, Run
from artelier.errors import ArtelierError, InvalidRequest, OutputInvalid
from artelier.kernel.steps.structured_output import check_json, schema_of
from artelier.testing import ScriptedModel
from tests.kernel.stage import open_kernel, play, user

NAME = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}


def with_pattern(pattern: str) -> dict[str, Any]:
    return NAME | {"properties": {"a": {"type": "string", "pattern": pattern}}}


@pytest.mark.parametrize("pattern", ["(a+)+b", "a*a*a*a*a*a*b", r"(?=(a+)+b)a", r"^(?!(a|a)*$).*b"])
def test_the_offline_model_refuses_any_pattern_at_once(tmp_path: Path, pattern: str) -> None:
    """`(a+)+b` hung the server for good, and again after each restart."""

    async def scenario() -> None:
        with Kernel.open(tmp_path / "a.db") as kernel:
            async with kernel.run("r") as run:
                asked = [user(f"Fill a: {'a' * 80}")]
                with pytest.raises(ArtelierError):
                    await run.step_model(model="offline", messages=asked, output=with_pattern(pattern))
                run.finish(None)

    play(scenario())


class Replying:
    """A model that replies at once, and takes down how often a heartbeat had come by then."""

    price = Price()

    def __init__(self, text: str, beats: Callable[[], int]) -> None:
        self._text = text
        self._beats = beats
        self.replied_at = 0

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        self.replied_at = self._beats()
        return ModelReply(text=self._text)


COSTLY: list[tuple[dict[str, Any], Any, str]] = [
    (with_pattern("^(?=(a+)+$)"), {"a": "a" * 40 + "!"}, "was given up"),
    ({"type": "array", "items": {"enum": list(range(2_000))}}, [1_999] * 3_000, "too large"),
    ({"type": "array", "items": {"type": "integer"}}, [1] * 30_000, ""),
]


@pytest.mark.parametrize(("schema", "value", "why"), COSTLY)
def test_a_check_that_takes_long_leaves_the_event_loop_to_others(
    tmp_path: Path, schema: dict[str, Any], value: Any, why: str
) -> None:
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0)

    async def scenario() -> None:
        model = Replying(json.dumps(value), lambda: beats)
        with open_kernel(tmp_path, model) as kernel:
            heart = asyncio.create_task(beat())
            async with kernel.run("r") as run:
                try:
                    await run.step_model(model="m", messages=[user("x")], output=schema)
                    assert not why
                except OutputInvalid as error:
                    assert why
                    assert why in str(error)
                # On the loop, no beat could come between the reply and the end of its check.
                assert beats - model.replied_at > 20
                run.finish(None)
            heart.cancel()

    play(scenario())


def test_a_reply_that_could_not_be_checked_is_recorded_and_replays(tmp_path: Path) -> None:
    """What was recorded stands: no pattern is tried again when the run is opened the next time."""
    said: list[str] = []

    async def code(run: Run) -> Any:
        asked = [user("x")]
        try:
            await run.step_model(model="m", messages=asked, output=with_pattern("^(?=(a+)+$)"))
        except OutputInvalid as error:
            said.append(str(error))
        return "ended"

    async def scenario() -> None:
        reply = json.dumps({"a": "a" * 40 + "!"})
        with open_kernel(tmp_path, ScriptedModel([reply])) as kernel:
            async with kernel.run("r") as run:
                run.finish(await code(run))
        with open_kernel(tmp_path, ScriptedModel([])) as kernel:
            assert (await kernel.for_tenant().replay("r", code)).result == "ended"

    play(scenario())
    assert said[0] == said[1]
    assert "was given up over 41 characters" in said[0]


def _chain(levels: int) -> dict[str, Any]:
    """Each level asks for the next one twice, and the last one never fits: two to their number."""
    defs: dict[str, Any] = {
        f"d{n}": {"oneOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(levels)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**defs, f"d{levels}": {"type": "null"}}}


NESTED: Any = []
for _ in range(400):
    NESTED = [NESTED]

BOUNDED: list[tuple[str, dict[str, Any], Any]] = [
    ("too large", {"type": "array", "items": {"enum": [[n] for n in range(5_000)]}}, [[4_999]] * 500),
    ("too large", {"type": "array", "items": {"type": "string"}}, ["x"] * 500_001),
    ("too large", {"type": "object", "required": ["n"] * 9_000}, None),
    ("too large|allowed forms", _chain(24), 5),
    ("too deeply", {"type": "array", "items": {"$ref": "#"}}, NESTED),
    ("given up", {"anyOf": [{"pattern": f"^(?=({c}+)+$)"} for c in "aab"]}, "a" * 40 + "!"),
]


@pytest.mark.parametrize(("why", "schema", "value"), BOUNDED)
def test_the_work_of_one_check_has_a_bound(why: str, schema: dict[str, Any], value: Any) -> None:
    if value is None:
        schema, value = {"type": "array", "items": schema}, [{"n": 1}] * 500
    schema_of(schema)

    with pytest.raises(OutputInvalid, match=why):
        check_json(value, schema)


def test_a_misfit_names_no_more_of_its_value_than_fits_a_line() -> None:
    value = {"k" * 100_000: ["x" * 1_000_000] * 100}
    for schema in ({"enum": [1]}, {"const": 1}, {"not": {}}):
        with pytest.raises(OutputInvalid) as caught:
            check_json(value, schema)
        assert len(str(caught.value)) < 400


def test_patterns_of_a_schema_have_a_bound_together() -> None:
    schema = {"anyOf": [{"pattern": f"{n}" + "a?" * 400} for n in range(100)]}

    with pytest.raises(InvalidRequest, match="patterns of at most 16000 characters"):
        schema_of(schema)


def test_references_into_one_place_have_a_bound_together() -> None:
    """Each of them would be gone through to its end, and each holds those after it."""
    nested: dict[str, Any] = {"type": "null"}
    for _ in range(50):
        nested = {"anyOf": [nested, *[{"type": "null"}] * 180]}
    refs, at = list[dict[str, str]](), "#/default"
    for _ in range(50):
        refs.append({"$ref": at})
        at += "/anyOf/0"
    schema = {"properties": {str(n): ref for n, ref in enumerate(refs)}, "default": nested}

    with pytest.raises(InvalidRequest, match="10000 schemas in all"):
        schema_of(schema)
