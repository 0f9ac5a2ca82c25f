"""The address of a server: a program to start or a URL, checked when it is named. Secrets stay in here."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

from artelier.errors import InvalidConfig

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
SECRET_CHARS_MIN = 3
"""Shorter values are not blotted out: they say nothing, and `1` occurs everywhere."""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server that is started here and spoken to over its standard streams."""

    command: tuple[str, ...] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)

    @property
    def shown(self) -> str:
        """The program, without arguments: they may hold keys."""
        return self.command[0]

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(self.env.values())

    def find_program(self, path: str | None) -> str:
        """Return where the program is. Errors: `InvalidConfig` if it is nowhere."""
        place = shutil.which(self.command[0], path=path)
        if place is None:
            raise InvalidConfig(
                "the program of an MCP server is not there",
                expected="a program on the PATH, or a path to one",
                got=self.command[0][:200],
                hint="Install it, or name it by its full path.",
            )
        return place


@dataclass(frozen=True, slots=True)
class RemoteServer:
    """A server that runs elsewhere and is spoken to over HTTP."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)

    @property
    def shown(self) -> str:
        """The URL without its query, which may hold a key."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}{parts.path}"[:200]

    @property
    def secrets(self) -> tuple[str, ...]:
        # `Bearer abc`: the part that matters may come back alone.
        words = [word for value in self.headers.values() for word in value.split()]
        return (*self.headers.values(), *words, urlsplit(self.url).query)


Address = LocalServer | RemoteServer


def address_of(
    command: Sequence[str] | None,
    url: str | None,
    env: Mapping[str, str] | None,
    headers: Mapping[str, str] | None,
) -> Address:
    """The checked address. Errors: `InvalidConfig`; values of `env` and `headers` are in none of them."""
    if (command is None) == (url is None):
        raise InvalidConfig("an MCP server is reached in one way", expected="either command= or url=")
    if command is not None:
        if headers:
            raise InvalidConfig("headers= is for a server with a url=")
        return _program(command, env or {})
    if env:
        raise InvalidConfig("env= is for a server with a command=")
    return _endpoint(url or "", headers or {})


def _program(command: Sequence[str], env: Mapping[str, str]) -> LocalServer:
    if isinstance(command, str) or not all(isinstance(cast(object, word), str) for word in command):
        raise InvalidConfig(
            "the command of an MCP server",
            expected='a list of words, such as ["npx", "-y", "some-server"]; no shell reads it',
            got=type(cast(object, command)).__name__,
        )
    if not command or not command[0] or any("\0" in word for word in command):
        raise InvalidConfig("the command of an MCP server names no program")
    for name, value in env.items():
        if not _is_variable(name, value):
            raise InvalidConfig(
                "an environment variable of an MCP server",
                expected="name and value as text",
                got=repr(name)[:80],
            )
    return LocalServer(tuple(command), dict(env))


def _is_variable(name: object, value: object) -> bool:
    if not isinstance(name, str) or not isinstance(value, str):
        return False
    return bool(name) and "=" not in name and "\0" not in name + value


def _endpoint(url: str, headers: Mapping[str, str]) -> RemoteServer:
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        raise InvalidConfig("the url of an MCP server cannot be read") from None
    if parts.scheme not in ("http", "https") or not host or not url.isprintable():
        raise InvalidConfig(
            "the url of an MCP server",
            expected="http://... or https://...",
            got=f"{parts.scheme[:20]}:..." if parts.scheme else "no scheme",
        )
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise InvalidConfig(
            "the url of an MCP server has a user, a password or a fragment",
            hint="Send credentials as headers={'Authorization': ...}.",
        )
    for name, value in cast("Mapping[object, object]", headers).items():
        if (
            not isinstance(name, str)
            or not _HEADER_NAME.fullmatch(name)
            or not isinstance(value, str)
            or not (value.isascii() and value.isprintable())
        ):
            raise InvalidConfig(
                "a header of an MCP server",
                expected="a name, and one line of ASCII text",
                got=repr(name)[:80],
            )
    return RemoteServer(url, dict(headers))


def without(text: str, secrets: Sequence[str]) -> str:
    """The text with secrets blotted out, the longest first."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SECRET_CHARS_MIN:
            text = text.replace(secret, "***")
    return text
