"""The sweeps of a server: begun, shown, stopped, resumed and removed; `routes/sweeps.py` is their door.

A sweep is that of `artelier world sweep`: the same plan, processes and table. It stands in a folder of its
tenant, beside the database and outside of the log: runs of a sweep have stores of their own. A server that
ends, by `kill -9` too, ends its processes, and a sweep that is resumed goes on where it stopped.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from artelier import confinement
from artelier.app import TenantKernel
from artelier.atomic_file import replace_file
from artelier.child import bare_environment
from artelier.errors import (
    AccessDenied,
    ArtelierError,
    Conflict,
    External,
    InvalidConfig,
    LimitReached,
    NotFound,
    QueueFull,
    QuotaReached,
    StoreUnavailable,
    TooManyAtOnce,
)
from artelier.ids import fresh_secret
from artelier.models.registry import OFFLINE
from artelier.server.background_tasks import Errand, Errands
from artelier.server.errors import TooLarge, wire_of
from artelier.server.sweep_process import MODULE, STORE_BYTES_MAX
from artelier.threads import run_in_content_thread
from artelier.tokens.model_info import canonical_name
from artelier.world.figures.sweep import ROW, Param, PlannedRun, columns_of, plan, row_of, write_table
from artelier.world.figures.sweep_processes import Sweeping
from artelier.world.genesis import read_world

POINTS_MAX = 100
"""Combinations of parameters: each is checked as a world before anything begins."""
SEEDS_MAX = 1_000
RUNS_MAX = 1_000
TICKS_MAX = 10_000
AGENTS_MAX = 1_000
TURNS_MAX = 5_000_000
"""Agents times ticks of all runs (guess: two hours of two processors, with agents of rules)."""
WORLD_BYTES_MAX = 256 * 1024
"""Of a world as JSON: a process is told it with every run."""
PROCESSES_MAX = 2
SECONDS_MAX = 3_600
"""After which a sweep stops, so that those of others have their turn; it can be resumed."""

OF_USER_MAX = 1
OF_TENANT_MAX = 2
AT_ONCE_MAX = 3
"""Sweeps at work, of a user, a tenant and the server: six processes at most, with the least share."""
KEPT_MAX = 10
KEPT_BYTES_MAX = 1024**3
"""Of a tenant's sweeps, before one more begins. A database goes when the row of its run is there."""

WORK = "sweep"
"""The errands of sweeps."""
RECORD = "sweep.json"
WORLD = "world.json"
END = "end.json"
WORKING = "working"
REMAINS_S = 3_600
"""After which a folder without a record is none that is being made."""
HIDDEN = ".removed"
"""The end of the name of a folder that is being removed."""

_ID = re.compile(r"[0-9a-f]{16}")


class SweepLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of sweeps."""

    points_max: int = POINTS_MAX
    """Combinations of parameters."""
    seeds_max: int = SEEDS_MAX
    runs_max: int = RUNS_MAX
    """Combinations times seeds."""
    ticks_max: int = TICKS_MAX
    """Of each run."""
    agents_max: int = AGENTS_MAX
    """Of each run, at its beginning."""
    turns_max: int = TURNS_MAX
    """Agents times ticks of all runs."""
    world_bytes_max: int = WORLD_BYTES_MAX
    """Of the world as JSON."""
    store_bytes_max: int = STORE_BYTES_MAX
    """Of the database of each run while it is passed."""
    kept_bytes_max: int = KEPT_BYTES_MAX
    """Of all sweeps of the tenant, before one more begins."""
    kept_max: int = KEPT_MAX
    """Sweeps of the tenant that are there, at work or not."""
    processes_max: int = PROCESSES_MAX
    """Of each sweep."""
    seconds_max: int = SECONDS_MAX
    """After which a sweep stops; it can be resumed."""
    of_user_max: int = OF_USER_MAX
    """Sweeps of one user at work at once."""


LIMITS = SweepLimits()


class SweepPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a sweep."""

    id: str
    params: Mapping[str, Param]
    seed: int


class SweepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for, as it stands in the sweep's folder beside the world."""

    id: str
    by: str
    created_us: int
    params: Mapping[str, Sequence[Param]]
    seeds: int
    ticks: int
    processes: int
    turns: int
    runs: list[SweepPoint]


class SweepEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a sweep ended; a server that ended leaves none."""

    status: str
    """`done`, `stopped` or `failed`; `interrupted` and `working` are never written."""
    done: int = 0
    """Runs that were done then."""
    failed: dict[str, Any] | None = None
    """The error, as the wire has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFacts:
    """A sweep as it is shown."""

    id: str
    by: str
    """Who began it."""
    created_us: int
    status: str
    params: Mapping[str, Sequence[Param]]
    seeds: int
    ticks: int
    processes: int
    runs: int
    """Combinations times seeds."""
    done: int
    """Runs that are done: each has its row in the table."""
    turns: int
    """The size of all of it: agents times ticks of all runs, by the agents of the beginning."""
    left_s: int | None
    """An estimate of the seconds that are left; None before one run is done, and if it is not at work."""
    failed: dict[str, Any] | None


@dataclass(slots=True, kw_only=True)
class SweepWork:
    """A sweep at work."""

    tenant: str
    by: str
    sweeping: Sweeping
    began_s: float

    def left_s(self, runs: int) -> int | None:
        """Return an estimate of the seconds that are left."""
        done = len(self.sweeping.rows)
        if not (passed := done - self.sweeping.done_before):
            return None
        return round((time.monotonic() - self.began_s) / passed * (runs - done))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSweep:
    """A world and the runs that it is passed in."""

    world: Mapping[str, Any]
    runs: list[PlannedRun]
    turns: int


def plan_sweep(
    world: Mapping[str, Any], params: Mapping[str, Sequence[Param]], *, seeds: int, ticks: int
) -> PlannedSweep:
    """Return the runs of a sweep. Cost: each combination is read as a world; call it in a thread.

    Errors: `TooLarge`; `InvalidRequest`, `InvalidConfig` of parameters or a world; `AccessDenied` of models.
    """
    world = _as_stored(world)
    points = 1
    for values in params.values():
        points *= len(values)
    _check_size("the sweep", points, POINTS_MAX, "combinations of parameters")
    _check_size("the sweep", points * seeds, RUNS_MAX, "runs")
    texts = {name: [_text(value) for value in values] for name, values in params.items()}
    runs = plan(world, texts, seeds=seeds, ticks=ticks)
    turns = 0
    for first in runs[::seeds]:  # the seeds of a combination follow each other
        entry = read_world(first.spec)
        agents = sum(one.count for one in entry.agents)
        agents += sum(one.kind == "agent" for one in entry.artifacts)
        _check_size("a world of the sweep", agents, AGENTS_MAX, "agents")
        _check_models(entry.config.model, *(one.model for one in entry.agents))
        turns += max(1, agents) * ticks * seeds
    _check_size("the sweep", turns, TURNS_MAX, "agents times ticks of all runs")
    return PlannedSweep(world=world, runs=runs, turns=turns)


def _as_stored(world: Mapping[str, Any]) -> dict[str, Any]:
    """Return a world as it is read again when the sweep is resumed. Errors: `TooLarge`, `InvalidConfig`."""
    try:
        content = msgspec.json.encode(world)
    except (RecursionError, UnicodeError) as error:
        raise InvalidConfig(
            "the world cannot be stored", expected="text in Unicode, not too deep", got=str(error)[:200]
        ) from None
    _check_size("the world", len(content), WORLD_BYTES_MAX, "bytes of JSON")
    stored: dict[str, Any] = msgspec.json.decode(content)
    if isinstance(settings := stored.get("world", {}), dict):
        stored["world"] = {"model": OFFLINE, **settings}  # said, as the command line does
    return stored


def _text(value: Param) -> str:
    return "null" if value is None else str(value)


def _check_size(what: str, size: int, most: int, unit: str) -> None:
    if size > most:
        raise TooLarge(
            f"{what} is too large",
            expected=f"at most {most:,} {unit}",
            got=f"{size:,}",
            hint="Ask for less, or use `artelier world sweep` on a machine of yours.",
        )


def _check_models(*names: str) -> None:
    for name in names:
        if name and canonical_name(name) != OFFLINE:
            raise AccessDenied(
                "a sweep of a server asks no model that costs money",
                expected=f"agents with rules, or the model {OFFLINE}",
                got=name[:80],
                hint="`artelier world sweep --max-usd` asks others, with a cap.",
            )


class Sweeps:
    """The sweeps of one tenant."""

    def __init__(self, folder: Path | None, desk: TenantKernel, errands: Errands) -> None:
        """`folder` is that of all tenants; None where a server has no sweeps."""
        self._folder = None if folder is None else folder / desk.id
        self._desk = desk
        self._errands = errands

    async def begin(
        self,
        world: Mapping[str, Any],
        params: Mapping[str, Sequence[Param]],
        *,
        size_bytes: int,
        seeds: int,
        ticks: int,
        processes: int,
        by: str,
    ) -> SweepFacts:
        """Begin a sweep. `size_bytes` is that of the request.

        Errors: those of `plan_sweep`; `AccessDenied` where there are none; `TooManyAtOnce`, `QueueFull`;
        `QuotaReached` for a tenant that has enough of them; `StoreUnavailable`.
        """
        if (folder := self._folder) is None:
            raise AccessDenied(
                "this server keeps no sweeps",
                expected="a server that was given a folder for them",
                hint="`artelier up` with a database in a file has one; else use `artelier world sweep`.",
            )
        self._check_free(by)
        await asyncio.to_thread(_check_room, folder)
        planned = await run_in_content_thread(
            size_bytes, lambda: plan_sweep(world, params, seeds=seeds, ticks=ticks)
        )
        record = SweepRecord(
            id=fresh_secret(8).hex(),
            by=by,
            created_us=self._desk.services.clock.now_us(),
            params=params,
            seeds=seeds,
            ticks=ticks,
            processes=processes,
            turns=planned.turns,
            runs=_points(planned),
        )
        place = folder / record.id
        await asyncio.to_thread(_write_record, place, record, planned.world)
        try:
            self._start(place, record, planned, by=by)
        except ArtelierError:
            await asyncio.to_thread(_remove, place)
            raise
        return await self.show(record.id)

    async def resume(self, id: str, *, by: str) -> SweepFacts:
        """Go on with what is not done.

        Errors: as `begin`; `NotFound`; `Conflict` if it is at work, or done.
        """
        place, record = await self._read(id)
        if self._errand(id) is not None:
            raise Conflict(f"sweep {id} is at work already", hint="Look at how far it is.")
        if (await asyncio.to_thread(_end_of, place, record)).status == "done":
            raise Conflict(f"sweep {id} is done", hint="Download its table.")
        self._check_free(by)
        await asyncio.to_thread(_check_room, place.parent, is_new=False)
        world = await asyncio.to_thread(_world_of, place)
        # Planned anew: runs depend on the version of Artelier, which may be another one by now.
        planned = await run_in_content_thread(
            WORLD_BYTES_MAX, lambda: plan_sweep(world, record.params, seeds=record.seeds, ticks=record.ticks)
        )
        record = msgspec.structs.replace(record, runs=_points(planned), turns=planned.turns)
        await asyncio.to_thread(_write_record, place, record, planned.world)
        self._start(place, record, planned, by=by)
        return await self.show(id)

    async def stop(self, id: str) -> SweepFacts:
        """End the processes of a sweep; what is done stays. Errors: `NotFound`."""
        place, _ = await self._read(id)
        if (errand := self._errand(id)) is not None:
            errand.task.cancel()
            await asyncio.wait({errand.task})
            if errand.task.cancelled():  # else it had just come to its end
                end = SweepEnd(status="stopped", done=len(errand.about.sweeping.rows))
                await asyncio.to_thread(_write, place / END, end)
        return await self.show(id)

    async def remove(self, id: str) -> None:
        """Remove a sweep with all that it wrote. Errors: `NotFound`; `Conflict` if it is at work."""
        place, _ = await self._read(id)
        if self._errand(id) is not None:
            raise Conflict(f"sweep {id} is at work", hint="Stop it first.")
        await asyncio.to_thread(_remove, place)

    async def show(self, id: str) -> SweepFacts:
        """Return what a sweep is, and how far. Errors: `NotFound`."""
        place, record = await self._read(id)
        return await self._show(place, record)

    async def list_all(self) -> list[SweepFacts]:
        """Return all sweeps of the tenant, the newest first."""
        found = [] if self._folder is None else await asyncio.to_thread(_records, self._folder)
        found.sort(key=lambda one: (-one.created_us, one.id))
        return [await self._show(self._place(one.id), one) for one in found]

    async def write(self, id: str, file: Path) -> None:
        """Write the rows of the runs that are done, as CSV or Parquet by the name. Errors: `NotFound`."""
        place, record = await self._read(id)
        await asyncio.to_thread(_write_rows, place, record, file)

    async def _show(self, place: Path, record: SweepRecord) -> SweepFacts:
        errand = self._errand(record.id)
        work: SweepWork | None = None if errand is None else errand.about
        if work is not None and (done := len(work.sweeping.rows)):
            end = SweepEnd(status=WORKING, done=done)
        else:  # one that has just gone on does not know yet what is done
            end = await asyncio.to_thread(_end_of, place, record)
            end = end if work is None else SweepEnd(status=WORKING, done=end.done)
        return SweepFacts(
            id=record.id,
            by=record.by,
            created_us=record.created_us,
            status=end.status,
            params=record.params,
            seeds=record.seeds,
            ticks=record.ticks,
            processes=record.processes,
            runs=len(record.runs),
            done=end.done,
            turns=record.turns,
            left_s=None if work is None else work.left_s(len(record.runs)),
            failed=end.failed,
        )

    def _place(self, id: str) -> Path:
        """Errors: `NotFound` for what is no id of a sweep, which never becomes a path."""
        if self._folder is None or _ID.fullmatch(id) is None:
            raise NotFound("there is no such sweep", hint="GET /api/v1/sweeps lists those there are.")
        return self._folder / id

    async def _read(self, id: str) -> tuple[Path, SweepRecord]:
        place = self._place(id)
        record = await asyncio.to_thread(_record_of, place)
        if record is None:
            raise NotFound("there is no such sweep", hint="GET /api/v1/sweeps lists those there are.")
        return place, record

    def _key(self, id: str) -> tuple[str, ...]:
        return (WORK, self._desk.id, id)

    def _errand(self, id: str) -> Errand | None:
        return self._errands.at_work(self._key(id))

    def _check_free(self, by: str) -> None:
        at_work: list[SweepWork] = [one.about for one in self._errands.all_at_work(WORK)]
        if sum(one.by == by for one in at_work) >= OF_USER_MAX:
            raise TooManyAtOnce(
                "a sweep of yours is at work already",
                expected=f"at most {OF_USER_MAX} at once",
                hint="Wait for it, or stop it.",
            )
        if sum(one.tenant == self._desk.id for one in at_work) >= OF_TENANT_MAX:
            raise TooManyAtOnce(
                "the tenant has enough sweeps at work",
                expected=f"at most {OF_TENANT_MAX} at once",
                hint="Try again when one of them is done.",
            )
        if len(at_work) >= AT_ONCE_MAX:
            raise QueueFull(
                "the server has enough sweeps at work", hint="Try again when one of them is done."
            )

    def _start(self, place: Path, record: SweepRecord, planned: PlannedSweep, *, by: str) -> None:
        """Errors: `TooManyAtOnce`, `QueueFull`, `Conflict`; nothing is awaited between check and start."""
        self._check_free(by)
        sweeping = Sweeping(
            planned.runs,
            module=MODULE,
            options={},
            folder=place,
            jobs=record.processes,
            cap=None,
            told=_ignore,
            environ={**bare_environment(), confinement.VARIABLE: confinement.mode()},
            keeps_stores=False,
        )
        work = SweepWork(tenant=self._desk.id, by=by, sweeping=sweeping, began_s=time.monotonic())
        self._errands.start(self._key(record.id), _pass(place, work), about=work)


def _ignore(told: str) -> None:
    """Do nothing: who asks sees how far it is."""


async def _pass(place: Path, work: SweepWork) -> None:
    """Pass a sweep, and write how it ended. A server that ends writes nothing: the sweep is interrupted."""
    status, failure = await _result(work)
    failed = None if failure is None else wire_of(failure)["error"]
    end = SweepEnd(status=status, done=len(work.sweeping.rows), failed=failed)
    await asyncio.to_thread(_write, place / END, end)


async def _result(work: SweepWork) -> tuple[str, ArtelierError | None]:
    """Pass the runs; return the status at the end, and the error that it ended with."""
    try:
        async with asyncio.timeout(SECONDS_MAX):
            await work.sweeping.run()
    except TimeoutError:
        return "stopped", LimitReached(
            "the time of a sweep is over",
            expected=f"at most {SECONDS_MAX} seconds at a time",
            hint="Resume it: what is done is not done again.",
        )
    except Conflict:  # its words name a folder of the server
        hint = "Resume it when that has ended."
        return "failed", Conflict("another process is at work on this sweep", hint=hint)
    except StoreUnavailable as error:
        return "failed", error
    except OSError as error:
        return "failed", External(
            f"a process of the sweep does not start: {error.strerror}", hint="Resume it later."
        )
    failure = work.sweeping.failed
    return ("done", None) if failure is None else ("failed", failure)


# Files; all of this is for threads


def _points(planned: PlannedSweep) -> list[SweepPoint]:
    return [SweepPoint(id=one.id, params=one.params, seed=one.seed) for one in planned.runs]


def _check_room(folder: Path, *, is_new: bool = True) -> None:
    """Errors: `QuotaReached` for a tenant that has as many sweeps, or as much of them, as it may."""
    _remove_remains(folder)
    kept = len(_records(folder))
    if is_new and kept >= KEPT_MAX:
        raise QuotaReached(
            "the tenant has as many sweeps as it may",
            expected=f"at most {KEPT_MAX}",
            got=kept,
            hint="Remove one whose table you have.",
        )
    size = _size_of(folder)
    if size >= KEPT_BYTES_MAX:
        raise QuotaReached(
            "the sweeps of the tenant take as much room as they may",
            expected=f"less than {KEPT_BYTES_MAX:,} bytes",
            got=f"{size:,}",
            hint="Remove one whose table you have.",
        )


def _size_of(folder: Path) -> int:
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # a process has removed it meanwhile
                size += Path(place, name).stat().st_size
    return size


def _remove_remains(folder: Path) -> None:
    """Remove what no sweep became, or was not wholly removed, because a server ended."""
    for path in folder.iterdir() if folder.is_dir() else ():
        with suppress(OSError):
            is_old = time.time() - path.stat().st_mtime > REMAINS_S
            if is_old and not (_ID.fullmatch(path.name) and (path / RECORD).exists()):
                shutil.rmtree(path)


def _write_record(place: Path, record: SweepRecord, world: Mapping[str, Any]) -> None:
    _write(place / WORLD, world, makes_folder=True)
    (place / END).unlink(missing_ok=True)
    _write(place / RECORD, record)  # last: with it the sweep is there


def _write(path: Path, content: object, *, makes_folder: bool = False) -> None:
    with replace_file(path, "the sweep cannot be written", makes_folder=makes_folder) as file:
        file.write(msgspec.json.encode(content))


def _records(folder: Path) -> list[SweepRecord]:
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    found = [_record_of(folder / name) for name in names if _ID.fullmatch(name)]
    return [one for one in found if one is not None]


def _record_of(place: Path) -> SweepRecord | None:
    """Return None for one that is not there, or was never begun."""
    try:
        return msgspec.json.decode((place / RECORD).read_bytes(), type=SweepRecord)
    except (OSError, msgspec.DecodeError):
        return None


def _end_of(place: Path, record: SweepRecord) -> SweepEnd:
    """Return how a sweep ended that is not at work; one whose server ended is `interrupted`."""
    try:
        return msgspec.json.decode((place / END).read_bytes(), type=SweepEnd)
    except (OSError, msgspec.DecodeError):
        done = sum((place / one.id / ROW).is_file() for one in record.runs)
        return SweepEnd(status="interrupted", done=done)


def _world_of(place: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode((place / WORLD).read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError) as error:
        raise StoreUnavailable(f"the world of the sweep cannot be read: {error}", got=str(place)) from None


def _write_rows(place: Path, record: SweepRecord, file: Path) -> None:
    world = _world_of(place)
    planned = [
        PlannedRun(id=one.id, params=one.params, seed=one.seed, ticks=record.ticks, spec=world)
        for one in record.runs
    ]
    rows = [row for one in planned if (row := row_of(place, one)) is not None]
    write_table(file, rows, columns_of(planned))


def _remove(place: Path) -> None:
    """Remove a folder; one that is half gone is no sweep any more."""
    hidden = place.with_name(f"{place.name}{HIDDEN}")
    try:
        place.rename(hidden)
        shutil.rmtree(hidden)
    except FileNotFoundError:
        pass  # somebody else removes it
    except OSError as error:
        raise StoreUnavailable(f"the sweep cannot be removed: {error.strerror}", got=str(place)) from None
