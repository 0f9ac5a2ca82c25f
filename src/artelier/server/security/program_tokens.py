"""Bearer tokens of programs, where one person has the machine alone: hashes beside the database."""

from __future__ import annotations

import hmac
import os
import secrets
import tempfile
from pathlib import Path

import msgspec

from artelier.errors import InvalidConfig, InvalidRequest, NotFound, StoreUnavailable
from artelier.server.security.users import token_hash

PREFIX = "at-"
"""So that a token is known for one where it should not be, such as in a repository."""
NAME_CHARS_MAX = 64
TOKENS_MAX = 100


def tokens_file(database: Path) -> Path:
    """Return where the tokens of a database stand."""
    return database.with_name(database.name + ".tokens")


class ProgramToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token by its hash; the token itself is shown once."""

    name: str
    hash: str
    made_us: int


class ProgramTokens:
    """The tokens of one database. Servers see what commands change, and the other way round."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seen: tuple[int, int] | None = None
        self._tokens: list[ProgramToken] = []

    def find(self, token: str) -> ProgramToken | None:
        """Return what is known of a token; None for one that is not, or no longer."""
        digest = token_hash(token)
        return next((one for one in self.list() if hmac.compare_digest(one.hash, digest)), None)

    def list(self) -> list[ProgramToken]:
        """Return all of them. Cost: a look at the file, which is read when it has changed."""
        try:
            stat = os.stat(self._file)
            seen = (stat.st_mtime_ns, stat.st_size)
            if seen != self._seen:
                self._tokens = msgspec.json.decode(self._file.read_bytes(), type=list[ProgramToken])
                self._seen = seen
        except FileNotFoundError:
            self._tokens, self._seen = [], None
        except (OSError, msgspec.MsgspecError) as error:
            raise InvalidConfig(
                "the tokens of programs cannot be read",
                got=f"{self._file}: {error}"[:300],
                hint="Remove the file and make new ones with `artelier token new`.",
            ) from None
        return self._tokens

    def add(self, name: str, *, now_us: int) -> str:
        """Return a new token; it is known from now on. Errors: `InvalidRequest` for a name that is taken."""
        if not name or len(name) > NAME_CHARS_MAX or not name.isprintable():
            raise InvalidRequest(
                "the name of a token", expected=f"1-{NAME_CHARS_MAX} characters", got=name[:80]
            )
        known = self.list()
        if any(one.name == name for one in known):
            raise InvalidRequest(f"there is a token {name!r}", hint="Give another name, or revoke that one.")
        if len(known) >= TOKENS_MAX:
            raise InvalidRequest("too many tokens", expected=f"at most {TOKENS_MAX}", got=len(known))
        token = PREFIX + secrets.token_urlsafe(32)
        self._write([*known, ProgramToken(name=name, hash=token_hash(token), made_us=now_us)])
        return token

    def revoke(self, name: str) -> None:
        """Forget a token at once. Errors: `NotFound`."""
        known = self.list()
        kept = [one for one in known if one.name != name]
        if len(kept) == len(known):
            raise NotFound(f"there is no token {name[:80]!r}", hint="artelier token list names them.")
        self._write(kept)

    def _write(self, tokens: list[ProgramToken]) -> None:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            handle, place = tempfile.mkstemp(dir=self._file.parent, prefix=self._file.name)
            with os.fdopen(handle, "wb") as file:
                file.write(msgspec.json.encode(tokens))
            os.replace(place, self._file)
        except OSError as error:
            raise StoreUnavailable(f"a token cannot be kept: {error.strerror}", got=str(self._file)) from None
