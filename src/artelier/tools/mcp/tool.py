"""A tool of a server as the kernel drives it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from artelier.artifacts.media.inspection import (
    MediaFacts,
    ResultWithMedia,
    ShownMedia,
    base64_size,
    failed_call,
)
from artelier.errors import ArtelierError, ToolFailed
from artelier.ports.model import ToolSchema
from artelier.ports.tool import Compensate, Risk, ToolContext, ToolPort
from artelier.tools.function import Hook, ToolResultInvalid, undo_with
from artelier.tools.json_conversion import NotJson, plain_json
from artelier.tools.mcp.failures import Answered, CallLost, Declined, Lost, ServerUnavailable
from artelier.tools.mcp.listing import Facts, Listed
from artelier.tools.mcp.schema import visible

if TYPE_CHECKING:
    from mcp import types


class ServerLine(Protocol):
    """The connection to a server, as a tool needs it."""

    async def definition(self, name: str) -> str | None: ...

    async def call(
        self, name: str, arguments: dict[str, Any], *, key: str, alive: Callable[[str], None]
    ) -> object: ...

    def unavailable(self, error: Lost) -> ServerUnavailable: ...


class McpTool:
    """A tool of an MCP server. It may do anything, unless somebody who is believed says that it does not."""

    def __init__(
        self,
        listed: Listed,
        *,
        server: str,
        connect: Callable[[], Awaitable[ServerLine]],
        facts: Facts,
        grant: str | None,
        timeout_s: float,
        compensate: Hook | None = None,
    ) -> None:
        self.name = listed.schema.name
        self.description = listed.schema.description
        self.side_effect = facts.side_effect
        self.idempotent = facts.idempotent
        self.grant = grant
        # Above ours (connecting, asking for the definition, the call), which knows more when it speaks.
        self.timeout_s: float | None = 3 * timeout_s + 10
        self.heartbeat_timeout_s: float | None = None
        self.risk: Risk = facts.risk
        self.trust = "untrusted"
        self.server = server
        """`mcp:<name>` of the server."""
        self.remote_name = listed.remote_name
        """How the server calls it."""
        self.fingerprint = listed.fingerprint
        """Of its definition as the server sent it."""
        self._listed = listed
        self._connect = connect
        self._compensate = compensate

    def __repr__(self) -> str:
        return f"McpTool({self.name!r}, server={self.server!r}, side_effect={self.side_effect})"

    @property
    def schema(self) -> ToolSchema:
        return self._listed.schema

    @property
    def probe(self) -> None:
        """None: the protocol has no way to ask what became of a call."""
        return None

    @property
    def compensate(self) -> Compensate | None:
        """Undoes a completed call, if the developer has said how; the protocol has no way."""
        if (hook := self._compensate) is None:
            return None
        return lambda arguments, result, context: undo_with(hook, arguments, result, context)

    def validate(self, arguments: object) -> dict[str, Any]:
        """The arguments as JSON data that fits the server's schema. Errors: `InvalidArguments`."""
        return self._listed.arguments.check(arguments, tool=self.name)

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> object:
        """Call it on the server; see `tool.py` for the value.

        Errors: `ToolFailed` if it surely did nothing, or says that it failed; `CallLost` if it may have done
        something; `ServerUnavailable` if it may be called again; `ToolResultInvalid`.
        """
        from mcp import types

        line = await self._line()
        key = sha256(context.idempotency_key.encode()).hexdigest()
        try:
            result = await line.call(self.remote_name, arguments, key=key, alive=context.progress)
        except Declined as error:
            raise self._failed_error("refused the call", str(error)) from None
        except Answered as error:
            if self._once:
                raise self._lost_error(str(error)) from None
            raise self._failed_error("answered with an error", str(error)) from None
        except Lost as error:
            if self._once:
                raise self._lost_error(str(error)) from None
            raise line.unavailable(error) from None
        if isinstance(result, types.InputRequiredResult):
            raise self._failed_error("did not begin", "it asks back, and nobody here can answer")
        return await self._value(result)

    @property
    def _once(self) -> bool:
        return self.side_effect and not self.idempotent

    async def _line(self) -> ServerLine:
        """The connection, when the tool is still what it was. Nothing has been handed over yet."""
        try:
            line = await self._connect()
            now = await line.definition(self.remote_name)
        except ArtelierError as error:
            if self._once:  # anything else would be taken for an outcome that nobody knows
                raise self._failed_error("was not called", str(error)) from None
            raise
        if now is None:
            raise self._failed_error("was not called", "the server has no such tool any more")
        if now != self.fingerprint:
            raise self._failed_error(
                "was not called", "the server has changed its definition since it was listed"
            )
        return line

    def _failed_error(self, what: str, why: str) -> ToolFailed:
        return ToolFailed(f"`{self.name}` of {self.server} {what}", got=why[:2_000] or None)

    def _lost_error(self, why: str) -> CallLost:
        return CallLost(
            f"`{self.name}` of {self.server} was called, and what became of it is unknown",
            got=why[:2_000] or None,
            hint="Look whether it happened, and say so: artelier reconcile.",
        )

    async def _value(self, result: Any) -> object:
        media = await result_media(result)
        if result.is_error:
            said = f"`{self.name}` failed: {error_text(result)}"
            return failed_call(said, media=media.facts, notes=media.notes.values())
        try:
            value = plain_json(value_of(result, media.notes))
        except NotJson as error:
            raise ToolResultInvalid(
                f"the result of `{self.name}` is not JSON data: {visible(str(error), chars_max=300)}"
            ) from None
        if not media.facts:
            return value
        return ResultWithMedia(value=cast("dict[str, object]", value), media=media.facts)


def definition_hash(port: ToolPort) -> str:
    """A hash that changes when what a tool says of itself changes, so that a choice can be pinned to it.

    For a tool of a server: of all that the server sent about it. For others: of what a model sees.
    """
    if isinstance(port, McpTool):
        return port.fingerprint
    return sha256(port.schema.canonical()).hexdigest()


# --------------------------------------------------------------------------- result
# The result of a server's tool, as JSON data that a model can read: text and data whole, bytes beside it.


BLOCKS_MAX = 1_000
"""Pieces of one result that are kept; how many there were is said."""

ERROR_CHARS_MAX = 4_000


class ResultMedia(NamedTuple):
    """The images, sounds and files of a result: those that a model can be shown, and a note on each piece."""

    facts: tuple[MediaFacts, ...]
    notes: dict[int, str]
    """By the number of the piece, from 0."""


async def result_media(result: types.CallToolResult) -> ResultMedia:
    """Return what a result shows beside text, whole and within the bounds of attachments."""
    shown, notes = ShownMedia(), dict[int, str]()
    for number, block in enumerate(result.content[:BLOCKS_MAX]):
        if (held := _bytes_in(block)) is not None:
            data, media_type = held
            notes[number] = await shown.add_base64(data, media_type=media_type)
    return ResultMedia(tuple(shown.facts), notes)


def _bytes_in(block: types.ContentBlock) -> tuple[str, str] | None:
    """Return the base64 that a piece holds, and the type that it says; None for text and links."""
    if block.type == "image" or block.type == "audio":
        return block.data, block.mime_type
    if block.type != "resource":
        return None
    blob = cast("object", getattr(block.resource, "blob", None))
    return (blob, block.resource.mime_type or "") if isinstance(blob, str) else None


def value_of(result: types.CallToolResult, notes: Mapping[int, str] | None = None) -> object:
    """The structured content if there is any, else the text if there is nothing else, else all pieces.

    Shapes: text; any JSON; or `{"content": [...]}` with `{"structured": ...}` beside it, where a piece is
    `{"type": "text", "text"}` or, for images, sounds and files, its type, name, `size_bytes` and a note.
    """
    pieces = [
        _piece(block, (notes or {}).get(number, "left out"))
        for number, block in enumerate(result.content[:BLOCKS_MAX])
    ]
    plain = all(piece["type"] == "text" for piece in pieces)
    structured = result.structured_content
    if structured is not None and plain:
        return structured
    if len(pieces) == 1 and plain:
        return pieces[0]["text"]
    if not pieces:
        return structured
    value: dict[str, Any] = {"content": pieces}
    if structured is not None:
        value["structured"] = structured
    if len(result.content) > BLOCKS_MAX:
        value["pieces"] = len(result.content)
    return value


def error_text(result: types.CallToolResult) -> str:
    """Return what a failed call says."""
    texts = [str(piece["text"]) for block in result.content[:20] if "text" in (piece := _piece(block))]
    return visible("\n".join(texts), chars_max=ERROR_CHARS_MAX) or "the tool says no more"


def _piece(block: types.ContentBlock, note: str = "") -> dict[str, Any]:
    if block.type == "text":
        return {"type": "text", "text": block.text}
    if block.type == "image" or block.type == "audio":
        return {
            "type": block.type,
            "mime_type": block.mime_type,
            "size_bytes": base64_size(block.data),
            "note": note,
        }
    if block.type == "resource_link":
        return _without_none(
            type="resource_link",
            uri=str(block.uri),
            name=block.name,
            mime_type=block.mime_type,
            description=block.description,
            size_bytes=block.size,
        )
    held = block.resource
    piece = _without_none(type="resource", uri=str(held.uri), mime_type=held.mime_type)
    text = cast("object", getattr(held, "text", None))
    if isinstance(text, str):
        return {**piece, "text": text}
    blob = cast("object", getattr(held, "blob", ""))
    return {**piece, "size_bytes": base64_size(blob if isinstance(blob, str) else ""), "note": note}


def _without_none(**facts: Any) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}
