"""`artelier doctor`: the database, who holds its runs, its clock, and the key that seals it."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from artelier.cli.call import CliCall
from artelier.cli.doctor.result import NOTE, OK, WRONG, Finding, existing_parent
from artelier.errors import ArtelierError, InvalidConfig
from artelier.log.blobs import SECRET_BYTES
from artelier.log.places import exists, file_of, is_address, read_server_facts
from artelier.log.queries import has_wrapped_keys, held_leases, newest_at_us

if TYPE_CHECKING:
    from artelier.app import Kernel
    from artelier.log.postgres.store import ServerFacts

AHEAD_US_MAX = 5_000_000
"""An event so far in the future was written under another clock."""


CONNECTIONS_EACH = 3
"""Connections of a process: one writes, one reads, one listens."""

VERSION_MIN = 150_000
"""The oldest PostgreSQL that a store was tried with."""


class Looked(NamedTuple):
    """The findings from opening the database."""

    found: list[Finding]
    is_sealed: bool = False
    problem: ArtelierError | None = None


def looks(call: CliCall) -> list[Finding]:
    """Return the findings on the database, if there is one, and on the key."""
    looked = _check_there(call)
    return [*looked.found, _vault(call, looked)]


def _check_there(call: CliCall) -> Looked:
    try:
        if exists(call.database):
            return _check_open(call)
    except ArtelierError as error:
        return Looked([Finding("database", WRONG, str(error))], problem=error)
    if is_address(call.database):
        return Looked([Finding("database", NOTE, f"none yet at {call.database_label}")])
    return Looked([_not_yet(Path(file_of(call.database)))])


def _not_yet(path: Path) -> Finding:
    """Return whether there can be one: the rights of a folder do not tell, so a file is made and gone
    again.
    """
    near = existing_parent(path)
    try:
        with tempfile.TemporaryFile(dir=near):
            return Finding("database", NOTE, f"none yet at {path}")
    except OSError as error:
        why = f"{near} cannot be written ({error.strerror}): change its rights, or name another --db"
        return Finding("database", WRONG, f"none yet at {path}; {why}")


def _check_open(call: CliCall) -> Looked:
    async def look() -> Looked:
        async with call.kernel() as kernel:
            found = [await _database(kernel, call), await _leases(kernel), await _clock(kernel)]
            if is_address(call.database):
                found += check_server(read_server_facts(call.database), kernel.services.clock.now_us())
            return Looked(found, is_sealed=await has_wrapped_keys(kernel.store, secret_bytes=SECRET_BYTES))

    try:
        return asyncio.run(look())
    except ArtelierError as error:
        return Looked([Finding("database", WRONG, str(error))], problem=error)


async def _database(kernel: Kernel, call: CliCall) -> Finding:
    """Opened and migrated by now; an empty batch says whether somebody else has it locked."""
    from artelier.log import Batch

    await kernel.store.append(Batch())
    head = (await kernel.head())[:16]
    said = f"schema {kernel.store.schema_version}, head {head}"
    if is_address(call.database):
        return Finding("database", OK, f"{call.database_label}, {said}")
    path = Path(file_of(call.database))
    size = path.stat().st_size / 1024**2
    return Finding("database", OK, f"{path}, {size:,.1f} MiB, {said}")


async def _leases(kernel: Kernel) -> Finding:
    leases = await held_leases(kernel.store)
    alive = [one for one in leases if kernel.services.is_driving(one.holder, one.end)]
    if len(alive) == len(leases):
        return Finding("leases", OK, f"{len(alive)} runs are driven now")
    left = len(leases) - len(alive)
    return Finding(
        "leases", NOTE, f"{left} runs were left by a process that is gone: `artelier worker` goes on"
    )


async def _clock(kernel: Kernel) -> Finding:
    newest_us = await newest_at_us(kernel.store)
    ahead_us = 0 if newest_us is None else newest_us - kernel.services.clock.now_us()
    if ahead_us <= AHEAD_US_MAX:
        return Finding("clock", OK, "no event is of the future")
    said = f"the newest event is {ahead_us / 1e6:,.0f} s ahead of this machine's clock"
    return Finding("clock", NOTE, f"{said}: set it, or waits last longer")


def check_server(facts: ServerFacts, now_us: int) -> list[Finding]:
    """Return what is wrong with a database server; a single line if nothing is."""
    wrong: list[str] = []
    notes: list[str] = []
    if facts.version < VERSION_MIN:
        wrong.append(f"PostgreSQL {facts.version // 10_000} is too old: 15 or newer is needed")
    if not facts.is_fsync_on:
        wrong.append("fsync is off: what was committed is lost when the machine fails; set fsync = on")
    if facts.synchronous_commit == "off":
        wrong.append(
            "synchronous_commit is off: the newest commits are lost when the server fails; set it on"
        )
    if not facts.is_writing_full_pages:
        wrong.append("full_page_writes is off: a torn page damages the database; set full_page_writes = on")
    if facts.asynchronous_standbys:
        notes.append(
            f"{facts.asynchronous_standbys} standbys are asynchronous: one that takes over may lack commits,"
            " and processes that saw them then stop with history_lost"
        )
    if facts.connections_left < CONNECTIONS_EACH:
        notes.append(
            f"{max(0, facts.connections_left)} connections are left, and a process takes {CONNECTIONS_EACH}:"
            " raise max_connections"
        )
    if abs(apart_us := facts.at_us - now_us) > AHEAD_US_MAX:
        way = "ahead of" if apart_us > 0 else "behind"
        notes.append(f"its clock is {abs(apart_us) / 1e6:,.0f} s {way} this machine's: set them")
    found = [
        *(Finding("server", WRONG, one) for one in wrong),
        *(Finding("server", NOTE, one) for one in notes),
    ]
    said = f"PostgreSQL {facts.version // 10_000}, {facts.connections_left} connections left"
    return found or [Finding("server", OK, said)]


def _vault(call: CliCall, looked: Looked) -> Finding:
    """Return whether the key is there and can be used; never what it is."""
    from artelier.pii.vault import VARIABLE, sealer_from

    try:
        cipher = sealer_from(os.environ)
    except ArtelierError as error:
        return Finding("vault key", WRONG, str(error))
    if cipher is not None:
        if isinstance(looked.problem, InvalidConfig):
            said = f"{VARIABLE} is not the key that this database was written with: set that one"
            return Finding("vault key", WRONG, said)
        return Finding("vault key", OK, f"{VARIABLE} seals what is stored")
    if looked.is_sealed:
        said = f"what is stored is sealed, and shown as [locked]: set the {VARIABLE} that it was written with"
        return Finding("vault key", WRONG, said)
    if call.settings.pii:
        return Finding("vault key", WRONG, f"personal data is to be replaced: set {VARIABLE}")
    return Finding("vault key", NOTE, f"no {VARIABLE}: what is stored is not encrypted")
