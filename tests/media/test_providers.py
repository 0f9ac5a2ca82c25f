"""Media on the wire: strict doubles take what we send, and what they bill stays below what was held."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Limits
from artelier.testing.openai_server import OpenAIServer
from artelier.testing.providers import StrictAnthropic, StrictOpenAIChat, StrictOpenAIResponses
from artelier.testing.providers.bills import StrictProvider
from tests.kernel.stage import events, play
from tests.media.samples import jpeg, pdf, png
from tests.media.test_calls import show

CASES: list[tuple[type[Any], str]] = [
    (StrictAnthropic, "anthropic:claude-sonnet-4-6"),
    (StrictOpenAIChat, "openai-chat:gpt-4o"),
    (StrictOpenAIResponses, "openai-responses:gpt-4o"),
]


def environ(server: OpenAIServer) -> dict[str, str]:
    return {
        "OPENAI_API_KEY": "test",
        "OPENAI_BASE_URL": server.base_url,
        "ANTHROPIC_API_KEY": "test",
        "ANTHROPIC_BASE_URL": server.base_url.removesuffix("/v1"),
    }


def call(folder: Path, double: StrictProvider, model: str, *contents: bytes) -> list[Any]:
    """Ask about some media; the events of the run."""

    async def main() -> list[Any]:
        async with OpenAIServer(double) as server:
            with Kernel.open(folder / "s.db", environ=environ(server)) as kernel:
                async with kernel.run("r", limits=Limits(usd="5")) as run:
                    parts = [await run.attach(content) for content in contents]
                    result = await run.step_model(model=model, messages=show(*parts))
                    assert result.text == "seen"
                return [one.decode() for one in await events(kernel, "r")]

    return play(main())


@pytest.mark.parametrize(("double", "model"), CASES)
def test_images_and_pdfs_arrive_and_the_bill_is_within_the_hold(
    tmp_path: Path, double: Any, model: str
) -> None:
    strict = double(["seen"])

    told = call(tmp_path, strict, model, png(2_000, 1_500), jpeg(640, 480), pdf("Revenue", "Costs"))

    assert strict.refusals == []
    (bill,) = strict.bills
    assert bill.input_tokens > 2_000
    requested = next(one for one in told if one.KIND == "model.requested")
    completed = next(one for one in told if one.KIND == "model.completed")
    assert completed.input_tokens == bill.input_tokens
    assert 0 < completed.cost <= requested.postings[0].amount
    assert not completed.suspicious and completed.not_sent == ()


def block(data: str, media_type: str = "image/png", kind: str = "image") -> dict[str, Any]:
    return {"type": kind, "source": {"type": "base64", "media_type": media_type, "data": data}}


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([block(encoded(png(9_000, 1)))], "8000 pixels"),
        ([block(encoded(png(3_000, 1)))] * 21, "2000 pixels"),
        ([block(encoded(png()))] * 101, "at most 100 images"),
        ([block(encoded(jpeg()))], "does not match the provided media type image/png"),
        ([block("?")], "valid base64"),
        ([block(encoded(b"hello"))], "Could not process image"),
        ([block(encoded(pdf("a", password="x")), "application/pdf", "document")], "password protected"),
        ([block(encoded(pdf(*["a"] * 101)), "application/pdf", "document")], "maximum of 100 PDF pages"),
        ([block(encoded(png()), "image/png", "document")], "is not supported"),
        ([{"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}], "'base64'"),
    ],
)
def test_the_double_of_anthropic_refuses_what_the_api_refuses(content: list[Any], words: str) -> None:
    strict = StrictAnthropic(["never"])

    strict(
        {"model": "claude-sonnet-4-6", "max_tokens": 99, "messages": [{"role": "user", "content": content}]}
    )

    assert words in strict.refusals[0]


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}, "data URL"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}}, "Could not process"),
        ({"type": "file", "file": {"file_data": "data:application/pdf;base64,"}}, "filename"),
    ],
)
def test_the_double_of_openai_refuses_what_the_api_refuses(part: dict[str, Any], words: str) -> None:
    strict = StrictOpenAIChat(["never"])

    strict({"model": "gpt-4o", "messages": [{"role": "user", "content": [part]}]})

    assert words in strict.refusals[0]


def test_a_smaller_image_than_a_tile_costs_a_tile() -> None:
    strict = StrictOpenAIChat(["seen"])
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{encoded(png(10, 10))}"}}

    strict({"model": "gpt-4o", "messages": [{"role": "user", "content": [part]}]})

    assert 255 <= strict.bills[0].input_tokens < 280
