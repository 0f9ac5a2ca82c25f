"""The definition of a skill, as one value with one hash: a model is given exactly what a person approves."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Literal

import msgspec

from artelier.ports.model import Value

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
