"""Servers that a person has approved on this machine, by the hash of what they start.

The file is the person's, outside of every project: a folder that was fetched from elsewhere brings its
`.mcp.json`, and could bring a database and settings, but no yes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from artelier.atomic_file import replace_file
from artelier.errors import InvalidConfig
from artelier.tools.mcp.configuration import ServerEntry

FILE = "mcp_approvals.json"


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
        return cls(home / "artelier" / FILE, directory=directory)

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
