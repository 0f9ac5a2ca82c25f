"""What becomes of a server's answer: data and text whole, bytes by their size."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from mcp import types

from artelier.ports.media import ATTACHMENTS_MAX, MEDIUM_BYTES_MAX
from artelier.tools.mcp.tool import error_text, result_media, value_of
from tests.media.samples import png

TEXT = types.TextContent(type="text", text="hello")
BLOB = base64.b64encode(bytes(1_000)).decode()


def result(*content: Any, **facts: Any) -> types.CallToolResult:
    return types.CallToolResult(content=list(content), **facts)


ANSWERS: list[tuple[types.CallToolResult, Any]] = [
    (result(), None),
    (result(TEXT), "hello"),
    (result(structured_content={"n": 1}), {"n": 1}),
    (result(TEXT, structured_content={"n": 1}), {"n": 1}),
    (result(TEXT, TEXT), {"content": [{"type": "text", "text": "hello"}, {"type": "text", "text": "hello"}]}),
    (
        result(types.AudioContent(type="audio", data=BLOB, mime_type="audio/wav")),
        {"content": [{"type": "audio", "mime_type": "audio/wav", "size_bytes": 1_000, "note": "left out"}]},
    ),
    (
        result(types.ResourceLink(type="resource_link", uri="file:///a", name="a", size=3)),
        {"content": [{"type": "resource_link", "uri": "file:///a", "name": "a", "size_bytes": 3}]},
    ),
    (
        result(
            types.EmbeddedResource(
                type="resource", resource=types.TextResourceContents(uri="x://a", text="inside")
            ),
            structured_content=[1],
        ),
        {"content": [{"type": "resource", "uri": "x://a", "text": "inside"}], "structured": [1]},
    ),
    (
        result(
            types.EmbeddedResource(
                type="resource", resource=types.BlobResourceContents(uri="x://b", blob=BLOB)
            )
        ),
        {"content": [{"type": "resource", "uri": "x://b", "size_bytes": 1_000, "note": "left out"}]},
    ),
]


@pytest.mark.parametrize(("answer", "value"), ANSWERS)
def test_an_answer_becomes_data_that_a_model_can_read(answer: types.CallToolResult, value: Any) -> None:
    assert value_of(answer) == value


def test_pieces_are_bounded_and_counted() -> None:
    value: Any = value_of(result(*[TEXT] * 5_000))

    assert len(value["content"]) == 1_000
    assert value["pieces"] == 5_000


def test_the_text_of_a_failure_is_cleaned_and_bounded() -> None:
    smuggled = types.TextContent(type="text", text="no\u202e \x1b[31mway" + "x" * 100_000)

    said = error_text(result(smuggled, is_error=True))

    assert said.startswith("no [31mwayxxx")
    assert len(said) == 4_000
    assert error_text(result(is_error=True)) == "the tool says no more"


def image(content: bytes, mime_type: str = "image/png") -> types.ImageContent:
    return types.ImageContent(type="image", data=base64.b64encode(content).decode(), mime_type=mime_type)


@pytest.mark.parametrize(
    ("piece", "why"),
    [
        (image(png() + bytes(MEDIUM_BYTES_MAX)), "this is too large to be sent to a model"),
        (image(png(), "image/gif"), "this is another type of medium than is said"),
        (image(png()[:-6]), "this PNG is broken: it breaks off"),
        (image(b""), "this is no image, sound, PDF or text that a model takes"),
        (types.ImageContent(type="image", data="!", mime_type="image/png"), "it is no base64"),
    ],
)
def test_a_piece_that_cannot_be_shown_says_why(piece: types.ImageContent, why: str) -> None:
    answer = result(image(png()), piece)

    media = asyncio.run(result_media(answer))

    assert [one.content for one in media.facts] == [png()]
    assert media.notes == {0: "shown as attachment 1", 1: f"left out: {why}"}
    value: Any = value_of(answer, media.notes)
    assert [one["note"] for one in value["content"]] == list(media.notes.values())


def test_one_result_shows_no_more_than_a_request_may_come_with() -> None:
    media = asyncio.run(result_media(result(*[image(png())] * (ATTACHMENTS_MAX + 1))))

    assert len(media.facts) == ATTACHMENTS_MAX
    assert media.notes[ATTACHMENTS_MAX].startswith("left out")
