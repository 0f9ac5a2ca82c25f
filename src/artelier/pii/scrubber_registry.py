"""The one place that gives each tenant its scrubber, and hangs it where content is named.

Values in words that leave beside the store: log lines, answers of a server, errors at a terminal.

Nobody may say there what a run was kept from saying, and there is not always a tenant whose placeholders
could stand instead. So a value becomes its kind, `<EMAIL>`, which stands for nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar, cast
from weakref import WeakSet

from artelier.errors import ArtelierError, InvalidRequest
from artelier.log import Batch, DataKey, Draft, EventData, RawDraft, Store, Stream, StreamAppend
from artelier.log.blobs import Secret
from artelier.log.contract import names_in, names_of
from artelier.log.queries import stream_ids_in, tenant_key
from artelier.pii.detectors import find_all, pattern
from artelier.pii.detectors.text_view import RULES, view_of
from artelier.pii.scrubber import Scrubber
from artelier.pii.search_processes import PiiSearch
from artelier.pii.vault import Vault
from artelier.ports.pii import Detector

UNREADABLE = "[not shown: it could not be searched for personal data]"

END_CHARS = 8 * 1024
"""Characters of either end that are kept of very long words."""
MARGIN_CHARS = 512
"""More than a value has."""

LOGGERS = ("artelier.server", "artelier.telemetry", "asyncio", "uvicorn.error")
"""Those that tell of failures in this process. A filter holds for its own logger alone."""


class Marker(Protocol):
    """Whoever looks for personal data in this process."""

    def redact(self, text: str) -> str:
        """The text with kinds in place of values."""
        ...


_watching: WeakSet[Marker] = WeakSet()


def marked_by(detectors: Sequence[Detector], text: str) -> str:
    """The text with kinds in place of what the detectors find; nothing of it if one of them fails."""
    from artelier.pii.detectors import find_all  # its expressions take 60 ms to compile

    view = view_of(text)
    pieces: list[str] = []
    at = 0
    try:
        for found in find_all(detectors, view.text):
            start, end = view.span(found.start, found.end)
            pieces += (text[at:start], f"<{found.kind}>")
            at = end
    except ArtelierError:
        return UNREADABLE
    return text if not pieces else "".join((*pieces, text[at:]))


def watch(marker: Marker) -> None:
    """Keep what the marker looks for out of our log lines, as long as it lives."""
    _watching.add(marker)
    for name in LOGGERS:
        logger = logging.getLogger(name)
        if _FILTER not in logger.filters:
            logger.addFilter(_FILTER)


def redact_output(text: str) -> str:
    """Words on their way out of this process. Cost: nothing where nobody replaces personal data.

    Of very long ones both ends are kept: an error may repeat the megabyte that somebody sent, and to search
    that takes a second of the event loop.
    """
    if not _watching:
        return text
    if len(text) <= 2 * END_CHARS:
        return _redact(text)
    # What the cut goes through is not recognized, so some more is searched, and left out.
    head = _redact(text[: END_CHARS + MARGIN_CHARS])[:-MARGIN_CHARS]
    tail = _redact(text[-END_CHARS - MARGIN_CHARS :])[MARGIN_CHARS:]
    return f"{head} [... of {len(text):,} characters ...] {tail}"


def _redact(text: str) -> str:
    for one in tuple(_watching):
        text = one.redact(text)
    return text


T = TypeVar("T")


def marked_wire(value: T) -> T:
    """The same for JSON data, such as an error on the wire."""
    if not _watching:
        return value
    found: object = value
    if isinstance(value, str):
        found = redact_output(value)
    elif isinstance(value, dict):
        found = {key: marked_wire(item) for key, item in cast("dict[str, Any]", value).items()}
    elif isinstance(value, list):
        found = [marked_wire(item) for item in cast("list[Any]", value)]
    return cast("T", found)


class _RedactingFilter(logging.Filter):
    """Marks a record, its traceback included, whatever handlers make of it."""

    _formatter = logging.Formatter()

    def filter(self, record: logging.LogRecord) -> bool:
        if not _watching:
            return True
        record.msg, record.args = redact_output(record.getMessage()), None
        if record.exc_info:
            record.exc_text = redact_output(self._formatter.formatException(record.exc_info))
            record.exc_info = None
        return True


_FILTER = _RedactingFilter()


Pattern = tuple[str, str]
"""Kind and expression of what is looked for in the texts of a tenant."""

SLICE_EVENTS = 100
"""Of a large batch that are looked at before everybody else in the event loop has a turn."""


class PersonalData:
    """Scrubbers of the tenants of a store. Every blob passes one before it is named, every batch before it
    is queued."""

    def __init__(
        self, store: Store, detectors: Sequence[Detector], patterns: Callable[[str], list[Pattern]]
    ) -> None:
        """`store` has a vault key. `patterns` are those of a tenant as they are stored now."""
        self._stored_patterns = patterns
        self._store = store
        assert store.keyring.sealer is not None
        self._sealer = store.keyring.sealer
        self._detectors = tuple(detectors)
        self._scrubbers: dict[str, Scrubber] = {}
        self._vaults: dict[str, tuple[bytes, Vault]] = {}
        """By tenant, with its secret. Runs at work hold a scrubber: what replaces it shares the vault, which
        knows what is not stored yet."""
        self._patterns: dict[str, list[Pattern]] = {}
        """Of each scrubber: the patterns of its tenant that it was made with."""
        self.search = PiiSearch()
        self._standing: dict[str, set[str]] = {}
        """By tenant: names that hold a value and are older than that anybody looked."""
        self._changed = 0
        """How often keys or values have gone; counted up from any thread."""
        self._seen: dict[str, int] = {}
        store.keyring.scrub_of = self._net_of
        store.names = self
        watch(self)
        store.on_keys.append(self._keys_changed)

    def _keys_changed(self) -> None:
        self._changed += 1

    def __call__(self, tenant: str) -> Scrubber:
        return self.scrubber_of(tenant)

    def redact(self, text: str) -> str:
        """`Marker`: by the detectors of all, and the patterns of each tenant that was opened here."""
        if self._store.is_closed:
            return text
        own = [one for scrubber in tuple(self._scrubbers.values()) for one in scrubber.own]
        return marked_by((*self._detectors, *own), text)

    def scrubber_of(self, tenant: str) -> Scrubber:
        """The tenant's scrubber. Its key must have been asked for before (opening a tenant does)."""
        found = self._current(tenant)
        patterns = self._stored_patterns(tenant)
        if found is None or patterns != self._patterns.get(tenant):
            more = [pattern(kind, expression) for kind, expression in patterns]
            found = Scrubber(
                self._detectors,
                self._vault(tenant),
                own=more,
                standing=self._standing.setdefault(tenant, set()),
                search=self.search,
                tenant=tenant,
            )
            self._scrubbers[tenant], self._patterns[tenant] = found, patterns
        return found

    def _current(self, tenant: str) -> Scrubber | None:
        """The scrubber made last, if its key still counts; what it remembers of erased values is dropped."""
        found, now = self._scrubbers.get(tenant), self._changed
        if found is not None and self._seen.get(tenant) != now:
            vault = found.vault
            found.forget()
            if self._vault(tenant) is not vault:
                found = None
        self._seen[tenant] = now
        return found

    def _vault(self, tenant: str) -> Vault:
        row = tenant_key(self._store.look, tenant)
        assert row is not None
        secret = self._store.keyring.secret_of(tenant, row.secret)
        known = self._vaults.get(tenant)
        if known is not None and known[0] == secret:
            return known[1]
        key = DataKey(row.key_id, secret)
        vault = Vault(tenant, key, self._sealer, self._store.look, self._commit)
        self._vaults[tenant] = secret, vault
        return vault

    async def _commit(self, rows: Sequence[Secret]) -> None:
        await self._store.append(Batch(vault=rows))

    # Names

    def check(self, stream: Stream, data: Sequence[EventData]) -> None:
        """`Names`."""
        self._check(stream.tenant, [stream.local, *names_of(data)])

    def admit(self, batch: Batch) -> Batch:
        """`Names`. A new tenant has no key yet, so its first batch is only looked at."""
        appends: list[StreamAppend] = []
        vault: list[Secret] = []
        self._check_lease(batch)
        for append in batch.appends:
            append, secrets = self._admit(append)
            vault += secrets
            appends.append(append)
        return replace(batch, appends=appends, vault=(*batch.vault, *vault))

    async def admit_large(self, batch: Batch) -> Batch:
        """`Names`."""
        appends: list[StreamAppend] = []
        vault: list[Secret] = []
        self._check_lease(batch)
        for append in batch.appends:
            events: list[Draft | RawDraft] = []
            for start in range(0, len(append.events), SLICE_EVENTS):
                some = append.events[start : start + SLICE_EVENTS]
                part, secrets = self._admit(StreamAppend(append.stream, some, append.expected_seq))
                events += part.events
                vault += secrets
                await asyncio.sleep(0)
            appends.append(StreamAppend(append.stream, events, append.expected_seq))
        return replace(batch, appends=appends, vault=(*batch.vault, *vault))

    def _check_lease(self, batch: Batch) -> None:
        if (lease := batch.acquire) is not None:
            self._check(lease.stream.tenant, (lease.stream.local,))

    def _admit(self, append: StreamAppend) -> tuple[StreamAppend, Sequence[Secret]]:
        """Return an append as it may be stored, and the rows that its names must be stored with."""
        tenant, names = append.stream.tenant, names_in(append)
        self._check(tenant, names)
        if (scrubber := self._scrubber_of(tenant)) is None:
            return append, ()
        append = _scrub_actor(append, scrubber)
        names += [draft.actor for draft in append.events]
        return append, scrubber.unstored_rows(one for one in names if "<" in one)

    def _check(self, tenant: str, names: Sequence[str]) -> None:
        if (scrubber := self._scrubber_of(tenant)) is not None:
            scrubber.check_names(names, stands=lambda name: self._stands(tenant, name, scrubber))
        elif found := find_all(self._detectors, "\n".join(names)):
            raise InvalidRequest(
                "a name holds personal data, and names stand in events for ever",
                expected="a name that tells nothing of a person",
                got=f"<{found[0].kind}>",
            )

    def _stands(self, tenant: str, name: str, scrubber: Scrubber) -> bool:
        """Return True if only the id of something that is there holds a value. Cost: a scan of streams."""
        for id_ in stream_ids_in(self._store.look, tenant, name):
            name = name.replace(id_, "", 1)
        return scrubber.text(name) == name

    def _scrubber_of(self, tenant: str) -> Scrubber | None:
        """The tenant's scrubber; None for a tenant that is only about to be made."""
        found = self._current(tenant)
        if found is None and tenant_key(self._store.look, tenant) is not None:
            found = self.scrubber_of(tenant)
        return found

    def _net_of(self, tenant: str, key: DataKey) -> Net:
        return Net(lambda: self._current(tenant) or self.scrubber_of(tenant))


class Net:
    """`Scrub`: a tenant's scrubber before all that is stored under a key."""

    def __init__(self, scrubber: Callable[[], Scrubber], *, rules: int = RULES) -> None:
        self._scrubber = scrubber
        self._rules = rules

    def __call__(self, content: bytes, /) -> tuple[bytes, tuple[Secret, ...]]:
        return self._scrubber().under(self._rules).net(content)

    async def prepare(self, content: bytes, /) -> None:
        await self._scrubber().under(self._rules).prepare(content)

    def under(self, rules: int, /) -> Net:
        return Net(self._scrubber, rules=rules)


def _scrub_actor(append: StreamAppend, scrubber: Scrubber) -> StreamAppend:
    """The append with placeholders in place of whoever acts under a value, such as an address."""
    if all(scrubber.text(draft.actor) == draft.actor for draft in append.events):
        return append
    events: list[Draft | RawDraft] = [
        draft._replace(actor=scrubber.text(draft.actor)) for draft in append.events
    ]
    return StreamAppend(append.stream, events, append.expected_seq)
