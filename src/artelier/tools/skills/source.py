"""The sources of skills, and the definitions that they find: tools of the developer and tools of servers.

A definition is one value with one hash: a model is given exactly what a person approves. Whether one may be
used is decided by its pin (`skills/approval.py`).
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, Protocol, cast, runtime_checkable

import msgspec

from artelier.kernel import Services
from artelier.ports.model import Value
from artelier.ports.tool import ToolPort
from artelier.tools.function import Tool
from artelier.tools.skills.injection_heuristics import suspicions

Origin = Literal["function", "tool", "folder", "artifact"]
"""`function` is the developer's own code; all others come from outside and are parked when they change."""


SKILL_FILE = "SKILL.md"


class FileEntry(Value, frozen=True, kw_only=True):
    """A file of a skill's folder, the SKILL.md included."""

    path: str
    size_bytes: int
    sha256: str


class Definition(Value, frozen=True, kw_only=True, omit_defaults=True):
    """All that a model may ever see of a skill, and all that decides how it is run.

    Defaults are left out of its JSON, so that a field that is added later changes no stored hash.
    """

    origin: Origin
    name: str
    """As its source calls it."""
    description: str = ""
    instructions: str = ""
    parameters: dict[str, Any] | None = None
    """JSON schema of the arguments, if it can be called."""
    side_effect: bool = False
    idempotent: bool = False
    risk: str = "low"
    fingerprint: str = ""
    """What its server's client knows of it beyond this, as a hash; empty if it says nothing."""
    code: str = ""
    """Of a skill artifact: run in the sandbox, never here."""
    files: tuple[FileEntry, ...] = ()
    allowed_tools: tuple[str, ...] | None = None
    """Names that a skill wants to be used with it; it narrows and never widens."""
    license: str = ""
    compatibility: str = ""
    metadata: dict[str, str] = {}
    unknown_keys: tuple[str, ...] = ()
    """Of its frontmatter; they have no effect."""
    artifact: str = ""
    """The id of a skill artifact."""
    raw: str = ""
    """What was found, cut, where it could not be read as a skill."""
    broken: str = ""
    """Why it cannot be used at all, whatever a person says; empty for one that can."""

    @property
    def hash(self) -> str:
        return sha256(self.canonical()).hexdigest()

    @property
    def shape(self) -> str:
        """The hash of the schema alone, to detect a renamed tool; empty if there is nothing to compare."""
        if not (self.parameters or {}).get("properties"):
            return ""
        return sha256(msgspec.json.encode(self.parameters, order="sorted")).hexdigest()[:32]

    def readable(self) -> str:
        """Text that a person can read and compare line by line."""
        facts = [("name", self.name), ("origin", self.origin), ("description", self.description)]
        facts += [("license", self.license), ("compatibility", self.compatibility)]
        facts += [(f"metadata {key}", value) for key, value in sorted(self.metadata.items())]
        if self.allowed_tools is not None:
            facts.append(("allowed tools", ", ".join(self.allowed_tools) or "none"))
        facts.append(("unknown keys", ", ".join(self.unknown_keys)))
        facts.append(("artifact", self.artifact))
        if self.parameters is not None:
            facts.append(("side effect", "yes" if self.side_effect else "no"))
            facts.append(("idempotent", "yes" if self.idempotent else "no"))
            facts.append(("risk", self.risk))
        facts.append(("fingerprint", self.fingerprint))
        facts.append(("cannot be used", self.broken))
        lines = [f"{name}: {value}" for name, value in facts if value]
        if self.parameters is not None:
            schema = msgspec.json.encode(self.parameters, order="sorted")
            lines += ["", "parameters:", msgspec.json.format(schema, indent=2).decode()]
        lines += [
            line
            for title, text in (
                ("instructions", self.instructions),
                ("code", self.code),
                ("as found", self.raw),
            )
            if text
            for line in ("", f"{title}:", text)
        ]
        if self.files:
            lines += ["", "files:"]
            lines += [f"{one.path}  {one.size_bytes} bytes  {one.sha256[:16]}" for one in self.files]
        return "\n".join(lines)


def files_changed(before: Definition | None, after: Definition) -> list[tuple[str, str]]:
    """`(path, "changed" | "new" | "gone")` of the files beside a SKILL.md, by path."""
    old = {one.path: one.sha256 for one in (before.files if before is not None else ())}
    new = {one.path: one.sha256 for one in after.files}
    return [
        (path, "new" if path not in old else "gone" if path not in new else "changed")
        for path in sorted({*old, *new})
        if path != SKILL_FILE and old.get(path) != new.get(path)
    ]


def definition_from(content: bytes) -> Definition:
    """A stored definition again."""
    return msgspec.json.decode(content, type=Definition)


# --------------------------------------------------------------------------- sources


TOOLS_MAX = 1_000
"""Tools of one server; more are left out (a guess: the largest servers have some hundreds)."""
DEFINITION_BYTES_MAX = 128 * 1024
"""JSON of one tool's definition."""


@runtime_checkable
class ToolSource(Protocol):
    """A server of tools, such as an MCP server. What it says is not trusted."""

    name: str
    """Names the server in pins and events, such as `mcp:github`."""

    async def tools(self) -> Sequence[ToolPort]:
        """Its tools as they are now.

        Errors: an `ArtelierError` or `OSError` if it can't be asked; its tools stay what they were.
        """
        ...


ReadFile = Callable[[str], Awaitable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSkill:
    """A definition that a source has now."""

    definition: Definition
    tool: ToolPort | None = None
    """What is called behind it."""
    reasons: tuple[str, ...] = ()
    """Why a person should look at it first."""
    read_file: ReadFile | None = None
    trust: str = "untrusted"
    """Label of its text."""


class SkillSource(Protocol):
    """The interface of a source to the catalogue."""

    name: str
    shared: bool
    """Whether all tenants get the same from it."""

    async def find(self, services: Services, tenant: str) -> Sequence[FoundSkill]: ...


class Functions:
    """The developer's own tools: never parked, pinned anew when they change."""

    name = "functions"
    shared = True

    def __init__(self, tools: Sequence[ToolPort]) -> None:
        self.tools = tuple(tools)

    async def find(self, services: Services, tenant: str) -> Sequence[FoundSkill]:
        """All of them."""
        return self.find_all()

    def find_all(self) -> tuple[FoundSkill, ...]:
        """All of them, asked of nobody."""
        return tuple(
            FoundSkill(definition=define(tool, origin="function"), tool=tool, trust="trusted")
            for tool in self.tools
        )


class ServedTools:
    """The tools of a `ToolSource`."""

    shared = True

    def __init__(self, source: ToolSource) -> None:
        self.name = source.name
        self._source = source
        self._judged: dict[str, tuple[str, ...]] = {}
        """What was found in a definition, by its hash: most are the same in the next listing."""

    async def find(self, services: Services, tenant: str) -> Sequence[FoundSkill]:
        """Return what the server has now."""
        tools = await self._source.tools()
        found = [self._make_found(tool) for tool in tools[:TOOLS_MAX]]
        self._judged = {one.definition.hash: one.reasons for one in found}
        return found

    def _make_found(self, tool: ToolPort) -> FoundSkill:
        definition = define(tool, origin="tool")
        known = self._judged.get(definition.hash)
        if known is not None:
            return FoundSkill(definition=definition, tool=tool, reasons=known)
        return _judge(tool, definition)


def _judge(tool: ToolPort, definition: Definition) -> FoundSkill:
    if len(definition.canonical()) > DEFINITION_BYTES_MAX:
        cut = Definition(
            origin="tool",
            name=tool.name,
            raw=definition.description[:2_000],
            broken=f"its definition is larger than {DEFINITION_BYTES_MAX} bytes",
        )
        return FoundSkill(definition=cut, reasons=(cut.broken,))
    texts = [tool.name.replace("-", " ").replace("_", " "), definition.description]
    texts += schema_texts(definition.parameters)
    return FoundSkill(definition=definition, tool=tool, reasons=suspicions("\n".join(texts)))


def define(tool: ToolPort, *, origin: Origin) -> Definition:
    """The definition of a tool, from its schema and its whole docstring."""
    schema = tool.schema
    return Definition(
        origin=origin,
        name=tool.name,
        description=schema.description,
        instructions=_docstring(tool) or schema.description,
        parameters=schema.parameters,
        side_effect=tool.side_effect,
        idempotent=tool.idempotent,
        risk=tool.risk,
        fingerprint=_fingerprint(tool),
    )


def _fingerprint(tool: ToolPort) -> str:
    """Return the fingerprint of a tool that knows more than its port shows, such as an MCP tool."""
    mark = getattr(tool, "fingerprint", "")
    return mark if isinstance(mark, str) else ""


def _docstring(tool: ToolPort) -> str:
    return (inspect.getdoc(tool.function) or "").strip() if isinstance(tool, Tool) else ""


def schema_texts(node: object, *, texts_max: int = 2_000) -> list[str]:
    """Every text of a JSON schema, keys included: all of it reaches a model."""
    found: list[str] = []
    pending = [node]
    while pending and len(found) < texts_max:
        here = pending.pop()
        if isinstance(here, str):
            found.append(here)
        elif isinstance(here, dict):
            fields = cast("dict[Any, Any]", here)
            pending += [*fields.keys(), *fields.values()]
        elif isinstance(here, list | tuple):
            pending += list(cast("list[Any]", here))
    return found
