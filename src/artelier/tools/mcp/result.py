"""The result of a server's tool, as JSON data that a model can read: text and data whole, bytes by size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from artelier.tools.mcp.text import visible

if TYPE_CHECKING:
    from mcp import types

BLOCKS_MAX = 1_000
"""Pieces of one result that are kept; how many there were is said."""

ERROR_CHARS_MAX = 4_000


def value_of(result: types.CallToolResult) -> Any:
    """The structured content if there is any, else the text if there is nothing else, else all pieces.

    Shapes: text; any JSON; or `{"content": [...]}` with `{"structured": ...}` beside it, where a piece is
    `{"type": "text", "text"}` or, for images, sounds and files, its type, name and `size_bytes`.
    """
    pieces = [_piece(block) for block in result.content[:BLOCKS_MAX]]
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


def _piece(block: types.ContentBlock) -> dict[str, Any]:
    if block.type == "text":
        return {"type": "text", "text": block.text}
    if block.type == "image" or block.type == "audio":
        return {
            "type": block.type,
            "mime_type": block.mime_type,
            "size_bytes": _size(block.data),
            "note": "left out",
        }
    if block.type == "resource_link":
        return _said(
            type="resource_link",
            uri=str(block.uri),
            name=block.name,
            mime_type=block.mime_type,
            description=block.description,
            size_bytes=block.size,
        )
    held = block.resource
    piece = _said(type="resource", uri=str(held.uri), mime_type=held.mime_type)
    text = cast("object", getattr(held, "text", None))
    if isinstance(text, str):
        return {**piece, "text": text}
    blob = cast("object", getattr(held, "blob", ""))
    return {**piece, "size_bytes": _size(blob if isinstance(blob, str) else ""), "note": "left out"}


def _said(**facts: Any) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}


def _size(base64: Sequence[str] | str) -> int:
    """Bytes that some base64 stands for."""
    text = str(base64)
    return max(0, len(text) * 3 // 4 - text[-2:].count("="))
