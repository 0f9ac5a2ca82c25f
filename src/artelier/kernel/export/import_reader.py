"""Writing a checked file to the log: one batch whose events keep their hashes and whose money is lent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO

from artelier.errors import Conflict, InvalidExport
from artelier.kernel import events as ev
from artelier.kernel.export.archive import ArchiveReader, BlobLine
from artelier.kernel.export.validator import Inspected
from artelier.kernel.run.services import Services
from artelier.ledger.queries import cap_in, scope_limits
from artelier.log import Blob, DataKey, Draft, EventData, RawDraft, StreamAppend, Tx, tenant_stream
from artelier.log.blobs import name_blob
from artelier.pii.placeholder import placeholders_in

if TYPE_CHECKING:
    from artelier.pii.scrubber import Scrubber

Caps = dict[tuple[str, str], int | None]
"""Caps of counters, by (scope, unit)."""


async def caps_of(services: Services, tenant: str, found: Inspected) -> Caps:
    """Caps of this tenant on counters that the history changes."""
    caps: Caps = {}
    known = {
        (one.scope, one.unit): one
        for scope in {scope for scope, _ in found.loan.scopes}
        for one in await scope_limits(services.store, tenant, scope)
    }
    for key in found.loan.scopes:
        if key in known:
            caps[key] = known[key].cap
    return caps


def same_caps(tenant: str, found: Inspected, caps: Caps) -> Callable[[Tx], None]:
    """A guard: these caps stand, so that they can be put back after the history."""

    def check(tx: Tx) -> None:
        for scope, unit in found.loan.scopes:
            row = cap_in(tx, tenant, scope, unit)
            if (row is not None) != ((scope, unit) in caps) or (row and row.cap != caps[scope, unit]):
                raise Conflict(
                    f"the cap on {unit} of {scope} was changed meanwhile",
                    hint="Nothing was imported. Try again.",
                )

    return check


def both(first: Callable[[Tx], None], second: Callable[[Tx], None] | None) -> Callable[[Tx], None]:
    """A guard of two."""

    def check(tx: Tx) -> None:
        first(tx)
        if second is not None:
            second(tx)

    return check


def appends_of(
    services: Services,
    tenant: str,
    found: Inspected,
    ids: dict[int, DataKey],
    caps: Caps,
    by: str,
    *,
    more: Sequence[EventData] = (),
) -> list[StreamAppend]:
    """The events in the order in which they were recorded, framed by the loan that they need.

    `more` follows in the tenant's stream.
    """
    now = services.clock.now_us()
    own = tenant_stream(tenant)

    def framing(*data: EventData) -> StreamAppend:
        return StreamAppend(own, [Draft(item, now, by) for item in data])

    runs = tuple(
        ev.ImportedRun(run, None if key is None else ids[key].key_id)
        for run, key in sorted(found.runs.items())
    )
    first = ev.RunsImported(
        runs=runs,
        tenant=found.header.tenant,
        sha256=found.sha256,
        agent=found.header.agent,
        postings=found.loan.opening_postings(),
    )
    last = ev.ImportSettled(
        sha256=found.sha256, postings=found.loan.closing_postings(), counts=found.loan.closing_counts()
    )
    lifted = [ev.LimitSet(scope=scope, unit=unit) for scope, unit in caps]
    restored = [ev.LimitSet(scope=scope, unit=unit, cap=cap) for (scope, unit), cap in caps.items()]
    return [framing(first, *lifted), *_history(tenant, found), framing(last, *restored, *more)]


def _history(tenant: str, found: Inspected) -> list[StreamAppend]:
    """Neighbours of one stream go together. A stream's first events say that nothing was there before."""
    appends: list[StreamAppend] = []
    begun: set[str] = set()
    run: list[RawDraft] = []
    last: str | None = None
    for local, draft in found.drafts:
        if local != last:
            run = []
            expected = None if local in begun else 0
            appends.append(StreamAppend(found.home(tenant, local), run, expected))
            begun.add(local)
            last = local
        run.append(draft)
    return appends


def placeholders_of(contents: Iterable[Blob], scrubber: Scrubber) -> dict[str, bytes]:
    """Placeholders that a file's content has, each with the name of a content that has it.

    Errors: `InvalidExport` for content that holds personal data: its name is a hash of it, so that nothing
    can be replaced in there.
    """
    found: dict[str, bytes] = {}
    for blob in contents:
        if scrubber.holds(blob.content):
            raise InvalidExport(
                "the file holds personal data, and this store replaces it",
                hint="Nothing was imported. Export it from, or import it into, one with the same policy.",
            )
        if b"<" in blob.content:
            for one in placeholders_in(blob.content.decode(errors="replace")):
                found.setdefault(one, blob.name)
    return found


async def check_placeholders(
    services: Services, tenant: str, named: dict[str, bytes], scrubber: Scrubber
) -> None:
    """Whoever made a file may have seen placeholders of this tenant: by naming one nobody gains its value.

    Errors: `InvalidExport` for one that stands for a value here, in content that is not here already.
    """
    for one, name in named.items():
        if scrubber.vault.value_of(one) is None:
            continue
        if not await services.store.blobs(tenant, [name]):
            raise InvalidExport(
                "the file names a placeholder that stands for a value of this tenant",
                hint="Nothing was imported. Import it for another tenant: there it stands for nothing.",
                got=one,
            )


class ImportContents:
    """The content of a checked file, read again blob by blob while it is stored: never all in memory."""

    def __init__(
        self,
        file: BinaryIO,
        tenant: str,
        secrets: dict[int, bytes],
        ids: dict[int, DataKey],
        size_max_bytes: int,
        *,
        more: Sequence[Blob] = (),
    ) -> None:
        """`more` comes before the content of the file."""
        self._more = more
        self._file = file
        self._tenant = tenant
        self._secrets = secrets
        self._ids = ids
        self._size_max = size_max_bytes

    def __iter__(self) -> Iterator[Blob]:
        yield from self._more
        pieces: list[bytes] = []
        for line in ArchiveReader(self._file, size_max_bytes=self._size_max).lines():
            if not isinstance(line, BlobLine):
                continue
            pieces.append(line.content)
            if not line.more:
                content = b"".join(pieces)
                pieces = []
                key = DataKey(None, b"") if line.key is None else self._ids[line.key]
                if name_blob(key, content) != line.name:
                    raise InvalidExport("the file was changed while it was imported")
                secret = key.secret if key.is_sealing else b""
                yield Blob(self._tenant, line.name, key.key_id, content, secret)
