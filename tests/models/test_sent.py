"""What was sent is on record: the adapter's version, a hash of the HTTP body, every parameter left out."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, ModelReply
from artelier.errors import ArtelierError
from artelier.models.params import dropped_of
from artelier.testing import ScriptedModel
from artelier.testing.openai_server import Fault, OpenAIServer

from .wire_requests import port

ASKED = {"temperature": 0.25, "top_p": 0.5, "seed": 7, "max_output_tokens": 77}


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(
    ("model", "left_out"), [("openai:gpt-4o-mini", ()), ("openai:gpt-5-mini", ("temperature", "top_p"))]
)
def test_a_manifest_says_what_was_sent_and_what_was_left_out(
    tmp_path: Path, model: str, left_out: tuple[str, ...], is_streamed: bool
) -> None:
    async def scenario() -> None:
        async with OpenAIServer(["good day"], repeat_last=True) as server:
            models = {model: port(server, model)}
            with Kernel.open(tmp_path / "s.db", models=models, environ={}) as kernel:
                runs = kernel.for_tenant()
                for name in ("r", "same", "other"):
                    async with runs.run(name) as run:
                        said = "hello" if name != "other" else "good night"
                        await _ask(run, model, said, is_streamed=is_streamed)
                found = [await runs.manifest(name, "a") for name in ("r", "same", "other")]

                assert {one.not_sent for one in found} == {left_out}
                expected = f"artelier {version('artelier')}, pydantic-ai {version('pydantic-ai-slim')}"
                assert {one.adapter for one in found} == {expected}
                assert found[0].body == found[1].body != found[2].body
                assert found[0].body.startswith("h:") and found[0].body != found[0].request
            assert len(server.requests) == 3

    asyncio.run(scenario())


def test_a_refused_call_says_what_was_sent_and_one_that_sends_nothing_says_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with OpenAIServer([Fault.status(400)]) as server:
            models = {"openai:gpt-4o-mini": port(server, "openai:gpt-4o-mini"), "s": ScriptedModel(["hi"])}
            with Kernel.open(tmp_path / "s.db", models=models, environ={}) as kernel:
                runs = kernel.for_tenant()
                with pytest.raises(ArtelierError):
                    async with runs.run("r") as run:
                        await _ask(run, "openai:gpt-4o-mini", "hello", is_streamed=False)
                async with runs.run("s") as run:
                    await _ask(run, "s", "hello", is_streamed=False)
                refused, scripted = await runs.manifest("r", "a"), await runs.manifest("s", "a")

                assert refused.body.startswith("h:") and "artelier" in refused.adapter
                assert (scripted.adapter, scripted.body, scripted.not_sent) == ("", "", ())

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("params", "body", "expected"),
    [
        ({"max_output_tokens": 5}, b'{"max_completion_tokens": 5}', ()),
        ({"top_k": 3, "seed": 1}, b'{"generationConfig": {"topK": 3}}', ("seed",)),
        ({"seed": 1}, b'{"messages": [{"seed": 1}], "tools": {"seed": 1}}', ("seed",)),
        ({"stop": None, "timeout_s": 3}, b"{}", ()),
        ({"seed": 1}, b"no json", ("seed",)),
    ],
)
def test_a_parameter_counts_as_sent_only_where_the_body_has_a_setting_of_its_name(
    params: dict[str, Any], body: bytes, expected: tuple[str, ...]
) -> None:
    assert dropped_of(params, body) == expected


async def _ask(run: Any, model: str, text: str, *, is_streamed: bool) -> None:
    call = {"model": model, "messages": [{"role": "user", "content": text}], "key": "a", **ASKED}
    if not is_streamed:
        await run.step_model(**call)
        return
    async for item in run.stream_model(**call):
        assert not isinstance(item, ModelReply)
