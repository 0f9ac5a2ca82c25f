"""Chats in files: what comes out of one is what went in, row by row, and a forged one changes nothing."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from artelier import Session
from artelier.errors import Conflict, InvalidExport, NotFound
from artelier.kernel.export import transfer
from artelier.log import GENESIS, DataKey, blob_name, blob_ref
from artelier.log.blobs import name_blob
from artelier.log.event import event_hash
from tests.kernel.files import rewritten
from tests.operations.chats import TABLES, kernel_of, opened, play, rows_of
from tests.operations.profiles import tavern

Lines = list[dict[str, Any]]

CARRIED = {*TABLES} - {"chat_sessions"}


async def _made(folder: Path, path: Path) -> dict[str, list[Any]]:
    """A chat with a bit of everything, as a file; the rows of its store."""
    with opened(folder) as kernel:
        session = await Session.open(
            kernel, "c", model="m", profile=tavern(), char="Ann", greetings=["Hello", "Hi"]
        )
        await session.generate("a")
        await session.regenerate()
        await session.continue_()
        await session.generate("b")
        aside = await session.branch("aside", at_turn=1)
        await aside.reset()
        await aside.generate("c")
        await aside.import_turns([{"user": "d", "variants": ["e", "f"], "selected": 1}])
        await session.select_variant(1, 1)
        await Session.open(kernel, "other", model="m")
        carried = await kernel.for_tenant().export_chat("c", path)
        assert carried.profiles == ("tavern",) and len(carried.runs) == 5
        rows = await rows_of(kernel)
        return {name: [row for row in found if "other" not in row[0]] for name, found in rows.items()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[Any]]]:
    folder = tmp_path_factory.mktemp("made")
    path = folder / "c.artelier"
    return path, play(_made(folder, path))


Made = tuple[Path, dict[str, list[Any]]]


def test_every_row_is_restored(made: Made, tmp_path: Path) -> None:
    path, rows = made

    async def run() -> None:
        with opened(tmp_path) as kernel:
            carried = await kernel.for_tenant().import_chat(path)
            assert (carried.chat_id, len(carried.runs)) == ("c", 5)
            found = await rows_of(kernel)
            for table in TABLES:
                assert found[table] == rows[table], table
                assert found[table] or table not in CARRIED

    play(run())


def test_content_is_stored_a_slice_at_a_time_and_every_row_is_restored(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, rows = made
    monkeypatch.setattr(transfer, "SLICE_CONTENTS", 5)

    async def run() -> None:
        with opened(tmp_path) as kernel:
            before = kernel.store.commits
            await kernel.for_tenant().import_chat(path)
            stored = await kernel.store.query("SELECT count(*) FROM blobs")
            assert kernel.store.commits - before >= stored[0][0] // 5, "others commit in between"
            found = await rows_of(kernel)
            assert {name: found[name] for name in TABLES} == {name: rows[name] for name in TABLES}
            assert kernel.verify().findings == []

    play(run())


def test_an_import_whose_content_is_collected_meanwhile_is_refused_and_can_be_repeated(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = made
    monkeypatch.setattr(transfer, "SLICE_CONTENTS", 5)
    ahead = transfer._store_ahead  # pyright: ignore[reportPrivateUsage]

    async def run() -> None:
        with opened(tmp_path) as kernel:

            async def collected(*args: Any) -> Any:
                done = await ahead(*args)
                assert (await kernel.collect()).blobs > 0
                return done

            with monkeypatch.context() as patched:
                patched.setattr(transfer, "_store_ahead", collected)
                with pytest.raises(Conflict, match="collected or erased"):
                    await kernel.for_tenant().import_chat(path)
            assert (await kernel.for_tenant().import_chat(path)).chat_id == "c"
            assert kernel.verify().findings == []

    play(run())


def test_a_file_of_more_events_than_are_taken_is_refused(made: Made, tmp_path: Path) -> None:
    path, _ = made

    async def run() -> None:
        with opened(tmp_path) as kernel:
            with pytest.raises(InvalidExport, match="more events"):
                await kernel.for_tenant().import_chat(path, events_max=20)
            assert not await kernel.store.query("SELECT 1 FROM blobs")

    play(run())


def test_an_imported_chat_is_read_and_goes_on(made: Made, tmp_path: Path) -> None:
    path, _ = made

    async def run() -> None:
        with opened(tmp_path) as kernel:
            await kernel.for_tenant("acme").import_chat(path)
            session = await Session.open(kernel, "c", tenant="acme")
            assert [turn.text for turn in await session.turns()] == ["Hello", "re: a"]
            assert await session.art("feed") == ["a"]
            before = await kernel_of(session).render("c/r000001", "main/model")
            assert before.messages[-1].role == "system"

            result = await session.generate("more")

            assert (result.run_id, result.text, result.turn) == ("c/r000006", "re: more", 2)
            assert await session.art("feed") == ["a", "more"]
            prompt = await kernel_of(session).render(result.run_id, "main/model")
            said = [one.text for one in prompt.messages if one.role != "system"]
            assert said == ["Hello", "a", "re: a", "more"]
            with pytest.raises(NotFound):
                await Session.open(kernel, "c", tenant="default")
            again = tmp_path / "again.artelier"
            await kernel.for_tenant("acme").export_chat("c", again)
            rows = await rows_of(kernel)
        with opened(tmp_path, name="third") as kernel:
            await kernel.for_tenant("acme").import_chat(again)
            assert (await rows_of(kernel)) == rows

    play(run())


def test_a_tenant_keeps_its_own_profile_and_its_own_chat(made: Made, tmp_path: Path) -> None:
    path, _ = made

    async def run() -> None:
        with opened(tmp_path) as kernel:
            runs = kernel.for_tenant()
            own = await Session.open(kernel, "mine", model="m", profile=tavern(name="own"))
            await own.generate("x")
            await runs.import_chat(path)
            profile = await (await Session.open(kernel, "c")).profile()
            assert profile is not None and profile.name == "own"
            before = await rows_of(kernel)
            with pytest.raises(Conflict, match="chat c already"):
                await runs.import_chat(path)
            assert await rows_of(kernel) == before
            with pytest.raises(InvalidExport, match="holds chat c"):
                await runs.import_(path)
            with pytest.raises(NotFound):
                await runs.export_chat("nothing", tmp_path / "x")

    play(run())


def _line(lines: Lines, kind: str) -> dict[str, Any]:
    return next(line for line in lines if line.get("kind") == kind)


def _data(kind: str, /, **changes: Any) -> Callable[[Lines], None]:
    return lambda lines: _line(lines, kind)["data"].update(changes)


def _set(kind: str, /, **changes: Any) -> Callable[[Lines], None]:
    return lambda lines: _line(lines, kind).update(changes)


def _header(**changes: Any) -> Callable[[Lines], None]:
    return lambda lines: lines[0].update(changes)


def _without(kind: str) -> Callable[[Lines], None]:
    return lambda lines: lines.remove(_line(lines, kind))


def _no_chat(lines: Lines) -> None:
    for line in [line for line in lines if line.get("stream") == "session:c"]:
        lines.remove(line)


def _no_profile(lines: Lines) -> None:
    _line(lines, "artifact.written")["data"].update(kind="document")


def _foreign_artifact(lines: Lines) -> None:
    line = _line(lines, "artifact.written")
    other = {**line, "stream": "artifact:other", "data": {**line["data"], "id": "other"}}
    lines.insert(lines.index(line) + 1, other)


def _twice(lines: Lines) -> None:
    line = _line(lines, "chat.opened")
    lines.insert(lines.index(line) + 1, {**line, "data": dict(line["data"])})


def _change(**changes: Any) -> Callable[[Lines], None]:
    def forge(lines: Lines) -> None:
        for line in lines:
            if line.get("kind") == "variant.ended" and line["data"].get("changes"):
                line["data"]["changes"][0].update(changes)
                return

    return forge


def _marks(lines: Lines) -> None:
    _line(lines, "variant.ended")["data"]["marks"] = {"x": [-1, 2**60]}


def _content(kind: str, field: str, content: bytes) -> Callable[[Lines], None]:
    """Other content behind a reference, under its right name."""

    def forge(lines: Lines) -> None:
        data = _line(lines, kind)["data"]
        old = data[field][0] if isinstance(data[field], list) else data[field]
        name = base64.b64encode(blob_name(old)).decode()
        blob = next(line for line in lines if line.get("name") == name)
        key = next(line for line in lines if line["t"] == "key" and line["id"] == blob["key"])
        new = name_blob(DataKey(1, base64.b64decode(key["secret"])), content)
        data[field] = [blob_ref(new)] if isinstance(data[field], list) else blob_ref(new)
        made = {
            **blob,
            "name": base64.b64encode(new).decode(),
            "size": len(content),
            "content": base64.b64encode(content).decode(),
        }
        lines.insert(lines.index(blob), made)
        lines[-1]["blobs"] += 1

    return forge


def _chained(change: Callable[[Lines], None]) -> Callable[[Lines], None]:
    """Change events as somebody would who knows how they are hashed."""

    def forge(lines: Lines) -> None:
        change(lines)
        heads: dict[str, tuple[int, bytes]] = {}
        count = 0
        for line in (line for line in lines if line["t"] == "event"):
            seq, last = heads.get(line["stream"], (0, GENESIS))
            data = msgspec.json.encode(line["data"], order="sorted")
            line["data"], line["seq"] = msgspec.json.decode(data), seq + 1
            hash_ = event_hash(
                last,
                stream=line["stream"],
                seq=seq + 1,
                kind=line["kind"],
                version=line["version"],
                data=data,
                at_us=line["at_us"],
                actor=line["actor"],
                cause=line["cause"],
            )
            line["hash"] = base64.b64encode(hash_).decode()
            heads[line["stream"]] = (seq + 1, hash_)
            count += 1
        lines[-1]["events"] = count

    return forge


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_no_chat, "no run of the file has written"),
        (_twice, "begins with its opening"),
        (_without("chat.opened"), "begins with its opening"),
        (_without("turn.asked"), "fit together|does not wait|no reply"),
        (_without("variant.begun"), "fit together"),
        (_header(chat="d"), "nothing that runs are made of|does not belong"),
        (_header(chat="a/b"), "cannot name a chat"),
        (_header(chat=""), "no header"),
        (_header(run="c/r000001"), "no header"),
        (_set("variant.ended", kind="tenant.updated", data={"grants": ["*"]}), "does not belong"),
        (_set("turn.asked", stream="run:c/r000001"), "does not belong|begins with its start"),
        (_set("run.phase_changed", stream="session:c"), "does not belong"),
        (_set("chat.opened", at_us=-5), "no time"),
        (_data("turn.asked", run="c/r000009"), "fit together|next run"),
        (_data("turn.asked", branch="a b"), "cannot name a branch"),
        (_data("turn.asked", settings="hello"), "not a blob reference"),
        (_data("turn.asked", text="b:" + "A" * 43), "pieces of content are missing"),
        (_data("turn.asked", tokens=-1), "a number from 0"),
        (_data("turn.asked", tokens=2**62), "a number from 0"),
        (_data("variant.begun", scope="a b/c"), "cannot name a profile"),
        (_data("variant.begun", profile="x" * 700), "too long"),
        (_data("variant.ended", shown=2**60), "a number from 0"),
        (_data("variant.ended", status="great"), "fit together"),
        (_data("variant.selected", node=1), "fit together|no node"),
        (_marks, "a number from 0"),
        (_change(tag="NO TAG"), "tag"),
        (_change(versions_max=-1), "a number from 0"),
        (_change(value="plain text"), "not a blob reference"),
        (_content("chat.opened", "settings", b'{"colour": 1'), "cannot be read"),
        (_content("chat.opened", "settings", b'{"colour": 1}'), "cannot be read"),
        (_content("chat.opened", "greetings", b"7"), "cannot be read"),
        (_content("turn.asked", "settings", b'{"chat":"d","branch":"main","model":"m"}'), "another"),
        (_no_profile, "no run of the file has written"),
        (_foreign_artifact, "no run of the file has written"),
    ],
)
def test_a_forged_file_is_refused_and_says_why(
    made: Made, tmp_path: Path, change: Callable[[Lines], None], says: str
) -> None:
    path = tmp_path / "forged.artelier"
    path.write_bytes(made[0].read_bytes())
    rewritten(path, _chained(change))

    async def run() -> None:
        with opened(tmp_path) as kernel:
            with pytest.raises(InvalidExport, match=says):
                await kernel.for_tenant().import_chat(path)
            assert not any((await rows_of(kernel)).values())

    play(run())


def test_a_file_that_is_rewritten_as_it_was_is_taken(made: Made, tmp_path: Path) -> None:
    path = tmp_path / "same.artelier"
    path.write_bytes(made[0].read_bytes())
    rewritten(path, _chained(lambda lines: None))

    async def run() -> None:
        with opened(tmp_path) as kernel:
            await kernel.for_tenant().import_chat(path)
            assert (await rows_of(kernel)) == made[1]

    play(run())


def test_a_changed_or_cut_file_is_refused(made: Made, tmp_path: Path) -> None:
    whole = made[0].read_bytes()
    other = b"x" if whole[50:51] != b"x" else b"y"  # what stands there differs from file to file

    async def run() -> None:
        with opened(tmp_path) as kernel:
            for bad in (whole[:-1], whole[: len(whole) // 2], whole[:50] + other + whole[51:], b""):
                (tmp_path / "bad").write_bytes(bad)
                with pytest.raises(InvalidExport):
                    await kernel.for_tenant().import_chat(tmp_path / "bad")

    play(run())
