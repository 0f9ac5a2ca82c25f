"""The files that a browser loads at the first visit, by the manifest of the build."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

from artelier.server.settings import STATIC

NO_BUILD = "the web application is not built (make setup)"


def bundle_kb_gzip(static: Path = STATIC) -> tuple[float | None, str]:
    """KB (1,000 bytes) of scripts and styles that the page itself needs, each compressed; else why not."""
    manifest = static / ".vite" / "manifest.json"
    if not manifest.exists():
        return None, NO_BUILD
    files = _first(manifest)
    if missing := [name for name in files if not (static / name).exists()]:
        return None, f"the build is not whole: {missing[0]} is not there"
    return sum(len(gzip.compress((static / name).read_bytes())) for name in files) / 1000, ""


def _first(manifest: Path) -> list[str]:
    """Files of the entry and of what it imports, without what is loaded later."""
    import msgspec

    chunks = msgspec.json.decode(manifest.read_bytes(), type=dict[str, dict[str, Any]])
    found: set[str] = set()
    waiting = ["index.html"]
    while waiting:
        chunk = chunks[waiting.pop()]
        if chunk["file"] in found:
            continue
        found |= {chunk["file"], *chunk.get("css", ())}
        waiting += chunk.get("imports", ())
    return sorted(found)
