"""Code that changes under runs which are at work: which version of a change a run goes by.

The answer is an event and no step: it has no key among the run's keys, so that the question can be put into
code, and taken out of it, without moving anything.
"""

from __future__ import annotations

from typing import cast

from artelier.errors import InvalidRequest
from artelier.kernel import events as ev
from artelier.kernel.history.fork_lineage import lineage
from artelier.kernel.run.context import RunCore
from artelier.log.queries import stream_events

CHANGE_CHARS_MAX = 200


async def version(core: RunCore, change: str, *, latest: int, default: int) -> int:
    """Errors: see `Run.version`. Cost: one read of the run's events, the first time in a drive."""
    _check(change, latest, default)
    if core.pii is not None:
        core.pii.check_name(change)
    if core.versions is None:
        core.versions = await _read_recorded(core)
    if (known := core.versions.get(change)) is not None:
        return known
    is_old = core.actor is None or await core.history.expects_more()
    chosen = core.versions[change] = default if is_old else latest
    if core.actor is not None:
        core.actor.note(ev.VersionRecorded(change=change, version=chosen))
    return chosen


def _check(change: object, latest: object, default: object) -> None:
    is_name = isinstance(change, str) and 0 < len(change) <= CHANGE_CHARS_MAX
    if not is_name or not cast(str, change).isprintable():
        raise InvalidRequest(
            "a change needs a name",
            expected=f"1-{CHANGE_CHARS_MAX} printable characters",
            got=repr(change)[:80],
        )
    for name, number in (("latest", latest), ("default", default)):
        is_number = isinstance(number, int) and not isinstance(number, bool)
        if not is_number or not 0 <= cast(int, number) < 1 << 31:
            raise InvalidRequest(
                f"{name} version of {change!r}", expected="a number from 0", got=repr(number)[:80]
            )


async def _read_recorded(core: RunCore) -> dict[str, int]:
    """Return what the run, or the part of its origins that counts, has recorded; nothing for a new run."""
    if core.is_new:
        return {}
    found: dict[str, int] = {}
    for place in reversed(await lineage(core.services, core.tenant.id, core.run_id)):
        rows = await stream_events(core.store, place.stream_id, ev.VersionRecorded.KIND, upto=place.upto)
        for row in rows:
            event = row.read(ev.VersionRecorded)
            found.setdefault(event.change, event.version)
    return found
