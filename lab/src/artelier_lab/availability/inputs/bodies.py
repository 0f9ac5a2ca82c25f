"""Bodies of requests up to the size that the server takes, whose cost is not in their size."""

from __future__ import annotations

import base64
import json

from artelier_lab.availability.client import Answer
from artelier_lab.availability.inputs.builders import (
    HALFWAY,
    TINY,
    counted,
    many,
    posting,
    raw_document,
    written,
)
from artelier_lab.availability.scene import Input, Scene

SIZE = 1_000_000
"""Just below the limit of a body, 1 MiB."""


def _escaped(text: str) -> str:
    """A text that is JSON in JSON, as deep as fits."""
    while len(text) < SIZE // 3:
        text = json.dumps(text)
    return text


async def _write(scene: Scene, id: str, text: str) -> Answer:
    return await scene.attacker.post("/artifacts", {"id": id, "kind": "document", "content": text})


async def _compare(scene: Scene, lines: int, values: int) -> Answer:
    """Write two versions of the same lines in another order, and ask for their difference."""
    id = f"docs/{scene.name}-{lines}"
    await _write(scene, id, "\n".join(f"{n * 7919 % values}" for n in range(lines)))
    changed = {"content": "\n".join(f"{n * 104_729 % values}" for n in range(lines)), "expected_version": 1}
    quoted = id.replace("/", "%2F")
    await scene.attacker.ask("PATCH", f"/artifacts/{quoted}", json_=changed)
    return await scene.attacker.get(f"/artifacts/{quoted}/diff?a=1&b=2")


async def _compare_large(scene: Scene) -> str:
    return counted([await _compare(scene, 100_000, 100_000), await _compare(scene, 1_990, 99)])


async def _compare_small(scene: Scene) -> bool:
    return (await _compare(scene, 10, 10)).is_good


async def _long_queries(scene: Scene) -> str:
    async def one(number: int) -> Answer:
        return await scene.attacker.get(f"/artifacts?q={'a' * 40}!{'%25' * number * 20}", within_s=10.0)

    return counted(await many(40, one))


async def _short_query(scene: Scene) -> bool:
    return (await scene.attacker.get("/artifacts?q=docs")).is_good


async def _tell(scene: Scene, items: int) -> Answer:
    """Send a message of A2A whose part is data."""
    part = {"data": {"items": [1] * items}}
    message = {"messageId": scene.name, "role": "ROLE_USER", "parts": [part]}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    return await scene.attacker.ask("POST", "/a2a", json_=asked, headers={"A2A-Version": "1.0"})


async def _tell_much(scene: Scene) -> str:
    return counted(await many(20, lambda _: _tell(scene, 49_000), at_once=4))


async def _tell_little(scene: Scene) -> bool:
    return (await _tell(scene, 10)).is_good


INPUTS = (
    posting(
        "body-deep",
        "/artifacts",
        raw_document(b"[" * (SIZE // 2) + b"]" * (SIZE // 2)),
        raw_document(b"[[[1]]]"),
    ),
    posting(
        "body-wide",
        "/artifacts",
        raw_document(b"{" + b",".join(b'"%d":1' % n for n in range(90_000)) + b"}"),
        raw_document(b'{"a":1}'),
    ),
    posting(
        "body-integers",
        "/artifacts",
        raw_document(b"[" + b"1," * (SIZE // 2 - 100) + b"1]"),
        raw_document(b"[1,2]"),
    ),
    posting(
        "body-halfway-numbers",
        "/artifacts",
        raw_document(b"[" + (HALFWAY + b",") * (SIZE // len(HALFWAY) - 2) + b"1]"),
        raw_document(b"[0.1, 5e-324]"),
    ),
    posting(
        "body-tiny-numbers",
        "/artifacts",
        raw_document(b"[" + (TINY + b",") * 49_000 + b"1]"),
        raw_document(b"[5e-324]"),
    ),
    Input(name="body-data-of-a-message", attack=_tell_much, twin=_tell_little),
    posting("body-giant-integer", "/artifacts", raw_document(b"9" * SIZE), raw_document(b"9")),
    posting("body-unclosed", "/artifacts", lambda id: b'{"a":' * (SIZE // 5), raw_document(b'"a"')),
    written("card-digits", "4111111111111112" * (SIZE // 16)),
    written("digits-and-spaces", "4 1 1 1-" * (SIZE // 8)),
    written("addresses", "a@a.a" * (SIZE // 5)),
    written("dotted-names", "a." * (SIZE // 2)),
    written("base64", base64.b64encode(b"someone@example.org " * (SIZE // 28)).decode()),
    written("escaped-json", _escaped('"someone@example.org"')),
    written("variation-selectors", "a\ufe0f@\u200b" * (SIZE // 24)),
    written("secrets", "sk-" * (SIZE // 3)),
    written("backticks", "`" * 199_000),
    Input(name="difference-of-lines", attack=_compare_large, twin=_compare_small),
    Input(name="queries-long", attack=_long_queries, twin=_short_query),
)
