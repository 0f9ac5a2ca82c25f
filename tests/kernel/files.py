"""Export files for tests: make one, read its fields, change it and seal it again."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from artelier.kernel.export.archive import (
    FORMAT,
    SEAL_BYTES,
    VERSION,
    ArchiveWriter,
    EventLine,
    Header,
    KeyLine,
    RunLine,
    _seal,
)
from artelier.log import GENESIS, EventData
from artelier.log.event import encode_data, event_hash
from tests.kernel.stage import Code, drive, open_kernel, play


def exported(tmp_path: Path, code: Code, *, model: Any = None, tools: Any = ()) -> Path:
    """The export of a run `r` of tenant `acme`, whose own store is gone."""
    path, folder = tmp_path / "run.artelier", tmp_path / "origin"
    folder.mkdir()

    async def scenario() -> None:
        with open_kernel(folder, model, tools=tools) as kernel:
            runs = kernel.for_tenant("acme")
            await drive(runs, code)
            await runs.export("r", path)

    play(scenario())
    return path


def lines_of(path: Path) -> list[dict[str, Any]]:
    """All lines but the seal."""
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()][:-1]


def fields_of(path: Path) -> dict[str, Any]:
    """What a file says of a run, without what belongs to the store and to the layout of the file."""
    lines = lines_of(path)
    secrets = {line["id"]: line["secret"] for line in lines if line["t"] == "key"}

    def keyed(line: dict[str, Any]) -> dict[str, Any]:
        return {**line, "key": secrets.get(line["key"])}

    return {
        "events": [line for line in lines if line["t"] == "event"],
        "runs": [keyed(line) for line in lines if line["t"] == "run"],
        "blobs": sorted(json.dumps(keyed(line), sort_keys=True) for line in lines if line["t"] == "blob"),
    }


def resealed(body: bytes) -> bytes:
    return body + _seal(sha256(body).hexdigest())


def rewritten(path: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Change the lines of a file and give it a new seal, as somebody who forges it would."""
    lines = lines_of(path)
    change(lines)
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    path.write_bytes(resealed(gzip.compress(text.encode(), mtime=0)))


assert SEAL_BYTES == len(_seal("0" * 64))


def forged(
    path: Path, events: list[tuple[str, EventData]], *, runs: tuple[str, ...] = ("r",), key: bool = False
) -> None:
    """A file as somebody would make who knows its form: every hash and the seal are right."""
    heads: dict[str, tuple[int, bytes]] = {}
    with path.open("wb") as file, ArchiveWriter(file) as writer:
        writer.write(
            Header(format=FORMAT, version=VERSION, tenant="acme", run=runs[0], code="", position=1, head="")
        )
        if key:
            writer.write(KeyLine(id=1, secret=bytes(32)))
        for run in runs:
            writer.write(RunLine(run=run, key=None))
        for stream, data in events:
            seq, last = heads.get(stream, (0, GENESIS))
            fields: dict[str, Any] = {
                "stream": stream,
                "seq": seq + 1,
                "kind": data.KIND,
                "version": data.VERSION,
                "at_us": 1,
                "actor": "mallory",
                "cause": None,
            }
            content = encode_data(data)
            hash_ = event_hash(last, data=content, **fields)
            writer.write(EventLine(data=msgspec.Raw(content), hash=hash_, **fields))
            heads[stream] = (seq + 1, hash_)
        writer.close()
