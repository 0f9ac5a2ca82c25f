"""Personal data in a run: what enters it is scrubbed, and only what it received may be put back for a tool.

`Personal` stands between the run's doors and the scrubber. What it let in stands in the log
(`personal.received`), so that a resumed run, its forks and its children know it.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from artelier.artifacts.content import is_small
from artelier.errors import InvalidRequest
from artelier.kernel.export.writer import KINDS
from artelier.kernel.prompt.manifest import (
    UNENCODABLE,
    FixedPart,
    PromptPart,
    canonical,
    comparable,
    part_content,
    texts_in,
)
from artelier.kernel.queries.tenants import has_said, received_of
from artelier.kernel.tenants.events import PatternsChanged, PersonalReceived, StoredPattern
from artelier.log.blobs import LARGE_BYTES
from artelier.pii.vault import count_placeholders, placeholders_in
from artelier.ports.model import ChatMessage
from artelier.threads import give_way, run_in_content_thread

if TYPE_CHECKING:
    from artelier.kernel.run.pending_steps import CallsInFlight
    from artelier.kernel.run.services import TenantState
    from artelier.kernel.run.writer import Actor
    from artelier.log import DataKey, Store
    from artelier.pii.scrubber import LiveText, Scrubber
    from artelier.ports.tool import ToolPort

RESTORE = "pii:restore"
"""The grant of tools that are given the values themselves, and of people who see them."""


PATTERNS_MAX = 100
SLICE_CHARS = 8 * 1024
"""Of many small arguments that are searched before others have a turn."""
NOTED_AT_ONCE = 1_000
"""Placeholders of one event."""

_MAYBE = re.compile(rb"<\\*[A-Z][A-Z0-9_]+_[A-Z2-7]{6}")
_PIECE_BYTES = 64 * 1024
"""Of content that is searched at once: no other thread runs meanwhile."""


def _may_hold_lookalikes(content: bytes) -> bool:
    at = 0
    while at < len(content):
        # What is looked for has the sign at its start alone, so it stands in one piece.
        end = content.find(b"<", at + _PIECE_BYTES)
        end = len(content) if end < 0 else end
        if _MAYBE.search(content, at, end):
            return True
        at = end
        give_way()
    return False


def _with_lookalikes(contents: Iterable[bytes]) -> list[bytes]:
    return [one for one in contents if _may_hold_lookalikes(one)]


KINDS["run"].add(PersonalReceived.KIND)


def patterns_changed(patterns: object) -> PatternsChanged:
    """The event of a tenant's new patterns. Errors: `InvalidRequest` for one that is none."""
    sort = type(patterns).__name__
    given = cast("Mapping[str, str]", patterns) if isinstance(patterns, Mapping) else None
    if given is None or len(given) > PATTERNS_MAX:
        raise InvalidRequest(
            "patterns are a mapping",
            got=sort,
            expected=f'at most {PATTERNS_MAX} of them, such as {{"EMPLOYEE": "E-[0-9]{{6}}"}}',
        )
    from artelier.pii.detectors import (  # its expressions take 60 ms to compile
        builtin_detectors,
        find_all,
        pattern,
    )

    for kind, expression in given.items():
        pattern(kind, expression)
        if find_all(builtin_detectors(), expression):
            raise InvalidRequest(
                f"the pattern of {kind} holds a value, and patterns stand in events for ever",
                expected="the form of values, such as E-[0-9]{6}",
            )
    return PatternsChanged(patterns=tuple(StoredPattern(*one) for one in sorted(given.items())))


def is_known(store: Store, tenant: str, run_id: str, placeholder: str) -> bool:
    """Return True if a run received a placeholder, or one that it comes from: its parents, its origins."""
    return bool(received_of(store, tenant, run_id, (placeholder,)))


def _added(text: str, clean: str) -> list[str]:
    """Return the placeholders of what was scrubbed that were not typed before."""
    typed = frozenset(placeholders_in(text))
    return [one for one in placeholders_in(clean) if one not in typed]


class ScrubbedRun(Protocol):
    """A run whose personal data is replaced."""

    key: DataKey

    @property
    def run_id(self) -> str: ...

    @property
    def tenant(self) -> TenantState: ...

    @property
    def store(self) -> Store: ...

    @property
    def actor(self) -> Actor | None: ...

    @property
    def calls(self) -> CallsInFlight: ...


class Personal:
    """One run's door for personal data."""

    def __init__(self, core: ScrubbedRun, scrubber: Scrubber) -> None:
        self._core = core
        self._scrubber = scrubber
        self._received: set[str] = set()
        self._counts: dict[str, Counter[str]] = {}
        """The placeholders by kind in texts of the prompts that are made, all of them received."""
        self._escaped: dict[bytes, bytes] = {}
        """Contents of these prompts in which something was typed that looks like a placeholder."""
        self._clean_arguments: dict[bytes, Any] = {}
        """Arguments of calls in these prompts, as a model may see them."""
        self._holds = 0

    def hold(self, rules: int) -> None:
        """Look for values by the rules that the run was started under, in what it says and what it stores."""
        self._scrubber = self._scrubber.under(rules)
        if (scrub := self._core.key.scrub) is not None:
            self._core.key = self._core.key._replace(scrub=scrub.under(rules))

    async def prepare(self, *values: Any) -> None:
        """Search large JSON values off the event loop, before they are cleaned, kept or shown.

        Cost: nothing for small ones. Errors: those of the search; then they are stored and sent nowhere.
        """
        for value in values:
            if not is_small(value, bytes_max=LARGE_BYTES):
                # Whoever keeps what cannot be encoded says what is wrong with it.
                with suppress(*UNENCODABLE), self._at_work():
                    await self._scrubber.prepare(await run_in_content_thread(LARGE_BYTES, canonical, value))

    @contextmanager
    def keep_found(self) -> Generator[None]:
        """Keep all that is found while a prompt is made: its texts are looked at several times."""
        self._holds += 1
        try:
            with self._scrubber.keep_found():
                yield
        finally:
            self._holds -= 1
            if not self._holds:
                self._counts.clear()
                self._escaped.clear()
                self._clean_arguments.clear()

    async def prepare_foreign(self, *contents: bytes) -> None:
        """Search contents that are large, or many, off the event loop, before they are cleaned as what others
        said. Use them under `keep_found`.

        Cost: nothing for little. Errors: those of the search.
        """
        new = [one for one in dict.fromkeys(contents) if not self._scrubber.is_known(one)]
        if sum(map(len, new)) <= LARGE_BYTES:
            return
        with self._at_work():
            escaped = await self._escape_aside(new)
            if self._holds:
                self._escaped |= escaped
            await self._scrubber.prepare_many([escaped[one] for one in new])

    async def prepare_prompt(self, parts: Sequence[PromptPart]) -> None:
        """Search texts of a prompt that are large, or many, off the event loop, before a model is shown them.
        Use them under `keep_found`.

        Cost: a look-up each for what is known. Errors: those of the search.
        """
        await self._prepare_texts(texts_in(parts))
        for part in parts:
            shown = part_content(part)
            if isinstance(shown, tuple):
                await self._prepare_arguments([call.arguments for one in shown for call in one.tool_calls])
            # It is stored with the request, as it is shown; a sign may take six in JSON.
            if isinstance(part, FixedPart) and sum(map(len, texts_in((part,)))) > LARGE_BYTES // 6:
                clean = self._scrubber.text
                content = (
                    canonical(tuple([self._message(one, clean) for one in shown]))
                    if isinstance(shown, tuple)
                    else clean(part.text).encode()
                )
                if len(content) > LARGE_BYTES:
                    with self._at_work():
                        await self._scrubber.prepare(content)

    async def _prepare_texts(self, texts: Iterable[str]) -> None:
        new = [one for one in dict.fromkeys(texts) if not self._scrubber.is_known(one)]
        if sum(map(len, new)) <= LARGE_BYTES:
            return
        with self._at_work():
            await self._scrubber.prepare_many(new)
            clean = [self._scrubber.text(one) for one in new]
            size_chars = sum(map(len, clean))
            found = await run_in_content_thread(size_chars, lambda: [*map(count_placeholders, clean)])
            counts = dict(zip(clean, found, strict=True))
            self._counts |= counts
            await self._receive_many([one for one in clean if counts[one]])

    async def _prepare_arguments(self, calls: Sequence[Any]) -> None:
        """Search arguments as `_message` does: large ones aside, many small ones a few at a time."""
        await self.prepare(*calls)
        contents = [comparable(arguments) for arguments in calls]
        if sum(map(len, contents)) <= LARGE_BYTES:
            return
        chars = 0
        for arguments, content in zip(calls, contents, strict=True):
            if len(content) > LARGE_BYTES:
                continue
            self._clean_arguments[content] = self._scrubber.value(arguments)
            chars += len(content)
            if chars >= SLICE_CHARS:
                chars = 0
                await asyncio.sleep(0)

    async def clean_aside(self, content: bytes, *, foreign: bool = False) -> bytes:
        """Return content as `clean` does; large content is searched off the event loop."""
        if len(content) > LARGE_BYTES:
            with self._core.calls.flight(harmless=True):  # the run is at work until it knows what it was told
                if foreign:
                    content = (await self._escape_aside((content,)))[content]
                    foreign = False
                await self._scrubber.prepare(content)
        return self.clean(content, foreign=foreign)

    @contextmanager
    def _at_work(self) -> Generator[None]:
        """While a large text is searched the run is at work, and no command cuts off what it was told."""
        if asyncio.current_task() in self._core.calls.tasks:
            yield
            return
        with self._core.calls.flight(harmless=False):
            yield

    async def _escape_aside(self, contents: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return these contents without look-alikes, each by what it was."""
        size_bytes = sum(map(len, contents))
        maybe = await run_in_content_thread(size_bytes, _with_lookalikes, contents)
        # This asks the store, which may be slow to answer: the content thread waits for nothing.
        escaped = await asyncio.to_thread(self._escape_many, maybe) if maybe else {}
        return {one: one for one in contents} | escaped

    def _escape_many(self, contents: Sequence[bytes]) -> dict[bytes, bytes]:
        # The store is asked for many at once: they may name fifty thousand.
        self._news(named for one in contents for named in placeholders_in(one.decode(errors="replace")))
        return {one: self._escape(one) for one in contents}

    def _escape(self, content: bytes) -> bytes:
        news = frozenset(self._news(placeholders_in(content.decode(errors="replace"))))

        def keep(placeholder: str) -> bool:
            return placeholder not in news and self.knows(placeholder)

        return canonical(self._scrubber.escape_lookalikes(msgspec.json.decode(content), keep))

    def clean(self, content: bytes, *, foreign: bool = False) -> bytes:
        """JSON as the run and its log see it. In `foreign` content, what was typed is no placeholder.

        Errors: those of the detectors.
        """
        if foreign:
            escaped = self._escaped.get(content)
            if escaped is None:
                escaped = self._escape(content) if _may_hold_lookalikes(content) else content
            content = escaped
        return self._scrubber.content(content)

    def check_name(self, name: str) -> None:
        """Errors: `InvalidRequest` if a name holds personal data, and is new in this run."""
        self._scrubber.check_names((name,), stands=self._stands)

    def _stands(self, name: str) -> bool:
        """Return True if the run, or one that it comes from, has said this. Cost: a scan of their events."""
        said = msgspec.json.encode(name).decode()
        core = self._core
        tenant = core.tenant.id
        return has_said(core.store, tenant, core.run_id, said)

    def scrub_name(self, name: str) -> str:
        """A name that was made up, with placeholders for what it tells of a person."""
        return self._scrubber.text(name)

    def scrub_json(self, value: object) -> Any:
        """JSON data as the run and its log see it."""
        return self._scrubber.value(value)

    def receive_arguments(self, arguments: object) -> Any:
        """Return what the run's code passes to a tool, as it is stored; so the run has received the values in
        it.

        A call that is made again after a crash gets what is stored, and so must the first.
        Errors: those of the detectors.
        """
        try:
            content = canonical(arguments)
        except UNENCODABLE:
            return arguments  # who checks them says so
        clean = self._scrubber.content(content)
        if clean == content:
            return arguments
        self.receive(_added(content.decode(), clean.decode()))
        return msgspec.json.decode(clean)

    def knows(self, placeholder: str) -> bool:
        """Return True if this run received it, or one that it comes from: its parents, its origins."""
        return not self._news((placeholder,))

    def _news(self, named: Iterable[str]) -> list[str]:
        """Return those of these that neither this run has received nor one that it comes from, each once."""
        asked = [one for one in dict.fromkeys(named) if one not in self._received]
        core = self._core
        known = received_of(core.store, core.tenant.id, core.run_id, asked)
        self._received.update(known)
        return [one for one in asked if one not in known]

    def receive_opening(self, *given: Any) -> list[PersonalReceived]:
        """Return what a new run has received by what it is asked: values that stand there, no typed
        look-alikes.
        """
        texts = [canonical(value).decode() for value in given if value is not None]
        new = self._news(
            one for text in texts for one in _added(text, self._scrubber.content(text.encode()).decode())
        )
        self._received.update(new)
        return [PersonalReceived(placeholders=tuple(new))] if new else []

    def receive(self, named: Sequence[str]) -> None:
        """Note what the run has been shown."""
        new = self._news(named)
        if new and self._core.actor is not None:
            self._received.update(new)
            self._core.actor.note(PersonalReceived(placeholders=tuple(new)))

    async def result(self, content: bytes, tool: ToolPort | None, *, is_error: bool = False) -> bytes:
        """A tool's result. One that reads what this store holds shows placeholders of other runs, too.

        An error may say again what was typed: that was read nowhere, whatever it looks like.
        """
        is_read = getattr(tool, "reads_store", False) and not is_error
        content = await self.clean_aside(content, foreign=not is_read)
        await self.took(content)
        return content

    def live(self) -> LiveText:
        """Return the filter for a reply that is shown while it is written."""
        from artelier.pii.scrubber import LiveText

        return LiveText(self._scrubber, self.knows)

    async def took(self, content: bytes) -> None:
        """Note what some stored content has shown."""
        if len(content) > LARGE_BYTES:
            with self._at_work():
                decode = partial(content.decode, errors="replace")
                await self._receive_many([await run_in_content_thread(len(content), decode)])
        elif b"<" in content:
            self.receive(placeholders_in(content.decode(errors="replace")))

    async def _receive_many(self, texts: Sequence[str]) -> None:
        """Note the placeholders of texts, so many at a time that others have their turn between."""
        new = await asyncio.to_thread(
            lambda: self._news(named for text in texts for named in placeholders_in(text))
        )
        if (actor := self._core.actor) is None:
            return
        for start in range(0, len(new), NOTED_AT_ONCE):
            some = new[start : start + NOTED_AT_ONCE]
            self._received.update(some)
            actor.note(PersonalReceived(placeholders=tuple(some)))
            await actor.commit()

    def scrub_messages(
        self, messages: tuple[ChatMessage, ...], counts: Counter[str]
    ) -> tuple[ChatMessage, ...]:
        """Messages as a model may see them; `counts` grows by what was replaced in them, by kind."""
        return tuple([self._message(one, lambda text: self.text(text, counts)) for one in messages])

    def text(self, text: str, counts: Counter[str]) -> str:
        """The same for text."""
        text = self._scrubber.text(text)
        if (known := self._counts.get(text)) is not None:
            counts.update(known)
        elif "<" in text and (found := count_placeholders(text)):
            counts.update(found)
            self.receive(placeholders_in(text))
        return text

    def _message(self, message: ChatMessage, text_of: Callable[[str], str]) -> ChatMessage:
        content = message.content
        if isinstance(content, str):
            clean: Any = text_of(content)
        else:
            clean = tuple(
                part if part.text is None else msgspec.structs.replace(part, text=text_of(part.text))
                for part in content
            )
        if clean != content:
            message = msgspec.structs.replace(message, content=clean)
        if not message.tool_calls:
            return message
        calls = tuple(
            msgspec.structs.replace(call, arguments=self._arguments(call.arguments))
            for call in message.tool_calls
        )
        return msgspec.structs.replace(message, tool_calls=calls)

    def _arguments(self, arguments: Any) -> Any:
        if self._clean_arguments and (known := self._clean_arguments.get(comparable(arguments))) is not None:
            return known
        if is_small(arguments, bytes_max=LARGE_BYTES):
            return self._scrubber.value(arguments)
        content = comparable(arguments)
        clean = self._scrubber.content(content)  # as `prepare` has searched it
        return arguments if clean == content else msgspec.json.decode(clean)

    def restore(self, value: object) -> Any:
        """JSON data with the values themselves, for placeholders that this run received."""
        return self._scrubber.restore(value, self.knows)

    def find_erased(self, value: object) -> list[str]:
        """Placeholders in JSON data that this run received, and whose values were erased since."""
        return self._scrubber.find_erased(canonical(value).decode(), self.knows)


def wants_values(grant: str) -> bool:
    """Return True if a tool's grant says that it is given the values themselves."""
    return RESTORE in grant.split()


__all__ = ["RESTORE", "Personal", "wants_values"]
