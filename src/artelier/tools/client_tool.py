"""Tools that a client of the server brings and runs itself: each call asks it, durably, and takes one answer.

A run keeps the definitions of its client's tools, so that any process goes on with it. Who brings the answers
is no matter of this file: see `server/agui/`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

import msgspec

from artelier.artifacts.media.inspection import ResultWithMedia, failed_call
from artelier.errors import InvalidRequest
from artelier.ports.model import ToolSchema
from artelier.ports.tool import Risk, ToolContext
from artelier.tools.mcp.schema import ArgumentSchema, Unfit

TOOLS_MAX = 64
"""Tools of one client."""
TOOL_BYTES_MAX = 32 * 1024
"""Of the description and the schema of one."""
CLIENT_TOOL = "client_tool"
"""Marks the question of a client's tool among the questions of a run."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ClientTool:
    """A tool that the client runs: a call asks it, and returns what it answers."""

    def __init__(self, name: str, description: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Errors: `InvalidRequest` for a schema that no model can be shown."""
        self.name = name
        self.description = description
        self.side_effect, self.idempotent = True, False
        self.grant: str | None = None
        self.timeout_s: float | None = None
        self.heartbeat_timeout_s: float | None = None
        self.risk: Risk = "low"
        self.trust = "untrusted"
        try:
            self._arguments = ArgumentSchema(dict(parameters or {"type": "object"}))
        except Unfit as unfit:
            raise InvalidRequest(f"the client's tool {name!r} cannot be used: {unfit}") from None
        self._schema = ToolSchema(name=name, description=description, parameters=self._arguments.schema)

    @property
    def schema(self) -> ToolSchema:
        return self._schema

    @property
    def probe(self) -> None:
        """None: a client that was asked is asked again."""
        return None

    def validate(self, arguments: object) -> dict[str, Any]:
        """Return arguments that fit the schema. Errors: `InvalidArguments`."""
        return self._arguments.check(arguments, tool=self.name)

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> object:
        """Return the client's answer, as soon as there is one: an error with what is shown of it.

        Errors: `ToolFailed` with an error that shows nothing.
        """
        details = {CLIENT_TOOL: self.name, "arguments": arguments}
        answer = await context.ask(f"The client runs {self.name}.", details, before_acting=True)
        content, notes = _read_given(answer.arguments)
        if not answer:
            said = f"the client says: {answer.note}" if answer.note else "the client denied the call"
            words = _words(content)
            got = None if words == answer.note else words  # many clients say it in both
            return failed_call(said, got=got, media=answer.media, notes=notes)
        if not notes:
            return content
        data = cast("dict[str, object]", content) if isinstance(content, dict) else {"result": content}
        told: dict[str, object] = {**data, "media": notes}
        return ResultWithMedia(value=told, media=answer.media) if answer.media else told

    def to_stored(self) -> dict[str, Any]:
        """Return its definition as JSON data, for the settings of a run."""
        return {"name": self.name, "description": self.description, "parameters": self._schema.parameters}


def _read_given(given: object) -> tuple[object, list[str]]:
    """Return the content of an answer, and what became of each medium that came with it."""
    if not isinstance(given, dict):
        return given, []
    said = cast("dict[str, Any]", given)
    return said.get("content"), said.get("media") or []


def _words(content: object) -> str | None:
    """Return the content of an answer as text; None for nothing."""
    if isinstance(content, str):
        return content or None
    return None if content is None else msgspec.json.encode(content).decode()


def read_client_tools(
    definitions: Iterable[Mapping[str, Any]], *, taken: Collection[str] = ()
) -> list[ClientTool]:
    """Return the tools of definitions, each `{name, description, parameters}`.

    `taken`: names that mean another tool. Errors: `InvalidRequest` that names the tool.
    """
    given = list(definitions)
    if len(given) > TOOLS_MAX:
        raise InvalidRequest("too many client tools", expected=f"at most {TOOLS_MAX}", got=len(given))
    found: dict[str, ClientTool] = {}
    for one in given:
        name, description = one["name"], one.get("description") or ""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidRequest(
                "a client's tool has a name that models cannot call",
                expected="1-64 of A-Z, a-z, 0-9, _ and -",
                got=repr(name)[:80],
            )
        if name in found or name in taken:
            raise InvalidRequest(f"two tools are called {name!r}", hint="Give the client's another name.")
        parameters: object = one.get("parameters")
        if parameters is not None and not isinstance(parameters, dict):
            raise InvalidRequest(
                f"the parameters of the client's tool {name!r}",
                expected="a JSON schema of an object",
                got=type(parameters).__name__,
            )
        if len(msgspec.json.encode([description, parameters])) > TOOL_BYTES_MAX:
            raise InvalidRequest(
                f"the client's tool {name!r} is too large", expected=f"at most {TOOL_BYTES_MAX} bytes"
            )
        found[name] = ClientTool(name, description, cast("dict[str, Any] | None", parameters))
    return list(found.values())


def stored_client_tools(definitions: Iterable[Mapping[str, Any]]) -> list[ClientTool]:
    """Return the tools that a run keeps. Errors: `InvalidRequest`."""
    return [ClientTool(one["name"], one["description"], one["parameters"]) for one in definitions]


def client_call(details: object) -> dict[str, Any]:
    """Return the details of a question that is a call of a client's tool; empty for any other question."""
    found = cast("dict[str, Any]", details) if isinstance(details, dict) else {}
    return found if isinstance(found.get(CLIENT_TOOL), str) else {}
