"""The streams that an export of runs must hold, and how far each of them counts."""

from __future__ import annotations

from collections.abc import Sequence

from artelier.artifacts.queries import streams_written
from artelier.errors import CorruptStore
from artelier.ids import MAIN_SPACE
from artelier.kernel.export.allowlist import BESIDE
from artelier.kernel.history.fork_lineage import lineage
from artelier.kernel.queries.conversations import bases_of
from artelier.kernel.queries.runs import family_upto, run_row
from artelier.kernel.run.services import Services
from artelier.log import Stream, control_stream, run_stream
from artelier.log.queries import causes_of, events_at, position_of


async def streams_of(
    services: Services, tenant: str, run_ids: Sequence[str], *, position: int
) -> dict[Stream, int]:
    """Streams and the position up to which each counts. Errors: `NotFound`.

    A run and its descendants count whole, up to `position`; the origins of forks up to the branch, and the
    runs that conversations go on from up to the message in question. With a run come the commands that it
    was given and the artifacts that it wrote, these from their first version on, since a chain of hashes
    has no other beginning.
    """
    found: dict[Stream, int] = {}

    def take(stream: Stream, upto: int) -> None:
        found[stream] = max(upto, found.get(stream, 0))

    runs: dict[str, int] = {}
    for run_id in run_ids:
        await _add_runs(services, tenant, run_id, position, runs)
    for run, upto in runs.items():
        take(run_stream(tenant, run), upto)
        commands = control_stream(tenant, run)
        last = upto if upto == position else await _last_command(services, commands, upto)
        if last:
            take(commands, last)
        for stream, written in await _artifacts(services, tenant, run, upto):
            take(stream, written)
    return found


async def _add_runs(
    services: Services, tenant: str, run_id: str, position: int, found: dict[str, int]
) -> None:
    """Add a run's family: runs and the position up to which each counts."""
    if found.get(run_id) == position:
        return  # it came with its parent, and whatever is below it as well
    await lineage(services, tenant, run_id)
    for run in await family_upto(services.store, tenant, run_id, position):
        await _add_needed(services, tenant, run, position, found)


async def _add_needed(
    services: Services, tenant: str, run_id: str, position: int, found: dict[str, int]
) -> None:
    """Add a run up to a position, and those before it without which that part cannot be read."""
    waiting = [(run_id, position)]
    while waiting:
        run, upto = waiting.pop()
        if found.get(run, 0) >= upto:
            continue
        found[run] = upto
        row = await run_row(services.store, tenant, run)
        if row.origin is not None:
            origin = await run_row(services.store, tenant, row.origin)
            branch = await _position(services, origin.id, row.origin_seq or 0)
            waiting.append((row.origin, branch))
        waiting += await _bases(services, tenant, row.id, upto)


async def _bases(services: Services, tenant: str, stream_id: int, upto: int) -> list[tuple[str, int]]:
    """Runs that conversations of a run go on from, each up to the position of the message in question.

    Errors: `CorruptStore` if one is missing.
    """
    rows = await bases_of(services.store, tenant, stream_id, upto=upto)
    for run, number, position in rows:
        if position is None:
            raise CorruptStore(
                f"message {number} of run {run}, from which a conversation goes on, is missing",
                hint="Run `artelier verify`.",
            )
    return [(run, position or 0) for run, _, position in rows]


async def _position(services: Services, stream_id: int, seq: int) -> int:
    return (await events_at(services.store, stream_id, [seq]))[seq].position


async def _last_command(services: Services, commands: Stream, upto: int) -> int:
    """Position of the newest command whose effect stands in the part of an origin that counts."""
    prefix = f"{commands.local}@"
    stream = Stream(commands.tenant, MAIN_SPACE, f"run:{commands.id}")
    causes = await causes_of(services.store, stream, prefix=prefix, upto=upto)
    seqs = [int(cause.removeprefix(prefix)) for cause in causes]
    return await position_of(services.store, commands, max(seqs)) if seqs else 0


async def _artifacts(services: Services, tenant: str, run: str, upto: int) -> list[tuple[Stream, int]]:
    """Streams of the artifacts that a run wrote, each up to the run's newest version of it, or the newest
    event of those that stand beside versions (members of a group, changes of a task)."""
    beside = [(kind, name) for kind, names in BESIDE.items() for name in names]
    found = await streams_written(services.store, tenant, MAIN_SPACE, run, upto=upto, beside=beside)
    return [(Stream(tenant, MAIN_SPACE, name), position) for name, position in found]
