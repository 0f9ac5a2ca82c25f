"""A small MCP server over stdio whose tools show images, sounds and PDFs; run as a script.

`python -S tests/media/camera.py FOLDER` shows the files of a folder. It speaks by hand: the protocol's own
package, which other tests have as the server, would take half a second of each start.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

TYPES = {".png": "image/png", ".wav": "audio/wav", ".pdf": "application/pdf", ".bin": "application/x-own"}
NAMES = {
    "type": "object",
    "properties": {"names": {"type": "array", "items": {"type": "string"}}},
    "required": ["names"],
}
DEFINITIONS = [
    {"name": "show", "description": "Show files.", "inputSchema": NAMES},
    {"name": "fail", "description": "Fail, and show files.", "inputSchema": NAMES},
]


def _block(file: Path) -> dict[str, Any]:
    data, mime_type = base64.b64encode(file.read_bytes()).decode(), TYPES[file.suffix]
    sort = mime_type.partition("/")[0]
    if sort in ("image", "audio"):
        return {"type": sort, "data": data, "mimeType": mime_type}
    held = {"uri": f"file:///{file.name}", "blob": data, "mimeType": mime_type}
    return {"type": "resource", "resource": held}


def _call(name: str, names: list[str]) -> dict[str, Any]:
    text = {"type": "text", "text": f"{len(names)} files"}
    content = [text, *(_block(Path(sys.argv[1]) / file) for file in names)]
    return {"content": content, "isError": name == "fail"}


def _answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        about = {"name": "camera", "version": "1"}
        version = params["protocolVersion"]
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        return {"tools": DEFINITIONS}
    return _call(params["name"], params["arguments"]["names"])


if __name__ == "__main__":
    for line in sys.stdin:
        message = json.loads(line)
        asked, answer = message.get("method"), {"jsonrpc": "2.0", "id": message.get("id")}
        if asked in ("initialize", "tools/list", "tools/call"):
            print(json.dumps({**answer, "result": _answer(asked, message.get("params") or {})}), flush=True)  # noqa: T201
        elif "id" in message:
            error = {"code": -32601, "message": "Method not found"}
            print(json.dumps({**answer, "error": error}), flush=True)  # noqa: T201
