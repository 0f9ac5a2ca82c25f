"""Files that were changed, cut, forged or made to harm are refused whole, and say why."""

from __future__ import annotations

import gzip
import io
import sqlite3
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest

from artelier import Kernel, Limits
from artelier.artifacts import Access
from artelier.artifacts.events import ArtifactDeleted, ArtifactWritten, GroupJoined, GroupLeft
from artelier.errors import Conflict, CorruptStore, Erased, InvalidExport, NotFound, StoreUnavailable
from artelier.kernel import events as ev
from artelier.kernel import import_run
from artelier.kernel.export.archive import LINE_BYTES_MAX, SEAL_BYTES, ArchiveReader, ArchiveWriter, EventLine
from artelier.ledger import Count, MoneyTransferred, Posting
from artelier.log import Batch, BlobRef, DataKey, Draft, StreamAppend, tenant_stream
from tests.kernel.files import exported, forged, resealed, rewritten
from tests.kernel.sample import ACME, kernels
from tests.kernel.stage import ask, drive, play


def test_a_changed_byte_anywhere_is_refused(tmp_path: Path) -> None:
    path = exported(tmp_path, lambda run: ask(run, "a"))
    whole = path.read_bytes()
    assert len(whole) < 4096

    async def scenario() -> None:
        with kernels(tmp_path, "here") as here:
            target = here.for_tenant("acme")
            await target.state()
            root = await here.store.root()
            for index in range(len(whole)):
                changed = bytearray(whole)
                changed[index] ^= 1 << index % 8
                path.write_bytes(changed)
                with pytest.raises(InvalidExport):
                    await target.import_(path)
            for length in (0, 1, 10, SEAL_BYTES, len(whole) // 2, len(whole) - 1):
                path.write_bytes(whole[:length])
                with pytest.raises(InvalidExport):
                    await target.import_(path)
            path.write_bytes(whole + b"\n")
            with pytest.raises(InvalidExport):
                await target.import_(path)
            assert await here.store.root() == root
            assert (await target.runs())["items"] == []

    play(scenario())


def _event(lines: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return next(line for line in lines if line.get("kind") == kind)


def _drop(lines: list[dict[str, Any]], kind: str) -> None:
    lines.remove(_event(lines, kind))


def _set(kind: str, **changes: Any) -> Any:
    def change(lines: list[dict[str, Any]]) -> None:
        _event(lines, kind).update(changes)

    return change


def _header(**changes: Any) -> Any:
    def change(lines: list[dict[str, Any]]) -> None:
        lines[0].update(changes)

    return change


def _blobs(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if line["t"] == "blob"]


def _swap_contents(lines: list[dict[str, Any]]) -> None:
    first, second = _blobs(lines)[:2]
    first["content"], second["content"] = second["content"], first["content"]
    first["size"], second["size"] = second["size"], first["size"]


def _lose_content(lines: list[dict[str, Any]]) -> None:
    lines.remove(_blobs(lines)[0])


def _repeat_content(lines: list[dict[str, Any]]) -> None:
    lines.insert(-1, _blobs(lines)[0])


def _wrong_size(lines: list[dict[str, Any]]) -> None:
    _blobs(lines)[0]["size"] += 1


def _half_content(lines: list[dict[str, Any]]) -> None:
    _blobs(lines)[0]["more"] = True


def _reorder(lines: list[dict[str, Any]]) -> None:
    events = [index for index, line in enumerate(lines) if line["t"] == "event"]
    first, second = events[1], events[2]
    lines[first], lines[second] = lines[second], lines[first]


def _events_last(lines: list[dict[str, Any]]) -> None:
    blob = _blobs(lines)[0]
    lines.remove(blob)
    lines.insert(next(i for i, line in enumerate(lines) if line["t"] == "event"), blob)


def _no_end(lines: list[dict[str, Any]]) -> None:
    lines.pop()


def _after_the_end(lines: list[dict[str, Any]]) -> None:
    lines.append(lines[-1])


def _no_key(lines: list[dict[str, Any]]) -> None:
    lines.remove(next(line for line in lines if line["t"] == "key"))


def _other_key(lines: list[dict[str, Any]]) -> None:
    next(line for line in lines if line["t"] == "key")["secret"] = "A" * 43 + "="


def _short_key(lines: list[dict[str, Any]]) -> None:
    next(line for line in lines if line["t"] == "key")["secret"] = "AAAA"


def _no_runs(lines: list[dict[str, Any]]) -> None:
    lines.remove(next(line for line in lines if line["t"] == "run"))


def _second_run(lines: list[dict[str, Any]]) -> None:
    lines.insert(2, next(line for line in lines if line["t"] == "run"))


def _second_key(lines: list[dict[str, Any]]) -> None:
    lines.insert(2, next(line for line in lines if line["t"] == "key"))


def _another_piece(lines: list[dict[str, Any]]) -> None:
    first, second = _blobs(lines)[:2]
    first["more"], second["size"] = True, 10**6
    first["size"] += 1


def _cut_content(lines: list[dict[str, Any]]) -> None:
    _blobs(lines)[-1]["more"] = True
    _blobs(lines)[-1]["size"] += 1


def _huge_content(lines: list[dict[str, Any]]) -> None:
    _blobs(lines)[0]["size"] = 2**40


def _second_header(lines: list[dict[str, Any]]) -> None:
    lines.insert(1, lines[0])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_set("run.completed", at_us=1), "hash does not match"),
        (_set("run.completed", actor="somebody"), "hash does not match"),
        (_set("run.completed", cause="control:r@1"), "hash does not match"),
        (_set("run.completed", version=2), "hash does not match"),
        (_set("run.completed", data={"result": None}), "hash does not match"),
        (_set("run.completed", seq=7), "is missing"),
        (_set("run.completed", stream="run:s"), "is missing"),
        (_set("run.completed", extra=1), "unknown field"),
        (lambda lines: _drop(lines, "model.requested"), "is missing"),
        (lambda lines: _drop(lines, "run.completed"), "does not hold what it says"),
        (_reorder, "is missing"),
        (_swap_contents, "not what its name says"),
        (_lose_content, "missing"),
        (_repeat_content, "twice"),
        (_wrong_size, "not what its name says"),
        (_half_content, "breaks off|another size"),
        (_events_last, "out of order"),
        (_no_end, "the end of the file is missing"),
        (_after_the_end, "follows the end"),
        (_no_key, "a key is missing"),
        (_other_key, "not what its name says"),
        (_short_key, "another length"),
        (_no_runs, "not those that it names"),
        (_second_header, "second header"),
        (_second_run, "named twice"),
        (_second_key, "numbered from 1"),
        (_another_piece, "breaks off"),
        (_cut_content, "breaks off"),
        (_huge_content, "too large"),
        (_header(version=6), "newer Artelier"),
        (_header(version="x"), "newer Artelier"),
        (_header(version=0), "no header"),
        (_header(version=2), "no header of a run"),
        (_header(version=3), "no header of a run"),
        (_header(version=3, world="w", run=""), "no header of a run"),
        (_header(world="w"), "no header of a run"),
        (_header(version=3, world="w", run="", ancestry={"tick": 1}), "holds world w"),
        (_header(agent="ana"), "no header of a run"),
        (_header(version=2, agent="ana"), "no header of a run"),
        (_header(version=2, agent="ana", run=""), "holds agent ana"),
        (_header(format="tar"), "no export of Artelier"),
        (_header(run="other"), "not those that it names"),
        (_header(tenant="../x"), "tenant id"),
        (_header(position="x"), "cannot be read"),
    ],
)
def test_a_forged_file_is_refused_and_says_why(tmp_path: Path, change: Any, says: str) -> None:
    """Sealed again after the change, so that everything but the seal must notice."""
    path = exported(tmp_path, lambda run: ask(run, "a"))
    rewritten(path, change)

    async def scenario() -> None:
        with kernels(tmp_path, "here") as here:
            target = here.for_tenant("acme")
            await target.state()
            root = await here.store.root()
            with pytest.raises(InvalidExport, match=says):
                await target.import_(path)
            assert await here.store.root() == root
            assert await here.store.query("SELECT count(*) FROM blobs") == [(0,)]

    play(scenario())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        b"\x1f\x8b",
        gzip.compress(b""),
        gzip.compress(b"\n"),
        gzip.compress(b"[1]\n"),
        gzip.compress(b'{"format": "artelier.export"}\n'),
        gzip.compress(b"\xff\xfe\n"),
        gzip.compress(b"[" * 100_000 + b"\n"),
        gzip.compress(b'{"t":"header"'),
    ],
    ids=lambda content: f"{len(content)} bytes",
)
def test_a_foreign_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "foreign.artelier"

    async def scenario() -> None:
        with kernels(tmp_path, "here") as here:
            for data in (content, resealed(content)):
                path.write_bytes(data)
                with pytest.raises(InvalidExport):
                    await here.for_tenant().import_(path)

    play(scenario())


def test_what_else_stands_in_a_header_is_not_made(tmp_path: Path) -> None:
    """29 KB of gzip were 0.9 GB of lists, and held the interpreter for two seconds."""
    path = exported(tmp_path, lambda run: ask(run, "a"))
    content = gzip.decompress(path.read_bytes()[:-SEAL_BYTES])
    line, _, rest = content.partition(b"\n")
    many = line[:-1] + b',"x":[' + b",".join([b"[]"] * 500_000) + b"]}\n" + rest
    with io.BytesIO(resealed(gzip.compress(many))) as file:
        tracemalloc.start()
        try:
            with pytest.raises(InvalidExport, match="unknown field"):
                ArchiveReader(file).header()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 16_000_000


def test_bombs_end_before_the_disk_does(tmp_path: Path) -> None:
    path = exported(tmp_path, lambda run: ask(run, "a"))
    head = gzip.decompress(path.read_bytes()).split(b"\n")[0]
    many = resealed(gzip.compress(head + b"\n" + b"{}\n" * 3_000_000, 1))
    long = resealed(gzip.compress(head + b"\n" + b" " * 40_000_000 + b"\n", 1))

    async def scenario() -> None:
        with kernels(tmp_path, "here") as here:
            target = here.for_tenant()
            with pytest.raises(InvalidExport, match="too large when it is unpacked"):
                await target.import_(path, size_max_bytes=500)
            path.write_bytes(many)
            with pytest.raises(InvalidExport):
                await target.import_(path, size_max_bytes=1_000_000)
            path.write_bytes(long)
            with pytest.raises(InvalidExport, match="a line is longer"):
                await target.import_(path)

    play(scenario())


_STARTED = ("run:r", ev.RunStarted(grants=("tools:*",)))
_WRITTEN = ArtifactWritten(
    id="a",
    kind="document",
    version=1,
    content=BlobRef("b:" + "A" * 43),
    media="text",
    size_bytes=1,
    creator="x",
    owner="x",
    access=Access(policy="public"),
    run_id="r",
)


def _paid(*postings: Posting, counts: tuple[Count, ...] = ()) -> tuple[str, Any]:
    return "run:r", ev.ToolCharged(key="1", cost=1, postings=postings, counts=counts)


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ([("run:r", ev.TenantUpdated(grants=("*",)))], "does not belong"),
        ([_STARTED, ("run:r", ev.TenantUpdated(grants=("*",)))], "does not belong"),
        ([_STARTED, ("run:r", ev.CommandGiven(verb="pause"))], "does not belong"),
        ([_STARTED, ("run:r", ev.RunsImported(runs=(), tenant="t", sha256=""))], "not belong"),
        ([_STARTED, ("run:r", _WRITTEN)], "does not belong"),
        ([_STARTED, ("run:r", MoneyTransferred())], "does not belong"),
        ([_STARTED, ("control:r", ev.RunPaused())], "does not belong"),
        ([_STARTED, ("tenant:acme", ev.TenantUpdated())], "nothing that runs are made of"),
        ([_STARTED, ("world:w", ev.RunPaused())], "nothing that runs are made of"),
        ([_STARTED, ("run:", ev.RunPaused())], "no legal name"),
        ([_STARTED, ("run:a b", ev.RunPaused())], "no legal name"),
        ([_STARTED, ("run:r", ev.RunStarted())], "begins with its start"),
        ([("run:r", ev.RunCompleted())], "begins with its start"),
        ([_STARTED, ("run:r", ev.LimitSet(scope="tenant", unit="usd"))], "somebody else"),
        ([_STARTED, ("control:s", ev.CommandGiven(verb="pause"))], "not in the file"),
        ([_STARTED, ("artifact:b", _WRITTEN)], "another artifact"),
        ([_STARTED, ("artifact:a", ArtifactDeleted(id="a"))], "no run of the file"),
        ([_STARTED, ("run:r", GroupJoined(group="a", principal="eve"))], "does not belong"),
        ([_STARTED, ("artifact:b", GroupJoined(group="a", principal="eve"))], "another artifact"),
        ([_STARTED, ("artifact:a", GroupJoined(group="a", principal="membrane:b"))], "invalid principal"),
        ([_STARTED, ("artifact:a", GroupLeft(group="a", principal="a b"))], "invalid principal"),
        ([_STARTED, ("artifact:a", GroupJoined(group="a", principal="eve"))], "no run of the file"),
        ([("run:r", ev.RunForked(origin="r", at=1, effects="live"))], "origin of a fork is missing"),
        ([("run:r", ev.RunForked(origin="s", at=0, effects="live"))], "origin of a fork is missing"),
        ([("run:r", ev.RunStarted(parent="r"))], "before its parent"),
        ([_paid()], "begins with its start"),
        ([_STARTED, _paid(Posting("tenant", "spent", "usd", 0))], "positive amount"),
        ([_STARTED, _paid(Posting("tenant", "spent", "usd", -5))], "positive amount"),
        ([_STARTED, _paid(Posting("tenant", "tenant", "usd", 5))], "two accounts"),
        ([_STARTED, _paid(Posting("tenant", "spent", "usd", 10**16))], "more than a ledger"),
        ([_STARTED, _paid(counts=(Count("tenant", "usd", use=-(10**16)),))], "more than a ledger"),
        (
            [_STARTED, ("run:r", ev.StepCompleted(key="1", result=BlobRef("b:" + "A" * 43)))],
            "content are missing",
        ),
        (
            [
                _STARTED,
                *[("run:r", ev.ModelRequested(key="1", model="m"))] * 2,
                ("run:r", ev.StepFailed(key="1", code="x")),
                ("run:r", ev.StepFailed(key="1", code="x")),
            ],
            "do not fit together",
        ),
    ],
)
def test_a_well_made_hostile_file_changes_nothing(
    tmp_path: Path, events: list[tuple[str, Any]], says: str
) -> None:
    path = tmp_path / "hostile.artelier"
    forged(path, events)

    async def scenario() -> None:
        with kernels(tmp_path, "here") as here:
            target = here.for_tenant(ACME)
            await drive(target, lambda run: ask(run, "a"), "mine")
            root = await here.store.root()
            with pytest.raises(InvalidExport, match=says):
                await target.import_(path)
            assert await here.store.root() == root
            assert here.verify().findings == []

    play(scenario())


def test_hostile_money_and_counters_leave_every_account_as_it_was(tmp_path: Path) -> None:
    """Postings and counts of a file may name anybody; the loan takes back what they did."""
    path = tmp_path / "hostile.artelier"
    forged(
        path,
        [
            _STARTED,
            _paid(
                Posting("source:budget", "tenant", "usd", 10**9),
                Posting("tenant", "agent:me", "usd", 5),
                Posting("agent:rich", "agent:me", "scrip", 10**6),
                Posting("spent", "tenant", "usd", 10**6),
                counts=(Count("run:mine", "tokens", reserve=10**9), Count("tenant", "usd", use=3)),
            ),
        ],
    )

    async def scenario() -> None:
        with kernels(tmp_path, "here") as here:
            target = here.for_tenant(ACME)
            await drive(target, lambda run: ask(run, "a"), "mine", limits=Limits(tokens=10_000))
            everybody = "SELECT * FROM accounts WHERE balance <> 0 ORDER BY account, asset"
            before = await here.store.query(everybody)
            counters = await here.store.query("SELECT * FROM limits")

            await target.import_(path)

            assert await here.store.query(everybody) == before
            assert await here.store.query("SELECT * FROM limits") == counters
            assert here.verify().findings == []

    play(scenario())


def test_a_counter_that_a_file_would_empty_refuses_the_file(tmp_path: Path) -> None:
    path = tmp_path / "hostile.artelier"
    forged(path, [_STARTED, _paid(counts=(Count("run:mine", "tokens", use=-(10**6)),))])

    async def scenario() -> None:
        with kernels(tmp_path, "here") as here:
            target = here.for_tenant(ACME)
            await drive(target, lambda run: ask(run, "a"), "mine", limits=Limits(tokens=10_000))
            with pytest.raises(InvalidExport, match="do not fit together"):
                await target.import_(path)

    play(scenario())


def test_an_event_of_a_later_version_is_refused(tmp_path: Path) -> None:
    path = exported(tmp_path, lambda run: ask(run, "a"))

    class Later(ev.RunCompleted, frozen=True, kw_only=True, omit_defaults=True):
        """A kind that this version does not know."""

    Later.KIND, Later.VERSION = "run.dissolved", 1
    forged(path, [_STARTED, ("run:r", Later())])

    async def scenario() -> None:
        with kernels(tmp_path, "here") as here:
            with pytest.raises(InvalidExport, match="does not know"):
                await here.for_tenant("acme").import_(path)

    play(scenario())


def test_a_missing_file_and_an_impossible_place_are_said_plainly(tmp_path: Path) -> None:
    async def scenario() -> None:
        with kernels(tmp_path) as there:
            runs = there.for_tenant()
            await drive(runs, lambda run: ask(run, "a"))
            with pytest.raises(NotFound):
                await runs.import_(tmp_path / "nothing.artelier")
            with pytest.raises(NotFound):
                await runs.import_(tmp_path)
            with pytest.raises(StoreUnavailable):
                await runs.export("r", tmp_path / "no" / "folder.artelier")
            with pytest.raises(NotFound):
                await runs.export("nobody", tmp_path / "nobody.artelier")
            with pytest.raises(NotFound):
                await there.for_tenant("other").export("r", tmp_path / "other.artelier")

    play(scenario())
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_an_export_replaces_the_file_whole_and_belongs_to_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "run.artelier"
    path.write_text("an older one")

    async def scenario() -> None:
        with kernels(tmp_path) as there:
            runs = there.for_tenant()
            await drive(runs, lambda run: ask(run, "a"))
            first = await runs.export("r", path)
            content = path.read_bytes()
            assert await runs.export("r", path) == first
            assert path.read_bytes() == content

    play(scenario())
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.corrupts
def test_damage_is_not_exported(tmp_path: Path) -> None:
    path = tmp_path / "run.artelier"

    async def scenario() -> None:
        with kernels(tmp_path) as there:
            runs = there.for_tenant()
            await drive(runs, lambda run: ask(run, "a"))
        db = sqlite3.connect(tmp_path / "there" / "s.db")
        db.execute("UPDATE events SET actor = 'mallory' WHERE kind = 'run.completed'")
        db.commit()
        db.close()
        with kernels(tmp_path) as there:
            with pytest.raises(CorruptStore, match="not what was written"):
                await there.for_tenant().export("r", path)
        db = sqlite3.connect(tmp_path / "there" / "s.db")
        db.execute("UPDATE events SET actor = 'kernel' WHERE kind = 'run.completed'")
        db.execute("UPDATE blobs SET content = x'78', size = 1, codec = 0")
        db.commit()
        with kernels(tmp_path) as there:
            with pytest.raises(CorruptStore, match=r"content b:\S+ is not what was written"):
                await there.for_tenant().export("r", path)
        db.execute("DELETE FROM keys")
        db.commit()
        db.close()
        with kernels(tmp_path) as there:
            with pytest.raises(Erased, match="was erased"):
                await there.for_tenant().export("r", path)
        assert not path.exists()

    play(scenario())


class Meanwhile:
    """The keys of a store, and something that happens after a file was checked, before it is appended."""

    def __init__(self, kernel: Kernel, happens: Any) -> None:
        self._kernel = kernel
        self._happens = happens

    async def add_key(self, tenant: str, secret: bytes, *, is_part: bool = False) -> DataKey:
        await self._happens()
        return await self._kernel.store.add_key(tenant, secret, is_part=is_part)

    async def gone_key(self, tenant: str) -> int:
        return await self._kernel.store.gone_key(tenant)


@pytest.mark.parametrize("what", ["run", "cap", "file"])
def test_what_changes_while_an_import_is_under_way_refuses_it(tmp_path: Path, what: str) -> None:
    path = exported(tmp_path, lambda run: ask(run, "a"))
    if what == "cap":
        forged(path, [_STARTED, _paid(counts=(Count("run:mine", "tokens", use=1),))], key=True)
    errors = {"run": Conflict, "cap": Conflict, "file": InvalidExport}

    async def scenario() -> None:
        with kernels(tmp_path, "here") as here:
            target = here.for_tenant("acme")
            await drive(target, lambda run: ask(run, "a"), "mine", limits=Limits(tokens=10_000))

            async def happens() -> None:
                if what == "run":
                    await drive(target, lambda run: ask(run, "b"))
                elif what == "cap":
                    await _cap(here, "mine", 20_000)
                else:
                    rewritten(path, _swap_contents)

            with pytest.raises(errors[what]):
                await import_run(here.services, Meanwhile(here, happens), "acme", path)
            assert await here.store.query("SELECT count(*) FROM imports") == [(0,)]
            assert here.verify().findings == []

    play(scenario())


async def _cap(kernel: Kernel, run: str, cap: int) -> None:
    data = ev.LimitSet(scope=f"run:{run}", unit="tokens", cap=cap)
    append = StreamAppend(tenant_stream("acme"), [Draft(data, 1, "test")])
    await kernel.store.append(Batch(appends=[append]))


@pytest.mark.parametrize("name", ["x" * 5000, "no\0good"])
def test_names_that_no_file_can_have_are_refused(tmp_path: Path, name: str) -> None:
    async def scenario() -> None:
        with kernels(tmp_path) as there:
            runs = there.for_tenant()
            await drive(runs, lambda run: ask(run, "a"))
            with pytest.raises(StoreUnavailable):
                await runs.import_(tmp_path / name)
            with pytest.raises(StoreUnavailable):
                await runs.export("r", tmp_path / name)
            with pytest.raises(StoreUnavailable):
                await runs.export("r", tmp_path)

    play(scenario())
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_a_line_that_no_reader_would_take_is_not_written(tmp_path: Path) -> None:
    data = msgspec.Raw(b'"' + b"x" * LINE_BYTES_MAX + b'"')
    line = EventLine(
        stream="run:r", seq=1, kind="k", version=1, data=data, at_us=1, actor="a", cause=None, hash=b""
    )
    with (
        pytest.raises(InvalidExport, match="too large"),
        (tmp_path / "file").open("wb") as file,
        ArchiveWriter(file) as writer,
    ):
        writer.write(line)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that cannot be read")
def test_a_file_that_cannot_be_read_is_said_to_be_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        with kernels(tmp_path) as there:
            with pytest.raises(StoreUnavailable, match="cannot be read"):
                await there.for_tenant().import_("/proc/self/mem")
            with pytest.raises(StoreUnavailable, match="cannot be read"):
                await Kernel.replay_file("/proc/self/mem", lambda run: ask(run, "a"))

    play(scenario())
