"""Files of agents as somebody would forge them who knows their form: every hash and the seal are right."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

from artelier.log import GENESIS, DataKey, blob_name, blob_ref
from artelier.log.blobs import name_blob
from artelier.log.event import event_hash
from tests.kernel.files import lines_of, resealed

Line = dict[str, Any]


class Forgery:
    """The lines of a file, to be changed; `write` makes its hashes right again."""

    def __init__(self, path: Path) -> None:
        self.lines = lines_of(path)

    @property
    def header(self) -> Line:
        return self.lines[0]

    def events(self, kind: str = "", *, stream: str = "") -> list[Line]:
        return [
            line
            for line in self.lines
            if line["t"] == "event"
            and (not kind or line["kind"] == kind)
            and (not stream or line["stream"] == stream)
        ]

    def data(self, kind: str, *, stream: str = "") -> Any:
        """The data of the newest event of a kind."""
        return self.events(kind, stream=stream)[-1]["data"]

    def set(self, kind: str, **fields: Any) -> None:
        self.data(kind).update(fields)

    def drop(self, *lines: Line) -> None:
        self.lines = [line for line in self.lines if not any(line is one for one in lines)]

    def add(self, kind: str, stream: str, data: Any, *, after: Line | None = None) -> None:
        """An event more, after another one or after all."""
        events = self.events()
        place = next(n for n, line in enumerate(self.lines) if line is (after or events[-1]))
        line = {**events[-1], "kind": kind, "stream": stream, "data": data, "version": 1}
        self.lines.insert(place + 1, {**line, "cause": None})

    def content(self, ref: str, content: bytes) -> None:
        """Replace some content, and every reference to it."""
        name = base64.b64encode(blob_name(ref)).decode()
        blob = next(line for line in self.lines if line["t"] == "blob" and line["name"] == name)
        secrets = {line["id"]: line["secret"] for line in self.lines if line["t"] == "key"}
        key = DataKey(blob["key"], base64.b64decode(secrets[blob["key"]]))
        named = name_blob(key, content)
        blob.update(
            name=base64.b64encode(named).decode(),
            size=len(content),
            content=base64.b64encode(content).decode(),
        )
        for event in self.events():
            text = json.dumps(event["data"]).replace(ref, blob_ref(named))
            event["data"] = json.loads(text)

    def json(self, ref: str) -> Any:
        name = base64.b64encode(blob_name(ref)).decode()
        blob = next(line for line in self.lines if line["t"] == "blob" and line["name"] == name)
        return json.loads(base64.b64decode(blob["content"]))

    def write(self, path: Path) -> None:
        heads: dict[str, tuple[int, bytes]] = {}
        for line in self.events():
            seq, last = heads.get(line["stream"], (0, GENESIS))
            line["data"] = json.loads(json.dumps(line["data"], sort_keys=True))
            data = json.dumps(line["data"], separators=(",", ":"), ensure_ascii=False).encode()
            hash_ = event_hash(
                last,
                stream=line["stream"],
                seq=seq + 1,
                kind=line["kind"],
                version=line["version"],
                data=data,
                at_us=line["at_us"],
                actor=line["actor"],
                cause=line["cause"],
            )
            line.update(seq=seq + 1, hash=base64.b64encode(hash_).decode())
            heads[line["stream"]] = (seq + 1, hash_)
        blobs = sum(line["t"] == "blob" and not line.get("more") for line in self.lines)
        self.lines[-1].update(events=len(self.events()), blobs=blobs)
        text = "".join(
            json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n" for line in self.lines
        )
        path.write_bytes(resealed(gzip.compress(text.encode(), mtime=0)))
