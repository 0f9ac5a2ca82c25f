"""The tools that a server lists, made into definitions that a model may see, or refused with a reason."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from artelier.ports.model import ToolSchema
from artelier.ports.tool import Risk
from artelier.tools.function import DESCRIPTION_CHARS_MAX
from artelier.tools.mcp.schema import ArgumentSchema, Unfit, visible

if TYPE_CHECKING:
    from mcp import types


# --------------------------------------------------------------------------- tool annotations
# The side effects and risk of a server's tool, from the operator and, if trusted, from the server.
# Annotations of a server are its own word. They change nothing unless the operator trusts that server,
# and a tool of which nothing is known has side effects of high risk.


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """A tool's annotations; None for what is not said."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None

    @classmethod
    def of(cls, tool: types.Tool) -> Hints:
        said = tool.annotations
        if said is None:
            return cls()
        return cls(
            read_only=said.read_only_hint,
            destructive=said.destructive_hint,
            idempotent=said.idempotent_hint,
            open_world=said.open_world_hint,
        )

    @property
    def only_reads(self) -> bool:
        """Said without contradiction."""
        return self.read_only is True and self.destructive is not True

    @property
    def only_adds(self) -> bool:
        """Destroys nothing and stays within the server; the protocol's default is the opposite of both."""
        return self.destructive is False and self.open_world is False


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The properties of a tool that the kernel uses."""

    side_effect: bool
    idempotent: bool
    risk: Risk


def facts_of(hints: Hints, *, is_trusted: bool, reads: bool, repeats: bool, risk: Risk | None) -> Facts:
    """The facts of a tool. `reads`, `repeats` and `risk` are the operator's word, which comes first."""
    believed = hints if is_trusted else Hints()
    side_effect = not (reads or believed.only_reads)
    if risk is None:
        risk = "low" if not side_effect else "medium" if believed.only_adds else "high"
    idempotent = not side_effect or repeats or believed.idempotent is True
    return Facts(side_effect=side_effect, idempotent=idempotent, risk=risk)


# --------------------------------------------------------------------------- listing


TOOLS_MAX = 1_000
"""Tools of one server (guess: the largest have some hundreds)."""

DEFINITIONS_BYTES_MAX = 2 * 1024 * 1024
"""JSON of all definitions of one server: the worst of them takes 15 us a byte to look through."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every provider accepts as a function's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedTool:
    """A tool that a server has and that no model is offered."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A tool of a server as it is offered."""

    remote_name: str
    """How the server calls it."""
    schema: ToolSchema
    arguments: ArgumentSchema
    fingerprint: str
    """Of everything that the server said of it."""
    hints: Hints
    """What it says of its tool's effects: its own word."""


def said_of(tool: types.Tool) -> bytes:
    """A tool's definition as its server sent it, but for icons and notes to the client; canonical JSON.

    Errors: `ValueError` if it holds what JSON does not have.
    """
    said = tool.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude={"icons", "meta", "execution"}
    )
    try:
        return msgspec.json.encode(said, order="sorted")
    except (TypeError, RecursionError, msgspec.MsgspecError) as error:
        raise ValueError(str(error)) from None


def fingerprint(tool: types.Tool) -> str:
    """A hash of a tool's definition; empty if it has none that JSON could hold."""
    try:
        return sha256(said_of(tool)).hexdigest()
    except ValueError:
        return ""


def read_listing(
    tools: Iterable[types.Tool], *, prefix: str, taken: Collection[str], known: Mapping[str, ArgumentSchema]
) -> tuple[list[Listed], list[RefusedTool]]:
    """The tools that can be offered and those that cannot. A name in `taken` gets the prefix.

    `known` are the parameters of an earlier listing by fingerprint, which need no second look.
    """
    used, seen, size = set(taken), set[str](), 0
    good: list[Listed] = []
    refused: list[RefusedTool] = []
    for tool in tools:
        try:
            if tool.name in seen:
                raise Unfit("the server lists two tools of this name")
            seen.add(tool.name)
            name = _name(tool.name, prefix=prefix, used=used)
            said = _encode_definition(tool)
            if (size := size + len(said)) > DEFINITIONS_BYTES_MAX:
                raise Unfit(f"the tools of this server take more than {DEFINITIONS_BYTES_MAX} bytes")
            listed = _make_listed(tool, name, said, known)
        except Unfit as unfit:
            shown = visible(tool.name, chars_max=80) or "(no name)"
            refused.append(RefusedTool(name=shown, reason=str(unfit)))
            continue
        used.add(name)
        good.append(listed)
    return good, refused


def _encode_definition(tool: types.Tool) -> bytes:
    try:
        return said_of(tool)
    except ValueError:
        raise Unfit("its definition is not JSON data") from None


def _name(name: str, *, prefix: str, used: Collection[str]) -> str:
    if not _NAME.fullmatch(name):
        raise Unfit("no provider accepts its name: 1-64 characters of A-Z a-z 0-9 _ -")
    if name not in used:
        return name
    longer = f"{prefix}_{name}"
    if not _NAME.fullmatch(longer):
        raise Unfit(f"its name is taken, and {longer[:80]} is too long")
    if longer in used:
        raise Unfit(f"its name is taken, and so is {longer}")
    return longer


def _make_listed(tool: types.Tool, name: str, said: bytes, known: Mapping[str, ArgumentSchema]) -> Listed:
    mark = sha256(said).hexdigest()
    arguments = known.get(mark) or ArgumentSchema(tool.input_schema)
    schema = ToolSchema(
        name=name,
        description=visible(tool.description or "", chars_max=DESCRIPTION_CHARS_MAX),
        parameters=arguments.schema,
    )
    return Listed(
        remote_name=tool.name, schema=schema, arguments=arguments, fingerprint=mark, hints=Hints.of(tool)
    )
