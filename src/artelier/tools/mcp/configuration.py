"""Servers that files name: `.mcp.json`, whose format editors and coding agents share, and settings.

A file is somebody else's word for what is started on this machine. So it is checked whole, nothing of it is
run before a person has approved it, by the hash of what it starts, and secrets stay in the environment:
`${NAME}` stands for a variable until the server is started. Approvals are the person's, outside of every
project: a folder that was fetched from elsewhere brings its `.mcp.json`, and could bring a database and
settings, but no yes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from artelier.atomic_file import replace_file
from artelier.errors import ArtelierError, InvalidConfig
from artelier.ports.tool import Risk
from artelier.tools.mcp.schema import visible
from artelier.tools.mcp.server import McpServer

FILE = ".mcp.json"
FILE_BYTES_MAX = 1024 * 1024
SERVERS_MAX = 64
TIMEOUT_S = 60.0
"""More than a server alone needs: `npx` and `uvx` fetch it first."""

_VARIABLE = re.compile(r"\$\{(?P<kind>env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
_OTHER = re.compile(r"\$\{(?P<name>[^}]{1,80})\}")
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]+")

UNSUPPORTED = ("cwd", "envFile", "headersHelper", "oauth", "auth")
"""Keys of other programs that change what is started or sent: leaving them out would start something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTrust:
    """A person's word for a server's tools, in the terms of `McpServer`."""

    read_only: tuple[str, ...] = ()
    idempotent: tuple[str, ...] = ()
    risk: Mapping[str, Risk] = field(default_factory=dict[str, Risk])
    trust_hints: bool = False
    grant: str | None = None
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEntry:
    """One server as a file states it: variables are not put in yet."""

    name: str
    """As the file calls it; the tools' server is called `short_name`."""
    file: str
    """For people."""
    command: tuple[str, ...] = ()
    url: str = ""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    trust: ServerTrust = ServerTrust()
    is_enabled: bool = True

    @property
    def short_name(self) -> str:
        return _NO_NAME.sub("-", self.name).strip("-_")[:32] or "server"

    @property
    def is_complete(self) -> bool:
        """True if it says what to start or to ask; settings may only add to a server of `.mcp.json`."""
        return bool(self.command or self.url)

    def describe(self) -> list[str]:
        """Return lines for the person who is to approve it: all that counts, variables by name."""
        lines = [f"starts: {_words(self.command)}" if self.command else f"asks: {self.url}"]
        lines += [f"with {name}={value}" for name, value in sorted(self.env.items())]
        lines += [f"with header {name}: {value}" for name, value in sorted(self.headers.items())]
        trust = self.trust
        for what, names in (("reads only", trust.read_only), ("may be repeated", trust.idempotent)):
            if names:
                lines.append(f"believed that it {what}: {', '.join(names)}")
        if trust.risk:
            lines.append("risk: " + ", ".join(f"{name} {risk}" for name, risk in sorted(trust.risk.items())))
        if trust.trust_hints:
            lines.append("believed: what the server says of its tools")
        return [visible(line, chars_max=2_000) for line in lines]

    def digest(self, directory: Path) -> str:
        """Return the hash that an approval names: of all that is stated here, and where it is started.

        A value that a variable brings is not in it: a new token asks nobody again.
        """
        trust = self.trust
        stated = [
            str(directory),
            self.name,
            list(self.command),
            self.url,
            dict(self.env),
            dict(self.headers),
            [list(trust.read_only), list(trust.idempotent), dict(trust.risk), trust.trust_hints, trust.grant],
        ]
        return sha256(json.dumps(stated, sort_keys=True, ensure_ascii=True).encode()).hexdigest()

    def server(self, environ: Mapping[str, str]) -> McpServer:
        """Return the server, with variables put in. Errors: `InvalidConfig`, naming a missing variable."""
        trust = self.trust

        def full(key: str, text: str) -> str:
            return _expand(text, environ, place=key)

        try:
            return McpServer(
                self.short_name,
                command=[full("command", word) for word in self.command] or None,
                url=full("url", self.url) if self.url else None,
                env={name: full(f"env.{name}", value) for name, value in self.env.items()},
                headers={name: full(f"headers.{name}", value) for name, value in self.headers.items()},
                timeout_s=trust.timeout_s or TIMEOUT_S,
                read_only=trust.read_only,
                idempotent=trust.idempotent,
                risk=trust.risk,
                trust_hints=trust.trust_hints,
                grant=trust.grant,
            )
        except InvalidConfig as error:
            self.name_in(error)
            raise

    def name_in(self, error: ArtelierError, *, said: str = "") -> None:
        """Say in an error that it is about this server. `said`: the last thing that the server wrote."""
        told = (
            f"It is the server {self.name[:80]!r} of {self.file}.",
            f"It wrote: {said[:200]}" if said else "",
            error.hint or "",
            "--no-mcp goes on without such servers.",
        )
        error.hint = " ".join(filter(None, told))


class _Stated(BaseModel):
    """A server in `.mcp.json`; keys that only concern other programs are let through."""

    model_config = ConfigDict(extra="allow", strict=True)

    type: Literal["stdio", "http", "streamable-http", "streamableHttp", "sse"] | None = None
    command: str | None = Field(default=None, min_length=1)
    args: list[str] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)
    url: str | None = Field(default=None, min_length=1)
    headers: dict[str, str] = Field(default_factory=dict)
    disabled: bool = False


class _ServersFile(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)

    mcpServers: dict[str, _Stated] = Field(max_length=SERVERS_MAX)


def read_servers(path: Path) -> list[ServerEntry]:
    """Return the servers of a `.mcp.json`; none if there is no such file. Errors: `InvalidConfig`."""
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InvalidConfig(f"{path} cannot be read: {error.strerror}") from None
    if len(raw) > FILE_BYTES_MAX:
        raise InvalidConfig(f"{path} is too large", expected=f"at most {FILE_BYTES_MAX} bytes")
    try:
        stated: object = json.loads(raw)
    except (ValueError, RecursionError) as error:
        line = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        what = error.msg if isinstance(error, json.JSONDecodeError) else "this is no JSON text"
        raise InvalidConfig(f"{path}{line}: {what}", expected="JSON", hint=NO_MCP) from None
    if isinstance(stated, dict) and "mcpServers" not in stated and "servers" in stated:
        raise InvalidConfig(
            f"{path}: there is no key mcpServers", expected='{"mcpServers": {...}}', got="the key servers"
        )
    try:
        found = _ServersFile.model_validate(stated)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(step)[:80] for step in first["loc"]) or "the whole"
        raise InvalidConfig(
            f"{path}: {where}: {first['msg'][:200]}",
            expected='{"mcpServers": {"NAME": {"command": ..., "args": [...]} or {"url": ...}}}',
            hint=NO_MCP,
        ) from None
    return [_entry(name, one, path) for name, one in found.mcpServers.items()]


NO_MCP = "Repair the file, or leave its servers out with --no-mcp."


def _entry(name: str, stated: _Stated, path: Path) -> ServerEntry:
    """Return a checked server. Errors: `InvalidConfig` for what would start something else than is meant."""
    place = f"{path}: server {name[:80]!r}"
    if (stated.command is None) == (stated.url is None):
        raise InvalidConfig(f"{place} is reached in one way", expected="either command or url", hint=NO_MCP)
    if stated.type == "sse":
        raise InvalidConfig(
            f"{place} speaks the old transport sse", expected='"type": "http" or a command', hint=NO_MCP
        )
    others = cast("Mapping[str, object]", stated.model_extra or {})
    if foreign := [key for key in UNSUPPORTED if key in others]:
        raise InvalidConfig(
            f"{place} says {foreign[0]!r}, which is not supported here", expected="without it", hint=NO_MCP
        )
    return ServerEntry(
        name=name,
        file=str(path),
        command=(stated.command, *stated.args) if stated.command is not None else (),
        url=stated.url or "",
        env=stated.env,
        headers=stated.headers,
        is_enabled=not stated.disabled,
    )


def merge(stated: Sequence[ServerEntry], settings: Iterable[ServerEntry]) -> list[ServerEntry]:
    """Return the enabled servers of both; settings win, and may add trust to a server of `.mcp.json`.

    Errors: `InvalidConfig` for settings about no server, and for two names that are one to the kernel.
    """
    found = {one.name: one for one in stated}
    for one in settings:
        base = found.get(one.name)
        if not one.is_complete:
            if base is None and one.is_enabled:
                raise InvalidConfig(
                    f"{one.file}: mcp.servers.{one.name} says nothing to start or to ask",
                    expected=f"command, url, or a server of this name in {FILE}",
                )
            if base is None:
                continue
            one = replace(base, trust=one.trust, is_enabled=one.is_enabled)
        found[one.name] = one
    kept = [one for one in found.values() if one.is_enabled]
    by_short: dict[str, str] = {}
    for one in kept:
        if (other := by_short.setdefault(one.short_name.lower(), one.name)) != one.name:
            raise InvalidConfig(
                f"{one.file}: two servers are one name to tools",
                expected="names that differ in A-Z a-z 0-9 _ -, in the first 32 characters",
                got=f"{other[:80]!r} and {one.name[:80]!r}",
            )
    return kept


def _expand(text: str, environ: Mapping[str, str], *, place: str) -> str:
    """Return the text with `${NAME}`, `${env:NAME}` and `${NAME:-default}` put in.

    What a variable holds is not looked through again. Errors: `InvalidConfig`.
    """
    pieces: list[str] = []
    at = 0
    for match in _OTHER.finditer(text):
        pieces.append(text[at : match.start()])
        at = match.end()
        known = _VARIABLE.fullmatch(match[0])
        if known is None:
            raise InvalidConfig(
                f"{place}: {match[0][:80]} is no variable of the environment",
                expected="${NAME} or ${NAME:-default}",
            )
        value = environ.get(known["name"])
        # As shells and the other programs have it, `:-` counts for an empty value too.
        if known["default"] is not None and not value:
            value = known["default"]
        if value is None:
            raise InvalidConfig(
                f"{place}: the variable {known['name']} is not set",
                hint=f"Set it, or write ${{{known['name']}:-default}}.",
            )
        pieces.append(value)
    return "".join(pieces) + text[at:]


def _words(command: Sequence[str]) -> str:
    import shlex

    return shlex.join(command)


def entry_of_settings(name: str, file: str, table: Mapping[str, Any]) -> ServerEntry:
    """Return a server of `[mcp.servers.NAME]`, whose table was checked by its schema."""
    command = table["command"]
    words = [command] if isinstance(command, str) else list(command or ())
    return ServerEntry(
        name=name,
        file=file,
        command=(*words, *table["args"]) if words else (),
        url=table["url"] or "",
        env=table["env"],
        headers=table["headers"],
        is_enabled=table["enabled"],
        trust=ServerTrust(
            read_only=tuple(table["read_only"]),
            idempotent=tuple(table["idempotent"]),
            risk=table["risk"],
            trust_hints=table["trust_hints"],
            grant=table["grant"],
            timeout_s=table["timeout_s"],
        ),
    )


APPROVALS_FILE = "mcp_approvals.json"


class _ServerApproval(msgspec.Struct, frozen=True, kw_only=True):
    """One yes, under the hash that it is for."""

    name: str
    directory: str


class _ServerApprovalFile(msgspec.Struct, frozen=True, kw_only=True):
    version: int = 1
    approved: dict[str, _ServerApproval] = {}


class ServerApprovals:
    """The approvals of one person, for servers that are started in one folder."""

    def __init__(self, file: Path, *, directory: Path) -> None:
        self._file = file
        self._directory = directory.resolve()

    @classmethod
    def of_person(cls, environ: Mapping[str, str], *, directory: Path) -> ServerApprovals:
        """Return those below `$XDG_STATE_HOME`, else `~/.local/state`. Errors: `InvalidConfig`."""
        base = environ.get("XDG_STATE_HOME", "")
        try:
            home = Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state"
        except RuntimeError:
            raise InvalidConfig(
                "there is no home folder for approvals of MCP servers", hint="Set HOME or XDG_STATE_HOME."
            ) from None
        return cls(home / "artelier" / APPROVALS_FILE, directory=directory)

    @property
    def file(self) -> Path:
        return self._file

    def has(self, entry: ServerEntry) -> bool:
        """Return True if exactly this was approved here. Errors: `InvalidConfig` for a broken file."""
        return entry.digest(self._directory) in self._read().approved

    def had_another(self, entry: ServerEntry) -> bool:
        """Return True if a server of this name was approved here, with another command."""
        return any(self._is_about(one, entry) for one in self._read().approved.values())

    def add(self, entry: ServerEntry) -> None:
        """Keep the yes, in place of one for another command of this server. Errors: `StoreUnavailable`."""
        kept = {
            digest: one for digest, one in self._read().approved.items() if not self._is_about(one, entry)
        }
        kept[entry.digest(self._directory)] = _ServerApproval(name=entry.name, directory=str(self._directory))
        raw = json.dumps(msgspec.to_builtins(_ServerApprovalFile(approved=kept)), indent=1).encode()
        hint = "Set XDG_STATE_HOME to a folder that can be written."
        with replace_file(
            self._file, "an approval of an MCP server cannot be kept", hint=hint, makes_folder=True
        ) as file:  # only its owner reads it
            file.write(raw)

    def _is_about(self, approval: _ServerApproval, entry: ServerEntry) -> bool:
        return approval.name == entry.name and approval.directory == str(self._directory)

    def _read(self) -> _ServerApprovalFile:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=_ServerApprovalFile)
        except FileNotFoundError:
            return _ServerApprovalFile()
        except (OSError, msgspec.MsgspecError) as error:
            raise InvalidConfig(
                "the approvals of MCP servers cannot be read",
                expected="the file as it was written",
                got=f"{self._file}: {error}"[:300],
                hint="Remove the file; each server asks once more.",
            ) from None
