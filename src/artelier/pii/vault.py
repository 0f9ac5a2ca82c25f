"""The values behind placeholders: one sealed row for each value of a tenant, in a table that is no view.

A new row rides with the first content that names it (`Blob.vault`), so it is durable no later than its
placeholder. An erased value leaves its row without the seal: when the value comes again, it gets another
placeholder, and the old one stays erased.

The cipher under the vault key: AES-256-GCM for content and values, and for the data keys themselves.

A nonce is never chosen twice for two texts of one key: content has its keyed name, which differs with it,
and a wrapped key has a keyed hash of itself. Equal input so gives equal output, and a blob is stored once.
"""

from __future__ import annotations

import base64
import binascii
import re
from base64 import b32encode
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import scrypt
from hmac import digest
from typing import TYPE_CHECKING, Any, cast

import msgspec

from artelier.errors import Erased, InvalidConfig, Locked
from artelier.log.blobs import DataKey, Sealer, Secret, hmac_sha256
from artelier.log.queries import sealed_values, stored_placeholders, vault_rows
from artelier.threads import give_way

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM


# --------------------------------------------------------------------------- placeholder
# Placeholders: `<EMAIL_7Q2FKX>` stands for one value of a tenant; a typed look-alike is escaped.
#
# The code behind the kind is a keyed hash of the value, so that nobody guesses one who was not shown it.
# `<\EMAIL_7Q2FKX>` is text that only looks like one; each escape adds a backslash, each reading takes one.

__all__ = ["loses_fields", "map_json"]


# --------------------------------------------------------------------------- json walk
# One walk over JSON data of any depth: whoever sends data chooses how deep it is.


PRIMES_MAX = 3
"""Of keys that became equal; more of them are numbered."""


def map_json(value: object, change: Callable[[Any, str], Any]) -> Any:
    """JSON data with `change(leaf, name of its field)` for each leaf, `change(key, "")` for each text key.

    Keys that become equal are told apart by primes, many of them by numbers, so that no field is lost.
    Tuples become lists. Cost: O(size), however many keys become equal.
    """
    whole: list[Any] = [None]
    waiting: list[tuple[Any, str, Any, Any]] = [(value, "", whole, 0)]
    while waiting:
        one, label, into, at = waiting.pop()
        if isinstance(one, dict):
            made: dict[Any, Any] = {}
            into[at] = made
            times: dict[Any, int] = {}
            for key, item in cast("dict[Any, Any]", one).items():
                named = change(key, "") if isinstance(key, str) else key
                if named in made:
                    named = _apart(named, made, times)
                made[named] = None
                if _is_nested(item):
                    waiting.append((item, str(key), made, named))
                else:
                    made[named] = change(item, str(key))
        elif isinstance(one, list | tuple):
            items = cast("Sequence[Any]", one)
            into[at] = filled = [None] * len(items)
            for n, item in enumerate(items):
                if _is_nested(item):
                    waiting.append((item, label, filled, n))
                else:  # no tuple for each leaf: a collection of garbage looks at all of them
                    filled[n] = change(item, label)
        else:
            into[at] = change(one, label)
    return whole[0]


def _is_nested(item: object) -> bool:
    return isinstance(item, dict | list | tuple)


def _apart(named: str, taken: dict[Any, Any], times: dict[Any, int]) -> str:
    """A name beside one that is taken. `times` holds the last mark of each, so that no search begins anew."""
    while True:
        times[named] = count = times.get(named, 0) + 1
        marked = named + "'" * count if count <= PRIMES_MAX else f"{named}'{count}"
        if marked not in taken:
            return marked


def fields_in(value: object) -> int:
    """Return how many fields the objects of JSON data have together."""
    count, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            given = cast("dict[str, Any]", one)
            count += len(given)
            waiting.extend(given.values())
        elif isinstance(one, list):
            waiting.extend(cast("list[Any]", one))
    return count


def loses_fields(before: bytes | str, after: bytes | str) -> bool:
    """Return True if keys of JSON text that differed are equal after a change. Both must be JSON."""
    return fields_in(msgspec.json.decode(after)) < fields_in(msgspec.json.decode(before))


# --------------------------------------------------------------------------- placeholder


KIND = r"[A-Z][A-Z0-9_]{1,23}"
CODE_CHARS = 6
CODE_CHARS_MAX = 26

PLACEHOLDER = re.compile(rf"<({KIND})_[A-Z2-7]{{{CODE_CHARS},{CODE_CHARS_MAX}}}>")
_ANY = re.compile(rf"<(\\*)({KIND}_[A-Z2-7]{{{CODE_CHARS},{CODE_CHARS_MAX}}})>")
_WRITTEN = re.compile(rf"(?:\\?<|&lt;)({KIND}_[A-Z2-7]{{{CODE_CHARS},{CODE_CHARS_MAX}}})(?:\\?>|&gt;)")
"""As it stands in Markdown or HTML, too, whose writers escape the brackets."""

_ESCAPED = re.compile(rf"<\\(\\*{KIND}_[A-Z2-7]{{{CODE_CHARS},{CODE_CHARS_MAX}}})>")
_ESCAPED_JSON = re.compile(rf"<\\\\(\\*{KIND}_[A-Z2-7]{{{CODE_CHARS},{CODE_CHARS_MAX}}})>")


def placeholder(kind: str, digest: bytes, *, chars: int = CODE_CHARS) -> str:
    """The placeholder of a value with this keyed hash."""
    return f"<{kind}_{b32encode(digest).decode()[:chars]}>"


PIECE_CHARS = 64 * 1024
"""Of a text that is searched at once: no other thread runs meanwhile."""


def _pieces(text: str) -> Iterator[str]:
    """Part a large text before signs that a placeholder has at its start alone."""
    at = 0
    while len(text) - at > PIECE_CHARS:
        end = text.find("<", at + PIECE_CHARS)
        if end < 0:
            break
        yield text[at:end]
        at = end
        give_way()
    yield text[at:] if at else text


def placeholders_in(text: str) -> list[str]:
    """Every placeholder of a text, as often as it stands there."""
    return [found[0] for found in _found_in(text)]


def count_placeholders(text: str) -> Counter[str]:
    """Return how many placeholders of which kind a text has."""
    return Counter(found[1] for found in _found_in(text))


def _found_in(text: str) -> Iterator[re.Match[str]]:
    if "<" not in text:
        return
    for piece in _pieces(text):
        yield from PLACEHOLDER.finditer(piece)


def escape_lookalikes(text: str, keep: Callable[[str], bool]) -> str:
    """Text in which look-alikes are no placeholders any more, but for those that `keep` knows."""
    if "<" not in text:
        return text

    mark: str | None = None

    def escape_match(found: re.Match[str]) -> str:
        nonlocal mark
        if not found[1] and keep(found[0]):
            return found[0]
        if mark is None:
            mark = "\\\\" if is_json(text) else "\\"  # a text that is JSON stays JSON
        return f"<{mark}{found[1]}{found[2]}>"

    return "".join(_ANY.sub(escape_match, piece) for piece in _pieces(text))


def escape_json(value: object, keep: Callable[[str], bool] = lambda _: False) -> Any:
    """JSON data that somebody typed, in which nothing is a placeholder but for those that `keep` knows.

    What is escaped stays as it is.
    """

    def text(leaf: str) -> str:
        if "<" not in leaf:
            return leaf
        return "".join(
            PLACEHOLDER.sub(lambda found: found[0] if keep(found[0]) else f"<\\{found[0][1:]}", piece)
            for piece in _pieces(leaf)
        )

    return map_json(value, lambda leaf, _: text(leaf) if isinstance(leaf, str) else leaf)


def is_json(text: str) -> bool:
    """Return True if a text is an object or array of JSON, such as the reply of a model."""
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        # A large one is checked and not made into objects, which take twenty times its memory.
        msgspec.json.decode(text, type=msgspec.Raw if len(text) > PIECE_CHARS else Any)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    return True


def restore_values(text: str, value_of: Callable[[str], str | None]) -> str:
    """Text with values in place of placeholders that have one, and with look-alikes as they were typed."""
    if "<" not in text and "&lt;" not in text:
        return text
    if _ESCAPED.search(text) is None:
        return _WRITTEN.sub(lambda found: value_of(f"<{found[1]}>") or found[0], text)
    escape = _ESCAPED_JSON if is_json(text) else _ESCAPED
    text = _WRITTEN.sub(lambda found: value_of(f"<{found[1]}>") or found[0], text)
    return escape.sub(r"<\1>", text)


ERASED, LOCKED = Erased.mark, Locked.mark

KNOWN_MAX = 50_000
"""Values of a tenant that are remembered in memory, by keyed hash."""

PENDING_MAX = 10_000
"""Rows that wait to be stored, before a look at which of them are stored by now."""

_LOOKED_AT_ONCE = 500

_NAME_BYTES = 12

Look = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
Commit = Callable[[Sequence[Secret]], Awaitable[object]]
"""Stores rows of the vault, on their own."""

RIDING_MAX = 1_000
"""New rows that ride with what names them. More are stored before it: no batch may hold up the others."""


class Vault:
    """The values of one tenant. It belongs to one process; the table is shared."""

    def __init__(
        self, tenant: str, key: DataKey, sealer: Sealer, look: Look, commit: Commit | None = None
    ) -> None:
        """`look` runs a small query at once."""
        self._commit = commit
        self._tenant = tenant
        self._key_id = key.key_id
        self._sealer = sealer
        self._look = look
        self._naming = hmac_sha256(key.secret, b"artelier vault name")
        self._sealing = hmac_sha256(key.secret, b"artelier vault seal")
        self._known: dict[bytes, str] = {}
        self._pending: dict[str, Secret] = {}
        """Rows that no look has seen stored, by placeholder."""
        self._pending_max = PENDING_MAX

    def digest_of(self, kind: str, normal: str) -> bytes:
        """Return what a value is found by, whatever its spelling."""
        return hmac_sha256(self._naming, f"{kind}\0{normal}".encode(errors="surrogatepass"))

    def placeholder_of(self, kind: str, normal: str, shown: str) -> str:
        """The placeholder of a value, made on first use. `shown` is the spelling that is kept."""
        key = self.digest_of(kind, normal)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            found = self._known[key] = self._store_row(kind, key, shown)
        return found

    def prepare(self, values: Iterable[tuple[str, str, str]]) -> None:
        """Make the placeholders of some hundred values `(kind, normal, shown)` with two queries."""
        new = {
            key: (kind, shown)
            for (kind, normal), shown in {value[:2]: value[2] for value in values}.items()
            if (key := self.digest_of(kind, normal)) not in self._known
        }
        if not new:
            return
        if len(self._known) + len(new) >= KNOWN_MAX:
            self._known.clear()
        rows = vault_rows(self._look, self._tenant, list(new))
        made: dict[bytes, str] = {}
        for key, (kind, _) in new.items():
            if key not in rows or rows[key].is_erased:
                code = self._code_of(key, rows[key].generation + 1 if key in rows else 0)
                made[key] = placeholder(kind, code, chars=CODE_CHARS)
        taken = stored_placeholders(self._look, self._tenant, list(made.values()))
        for key, (kind, shown) in new.items():
            if key not in made:
                self._known[key] = rows[key].placeholder
            elif made[key] in taken or made[key] in self._pending:
                self._known[key] = self._store_row(kind, key, shown)
            else:
                generation = rows[key].generation + 1 if key in rows else 0
                self._known[key] = self._wait(made[key], key, shown, generation)

    async def commit_many(self) -> None:
        """Store rows that wait, where they are too many to ride with what names them."""
        if self._commit is None:
            return
        while len(self._pending) > RIDING_MAX:
            rows = [self._pending[one] for one in list(self._pending)[:RIDING_MAX]]
            await self._commit(rows)
            for row in rows:
                self._pending.pop(row.placeholder, None)

    def _store_row(self, kind: str, key: bytes, shown: str) -> str:
        row = vault_rows(self._look, self._tenant, [key]).get(key)
        if row is not None and not row.is_erased:
            return row.placeholder
        return self._make_row(kind, key, shown, generation=0 if row is None else row.generation + 1)

    def _make_row(self, kind: str, key: bytes, shown: str, *, generation: int) -> str:
        code = self._code_of(key, generation)
        made = ""
        for chars in range(CODE_CHARS, CODE_CHARS_MAX + 1, 2):  # longer where another value has it
            made = placeholder(kind, code, chars=chars)
            if self._is_free(made, key):
                break
        return self._wait(made, key, shown, generation)

    def _code_of(self, key: bytes, generation: int) -> bytes:
        return hmac_sha256(self._naming, key + generation.to_bytes(4, "big"))

    def _wait(self, made: str, key: bytes, shown: str, generation: int) -> str:
        """Remember the row of a new placeholder until it is stored."""
        code = self._code_of(key, generation)
        spelling = shown.encode(errors="surrogatepass")
        name = hmac_sha256(self._naming, code + spelling)[:_NAME_BYTES]
        sealed = name + self._sealer.seal(self._sealing, name, spelling)
        if len(self._pending) >= self._pending_max:
            self._drop_stored(list(self._pending))
            self._pending_max = max(PENDING_MAX, 2 * len(self._pending))
        self._pending[made] = Secret(self._tenant, made, key, generation, self._key_id, sealed)
        return made

    def _drop_stored(self, named: Sequence[str]) -> None:
        """Keep no row that the table has; those that it lacks may still be named by what is stored next."""
        for start in range(0, len(named), _LOOKED_AT_ONCE):
            some = named[start : start + _LOOKED_AT_ONCE]
            for stored in stored_placeholders(self._look, self._tenant, some):
                del self._pending[stored]

    def _is_free(self, made: str, key: bytes) -> bool:
        pending = self._pending.get(made)
        if pending is not None and pending.digest != key:
            return False
        return not sealed_values(self._look, self._tenant, (made,))

    def unstored_rows(self, named: Iterable[str]) -> tuple[Secret, ...]:
        """Rows of these placeholders that must ride with what names them."""
        if not self._pending:
            return ()
        waiting = self.waiting(named)
        self._drop_stored(waiting)
        return tuple(self._pending[one] for one in waiting if one in self._pending)

    def waiting(self, named: Iterable[str]) -> list[str]:
        """Return those of these placeholders whose rows may not be stored yet."""
        return [one for one in dict.fromkeys(named) if one in self._pending]

    def count_waiting(self) -> int:
        """Return how many rows wait to be stored, as far as is known."""
        return len(self._pending)

    def value_of(self, named: str) -> str | None:
        """Return what a placeholder stands for; `[erased]` if that was destroyed, `[locked]` if it
        cannot be opened, None if there is none."""
        return self.values_of((named,)).get(named)

    def values_of(self, named: Sequence[str]) -> dict[str, str]:
        """Return what these placeholders stand for, as `value_of` does, without those that stand for nothing.

        Cost: 10 us each.
        """
        rows: dict[str, bytes | None] = {}
        stored: list[str] = []
        for one in named:
            if (pending := self._pending.get(one)) is None:
                stored.append(one)
            else:
                rows[one] = pending.sealed
        for start in range(0, len(stored), _LOOKED_AT_ONCE):
            rows |= sealed_values(self._look, self._tenant, stored[start : start + _LOOKED_AT_ONCE])
        return {one: self._open(sealed) for one, sealed in rows.items()}

    def _open(self, sealed: bytes | None) -> str:
        if sealed is None:
            return ERASED
        opened = self._sealer.unseal(self._sealing, sealed[:_NAME_BYTES], sealed[_NAME_BYTES:])
        return LOCKED if opened is None else opened.decode(errors="replace")

    def forget(self) -> None:
        """Somebody erased values: ask the table again. What is not stored yet stays known."""
        self._known.clear()


VARIABLE = "ARTELIER_VAULT_KEY"
KEY_BYTES = 32
WORDS_MIN = 16
"""Characters of a vault key that is no 32 bytes in hex or base64."""
_NONCE_BYTES = 12
_FORM = b"\x01"


class VaultCipher:
    """`Sealer` under one vault key. `VaultCipher.of(text)` makes one."""

    def __init__(self, secret: bytes) -> None:
        self._wrapping = digest(secret, b"artelier wrap", "sha256")
        self._naming = digest(secret, b"artelier name", "sha256")

    @classmethod
    def of(cls, text: str, *, name: str = VARIABLE) -> VaultCipher:
        """Make a cipher from 32 bytes in hex or base64, or from a passphrase (stretched by scrypt, 50 ms).

        `name` is what errors call it. Errors: `InvalidConfig` if it is too short to be either.
        """
        text = text.strip()
        if (key := _bytes_of(text)) is None:
            if len(text) < WORDS_MIN:
                raise InvalidConfig(
                    f"{name} is too short",
                    expected=f"32 bytes in hex or base64, or at least {WORDS_MIN} characters",
                    got=f"{len(text)} characters",
                    hint='Make one: python -c "import secrets; print(secrets.token_hex(32))"',
                )
            key = scrypt(text.encode(), salt=b"artelier vault", n=2**14, r=8, p=1, dklen=KEY_BYTES)
        return cls(key)

    def wrap(self, secret: bytes) -> bytes:
        nonce = digest(self._naming, secret, "sha256")[:_NONCE_BYTES]
        return _FORM + nonce + _cipher(self._wrapping).encrypt(nonce, secret, None)

    def unwrap(self, stored: bytes) -> bytes | None:
        if stored[:1] != _FORM:
            return None
        nonce, sealed = stored[1 : 1 + _NONCE_BYTES], stored[1 + _NONCE_BYTES :]
        return _decrypt(self._wrapping, nonce, sealed)

    def seal(self, secret: bytes, name: bytes, content: bytes) -> bytes:
        return _cipher(_sealing(secret)).encrypt(name[:_NONCE_BYTES], content, name)

    def unseal(self, secret: bytes, name: bytes, sealed: bytes) -> bytes | None:
        return _decrypt(_sealing(secret), name[:_NONCE_BYTES], sealed, name)


def sealer_from(environ: Mapping[str, str]) -> VaultCipher | None:
    """The cipher of ARTELIER_VAULT_KEY; None if it is not set. Errors: `InvalidConfig`."""
    text = environ.get(VARIABLE, "")
    return VaultCipher.of(text) if text else None


def check_sealing(sealer: object) -> None:
    """Errors: `InvalidConfig` if there is no vault key where personal data is to be replaced."""
    if sealer is None:
        raise InvalidConfig(
            "personal data is to be replaced, and there is no vault key for what it stands for",
            expected=f"{VARIABLE}: 32 bytes in hex or base64, or at least {WORDS_MIN} characters",
            hint='Make one, and keep it elsewhere: python -c "import secrets; print(secrets.token_hex(32))"',
        )


def _bytes_of(text: str) -> bytes | None:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        try:
            key = base64.b64decode(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4))
        except (binascii.Error, ValueError):
            return None
    return key if len(key) == KEY_BYTES else None


@lru_cache(maxsize=1024)
def _sealing(secret: bytes) -> bytes:
    return digest(secret, b"artelier seal", "sha256")


@lru_cache(maxsize=1024)
def _cipher(key: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def _decrypt(key: bytes, nonce: bytes, sealed: bytes, name: bytes | None = None) -> bytes | None:
    from cryptography.exceptions import InvalidTag

    try:
        return _cipher(key).decrypt(nonce, sealed, name)
    except (InvalidTag, ValueError):
        return None
