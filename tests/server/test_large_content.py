"""Large content from outside: searched for personal data off the event loop, bounded before it is parsed."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from base64 import b64decode
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier import Kernel
from artelier.artifacts import json_items
from artelier.artifacts.json_items import FILE_ITEMS_MAX, ITEMS_MAX, PIECE_BYTES, SLOW_ITEMS
from artelier.kernel import Policy
from artelier.pii.scrubber_registry import END_CHARS, MARGIN_CHARS, redact_output, watch
from artelier.pii.search_processes import INLINE_CHARS_MAX
from artelier.ports.pii import DetectedValue
from artelier.server.errors import TooLarge
from artelier.server.routes.uploads import JSON_ITEMS_MAX
from artelier.server.security import connection_limits
from artelier.server.security.connection_limits import may_hold_placeholders
from artelier.testing import ScriptedModel
from artelier.threads import content_owner, run_in_content_thread
from tests.server.house import House, house
from tests.server.test_personal import KEY

SIZE = 300_000
"""Characters of the inputs: some times what is searched at once. What is true of them is true of 64 MiB."""

HOSTILE = {
    "digits of cards": "4111111111111111 " * (SIZE // 17),
    "pairs of zeros": "00 " * (SIZE // 3),
    "integers": json.dumps(list(range(4_000_000_000_000_000, 4_000_000_000_000_000 + SIZE // 18))),
    "nested arrays": "[" * (SIZE // 2) + "]" * (SIZE // 2),
    "escapes": "\\" * SIZE,
    "openings of placeholders": "<A" * (SIZE // 2),
}


class Spy:
    """A detector that notes on which threads it is given large texts, and finds one word."""

    kind = "WORD"

    def __init__(self) -> None:
        self.threads: list[int] = []

    def find(self, text: str, /) -> Iterable[DetectedValue]:
        if len(text) > INLINE_CHARS_MAX:
            self.threads.append(threading.get_ident())
        at = text.find("needle")
        return [DetectedValue(at, at + 6, self.kind, "needle")] if at >= 0 else []


def spied(folder: Path, spy: Spy) -> Policy:
    return Policy(pii=True, detectors=(spy,), backoff_s=0)


async def upload(made: House, name: str, content: str | bytes) -> dict[str, object]:
    data = content.encode() if isinstance(content, str) else content
    answer = await made.client.post("/api/v1/uploads", files=[("file", (name, data))])
    assert answer.status_code == 201, answer.text
    return answer.json()["items"][0]


@pytest.mark.parametrize("name", ["a.txt", "a.json"])
@pytest.mark.parametrize("sort", HOSTILE)
def test_an_upload_is_never_searched_on_the_event_loop(tmp_path: Path, sort: str, name: str) -> None:
    async def scenario() -> None:
        spy = Spy()
        async with house(tmp_path, policy=spied(tmp_path, spy), environ=KEY) as made:
            item = await upload(made, name, HOSTILE[sort] + " needle")
            shown = await made.client.get(f"/api/v1/artifacts/{str(item['id']).replace('/', '%2F')}")
            assert "needle" not in shown.text
            assert "<WORD_" in shown.text
        assert spy.threads
        assert threading.get_ident() not in spy.threads

    asyncio.run(scenario())


def test_bodies_of_requests_are_never_searched_on_the_event_loop(tmp_path: Path) -> None:
    async def scenario() -> None:
        text = "needle " + "4111111111111111 " * 5_500
        spy = Spy()
        async with house(tmp_path, policy=spied(tmp_path, spy), environ=KEY) as made:
            client = made.client
            for path, body in (
                ("artifacts", {"id": "a", "kind": "document", "content": text}),
                ("artifacts", {"id": "b", "kind": "document", "content": {"a": [text]}}),
                ("sessions", {"id": "c1", "greetings": [text]}),
            ):
                answer = await client.post(f"/api/v1/{path}", json=body)
                assert answer.status_code in (201, 202), (path, answer.text[:300])
                assert threading.get_ident() not in spy.threads, path

    asyncio.run(scenario())


def test_json_that_makes_too_many_items_stays_the_text_that_it_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as made:
            small = await upload(made, "small.json", "[" + "1," * 10 + "1]")
            many = await upload(made, "many.json", "[" + "1," * JSON_ITEMS_MAX + "1]")
            deep = await upload(made, "deep.json", "[" * 50_000 + "]" * 50_000)
            assert [one["media"] for one in (small, many, deep)] == ["json", "text", "text"]

    asyncio.run(scenario())


REFUSED = {
    "integers": b"[" + b"1," * 100_000 + b"1]",
    "fields": b"{" + b",".join(b'"%d":1' % n for n in range(90_000)) + b"}",
    "brackets": b"[" * 100_000,
    "behind an escaped quote": b'["\\\\\\"", ' + b"1," * 100_000 + b"1]",
    "in another encoding": ("[" + "1," * 100_000 + "1]").encode("utf-16"),
}


@pytest.mark.parametrize("sort", REFUSED)
def test_a_body_of_too_many_items_is_refused_before_it_is_parsed(tmp_path: Path, sort: str) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as made:
            body = REFUSED[sort]
            if "another" not in sort:
                body = b'{"id": "a", "kind": "document", "content": ' + body + b"}"
            answer = await made.client.post(
                "/api/v1/artifacts", content=body, headers={"content-type": "application/json"}
            )
            error = answer.json()["error"]
            assert (answer.status_code, error["code"]) == (413, "too_large")
            assert f"{ITEMS_MAX:,}" in error["expected"]
            assert int(error["got"].replace(",", "")) > ITEMS_MAX
            assert "uploads" in error["hint"]

    asyncio.run(scenario())


@given(st.lists(st.sampled_from(["\\", '"', ",", "[", "{", "a"])).map("".join), st.integers(2, 9))
def test_items_are_counted_alike_however_a_body_is_cut(text: str, piece_bytes: int) -> None:
    outside = text.replace("\\\\", "").replace('\\"', "").split('"')[::2]
    expected = sum(sign in ",[{" for sign in "".join(outside))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_items, "PIECE_BYTES", piece_bytes)
        most = (text.count('"') + 1) // 4  # JSON of so many quotes may have no fewer
        found = json_items.count_items(text.encode(), most=most)
        assert found == expected if found > most else expected <= found


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-32-be"])
@pytest.mark.parametrize("sign", ["<", "\\u003c", "\\u003C"])
def test_a_placeholder_is_seen_wherever_it_stands_in_a_large_body(sign: str, encoding: str) -> None:
    async def main() -> None:
        written = sign.encode(encoding)
        for before in range(PIECE_BYTES - len(written) - 1, PIECE_BYTES + 1):
            body = b"a" * before + written + b"a" * 40
            assert await may_hold_placeholders(body), before
        assert not await may_hold_placeholders(b"a" * (PIECE_BYTES * 2 + 1))

    asyncio.run(main())


@pytest.mark.parametrize(
    "text", ["1," * 200_000, "[" * 200_000, '"{,' * 100_000, "\\[" * 100_000, "\\", '\\",' * 60_000]
)
def test_a_text_is_one_item_whatever_stands_in_it(tmp_path: Path, text: str) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as made:
            wanted = {"id": "a", "kind": "document", "content": [text, "another, one"]}
            answer = await made.client.post("/api/v1/artifacts", json=wanted)
            assert answer.status_code == 201, answer.text[:300]
            assert answer.json()["content"] == [text, "another, one"]

    asyncio.run(scenario())


def test_a_reply_and_the_prompt_and_result_that_it_is_in_are_never_searched_on_the_event_loop(
    tmp_path: Path,
) -> None:
    text = "4111 1111 1111 1112 " * 5_000 + "needle"

    async def scenario() -> None:
        spy = Spy()
        kernel = Kernel.open(
            tmp_path / "k.db",
            models={"m": ScriptedModel([text, "done"])},
            environ=KEY,
            policy=spied(tmp_path, spy),
        )
        async with kernel.run("r") as run:
            reply = await run.step_model(model="m", messages=[{"role": "user", "content": "Go."}])
            assert "<WORD_" in reply.text
            said = run.conversation()
            said.append({"role": "user", "content": "Go."})
            said.append(reply)
            await run.step_model(model="m", messages=said)
            run.finish(text)
        await kernel.aclose()
        assert spy.threads
        assert threading.get_ident() not in spy.threads

    asyncio.run(scenario())


def test_an_error_that_repeats_a_megabyte_is_cut_before_it_is_searched(tmp_path: Path) -> None:
    sizes: list[int] = []

    class Sizes(Spy):
        def find(self, text: str, /) -> Iterable[DetectedValue]:
            sizes.append(len(text))
            return super().find(text)

    async def scenario() -> None:
        async with house(tmp_path, environ=KEY, policy=spied(tmp_path, Sizes())) as made:
            sizes.clear()
            cap = f"{'4111 1111 1111 1112 ' * 40_000}needle"
            answer = await made.client.post("/api/v1/runs/any/limit", json={"unit": "usd", "cap": cap})

            assert answer.status_code == 422
            assert len(answer.text) < 40_000
            assert "needle" not in answer.text
            assert "of 800,0" in answer.text

    asyncio.run(scenario())
    assert max(sizes, default=0) <= END_CHARS + MARGIN_CHARS


@pytest.mark.parametrize("at", range(END_CHARS - 8, END_CHARS + MARGIN_CHARS + 8, 13))
def test_no_part_of_a_value_is_left_where_long_words_are_cut(at: int) -> None:
    class Words:
        def redact(self, text: str) -> str:
            return text.replace("needle", "<WORD>")

    marker = Words()
    watch(marker)
    for text in (f"{'.' * at}needle{'.' * 20_000}", f"{'.' * 20_000}needle{'.' * at}"):
        shown = redact_output(text)

        assert not set(shown.replace("<WORD>", "").replace("of 2", "").replace("characters", "")) & set(
            "nedl"
        )
        assert len(shown) < 2 * END_CHARS + 100


def test_large_content_is_read_by_one_thread_however_much_comes_at_once() -> None:
    """Five threads that computed made the event loop wait for five turns, 400 ms for a request of others."""
    at_work, seen = set[int](), list[int]()

    def read(number: int) -> int:
        at_work.add(number)
        time.sleep(0.01)
        seen.append(len(at_work))
        at_work.discard(number)
        return number

    async def main() -> None:
        found = await asyncio.gather(*(run_in_content_thread(1, read, number) for number in range(8)))
        assert found == list(range(8)) and seen == [1] * 8
        with pytest.raises(ValueError, match="base64"):
            await run_in_content_thread(1, b64decode, "a")

    asyncio.run(main())


def test_users_take_turns_by_the_size_of_what_is_read() -> None:
    read, go = list[str](), threading.Event()

    def wait() -> None:
        go.wait(60)

    async def main() -> None:
        async def ask(owner: str, size_bytes: int) -> None:
            content_owner.set(owner)
            await run_in_content_thread(size_bytes, read.append, f"{owner}{size_bytes}")

        first = asyncio.create_task(run_in_content_thread(0, wait))
        await asyncio.sleep(0)
        asked = [asyncio.create_task(ask("a", size)) for size in (9, 9, 1, 9)]
        asked += [asyncio.create_task(ask("b", size)) for size in (5, 5)]
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(first, *asked)
        assert read == ["b5", "a9", "b5", "a9", "a1", "a9"]

    asyncio.run(main())


def test_a_body_of_quotes_is_refused_where_its_texts_alone_are_too_many() -> None:
    """Thirty million of them took 0.96 s of the thread that reads the bodies of all."""
    body = b"[" * (ITEMS_MAX + 1) + b'"' * (4 * PIECE_BYTES)
    with pytest.raises(TooLarge) as refused:
        asyncio.run(connection_limits.check_items(body))
    assert ITEMS_MAX < int(str(refused.value.got).replace(",", "")) < PIECE_BYTES, "it is not read to its end"


def test_as_many_texts_as_a_body_can_have_are_read() -> None:
    body = json.dumps({str(number): "" for number in range(ITEMS_MAX)}).encode()
    asyncio.run(connection_limits.check_items(body))
    with pytest.raises(TooLarge):
        asyncio.run(connection_limits.check_items(body[:-1] + b',"":""}'))


def test_what_has_not_begun_is_not_read_for_a_client_that_has_gone() -> None:
    began, go = list[int](), threading.Event()

    def read(number: int) -> None:
        began.append(number)
        go.wait(60)

    async def main() -> None:
        asked = [asyncio.create_task(run_in_content_thread(1, read, number)) for number in range(3)]
        while not began:
            await asyncio.sleep(0.001)
        asked[1].cancel()
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(*asked, return_exceptions=True)
        assert began == [0, 2]

    asyncio.run(main())


def test_a_picture_has_no_items() -> None:
    """A card with a picture of 6 MB was refused for 70,285 commas and brackets in it."""
    body = b"\x89PNG\r\n\x1a\n" + b"," * (ITEMS_MAX + 1)
    asyncio.run(connection_limits.check_items(body))


LONG = b"7." + b"0123456789" * 75 + b"e-324"
"""As long as a number that lies halfway between two floats."""


@pytest.mark.parametrize("number", [b"5e-324", b"1.5E+300", LONG], ids=["tiny", "large", "long"])
def test_numbers_that_are_slow_to_read_count_for_more(number: bytes) -> None:
    """33 MB of long ones were one call of 1.5 s that no other thread could come between."""
    count = json_items.count_items(b"[" + (number + b",") * 100 + b"1]")
    assert 101 + 100 * SLOW_ITEMS <= count <= 102 + 100 * SLOW_ITEMS * 24
    texts = json.dumps([number.decode() * 400] * 120 + [0.1] * ITEMS_MAX).encode()
    assert json_items.count_items(texts) == ITEMS_MAX + 120, "in texts they are none"
    asyncio.run(connection_limits.check_items(b"[" + (number + b",") * 80 + b"1]"))
    with pytest.raises(TooLarge, match="items"):
        asyncio.run(connection_limits.check_items(b"[" + (number + b",") * 3_000 + b"1]"))


def test_texts_hide_no_items_from_a_larger_limit() -> None:
    """Behind 100,000 texts none were looked for, and ten million lists were taken for 50,005 items."""
    body = b"[" + b'"",' * 100_010 + b"[]," * FILE_ITEMS_MAX + b"1]"
    assert json_items.count_items(body, most=FILE_ITEMS_MAX) > FILE_ITEMS_MAX
