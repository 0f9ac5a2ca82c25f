"""Stored content that is read for a user: it has room while its answer lasts, and goes out in pieces."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from artelier.artifacts import space_session
from artelier.artifacts.content import LeftOut
from artelier.errors import Erased, TooManyAtOnce
from artelier.ids import OPERATOR
from artelier.kernel.export import writer
from artelier.kernel.export.archive import ArchiveWriter
from artelier.kernel.prompt import renderer
from artelier.log import Store
from artelier.ports.media import CALL_BYTES_MAX
from artelier.ports.model import ModelRequest
from artelier.server.routes import artifacts as routes
from artelier.server.routes import missions, uploads
from artelier.server.security.guard import ANSWER_PIECE_BYTES
from artelier.server.security.held_bodies import (
    FREE_BYTES,
    USER_LARGEST,
    HeldBodies,
    StoredContents,
    reserve_content,
)
from artelier.server.wire.artifacts import INLINE_BYTES_MAX
from artelier.tenant_kernel import TenantKernel
from tests.server.house import ADDRESS, House, house, on_a_port, until

LARGE = INLINE_BYTES_MAX + 1


@asynccontextmanager
async def reading(folder: Path) -> AsyncIterator[tuple[House, list[int]]]:
    """A house, and the sizes of the contents above `FREE_BYTES` that were read in it."""
    sizes: list[int] = []
    async with house(folder) as made:
        store = made.kernel.store
        read: Callable[[str, bytes], Awaitable[bytes]] = store.blob

        async def blob(tenant: str, name: bytes) -> bytes:
            content = await read(tenant, name)
            if len(content) > FREE_BYTES:
                sizes.append(len(content))
            return content

        store.blob = blob  # type: ignore[method-assign] - counted, and read all the same
        yield made, sizes


async def keep(made: House, id: str, content: Any) -> None:
    await made.desk.as_principal(OPERATOR).artifacts.write(id, kind="document", content=content)


async def contents_of(store: Store, id: str) -> list[str]:
    rows = await store.query("SELECT content FROM artifact_versions WHERE id = ? ORDER BY version", (id,))
    return [ref for (ref,) in rows]


def test_content_that_an_answer_leaves_out_is_not_read(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reading(tmp_path) as (made, sizes):
            await keep(made, "large", "x" * LARGE)
            await keep(made, "shown", "y" * (INLINE_BYTES_MAX - 1))

            shown = (await made.client.get("/api/v1/artifacts/large")).json()
            read = (await made.client.post("/api/v1/artifacts/large/read", json={})).json()
            assert shown == read
            assert (shown["content"], shown["is_cut"], shown["media"]) == (None, True, "text")
            assert shown["size_bytes"] == LARGE and sizes == []

            shown = (await made.client.get("/api/v1/artifacts/shown")).json()
            assert len(shown["content"]) == sizes[0] == INLINE_BYTES_MAX - 1 and not shown["is_cut"]

    asyncio.run(scenario())


def test_a_change_of_other_things_neither_reads_content_nor_stores_it_again(tmp_path: Path) -> None:
    """Thirty of 60 MB at once took 2.6 GB."""

    async def scenario() -> None:
        async with reading(tmp_path) as (made, sizes):
            await keep(made, "large", "x" * LARGE)
            change = {"expected_version": 1, "metadata": {"a": "<B>"}, "access": "private"}
            changed = await made.client.patch("/api/v1/artifacts/large", json=change)
            assert changed.json()["metadata"] == {"a": "<B>"} and changed.json()["version"] == 2
            assert changed.json()["size_bytes"] == LARGE and sizes == []
            first, second = await contents_of(made.kernel.store, "large")
            assert first == second
            late = await made.client.patch("/api/v1/artifacts/large", json=change)
            assert (late.status_code, late.json()["error"]["code"]) == (409, "version_conflict")
            whole = await made.client.get("/api/v1/artifacts/large/content")
            assert whole.text == "x" * LARGE

            await keep(made, "small", {"a": [1]})
            changed = await made.client.patch("/api/v1/artifacts/small", json=change)
            assert changed.json()["content"] == {"a": [1]} and changed.json()["media"] == "json"

    asyncio.run(scenario())


def test_content_that_was_erased_is_not_that_of_a_new_version(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as made:
            artifacts = made.desk.as_principal(OPERATOR).artifacts
            await artifacts.about("anna").write("a", kind="document", content="Anna.")
            kept = await artifacts.amend("a", expected_version=1, metadata={"b": 1})
            assert kept.content == LeftOut(media="text", size_bytes=5)
            await made.desk.erase(subject="anna")
            with pytest.raises(Erased):
                await artifacts.amend("a", expected_version=2, metadata={"b": 2})

    asyncio.run(scenario())


def test_attachments_that_are_too_large_together_are_refused_unread(tmp_path: Path) -> None:
    """Forty turns with a reference to 60 MB took 2.6 GB."""

    async def scenario() -> None:
        async with reading(tmp_path) as (made, sizes):
            await keep(made, "half", b"x" * (CALL_BYTES_MAX // 2 + 1))
            await made.client.post("/api/v1/sessions", json={"id": "c", "model": "m"})
            said = {"text": "Look.", "attachments": ["half", "half"]}
            answer = await made.client.post("/api/v1/sessions/c/turns", json=said)
            assert answer.status_code == 422 and "too large together" in answer.text
            assert sizes == []

    asyncio.run(scenario())


def test_a_file_is_compared_only_with_one_as_large(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reading(tmp_path) as (made, sizes):

            async def upload(content: bytes) -> tuple[str, bool]:
                answer = await made.client.post("/api/v1/uploads", files=[("file", ("a.bin", content))])
                [item] = answer.json()["items"]
                return item["id"], item["is_new"]

            one, other = b"\0" * LARGE, b"\1" * (LARGE + 1)
            id, is_new = await upload(one)
            assert is_new and (await upload(other))[0] != id and sizes == []
            assert await upload(one) == (id, False)
            assert sizes == [LARGE]

    asyncio.run(scenario())


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


TEXT = "word \u00e9 " * 40_000

SLOW, SIZE = 6, 40_000_000


def test_readers_who_take_nothing_have_no_more_read_for_them_than_their_room(tmp_path: Path) -> None:
    """Forty of them, of 60 MB each, took 2 GB."""

    async def scenario() -> None:
        async with reading(tmp_path) as (made, sizes), on_a_port(made.app) as address:
            await keep(made, "large", b"x" * SIZE)
            cookie = "; ".join(f"{name}={value}" for name, value in made.client.cookies.items())
            port = int(address.rpartition(":")[2].strip("/"))
            writers: list[asyncio.StreamWriter] = []
            for _ in range(SLOW):
                _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
                head = (
                    f"GET /api/v1/artifacts/large/content HTTP/1.1\r\nHost: {ADDRESS[7:]}\r\nCookie: {cookie}"
                )
                writer.write(f"{head}\r\n\r\n".encode())
                writers.append(writer)
            try:
                await until(lambda: len(sizes) == 3)
                await asyncio.sleep(0.5)
                assert len(sizes) == 3, "those of 120 of 128 MiB"
                for writer in writers[:3]:
                    writer.transport.abort()
                await until(lambda: len(sizes) > 3)
            finally:
                for writer in writers:
                    writer.transport.abort()

    asyncio.run(scenario())


def test_a_large_answer_goes_out_in_pieces(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as made:
            await keep(made, "large", "x" * (2 * ANSWER_PIECE_BYTES + 1))
            cookie = "; ".join(f"{name}={value}" for name, value in made.client.cookies.items())
            for path, pieces in (("large/content", 3), ("large", 3)):
                seen: list[Any] = []
                headers = [(b"host", ADDRESS[7:].encode()), (b"cookie", cookie.encode())]
                raw = f"/api/v1/artifacts/{path}"
                scope = {
                    "type": "http",
                    "method": "GET",
                    "path": raw,
                    "raw_path": raw.encode(),
                    "query_string": b"",
                    "headers": headers,
                    "client": ("127.0.0.1", 5000),
                    "scheme": "http",
                }

                async def receive() -> Any:
                    return {"type": "http.request", "body": b"", "more_body": False}

                async def send(message: Any, seen: list[Any] = seen) -> None:
                    seen.append(message)

                await made.app(scope, receive, send)
                start, *bodies = seen
                assert start["status"] == 200
                sizes = [len(one["body"]) for one in bodies]
                assert len(sizes) == pieces and max(sizes) <= ANSWER_PIECE_BYTES
                assert sum(sizes) == int(dict(start["headers"])[b"content-length"])
                assert [one["more_body"] for one in bodies] == [True] * (pieces - 1) + [False]

    asyncio.run(scenario())


def test_a_large_prompt_has_room_and_is_put_together_beside_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight readers of a prompt of 8 MB held the loop for a second."""
    reserved: list[int] = []
    threads: dict[str, list[int]] = {}
    reserve = StoredContents.reserve

    async def spied(contents: StoredContents, size_bytes: int) -> None:
        reserved.append(size_bytes)
        await reserve(contents, size_bytes)

    def spy(place: Any, name: str) -> None:
        real = getattr(place, name)

        def called(*args: Any, **more: Any) -> Any:
            threads.setdefault(name, []).append(threading.get_ident())
            return real(*args, **more)

        monkeypatch.setattr(place, name, called)

    async def scenario() -> None:
        async with house(tmp_path, "A reply.") as made:
            async with made.desk.run("r") as run:
                await run.step_model(model="m", messages=[{"role": "user", "content": TEXT}])
                run.finish("done")
            [step] = (await made.client.get("/api/v1/runs/r/steps")).json()["items"]
            monkeypatch.setattr(StoredContents, "reserve", spied)
            for place, name in (
                (renderer, "decode_message"),
                (renderer, "compose"),
                (ModelRequest, "canonical"),
            ):
                spy(place, name)
            spy(renderer, "is_same_request")
            for path in ("prompt", "manifest"):
                reserved.clear()
                shown = await made.client.get(f"/api/v1/runs/r/{path}", params={"step": step["key"]})
                assert shown.status_code == 200 and sum(reserved) >= len(TEXT)
                assert path != "prompt" or shown.json()["messages"][0]["content"] == TEXT
            reserved.clear()
            both = {"a": step["key"], "b": step["key"]}
            assert (await made.client.get("/api/v1/runs/r/prompt/diff", params=both)).json()["diff"] == ""
            assert sum(reserved) >= 2 * len(TEXT)
        assert len(threads) == 4
        assert threading.get_ident() not in {one for found in threads.values() for one in found}

    asyncio.run(scenario())


def test_large_content_is_checked_and_packed_for_an_export_beside_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight exports of a run with a prompt of 8 MB held up others for 400 ms."""
    threads: list[int] = []

    def spy(place: Any, name: str) -> None:
        real = getattr(place, name)

        def called(*args: Any) -> Any:
            if len(args[-1]) > len(TEXT):
                threads.append(threading.get_ident())
            return real(*args)

        monkeypatch.setattr(place, name, called)

    async def scenario() -> None:
        async with house(tmp_path, "A reply.") as made:
            async with made.desk.run("r") as run:
                await run.step_model(model="m", messages=[{"role": "user", "content": TEXT}])
                run.finish("done")
            for place, name in ((writer, "name_blob"), (writer, "media_refs"), (ArchiveWriter, "write_blob")):
                spy(place, name)
            file = await made.client.get("/api/v1/runs/r/export")
            assert file.status_code == 200 and len(threads) >= 3
        assert threading.get_ident() not in threads

    asyncio.run(scenario())


def test_a_user_has_two_exports_written_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty exports of what holds 60 MB would read forty times as much at once."""
    writing, release = list[str](), asyncio.Event()
    export = TenantKernel.export_chat

    async def watched(self: TenantKernel, id: str, path: Path) -> Any:
        writing.append(id)
        await release.wait()
        return await export(self, id, path)

    monkeypatch.setattr(TenantKernel, "export_chat", watched)

    async def scenario() -> None:
        async with house(tmp_path) as made:
            await made.client.post("/api/v1/sessions", json={"id": "chat", "model": "offline"})
            path = "/api/v1/sessions/chat/export"
            asked = [asyncio.create_task(made.client.get(path)) for _ in range(6)]
            await until(lambda: len(writing) == 2)
            await asyncio.sleep(0.5)
            assert len(writing) == 2
            release.set()
            answers = await asyncio.gather(*asked)
            assert {answer.status_code for answer in answers} == {200} and len(writing) == 6

    asyncio.run(scenario())


def test_a_file_has_room_for_its_text_where_characters_are_wide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files of 62 MB with one emoji each took 1.4 GB: each of their characters takes four bytes."""
    reserved = list[int]()

    async def reserve(size_bytes: int) -> None:
        reserved.append(size_bytes)
        await reserve_content(size_bytes)

    monkeypatch.setattr(uploads, "reserve_content", reserve)

    async def scenario() -> None:
        async with house(tmp_path) as made:
            for text in ("x" * 100_000, "\U0001f600" + "x" * 100_000):
                sent = await made.client.post("/api/v1/uploads", files={"file": ("a.txt", text.encode())})
                assert sent.status_code == 201, sent.text

    asyncio.run(scenario())
    assert reserved == [0, 4 * 100_004]


def test_a_request_that_has_room_never_waits_for_more() -> None:
    """Two of them that did would wait for each other."""
    size = 2 * FREE_BYTES

    async def scenario() -> None:
        bodies = HeldBodies(largest_bytes=size, own_bytes=0)
        one, two, three = (StoredContents(partial(bodies.take_stored, "a")) for _ in range(3))
        await one.hold(size)
        await two.hold(size)
        more = asyncio.ensure_future(two.hold(size))
        await settle()
        assert more.done() and isinstance(more.exception(), TooManyAtOnce)
        waiting = asyncio.ensure_future(three.reserve(USER_LARGEST * size))
        await settle()
        assert not waiting.done()
        one.give_back()
        two.give_back()
        await waiting
        for _ in range(USER_LARGEST):
            await three.hold(size)  # of what it has reserved
        three.give_back()
        await three.hold(size)  # what goes on after its request holds nothing of it
        assert not bodies._lanes  # pyright: ignore[reportPrivateUsage] - no user is remembered

    asyncio.run(scenario())


def test_content_larger_than_all_room_has_all_of_it() -> None:
    async def scenario() -> None:
        bodies = HeldBodies(largest_bytes=FREE_BYTES, own_bytes=0)
        contents = StoredContents(partial(bodies.take_stored, "a"))
        await contents.hold(100 * FREE_BYTES)
        contents.give_back()

    asyncio.run(scenario())


def test_a_page_of_artifacts_ends_where_the_names_in_their_policies_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred with 900 long names each were an answer of 91 MB."""
    monkeypatch.setattr(routes, "PAGE_CHARS_MAX", 10_000)
    monkeypatch.setattr(space_session, "PAGE_CHARS_MAX", 10_000)
    policy = {"allow": {"read": [OPERATOR, *(f"agent-{number:03}" for number in range(100))]}}

    async def scenario() -> None:
        async with house(tmp_path) as made:
            artifacts = made.desk.as_principal(OPERATOR).artifacts
            for number in range(25):
                await artifacts.write(f"a{number:02}", kind="document", content="x", access=policy)
            for number in range(25, 30):
                await artifacts.write(f"a{number:02}", kind="document", content="x")
            found, after, sizes = list[str](), None, list[int]()
            while after is not None or not sizes:
                wanted = {"limit": 500} | ({} if after is None else {"after": after})
                page = (await made.client.get("/api/v1/artifacts", params=wanted)).json()
                found += [one["id"] for one in page["items"]]
                assert all(one["access"]["allow"] == policy["allow"] for one in page["items"][:1])
                after = page["next"]
                sizes.append(len(page["items"]))
            assert found == [f"a{number:02}" for number in range(30)]
            assert sizes == [12, 12, 6]
            searched = (await made.client.get("/api/v1/artifacts?q=document&limit=500")).json()
            assert len(searched["items"]) == 5 + 12 and searched["next"] is None
            assert len(await artifacts.list(limit=1000)) == 30

    asyncio.run(scenario())


def test_a_page_of_tasks_ends_where_their_goals_are_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty readers of pages of 6 MB held up others for half a second."""
    monkeypatch.setattr(missions, "PAGE_CHARS_MAX", 10_000)

    async def scenario() -> None:
        async with house(tmp_path) as made:
            tasks = made.desk.tasks
            for number in range(7):
                await tasks.create(goal="word " * 1_000, success_criteria="It is there.", id=f"t{number}")
            found, after, sizes = list[str](), 0, list[int]()
            while after is not None:
                page = (await made.client.get(f"/api/v1/tasks?limit=500&after={after}")).json()
                found += [one["id"] for one in page["items"]]
                after = page["next"]
                sizes.append(len(page["items"]))
            assert found == [f"t{number}" for number in range(7)] and sizes == [2, 2, 2, 1]
            whole = await tasks.list(limit=500)
            assert len(whole["items"]) == 7 and whole["next"] is None
            assert (await tasks.show("t0"))["goal"].startswith("word word")

    asyncio.run(scenario())
