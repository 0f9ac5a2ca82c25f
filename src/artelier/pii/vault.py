"""What placeholders stand for: one sealed row for each value of a tenant, in a table that is no view.

A new row rides with the first content that names it (`Blob.vault`), so it is durable no later than its
placeholder. An erased value leaves its row without the seal: when the value comes again, it gets another
placeholder, and the old one stays erased.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hmac import digest
from typing import Any

from artelier.errors import Erased, Locked
from artelier.log.blobs import DataKey, Secret
from artelier.log.keyring import Sealer
from artelier.pii.placeholder import CODE_CHARS, CODE_CHARS_MAX, placeholder

ERASED, LOCKED = Erased.mark, Locked.mark

PATTERNS_SQL = "SELECT kind, expression FROM tenant_patterns WHERE tenant = ? ORDER BY kind"
"""Read when a run is opened, so that what an administrator added holds for the next run everywhere."""

KNOWN_MAX = 50_000
"""Values of a tenant that are remembered in memory, by keyed hash."""

PENDING_MAX = 10_000
"""Rows that wait to be stored, before a look at which of them are stored by now."""

_LOOKED_AT_ONCE = 500

_NAME_BYTES = 12

Look = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]


class Vault:
    """The values of one tenant. It belongs to one process; the table is shared."""

    def __init__(self, tenant: str, key: DataKey, sealer: Sealer, look: Look) -> None:
        """`look` runs a small query at once."""
        self._tenant = tenant
        self._key_id = key.key_id
        self._sealer = sealer
        self._look = look
        self._naming = digest(key.secret, b"artelier vault name", "sha256")
        self._sealing = digest(key.secret, b"artelier vault seal", "sha256")
        self._known: dict[bytes, str] = {}
        self._pending: dict[str, Secret] = {}
        """Rows that no look has seen stored, by placeholder."""
        self._pending_max = PENDING_MAX

    def digest_of(self, kind: str, normal: str) -> bytes:
        """What a value is found by, whatever its spelling."""
        return digest(self._naming, f"{kind}\0{normal}".encode(errors="surrogatepass"), "sha256")

    def placeholder_of(self, kind: str, normal: str, shown: str) -> str:
        """The placeholder of a value, made on first use. `shown` is the spelling that is kept."""
        key = self.digest_of(kind, normal)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            found = self._known[key] = self._stored(kind, key, shown)
        return found

    def _stored(self, kind: str, key: bytes, shown: str) -> str:
        rows = self._look(
            "SELECT placeholder, generation, sealed IS NULL FROM vault"
            " WHERE digest = ? AND tenant = ? ORDER BY generation DESC LIMIT 1",
            (key, self._tenant),
        )
        if rows and not rows[0][2]:
            return rows[0][0]
        generation = rows[0][1] + 1 if rows else 0
        code = digest(self._naming, key + generation.to_bytes(4, "big"), "sha256")
        name = digest(self._naming, code + shown.encode(errors="surrogatepass"), "sha256")[
            :_NAME_BYTES
        ]
        sealed = name + self._sealer.seal(self._sealing, name, shown.encode(errors="surrogatepass"))
        made = ""
        for chars in range(CODE_CHARS, CODE_CHARS_MAX + 1, 2):  # longer where another value has it
            made = placeholder(kind, code, chars=chars)
            if self._is_free(made, key):
                break
        if len(self._pending) >= self._pending_max:
            self._drop_stored()
        self._pending[made] = Secret(self._tenant, made, key, generation, self._key_id, sealed)
        return made

    def _drop_stored(self) -> None:
        """Keep no row that the table has; those that it lacks may still be named by what is stored next."""
        named = list(self._pending)
        for start in range(0, len(named), _LOOKED_AT_ONCE):
            some = named[start : start + _LOOKED_AT_ONCE]
            marks = ", ".join("?" * len(some))
            for (stored,) in self._look(
                f"SELECT placeholder FROM vault WHERE placeholder IN ({marks}) AND tenant = ?",
                (*some, self._tenant),
            ):
                del self._pending[stored]
        self._pending_max = max(PENDING_MAX, 2 * len(self._pending))

    def _is_free(self, made: str, key: bytes) -> bool:
        pending = self._pending.get(made)
        if pending is not None and pending.digest != key:
            return False
        return not self._look(
            "SELECT 1 FROM vault WHERE placeholder = ? AND tenant = ?", (made, self._tenant)
        )

    def unstored(self, named: Iterable[str]) -> tuple[Secret, ...]:
        """Rows of these placeholders that must ride with what names them."""
        if not self._pending:
            return ()
        rows: list[Secret] = []
        for one in dict.fromkeys(named):
            secret = self._pending.get(one)
            if secret is None:
                continue
            if self._is_free(one, secret.digest):
                rows.append(secret)
            else:
                del self._pending[one]
        return tuple(rows)

    def held(self) -> int:
        """How many rows wait to be stored, as far as is known."""
        return len(self._pending)

    def value_of(self, named: str) -> str | None:
        """What a placeholder stands for; `[erased]` if that was destroyed, `[locked]` if it
        cannot be opened, None if there is none."""
        pending = self._pending.get(named)
        rows = [(pending.sealed,)] if pending is not None else self._look(
            "SELECT sealed FROM vault WHERE placeholder = ? AND tenant = ?", (named, self._tenant)
        )  # fmt: skip
        if not rows:
            return None
        sealed = rows[0][0]
        if sealed is None:
            return ERASED
        name = sealed[:_NAME_BYTES]
        opened = self._sealer.unseal(self._sealing, name, sealed[_NAME_BYTES:])
        return LOCKED if opened is None else opened.decode(errors="replace")

    def forget(self) -> None:
        """Somebody erased values: ask the table again. What is not stored yet stays known."""
        self._known.clear()
