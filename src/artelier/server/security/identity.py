"""The sender of a request: a cookie or the token of a program, checked against the known users."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

from artelier.server.security.login_sessions import LoginSession, Sessions
from artelier.server.security.users import ROLES, Role, User, Users

LOCAL_STAMP = hashlib.sha256(b"artelier local").digest()
"""In place of a password's, where one person has the machine to themselves."""

TENANT_COOKIE = "artelier_tenant"
TENANT_HEADER = "x-artelier-tenant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A signed-in user. `tenants` None means all of this store: the one person of local mode."""

    name: str
    role: Role
    tenants: tuple[str, ...] | None
    session: LoginSession | None = None
    """None for a program with a token, whose requests need no CSRF token."""
    asked_tenant: str = ""
    """The tenant that the request names, not yet allowed."""

    @property
    def is_local(self) -> bool:
        return self.tenants is None

    @property
    def actor(self) -> str:
        """The actor, as events name it."""
        return "operator" if self.is_local else f"user:{self.name}"

    @property
    def listener(self) -> str:
        """The name under which live streams are counted; empty for the one user of local mode."""
        return "" if self.is_local else self.name

    def may(self, role: Role) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)


class IdentityGate:
    """Knows users and sessions of one server."""

    def __init__(self, sessions: Sessions, users: Users | None) -> None:
        self.sessions = sessions
        self.users = users

    def identify(self, headers: Mapping[str, str]) -> Identity | None:
        """The user behind these headers (lower case); None if nobody is signed in."""
        cookies = _cookies(headers.get("cookie", ""))
        asked = headers.get(TENANT_HEADER) or cookies.get(TENANT_COOKIE, "")
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.users is not None:
            user = self.users.with_token(token.strip())
            return _of_user(user, None, asked) if user is not None else None
        cookie = cookies.get(self.sessions.cookie, "")
        session = self.sessions.read(cookie)
        if session is None:
            return None
        if self.users is None:
            is_good = session.user == "" and self.sessions.proves(cookie, session, LOCAL_STAMP)
            return _local(session, asked) if is_good else None
        user = self.users.find(session.user)
        if user is None or not self.sessions.proves(cookie, session, user.stamp):
            return None
        return _of_user(user, session, asked)


def _local(session: LoginSession, asked: str) -> Identity:
    return Identity(name="operator", role="admin", tenants=None, session=session, asked_tenant=asked)


def _of_user(user: User, session: LoginSession | None, asked: str) -> Identity:
    return Identity(name=user.name, role=user.role, tenants=user.tenants, session=session, asked_tenant=asked)


def _cookies(header: str) -> dict[str, str]:
    jar: SimpleCookie = SimpleCookie()
    try:
        jar.load(header)
    except CookieError:
        return {}
    return {name: morsel.value for name, morsel in jar.items()}
