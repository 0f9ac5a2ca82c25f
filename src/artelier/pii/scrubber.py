"""Replaces personal data of one tenant by placeholders, and puts it back where that is allowed.

Two doors use it. What enters a run (messages, replies, results) is scrubbed as a value, so that code, model
and log see the same. What is stored at all passes `net` when it is named, whoever stores it: nothing that a
detector finds gets into a blob.
"""

from __future__ import annotations

import asyncio
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import Any

import msgspec

from artelier.errors import InvalidRequest
from artelier.log.blobs import Secret
from artelier.log.contract import is_made
from artelier.pii.detectors import find_all
from artelier.pii.detectors.text_view import RULES, Shipped, ValuePlace, view_of
from artelier.pii.hidden_values import places
from artelier.pii.search_processes import INLINE_CHARS_MAX, PiiSearch
from artelier.pii.vault import (
    ERASED,
    LOCKED,
    Vault,
    escape_lookalikes,
    is_json,
    loses_fields,
    map_json,
    placeholders_in,
    restore_values,
)
from artelier.ports.pii import Detector
from artelier.threads import read_beside_loop, run_in_content_thread

MEMO_MAX = 4_096
MEMO_CHARS = 64 * 1024
MEMO_CHARS_ALL = 4 * 1024 * 1024
"""Texts that were scanned are remembered: so many, up to this size each, and together."""

CONTENTS_MAX = 256

LARGE_MAX = 64
LARGE_BYTES_ALL = 32 * 1024 * 1024
"""Large contents that were prepared and not stored yet: so many, and together; the newest in any case."""
LARGE_MEMORY = 2 * LARGE_BYTES_ALL
"""Bytes of memory that they take, each with what became of it."""

SLICE = 200
"""Values that are replaced before others get their turn."""
SHORT_CHARS = 1_024
"""Of many texts, one up to this size is searched here: to send it to a helper would take longer."""
TURN_CHARS = 1_024
"""Of such texts, what is searched before others get their turn: a millisecond or two of digits. A request of
somebody else takes thirty turns."""

SLICE_CHARS = 8 * 1024
"""Of such texts, what is searched before what was found is kept in the vault."""

DECODED_BYTES = 1024 * 1024
"""Of a large file that are looked at in one call."""

NAMES_MAX = 50_000
"""Names that were looked at are remembered."""

_CONTROLS_FEW, _CONTROLS_PART = 2, 50
"""Control signs that a text may have in an encoding that takes all bytes: so many, or one of so many signs.
Of what is no text one byte of nine is such a sign; of a table that an old program wrote, the last one."""

_APART = "\n\n\n"
"""Between names that are read at once: no shipped detector looks, or reaches, across it."""

LABEL_CHARS = 200
"""Values up to this size are read with the name of their field before them: `phone: 0301234567`."""


class Scrubber:
    """One tenant's detectors and vault. Not for two threads at once."""

    def __init__(
        self,
        detectors: Sequence[Detector],
        vault: Vault,
        *,
        own: Sequence[Detector] = (),
        standing: set[str] | None = None,
        search: PiiSearch | None = None,
        tenant: str = "",
        rules: int = RULES,
    ) -> None:
        """`own` are those of the tenant, beside those of all; `standing`: names from before, which stay.

        `search` is what `prepare` uses for large texts of `tenant`; without one nothing is prepared.
        `rules` say how values are looked for.
        """
        self._rules = rules
        self._sibling: Scrubber | None = None
        self._search = search
        self._tenant = tenant
        self._large: dict[bytes | str, bytes | str] = {}
        """Large texts that were searched, with what came of them; the oldest first."""
        self._large_bytes = 0
        self._left_alone = 0
        """Size of what was small when it was prepared, since others last had their turn."""
        self._holds = 0
        """While somebody makes a prompt, nothing that was searched is forgotten."""
        self._named: dict[bytes, list[str]] = {}
        """Of contents among them: the placeholders whose rows may have to be stored with them."""
        self.own = tuple(own)
        self._detectors = (*detectors, *own)
        self.vault = vault
        self._memo: dict[str, str] = {}
        self._memo_chars = 0
        self._names: set[str] = set()
        """Names that hold nothing."""
        self._standing = set[str]() if standing is None else standing
        self._reads_together = all(isinstance(one, Shipped) for one in self._detectors)
        self._contents: dict[bytes, bytes] = {}
        """Content that was looked at last, and what came of it: a run cleans what it stores next."""

    def under(self, rules: int) -> Scrubber:
        """Return the scrubber of the same detectors and vault under other rules, as an older run has them."""
        if rules == self._rules:
            return self
        if self._sibling is None:
            self._sibling = Scrubber(
                self._detectors[: len(self._detectors) - len(self.own)],
                self.vault,
                own=self.own,
                standing=self._standing,
                search=self._search,
                tenant=self._tenant,
                rules=rules,
            )
        return self._sibling

    def forget(self) -> None:
        """Values were erased: what was read before is read anew."""
        if self._sibling is not None:
            self._sibling.forget()
        self._memo.clear()
        self._memo_chars = 0
        self._contents.clear()
        self._large.clear()
        self._large_bytes = 0
        self._named.clear()
        self.vault.forget()

    @contextmanager
    def keep_found(self) -> Generator[None]:
        """Keep what is found meanwhile: a prompt of many texts looks at each several times.

        Only for work that waits for nobody: the memory is that of the texts.
        """
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            self._make_room()

    def _make_room(self) -> None:
        if self._holds:
            return
        if len(self._memo) > MEMO_MAX or self._memo_chars > MEMO_CHARS_ALL:
            self._memo.clear()
            self._memo_chars = 0
        if len(self._contents) > CONTENTS_MAX:
            self._contents.clear()
        while len(self._large) > 2 and (len(self._large) > LARGE_MAX or self._large_bytes > LARGE_MEMORY):
            self._drop(next(iter(self._large)))

    def is_known(self, text: bytes | str) -> bool:
        """Return True if `text` or `content` of this costs a look-up."""
        return text in self._large or text in (self._memo if isinstance(text, str) else self._contents)

    def text(self, text: str) -> str:
        """The text with placeholders. Errors: those of the detectors: then it must not be sent on."""
        if len(text) < 3:
            return text
        if len(text) > SHORT_CHARS and (large := self._large.get(text)) is not None:
            assert isinstance(large, str)
            return large
        known = self._memo.get(text)
        if known is not None:
            return known
        done = self._replace_from(text, 0)
        if len(text) <= MEMO_CHARS:
            self._memo_chars += len(text)
            self._memo[text] = done
            self._make_room()
        return done

    def text_behind(self, before: str, text: str) -> str:
        """The text with placeholders, read as what goes on behind another."""
        return self._replace_from(before + text, len(before))

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return where values stand, ascending."""
        return [(one.start, one.end) for one in places(self._detectors, text, rules=self._rules)]

    def _replace_from(self, text: str, start: int) -> str:
        """`text[start:]` with placeholders; what stands before is read and not changed."""
        pieces: list[str] = []
        found = places(self._detectors, text, rules=self._rules)
        at = self._replace(text, found, start, pieces, is_data=_is_data(text, start))
        return text[start:] if not pieces else "".join((*pieces, text[at:]))

    def value(self, value: object) -> Any:
        """JSON data with placeholders in its texts, keys, and whole numbers of 9 digits and more."""
        return map_json(value, self._leaf)

    def _leaf(self, leaf: object, label: str) -> object:
        if isinstance(leaf, str):
            if label and len(leaf) <= LABEL_CHARS:
                return self._replace_from(f"{label}: {leaf}", len(label) + 2)
            return self.text(leaf)
        if isinstance(leaf, int) and not isinstance(leaf, bool) and leaf >= 10**8:
            digits = str(leaf)
            done = self._replace_from(f"{label}: {digits}", len(label) + 2)
            return leaf if done == digits else done
        return leaf

    def content(self, content: bytes) -> bytes:
        """JSON or text with placeholders; what is neither stays as it is."""
        if (known := self._contents.get(content)) is not None:
            return known
        if len(content) > SHORT_CHARS and (large := self._large.get(content)) is not None:
            assert isinstance(large, bytes)
            return large
        done = self._content(content)
        if len(content) <= MEMO_CHARS:
            self._contents[content] = self._contents[done] = done
            self._make_room()
        return done

    def _content(self, content: bytes) -> bytes:
        encoding = _encoding_of(content)
        if encoding is None:
            return content
        text = content.decode(encoding)
        return self._refit(content, text, self.text(text), encoding)

    def _refit(self, content: bytes, text: str, done: str, encoding: str) -> bytes:
        """Content whose text has become another: JSON stays JSON."""
        if done == text:
            return content
        # JSON in a text of JSON has quotes of its own; two spellings of a value may be keys of one object
        if is_json(text) and (not is_json(done) or loses_fields(text, done)):
            return msgspec.json.encode(self.value(msgspec.json.decode(content)))
        return done.encode(encoding)

    # Large texts

    async def prepare(self, *texts: bytes | str) -> None:
        """Search large texts off the event loop, so that `text`, `content` and `net` of them cost nothing.

        What is small, no text or known already is left alone; after some of it others have their turn.
        Errors: those of `Search.places`.
        Cost: O(length) in a helper process; here O(values), in slices between which others have their turn.
        """
        for one in texts:
            if self._search is not None and len(one) > INLINE_CHARS_MAX:
                if one not in self._large:
                    await self._search_aside(one, self._search)
                continue
            self._left_alone += len(one)
            if self._left_alone > TURN_CHARS:
                self._left_alone = 0
                await asyncio.sleep(0)

    async def prepare_many(self, texts: Iterable[bytes | str]) -> None:
        """Search texts of which each may be small and all together are not, as `prepare` does.

        Short ones are searched here, a few at a time. Call it, and use what it found, under `keep_found`.
        """
        turn, chars = 0, 0
        for one in texts:
            if self.is_known(one):
                continue
            if self._search is not None and len(one) > SHORT_CHARS:
                await self._search_aside(one, self._search)
                continue
            _ = self.text(one) if isinstance(one, str) else self.content(one)
            turn += len(one)
            if turn < TURN_CHARS:
                continue
            turn, chars = 0, chars + turn
            if chars >= SLICE_CHARS:
                chars = 0
                await self.vault.commit_many()
            await asyncio.sleep(0)

    async def _search_aside(self, one: bytes | str, search: PiiSearch) -> None:
        if isinstance(one, str):
            self._keep(one, await self._prepare(one, search))
        elif (encoding := await run_in_content_thread(len(one), _encoding_of, one)) is not None:
            text = await run_in_content_thread(len(one), one.decode, encoding)
            done = await self._prepare(text, search)
            whole = await asyncio.to_thread(self._refit, one, text, done, encoding)
            named = await run_in_content_thread(len(one), placeholders_in, done)
            self._named[whole] = await asyncio.to_thread(self.vault.waiting, named)
            self._keep(one, whole)
            self._keep(whole, whole)
        else:
            self._named[one] = []
            self._keep(one, one)

    def _keep(self, text: bytes | str, done: bytes | str) -> None:
        self._drop_result(text)
        self._large[text] = done
        self._large_bytes += _memory_bytes(text, done)
        self._make_room()

    def _drop_result(self, text: bytes | str) -> None:
        if (done := self._large.pop(text, None)) is not None:
            self._large_bytes -= _memory_bytes(text, done)

    def _drop(self, text: bytes | str) -> None:
        self._drop_result(text)
        if isinstance(text, bytes):
            self._named.pop(text, None)

    async def _prepare(self, text: str, search: PiiSearch) -> str:
        pieces: list[str] = []
        at, is_data = 0, _is_data(text, 0)
        searching = search.places(self._detectors, text, tenant=self._tenant, rules=self._rules)
        async with aclosing(searching) as windows:
            async for found in windows:
                for start in range(0, len(found), SLICE):
                    some = found[start : start + SLICE]
                    self.vault.prepare((one.kind, one.normal, one.shown) for one in some)
                    at = self._replace(text, some, at, pieces, is_data=is_data)
                    await asyncio.sleep(0)
                await self.vault.commit_many()
        return text if not pieces else "".join((*pieces, text[at:]))

    def _replace(
        self, text: str, found: Sequence[ValuePlace], at: int, pieces: list[str], *, is_data: bool
    ) -> int:
        """Append what stands from `at` on, with placeholders; return the place behind the last of them."""
        names: dict[tuple[str, str], str] = {}
        for begin, end, kind, normal, shown in found:
            if begin < at:
                continue
            named = names.get((kind, normal))
            if named is None:
                named = names[kind, normal] = self.vault.placeholder_of(kind, normal, shown)
            if shown.isdigit() and is_data and _is_bare(text, begin, end):
                named = f'"{named}"'  # a number of JSON becomes a text
            pieces += (text[at:begin], named)
            at = end
        return at

    def holds(self, content: bytes) -> bool:
        """Return True if a detector finds something in content. Changes nothing; any thread may ask."""
        encoding = _encoding_of(content)
        return encoding is not None and bool(self.spans(content.decode(encoding)))

    def check_names(
        self, names: Iterable[str], *, stands: Callable[[str], bool] = lambda name: False
    ) -> None:
        """Errors: `InvalidRequest` if one of them holds personal data. Cost: a look-up each.

        `stands` says of a name that it does whether the log has it already: then nothing new is told.
        """
        known = self._names
        new = [one for one in names if one not in known and not is_made(one)]
        if not new:
            return
        if len(new) == 1 or not self._reads_together or not self._is_clean(_APART.join(new)):
            for one in new:
                if (shown := self.text(one)) == one or one in self._standing:
                    continue
                if not stands(one):
                    raise InvalidRequest(
                        "a name holds personal data, and names stand in events for ever",
                        expected="a name that tells nothing of a person",
                        got=shown[:200],
                    )
                self._standing.add(one)
        if len(known) >= NAMES_MAX:
            known.clear()
        known.update(new)

    def _is_clean(self, text: str) -> bool:
        return not find_all(self._detectors, view_of(text).text)

    def unstored_rows(self, texts: Iterable[str]) -> tuple[Secret, ...]:
        """The rows that must be stored with texts that hold placeholders."""
        return self.vault.unstored_rows(named for text in texts for named in placeholders_in(text))

    def net(self, content: bytes) -> tuple[bytes, tuple[Secret, ...]]:
        """Content as it may be stored, and the rows that must be stored with it."""
        content = self.content(content)
        if (named := self._named.get(content)) is not None:
            if len(content) > LARGE_BYTES_ALL:  # it is stored once, and too large to be kept
                for one in [one for one, done in self._large.items() if done is content]:
                    self._drop(one)
            return content, self.vault.unstored_rows(named)
        if b"<" not in content:
            return content, ()
        encoding = _encoding_of(content)
        if encoding is None:
            return content, ()
        return content, self.vault.unstored_rows(placeholders_in(content.decode(encoding)))

    def escape_lookalikes(self, value: object, keep: Callable[[str], bool]) -> Any:
        """JSON data in which what only looks like a placeholder is none, but for those that `keep` knows."""
        return _texts(value, lambda text: escape_lookalikes(text, keep))

    def find_erased(self, text: str, may: Callable[[str], bool]) -> list[str]:
        """Placeholders in text that `may` allows, and that stand for nothing any more."""
        return [
            one
            for one in dict.fromkeys(placeholders_in(text))
            if may(one) and self.vault.value_of(one) in (None, ERASED, LOCKED)
        ]

    def restore(self, value: object, may: Callable[[str], bool] | None = None) -> Any:
        """JSON data with the values themselves: of all placeholders, or of those that `may` allows."""
        named = [one for one in _named_in(value) if may is None or may(one)]
        return _put_values(value, self.vault.values_of(named))

    async def restored(self, value: object, *, size_bytes: int) -> object:
        """The same for all placeholders of content of this size, without holding up the event loop."""
        named = await read_beside_loop(size_bytes, _named_in, value)
        values: dict[str, str] = {}
        for start in range(0, len(named), SLICE):
            values |= self.vault.values_of(named[start : start + SLICE])
            await asyncio.sleep(0)
        return await read_beside_loop(size_bytes, _put_values, value, values)


def _named_in(value: object) -> list[str]:
    """Return the placeholders that `restore_values` asks for, each once."""
    named: dict[str, None] = {}
    _texts(value, lambda text: restore_values(text, lambda one: named.setdefault(one)))
    return list(named)


def _put_values(value: object, values: Mapping[str, str]) -> object:
    return _texts(value, lambda text: restore_values(text, values.get))


def _memory_bytes(text: bytes | str, done: bytes | str) -> int:
    """Return what both take: a character of a text takes four bytes if one of them does."""
    return sys.getsizeof(text) + (0 if done is text else sys.getsizeof(done))


def _texts(value: object, change: Callable[[str], str]) -> object:
    return map_json(value, lambda leaf, _: change(leaf) if isinstance(leaf, str) else leaf)


def _is_data(text: str, start: int) -> bool:
    return text[start : start + 100].lstrip()[:1] in ("{", "[")


def _is_bare(text: str, start: int, end: int) -> bool:
    """Return True if digits stand where JSON has a number."""
    before, after = text[max(0, start - 20) : start].rstrip(), text[end : end + 20].lstrip()
    return before[-1:] in (":", "[", ",") and after[:1] in (",", "]", "}")


def _encoding_of(content: bytes) -> str | None:
    """Return how to read content as text; None for what is none: a picture, numbers of a vector."""
    if content.startswith(b"%PDF-"):
        return None  # it names places in itself, and has its texts packed
    if content[:4] in (b"\xff\xfe\0\0", b"\0\0\xfe\xff"):
        return "utf-32" if _is_text(content, "utf-32") else None
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16" if _is_text(content, "utf-16") else None
    if b"\0" in content[:64]:  # UTF-16 without its mark, of which every other byte is mostly zero
        head = content[:4096]
        for encoding, zeros in (("utf-16-le", head[1::2]), ("utf-16-be", head[::2])):
            if zeros.count(0) * 2 > len(zeros) and _is_text(content, encoding):
                return encoding
    if _is_text(content, "utf-8", controls=True):
        return "utf-8"
    return "latin-1" if _is_text(content, "latin-1") else None


def _is_text(content: bytes, encoding: str, *, controls: bool = False) -> bool:
    """Return True for what can be read as such a text and looks like one.

    In pieces: one call over 64 MiB would hold the interpreter, and a picture shows in the first.
    """
    decoder = getincrementaldecoder(encoding)()
    try:
        head = decoder.decode(content[:DECODED_BYTES])[:4096]
        found = sum(sign < " " and sign not in "\t\n\r\f" for sign in head)
        if not controls and found > max(_CONTROLS_FEW, len(head) // _CONTROLS_PART):
            return False
        if encoding != "latin-1":  # which reads any bytes
            for start in range(DECODED_BYTES, len(content), DECODED_BYTES):
                decoder.decode(content[start : start + DECODED_BYTES])
            decoder.decode(b"", True)
    except UnicodeDecodeError:
        return False
    return True


# --------------------------------------------------------------------------- stream scrubber
# A reply while it is written, as it may be shown: what may still become a value is held back.
# A value can come in pieces, and so can a placeholder. Text goes on as soon as enough follows behind it
# that nothing which began in it is still open; the recorded whole is scrubbed on its own.


BEHIND_CHARS = 80
"""What must stand behind a piece of text before it is shown: longer than any value with a space in it."""

BEFORE_CHARS = 80
"""Text before, which says what a number is."""

WORD_CHARS_MAX = 20_000
"""Of text without a space. A longer one, such as JSON, is parted at signs that stand in no value."""

_SIGNS = "\"',;|(){}[]>"


class LiveText:
    """Turns the pieces of one reply into pieces that hold no value."""

    def __init__(self, scrubber: Scrubber, knows: Callable[[str], bool]) -> None:
        """`knows` says which placeholders are real ones."""
        self._scrubber = scrubber
        self._knows = knows
        self._before = ""
        self._held = ""

    def add(self, piece: str) -> str:
        """Return what may be shown now; often nothing. Errors: those of the detectors."""
        self._held += piece
        most = len(self._held) - BEHIND_CHARS
        if most <= 0 or not (most > WORD_CHARS_MAX or any(sign.isspace() for sign in piece)):
            return ""
        at = self._part(most)
        text = self._before + self._held
        for start, end in self._scrubber.spans(text):
            start, end = start - len(self._before), end - len(self._before)
            if start < at < end:
                at = start
        return self._take_until(at) if at > 0 else ""

    def _part(self, most: int) -> int:
        """Up to where words are whole; 0 where the first one goes on."""
        held = self._held
        at = next((at for at in range(most, 0, -1) if held[at - 1].isspace()), 0)
        if at or most <= WORD_CHARS_MAX:
            return at
        at = max(held.rfind("<", 0, most), *(held.rfind(sign, 0, most) + 1 for sign in _SIGNS))
        return at if at > 0 else most

    def rest(self) -> str:
        """Return what is left at the end of the reply."""
        return self._take_until(len(self._held))

    def _take_until(self, end: int) -> str:
        text, self._held = self._held[:end], self._held[end:]
        done = self._scrubber.escape_lookalikes(text, self._knows)
        done = self._scrubber.text_behind(self._before, done)
        self._before = (self._before + text)[-BEFORE_CHARS:]
        return done
