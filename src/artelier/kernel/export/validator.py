"""The inspection of a file, which trusts nothing before it has checked every line. It uses no store.

Imported history moves money that was never here. Events keep their postings, since these are hashed. So an
import is framed by events that lend every account what the history will take from it, and take back
whatever the history left there. Between them no account is overdrawn, after them each has what it had
before; and the sum over all accounts is zero throughout. Counters of limits are treated alike, with their
caps lifted meanwhile.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from artelier.errors import ArtelierError, InvalidExport, InvalidRequest, NotFound, StoreUnavailable
from artelier.ids import MAIN_SPACE, check_run_id, check_tenant
from artelier.kernel import events as ev
from artelier.kernel.export.archive import (
    SIZE_BYTES_MAX,
    AnyLine,
    ArchiveReader,
    Belongings,
    BlobLine,
    End,
    EventLine,
    GoneLine,
    Header,
    KeyLine,
    RunLine,
)
from artelier.kernel.export.writer import check_place, check_stream, head_refs, messages_named
from artelier.kernel.run_limits import check_scopes
from artelier.ledger import Count, Moving, Posting, may_owe
from artelier.ledger.view import AMOUNT_MAX
from artelier.log import GENESIS, EventData, RawDraft, Stream, blob_name, blob_ref
from artelier.log.blobs import BLOB_BYTES_MAX, blob_refs
from artelier.log.event import decode_import, event_hash, is_known
from artelier.ports.media import media_refs

LENDER = "source:import"

Account = tuple[str, str]
"""Account and asset, or scope and unit."""


class Loan:
    """Adds up what a history does to accounts and counters. Errors: `InvalidExport`."""

    def __init__(self, *, own: Collection[str]) -> None:
        """`own`: scopes that come with the import; nobody else counts there."""
        self._own = frozenset(own)
        self._balance: dict[Account, int] = {}
        self._lowest: dict[Account, int] = {}
        self._counted: dict[Account, tuple[int, int]] = {}
        self._moved = 0

    def add(self, data: Moving) -> None:
        for posting in data.postings:
            self._take_amount(posting.amount)
            if posting.amount <= 0 or posting.source == posting.target:
                raise InvalidExport("a posting moves a positive amount between two accounts")
            self._move((posting.source, posting.asset), -posting.amount)
            self._move((posting.target, posting.asset), posting.amount)
        for count in data.counts:
            self._take_amount(count.reserve)
            self._take_amount(count.use)
            if count.scope not in self._own:
                reserve, use = self._counted.get((count.scope, count.unit), (0, 0))
                self._counted[count.scope, count.unit] = (reserve + count.reserve, use + count.use)

    def _take_amount(self, amount: int) -> None:
        self._moved += abs(amount)
        if self._moved > AMOUNT_MAX:
            raise InvalidExport(
                "its events move more than a ledger takes",
                expected=f"at most {AMOUNT_MAX}",
                got=str(amount)[:40],
            )

    def _move(self, account: Account, amount: int) -> None:
        balance = self._balance[account] = self._balance.get(account, 0) + amount
        if not may_owe(account[0]):
            self._lowest[account] = min(balance, self._lowest.get(account, 0))

    @property
    def scopes(self) -> tuple[Account, ...]:
        """Counters of others that the history changes, as (scope, unit)."""
        return tuple(sorted(self._counted))

    def opening_postings(self) -> tuple[Posting, ...]:
        """Return what accounts get before the history."""
        return tuple(
            Posting(LENDER, account, asset, -lowest)
            for (account, asset), lowest in sorted(self._lowest.items())
            if lowest < 0
        )

    def closing_postings(self) -> tuple[Posting, ...]:
        """Return what is taken back after it."""
        postings: list[Posting] = []
        for (account, asset), balance in sorted(self._balance.items()):
            left = balance - self._lowest.get((account, asset), 0)
            if account == LENDER or not left:
                continue
            if left > 0:
                postings.append(Posting(account, LENDER, asset, left))
            else:
                postings.append(Posting(LENDER, account, asset, -left))
        return tuple(postings)

    def closing_counts(self) -> tuple[Count, ...]:
        """Return what is taken off counters after it."""
        return tuple(
            Count(scope, unit, reserve=-reserved, use=-used)
            for (scope, unit), (reserved, used) in sorted(self._counted.items())
        )


KEY_BYTES = 32
KEYS_MAX = 100_000
"""A turn of a chat has four; the lines themselves are bounded by the size of the file."""


@dataclass(slots=True)
class Inspected:
    """A file that was found to be whole, without its content."""

    header: Header
    sha256: str
    keys: dict[int, bytes] = field(default_factory=dict[int, bytes])
    parts: set[int] = field(default_factory=set[int])
    """Those of them under which content can be erased alone."""
    gone: set[bytes] = field(default_factory=set[bytes])
    """Names of content that was erased before the export."""
    runs: dict[str, int | None] = field(default_factory=dict[str, int | None])
    """Which key each run's prompts are hashed with."""
    drafts: list[tuple[str, RawDraft]] = field(default_factory=list[tuple[str, RawDraft]])
    """Every event with the local name of its stream, in the order in which they were recorded."""
    heads: dict[str, tuple[int, bytes]] = field(default_factory=dict[str, tuple[int, bytes]])
    """Last seq and hash of each stream."""
    parents: set[str] = field(default_factory=set[str])
    """Parents of runs of the file that are not in it themselves."""
    loan: Loan = field(default_factory=lambda: Loan(own=()))
    """What its events do to accounts and counters."""
    blobs: int = 0
    belongings: Belongings | None = None
    """Of the agent or the world that the file is about."""

    def home(self, tenant: str, local: str) -> Stream:
        """Return where a stream of the file goes in a tenant."""
        if self.belongings is not None and self.belongings.has_stream(local):
            return self.belongings.home(tenant, local)
        return Stream(tenant, MAIN_SPACE, local)

    def leave_out(self, streams: Collection[str]) -> None:
        """Forget streams that are there already, and the money that only they move."""
        self.heads = {local: head for local, head in self.heads.items() if local not in streams}
        self.runs = {run: key for run, key in self.runs.items() if f"run:{run}" not in streams}
        self.drafts = [one for one in self.drafts if one[0] not in streams]
        self.loan = Loan(own={f"run:{run}" for run in self.runs})
        for local, draft in self.drafts:
            data = decode_import(draft.kind, draft.version, draft.data)
            if isinstance(data, Moving) and self.home("", local).space == MAIN_SPACE:
                self.loan.add(data)


@contextmanager
def open_export(path: str | Path) -> Generator[BinaryIO]:
    """Errors: `NotFound`, `StoreUnavailable`."""
    try:
        file = open(path, "rb")
    except (FileNotFoundError, IsADirectoryError):
        raise NotFound("no such file", got=str(path)) from None
    except (OSError, ValueError) as error:
        raise _unreadable(error) from error
    with file:
        yield file


def _unreadable(error: OSError | ValueError) -> StoreUnavailable:
    why = error.strerror if isinstance(error, OSError) else None
    return StoreUnavailable(f"the file cannot be read: {why or error}")


def read_header(path: str | Path) -> Header:
    """Return who exported what, from the first line of a file. Errors: those of `inspect`, and of
    `open_export`.
    """
    with open_export(path) as file:
        try:
            return ArchiveReader(file).header()
        except OSError as error:
            raise _unreadable(error) from error


def inspect(
    file: BinaryIO,
    *,
    size_max_bytes: int = SIZE_BYTES_MAX,
    belongings: Callable[[Header], Belongings] | None = None,
    about: str = "agent",
) -> Inspected:
    """Check a whole file. Memory: its events, and one piece of content at a time.

    With `belongings` the file must be one of an agent, or of what `about` says, else one of a run.

    Errors: `InvalidExport` that names what is wrong and where.
    """
    line = 0
    try:
        reader = ArchiveReader(file, size_max_bytes=size_max_bytes)
        header = reader.header()
        found = Inspected(header, reader.check_seal())
        found.belongings = _belongings(header, belongings, about)
        inspection = _Inspection(found)
        for item in reader.lines():
            line = reader.line
            inspection.take(item)
        inspection.end()
    except InvalidExport:
        raise
    except OSError as error:
        raise _unreadable(error) from error
    except (ArtelierError, RecursionError, OverflowError, UnicodeError) as error:
        raise InvalidExport(f"this export cannot be imported (line {line}): {str(error)[:300]}") from error
    return inspection.found


_VERBS = {"run": "import", "agent": "agents import", "world": "world import", "chat": "chat import"}


def _belongings(
    header: Header, belongings: Callable[[Header], Belongings] | None, about: str
) -> Belongings | None:
    """Errors: `InvalidExport` for the file of a run where an agent is wanted, and so on."""
    what, name = header.about
    if what != ("run" if belongings is None else about):
        raise InvalidExport(
            f"this file holds {what} {name[:120]}", hint=f"Take it with: artelier {_VERBS[what]} FILE"
        )
    return None if belongings is None else belongings(header)


class _Inspection:
    """Takes the lines of a file in order."""

    def __init__(self, found: Inspected) -> None:
        self.found = found
        check_tenant(found.header.tenant)
        self._stage = 0
        self._ended: End | None = None
        self._needed: set[bytes] = set()
        """Content that events refer to."""
        self._manifests: set[bytes] = set()
        self._messages: set[bytes] = set()
        """Content that may hold messages, which name media."""
        self._have: set[bytes] = set()
        self._blob: _OpenBlob | None = None
        self._written_by: dict[str, set[str | None]] = {}
        """Runs that wrote versions of each artifact."""
        self._numbers: dict[tuple[str, str], tuple[int, int]] = {}
        """First and last number of a stream's own messages, by conversation."""

    def take(self, line: AnyLine) -> None:
        if self._ended is not None:
            raise InvalidExport("something follows the end of the file")
        if self._blob is not None and not isinstance(line, BlobLine):
            raise InvalidExport("content breaks off")
        if isinstance(line, KeyLine):
            self._key(line)
        elif isinstance(line, RunLine):
            self._in_order(0, line)
            self._run(line)
        elif isinstance(line, EventLine):
            self._in_order(1, line)
            self._event(line)
        elif isinstance(line, BlobLine):
            self._in_order(2, line)
            self._content(line)
        elif isinstance(line, GoneLine):
            self._in_order(2, line)
            self._lack(line)
        elif isinstance(line, End):
            self._ended = line
        else:
            raise InvalidExport("a second header")

    def _in_order(self, stage: int, line: AnyLine) -> None:
        if stage < self._stage:
            raise InvalidExport(f"a line is out of order: {type(line).__name__}")
        self._stage = stage

    def _key(self, line: KeyLine) -> None:
        if line.id != len(self.found.keys) + 1 or line.id > KEYS_MAX:
            raise InvalidExport("keys are numbered from 1", got=line.id)
        if len(line.secret) != KEY_BYTES:
            raise InvalidExport("a key has another length", expected=KEY_BYTES, got=len(line.secret))
        self.found.keys[line.id] = line.secret
        if line.part:
            self.found.parts.add(line.id)

    def _known_key(self, key: int | None) -> int | None:
        if key is not None and key not in self.found.keys:
            raise InvalidExport("a key is missing", got=f"key {key}")
        return key

    def _run(self, line: RunLine) -> None:
        if check_run_id(line.run) in self.found.runs:
            raise InvalidExport("a run is named twice", got=line.run)
        self.found.runs[line.run] = self._known_key(line.key)

    # Events

    def _event(self, line: EventLine) -> None:
        if not self.found.drafts:
            self.found.loan = Loan(own={f"run:{run}" for run in self.found.runs})
        where = f"event {line.seq} of {line.stream[:120]}"
        seq, last = self.found.heads.get(line.stream, (0, GENESIS))
        data = bytes(line.data)
        if line.seq != seq + 1:
            raise InvalidExport(f"event {seq + 1} of {line.stream[:120]} is missing", got=line.seq)
        hash_ = event_hash(
            last,
            stream=line.stream,
            seq=line.seq,
            kind=line.kind,
            version=line.version,
            data=data,
            at_us=line.at_us,
            actor=line.actor,
            cause=line.cause,
        )
        if hash_ != line.hash:
            raise InvalidExport(f"{where} is not what was written: its hash does not match")
        if not is_known(line.kind, line.version):
            raise InvalidExport(
                f"{where} is of a kind that this version does not know",
                got=f"{line.kind[:80]} version {line.version}",
                hint="Upgrade Artelier.",
            )
        typed = decode_import(line.kind, line.version, data)
        self._place(line, typed)
        self._needed.update(blob_refs(data))
        self._messages.update(messages_named(line.kind, data, typed))
        self.found.heads[line.stream] = (line.seq, hash_)
        draft = RawDraft(line.kind, line.version, data, line.at_us, line.actor, line.cause)
        self.found.drafts.append((line.stream, draft))

    def _place(self, line: EventLine, typed: EventData) -> None:
        belongings = self.found.belongings
        if belongings is not None and belongings.has_stream(line.stream):
            belongings.take_own(line.stream, line.seq, typed, at_us=line.at_us)
            return
        kinds = belongings.kinds if belongings is not None else ()
        check_place(line.stream, line.seq, line.kind, typed, more=kinds)
        if belongings is not None and line.stream.startswith("artifact:"):
            belongings.take(line.stream.removeprefix("artifact:"), line.seq, typed)
        self._relations(line.stream, typed)

    def _seq_of(self, run: str) -> int:
        return self.found.heads.get(f"run:{run}", (0, b""))[0]

    def _relations(self, stream: str, data: EventData) -> None:
        """Check what an event says about other lines of the file."""
        if isinstance(data, ev.RunForked) and not 1 <= data.at <= self._seq_of(data.origin):
            raise InvalidExport("the origin of a fork is missing", got=data.origin[:120])
        if isinstance(data, ev.RunStarted):
            _check_scopes(stream, data)
        if isinstance(data, ev.RunStarted) and data.parent is not None:
            if data.parent not in self.found.runs:
                self.found.parents.add(data.parent)
            elif not self._seq_of(data.parent):
                raise InvalidExport("a run begins before its parent", got=data.parent[:120])
        if isinstance(data, ev.ContextAssembled | ev.CycleCompleted):
            for added in data.added:
                self._count(stream, added)
        if isinstance(data, ev.ContextAssembled):
            self._manifests.add(blob_name(data.head))
        if stream.startswith("artifact:"):
            self._written_by.setdefault(stream, set()).add(getattr(data, "run_id", None))
        if isinstance(data, Moving):
            self.found.loan.add(data)

    def _count(self, stream: str, added: ev.Added) -> None:
        """Take note of new messages. What they go on from must stand before them in the file."""
        place = (stream, added.conversation)
        first, last = added.start, added.start + len(added.entries) - 1
        if first < 1 or last > ev.NUMBER_MAX:
            raise InvalidExport("messages are numbered from 1", got=str(first)[:40])
        for offset, entry in enumerate(added.entries):
            if entry.form != "b":
                continue
            base = self._numbers.get((f"run:{entry.ref}", entry.call))
            if base is None or not base[0] <= added.start <= base[1]:
                raise InvalidExport(
                    "what a conversation goes on from is missing",
                    got=f"message {str(added.start)[:20]} of {entry.ref[:120]}",
                )
            if offset or place in self._numbers:
                raise InvalidExport("a conversation goes on from another when it has begun")
            first += 1
        self._numbers[place] = (self._numbers.get(place, (first, 0))[0], last)

    # Content

    def _content(self, line: BlobLine) -> None:
        if self._blob is None:
            self._blob = _OpenBlob(line, self._secret(line), keep=self._keeps(line.name))
            if line.name in self._have or line.name in self.found.gone:
                raise InvalidExport("content stands twice", got=blob_ref(line.name))
        self._blob.take(line)
        if line.more:
            return
        content, self._blob = self._blob.end(), None
        self._have.add(line.name)
        self.found.blobs += 1
        if line.name in self._manifests:
            refs = [blob_name(ref) for ref in head_refs(content)]
            self._needed.update(refs)
            self._messages.update(refs)
        if line.name in self._messages:
            self._needed.update(blob_name(ref) for ref in media_refs(content))
        belongings = self.found.belongings
        if belongings is not None and belongings.wants(line.name):
            belongings.content(line.name, content)

    def _lack(self, line: GoneLine) -> None:
        """Take note of content that the file does not have because it was erased."""
        belongings = self.found.belongings
        if belongings is None or not belongings.erased_parts or len(line.name) != KEY_BYTES:
            raise InvalidExport("such a file does not go out without content that was erased")
        if line.name in self.found.gone or line.name in self._have:
            raise InvalidExport("content stands twice", got=blob_ref(line.name))
        self.found.gone.add(line.name)

    def _keeps(self, name: bytes) -> bool:
        """Return True if this content is looked at, beyond its name."""
        belongings = self.found.belongings
        is_read = name in self._manifests or name in self._messages
        return is_read or (belongings is not None and belongings.wants(name))

    def _secret(self, line: BlobLine) -> bytes | None:
        key = self._known_key(line.key)
        return None if key is None else self.found.keys[key]

    # The end

    def end(self) -> None:
        found, end = self.found, self._ended
        if end is None:
            raise InvalidExport("the end of the file is missing")
        if needless := found.gone - self._needed:
            raise InvalidExport("erased content is named that nothing refers to", got=blob_ref(min(needless)))
        if missing := self._needed - self._have - found.gone:
            raise InvalidExport(f"{len(missing)} pieces of content are missing", got=blob_ref(min(missing)))
        if (end.events, end.blobs) != (len(found.drafts), found.blobs):
            raise InvalidExport(
                "the file does not hold what it says",
                expected=f"{end.events} events, {end.blobs} blobs",
                got=f"{len(found.drafts)} events, {found.blobs} blobs",
            )
        self._check_streams()

    def _check_streams(self) -> None:
        found = self.found
        runs = {check_stream(local)[1] for local in found.heads if local.startswith("run:")}
        belongings = found.belongings
        if runs != set(found.runs) or (belongings is None and found.header.run not in runs):
            raise InvalidExport("the runs of the file are not those that it names")
        for local in found.heads:
            if belongings is not None and belongings.has_stream(local):
                continue
            kind, id_ = check_stream(local)
            if kind == "control" and id_ not in runs:
                raise InvalidExport("commands of a run that is not in the file", got=local)
            if kind != "artifact" or self._written_by[local] & runs:
                continue
            if belongings is None or not belongings.owns(id_):
                raise InvalidExport("an artifact that no run of the file has written", got=local)
        if belongings is not None:
            belongings.end()


def _check_scopes(stream: str, started: ev.RunStarted) -> None:
    """It counts nowhere but in scopes that runs are opened with. Errors: `InvalidExport`."""
    try:
        check_scopes(started.scopes)
    except InvalidRequest as error:
        raise InvalidExport(f"{stream[:120]} begins with {error.message}", got=error.got) from None


class _OpenBlob:
    """Content whose pieces are still coming."""

    def __init__(self, line: BlobLine, secret: bytes | None, *, keep: bool) -> None:
        if not 0 <= line.size <= BLOB_BYTES_MAX:
            raise InvalidExport("content is too large", expected=BLOB_BYTES_MAX, got=line.size)
        self._name = line.name
        self._key = line.key
        self._left = self._size = line.size
        self._digest: Any = sha256() if secret is None else hmac.new(secret, digestmod="sha256")
        self._kept = bytearray() if keep else None

    def take(self, line: BlobLine) -> None:
        if (line.name, line.key, line.size) != (self._name, self._key, self._size):
            raise InvalidExport("content breaks off", got=blob_ref(self._name))
        self._left -= len(line.content)
        if self._left < 0 or (not self._left and line.more) or (line.more and not line.content):
            raise InvalidExport("content has another size", got=blob_ref(self._name))
        self._digest.update(line.content)
        if self._kept is not None:
            self._kept += line.content

    def end(self) -> bytes:
        """The content, if it was asked to be kept."""
        if self._left or self._digest.digest() != self._name:
            raise InvalidExport("content is not what its name says", got=blob_ref(self._name))
        return bytes(self._kept or b"")
