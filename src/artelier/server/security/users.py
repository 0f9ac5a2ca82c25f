"""The people and programs of a server: who they are, what they may do, and the test of passwords and tokens.

    [[users]]
    name = "ada"
    role = "operator"                 # viewer, operator or admin
    tenants = ["default"]
    password = "scrypt:..."           # printed by `artelier up --hash-password`
    tokens = ["sha256:..."]           # of programs, which send `Authorization: Bearer`

A password is never in the file; it cannot be got back from what is. Where one person has the machine alone,
there is no such file: the hashes of programs' tokens stand beside the database.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import secrets
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from artelier.atomic_file import replace_file
from artelier.errors import ArtelierError, InvalidConfig, InvalidRequest, NotFound
from artelier.ids import check_tenant

Role = Literal["viewer", "operator", "admin"]
ROLES: tuple[Role, ...] = ("viewer", "operator", "admin")
"""Each may do what those before it may."""

USERS_MAX = 1000
FILE_BYTES_MAX = 1_000_000
PASSWORD_CHARS_MIN, PASSWORD_CHARS_MAX = 8, 1000
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_TOKEN = re.compile(r"sha256:[0-9a-f]{64}")
_N, _R, _P = 1 << 15, 8, 1
"""Cost of scrypt: 32 MiB and about a tenth of a second for each try (OWASP asks for as much)."""
_MEMORY = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    name: str
    role: Role
    tenants: tuple[str, ...]
    password: str = ""
    """`scrypt:<salt>:<hash>`; empty for a program, which has tokens alone."""
    tokens: tuple[str, ...] = ()

    @property
    def stamp(self) -> bytes:
        """Changes with the password, so that a new one ends the sessions of the old."""
        return hashlib.sha256(f"{self.name}\0{self.password}".encode()).digest()


class Users:
    """Everybody who may sign in, by name."""

    def __init__(self, users: Iterable[User]) -> None:
        self._by_name = {user.name: user for user in users}

    @classmethod
    def load(cls, path: str | Path) -> Users:
        """Errors: `NotFound` without the file; `InvalidConfig` that names the user and the field."""
        file = Path(path)
        try:
            with file.open("rb") as stream:
                text = stream.read(FILE_BYTES_MAX + 1)
        except FileNotFoundError:
            raise NotFound("there is no such file of users", got=str(file)) from None
        except OSError as error:
            raise InvalidConfig(
                f"the file of users cannot be read: {error.strerror}", got=str(file)
            ) from None
        try:
            if len(text) > FILE_BYTES_MAX:
                raise InvalidConfig("the file of users is too large", expected="at most 1 MB")
            stored = tomllib.loads(text.decode())
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InvalidConfig(f"the file of users is no TOML: {error}", got=str(file)) from None
        return cls.parse(stored)

    @classmethod
    def parse(cls, stored: dict[str, Any]) -> Users:
        """Users of a decoded file. Errors: `InvalidConfig`."""
        rows: Any = stored.get("users")
        if set(stored) != {"users"} or not isinstance(rows, list) or not rows:
            raise InvalidConfig(
                "a file of users holds one list",
                expected="[[users]] with at least one user",
                got=", ".join(sorted(stored)) or "nothing",
            )
        found: dict[str, User] = {}
        for number, row in enumerate(rows[: USERS_MAX + 1], start=1):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - checked next
            user = _user(cast("object", row), number)
            if user.name in found:
                raise InvalidConfig("two users have one name", got=user.name)
            found[user.name] = user
        if len(found) > USERS_MAX:
            raise InvalidConfig("too many users", expected=f"at most {USERS_MAX}")
        return cls(found.values())

    @property
    def tenants(self) -> list[str]:
        """Every tenant that somebody may choose, in alphabetical order."""
        return sorted({tenant for user in self._by_name.values() for tenant in user.tenants})

    def of(self, tenant: str) -> list[User]:
        """Return the users who may choose a tenant, by name."""
        found = [user for user in self._by_name.values() if tenant in user.tenants]
        return sorted(found, key=lambda user: user.name)

    def find(self, name: str) -> User | None:
        return self._by_name.get(name)

    def with_token(self, token: str) -> User | None:
        """The user whose program shows this token."""
        digest = token_hash(token)
        found: User | None = None
        for user in self._by_name.values():
            for known in user.tokens:
                if hmac.compare_digest(known, digest):
                    found = user
        return found

    def with_password(self, name: str, password: str) -> User | None:
        """The user, if the password is right. Cost: one scrypt, also for a name that nobody has."""
        user = self._by_name.get(name)
        stored = user.password if user is not None and user.password else _NOBODY
        is_right = _fits(password, stored)
        return user if is_right and stored is not _NOBODY else None


def _user(row: object, number: int) -> User:
    what = f"user {number}"
    if not isinstance(row, dict):
        raise InvalidConfig(f"{what} is no table", expected="[[users]]")
    given: dict[str, Any] = {str(key): value for key, value in row.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - a TOML table
    if unknown := sorted(set(given) - {"name", "role", "tenants", "password", "tokens"}):
        raise InvalidConfig(
            f"{what} has unknown fields",
            expected="name, role, tenants, password, tokens",
            got=", ".join(unknown)[:200],
        )
    name, role = given.get("name"), given.get("role")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidConfig(f"{what} needs a name", expected="1-64 characters of A-Z a-z 0-9 . _ -")
    if role not in ROLES:
        raise InvalidConfig(f"user {name} needs a role", expected=", ".join(ROLES))
    password = given.get("password", "")
    if not isinstance(password, str) or (password and _parts(password) is None):
        raise InvalidConfig(
            f"the password of user {name} is not hashed",
            expected="scrypt:<salt>:<hash>",
            hint="`artelier up --hash-password` makes one.",
        )
    tokens = _texts(given.get("tokens", []), f"tokens of user {name}")
    if any(not _TOKEN.fullmatch(token) for token in tokens):
        raise InvalidConfig(
            f"a token of user {name} is not hashed",
            expected="sha256: and 64 hex digits",
            hint="`artelier up --hash-password` prints that form as well.",
        )
    if not password and not tokens:
        raise InvalidConfig(f"user {name} can never sign in", expected="a password or tokens")
    try:
        tenants = [check_tenant(one) for one in _texts(given.get("tenants"), f"tenants of {name}")]
    except ArtelierError as error:
        raise InvalidConfig(f"user {name}: {error}") from None
    if not tenants:
        raise InvalidConfig(f"user {name} has no tenants", expected="at least one")
    return User(name=name, role=role, tenants=tuple(tenants), password=password, tokens=tokens)


def _texts(value: object, what: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise InvalidConfig(f"{what} are missing or no list", expected="a list of texts")
    items: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType] - each is checked
    if not all(isinstance(one, str) for one in items):
        raise InvalidConfig(f"{what} are no texts", expected="a list of texts")
    return tuple(items)


# Hashes


def token_hash(token: str) -> str:
    """Return what a file of users holds of a token; a token is long and random, so one SHA-256 is enough."""
    return "sha256:" + hashlib.sha256(token.encode()).hexdigest()


def password_hash(password: str) -> str:
    """Return what a file of users holds of a password. Errors: `InvalidConfig` for one that is too short."""
    if not PASSWORD_CHARS_MIN <= len(password) <= PASSWORD_CHARS_MAX:
        raise InvalidConfig(
            "this is no password",
            got=f"{len(password)} characters",
            expected=f"{PASSWORD_CHARS_MIN} to {PASSWORD_CHARS_MAX} characters",
        )
    salt = secrets.token_bytes(16)
    return f"scrypt:{url_text(salt)}:{url_text(_scrypt(password, salt))}"


def _scrypt(password: str, salt: bytes) -> bytes:
    secret = password.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(secret, salt=salt, n=_N, r=_R, p=_P, maxmem=_MEMORY, dklen=32)


def url_text(raw: bytes) -> str:
    """Return bytes in letters that a URL and a cookie hold as they are."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _parts(stored: str) -> tuple[bytes, bytes] | None:
    name, _, rest = stored.partition(":")
    salt, _, digest = rest.partition(":")
    try:
        raw = [base64.b64decode(one + "=" * (-len(one) % 4), b"-_", validate=True) for one in (salt, digest)]
    except ValueError:
        return None
    return (raw[0], raw[1]) if name == "scrypt" and len(raw[0]) >= 16 and len(raw[1]) == 32 else None


def _fits(password: str, stored: str) -> bool:
    parts = _parts(stored)
    assert parts is not None, "checked when the file was read"
    return hmac.compare_digest(_scrypt(password, parts[0]), parts[1])


_NOBODY = f"scrypt:{url_text(bytes(16))}:{url_text(bytes(32))}"
"""Compared with when nobody has the name, so that the answer takes as long."""


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
        with replace_file(self._file, "a token cannot be kept", makes_folder=True) as file:
            file.write(msgspec.json.encode(tokens))
