"""A small MCP server over stdio whose tools show images, sounds and PDFs; run as a script.

`python tests/media/camera.py FOLDER` shows the files of a folder.
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path

from mcp import types
from mcp.server.mcpserver import MCPServer

server = MCPServer("camera")
TYPES = {".png": "image/png", ".wav": "audio/wav", ".pdf": "application/pdf", ".bin": "application/x-own"}


def _block(file: Path) -> types.ContentBlock:
    data, mime_type = base64.b64encode(file.read_bytes()).decode(), TYPES[file.suffix]
    if mime_type.startswith("image/"):
        return types.ImageContent(type="image", data=data, mime_type=mime_type)
    if mime_type.startswith("audio/"):
        return types.AudioContent(type="audio", data=data, mime_type=mime_type)
    held = types.BlobResourceContents(uri=f"file:///{file.name}", blob=data, mime_type=mime_type)
    return types.EmbeddedResource(type="resource", resource=held)


@server.tool()
def show(names: list[str]) -> list[types.ContentBlock]:
    """Show files."""
    text = types.TextContent(type="text", text=f"{len(names)} files")
    return [text, *(_block(Path(sys.argv[1]) / name) for name in names)]


@server.tool()
def fail(names: list[str]) -> types.CallToolResult:
    """Fail, and show files."""
    return types.CallToolResult(content=show(names), is_error=True)


if __name__ == "__main__":
    server.run("stdio")
