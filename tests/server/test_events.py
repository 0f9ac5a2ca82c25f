"""Events on the wire: pages, filters, texts that people may read, and none of another tenant."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from artelier.kernel.events import ToolCompleted
from artelier.log import BlobRef, Event, Stream, registered
from artelier.operations.profile.definition import HOOKS
from artelier.server.event_encoder import TEXT_CHARS_MAX, TEXTS, Encoder, shorten_content
from tests.server.house import House, asking, assert_fault, house, spoken


async def page(home: House, **wanted: Any) -> dict[str, Any]:
    answer = await home.client.get("/api/v1/events", params=wanted)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_pages_give_every_event_once_and_in_order(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path, "one", "two") as home:
            await spoken(home.kernel, "m1", "first", "second")
            stored = [event async for event in home.kernel.events()]
            after, seen = 0, list[dict[str, Any]]()
            while after is not None:
                found = await page(home, after=after, limit=3)
                assert len(found["items"]) <= 3
                seen += found["items"]
                after = found["next"]
            assert [one["position"] for one in seen] == [one.position for one in stored]
            assert found["head"] == stored[-1].position
            for shown, event in zip(seen, stored, strict=True):
                assert (shown["stream"], shown["seq"], shown["kind"], shown["data"]) == (
                    event.stream.local,
                    event.seq,
                    event.kind,
                    event.plain(),
                )

    asyncio.run(scenario())


def test_a_prefix_is_an_id_with_all_below_it_and_the_tenant(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home:
            for run_id in ("m1", "m1/figures", "m12", "m2", "m1::sub::1"):
                await asking(home.kernel, run_id)
            found = await page(home, prefix="m1")
            streams = {one["stream"] for one in found["items"]}
            assert streams == {"tenant:default", "run:m1", "run:m1/figures", "run:m1::sub::1"}
            kinds = await page(home, prefix="m1", kind=["run.started", "approval.requested"])
            assert {one["kind"] for one in kinds["items"]} == {"run.started", "approval.requested"}
            below = (await home.client.get("/api/v1/runs/m1/events")).json()["items"]
            assert below == found["items"]

    asyncio.run(scenario())


def test_texts_are_sent_along_for_the_fields_that_are_listed_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path, "a private reply") as home:
            await spoken(home.kernel, "said", "a private prompt")
            await asking(home.kernel, "m1")
            await home.client.post("/api/v1/runs/m1/inject", json={"note": "n" * 5000})
            found = await page(home)
            by_kind = {one["kind"]: one for one in found["items"]}
            assert '"question":"Send it?"' in by_kind["approval.requested"]["texts"]["question"]
            note = by_kind["note.injected"]["texts"]["text"]
            assert len(note) == TEXT_CHARS_MAX and note.endswith("n…")
            everything = str(found)
            assert "private" not in everything
            for one in found["items"]:
                assert set(one["texts"]) <= set(TEXTS.get(one["kind"], ()))

    asyncio.run(scenario())


def test_what_an_operation_s_tool_said_is_not_sent(tmp_path: Path) -> None:
    """It may be the value of an artifact that people must not see; an agent's own tools are shown."""

    async def scenario() -> None:
        async with house(tmp_path) as home:
            await asking(home.kernel, "m1")
            found = [event async for event in home.kernel.events()]
            question = next(one for one in found if one.kind == "approval.requested")
            ref = BlobRef(question.plain()["question"])
            encoder = Encoder(home.kernel.store, "default")
            for position, (key, is_shown) in enumerate(
                [("c1/tools/1", True), *((f"{hook}/lookup/tool", False) for hook in HOOKS)], start=99
            ):
                event = _tool_event(question, key, ref, position=position)
                wire = await encoder.encode(event)
                assert (b"Send it" in wire.body) is is_shown
            inside = _tool_event(question, "c1/tools/1", ref, position=200, local="session:chat")
            wire = await encoder.encode(inside)
            assert b"Send it" not in wire.body

    asyncio.run(scenario())


def _tool_event(like: Event, key: str, ref: BlobRef, *, position: int, local: str = "run:m1") -> Event:
    from artelier.log.event import encode_data

    return Event(
        stream=Stream("default", "main", local),
        seq=9,
        kind="tool.completed",
        version=1,
        data=encode_data(ToolCompleted(key=key, result=ref)),
        at_us=1,
        actor="kernel",
        cause=None,
        prev_hash=like.prev_hash,
        hash=like.hash,
        position=position,
    )


def test_the_list_of_texts_names_fields_that_there_are_and_none_of_a_session() -> None:
    schemas = {kind: cls for (kind, _), cls in sorted(registered().items())}
    for kind, fields in TEXTS.items():
        assert kind in schemas, kind
        assert set(fields) <= set(schemas[kind].__struct_fields__), kind
        assert not kind.startswith(("session.", "variant.", "turn.", "chat.", "commit."))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b'"quoted \\u00fc"', "quoted ü"),
        (b'{"a":1}', '{"a":1}'),
        (b"plain", "plain"),
        (b'"broken', '"broken'),
        (b"\xff\xfe", "��"),
        ("ü".encode() * 5000, "ü" * (TEXT_CHARS_MAX - 1) + "…"),
        (b'"' + b"x" * 100_000 + b'"', '"' + "x" * (TEXT_CHARS_MAX - 2) + "…"),
    ],
)
def test_texts_have_a_bounded_length_whatever_the_content(content: bytes, text: str) -> None:
    assert shorten_content(content) == text


@pytest.mark.parametrize("wanted", [{"after": -1}, {"after": 2**60}, {"limit": 0}, {"limit": 10**9}])
def test_a_page_out_of_bounds_is_refused(tmp_path: Path, wanted: dict[str, int]) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home:
            answer = await home.client.get("/api/v1/events", params=wanted)
            assert_fault(answer, 422, "invalid_request")

    asyncio.run(scenario())


def test_each_event_is_encoded_once_for_all_clients(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home:
            await asking(home.kernel, "m1")
            encoder = Encoder(home.kernel.store, "default")
            one = [await encoder.encode(e) for e in await encoder.read(after=0, limit=100)]
            two = [await encoder.encode(e) for e in await encoder.read(after=0, limit=100)]
            assert encoder.encoded == len(one)
            assert all(a is b for a, b in zip(one, two, strict=True))

    asyncio.run(scenario())


def test_names_of_agents_and_titles_are_told_and_private_ones_are_not(tmp_path: Path) -> None:
    """Content goes along only for what describes itself, and nothing of what people may not read."""

    async def scenario() -> None:
        async with house(tmp_path) as home:
            mine = home.desk.as_principal("operator").artifacts
            theirs = home.desk.as_principal("m1/analyst").artifacts
            role = {"name": "Analyst", "role": "x" * 5_000}
            await mine.write("m1/analyst", kind="agent", content=role)
            await mine.write("m1/notes", kind="document", content="the notes", metadata={"title": "Notes"})
            await theirs.write(
                "m1/diary",
                kind="document",
                content="a secret",
                access="private",
                metadata={"title": "Secret title"},
            )

            events = (await page(home, kind="artifact.written"))["items"]

            told = {one["data"]["id"]: one["texts"] for one in events}
            agent = json.loads(told["m1/analyst"]["content"])
            assert agent["name"] == "Analyst" and agent["role"].endswith("…")
            assert json.loads(told["m1/notes"]["metadata"]) == {"title": "Notes"}
            assert "content" not in told["m1/notes"]
            assert told["m1/diary"] == {}

    asyncio.run(scenario())


def test_json_that_is_too_long_is_cut_to_json() -> None:
    plan = {"tasks": [{"goal": "g" * 900, "n": n} for n in range(200)]}

    text = shorten_content(json.dumps(plan).encode())

    assert len(text) <= 4 * TEXT_CHARS_MAX
    assert json.loads(text)["tasks"][0]["goal"].endswith("…")
