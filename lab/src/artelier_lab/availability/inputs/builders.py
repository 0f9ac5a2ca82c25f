"""Inputs of one form: a request with a hostile body, a twin with a decent one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator
from decimal import Context, Decimal
from typing import Any

from artelier_lab.availability.client import Answer
from artelier_lab.availability.scene import Input, Scene

MIB = 1024 * 1024
UPLOAD_BYTES = 64 * MIB
"""As large as a server takes."""
BOUNDARY = "----boundary-of-the-trial"

_EXACT = Context(prec=2_000)
HALFWAY = str(_EXACT.multiply(_EXACT.power(Decimal(2), -1074), Decimal("1.5"))).encode()
"""A number of 758 characters that lies halfway between two floats: parsers look at each of its digits."""
TINY = b"5e-324"
"""A short number that some parsers take long to read."""

Body = Callable[[str], bytes]
"""The body of a request, for a unique id."""


def counted(answers: Iterable[Answer]) -> str:
    """Return how often each status came: `201 x 3, 429 x 7`; 0 stands for no answer."""
    found: dict[int, int] = {}
    for answer in answers:
        found[answer.status] = found.get(answer.status, 0) + 1
    return ", ".join(f"{status} x {count}" for status, count in sorted(found.items()))


async def many(count: int, ask: Callable[[int], Awaitable[Answer]], *, at_once: int = 20) -> list[Answer]:
    """Ask so often, some at once; return the answers."""
    numbers = iter(range(count))
    answers: list[Answer] = []

    async def some() -> None:
        for number in numbers:
            answers.append(await ask(number))

    await asyncio.gather(*(some() for _ in range(at_once)))
    return answers


def posting(name: str, path: str, hostile: Body, decent: Body, *, method: str = "POST") -> Input:
    """An input of one request by the attacker."""

    async def send(scene: Scene, body: Body) -> Answer:
        return await scene.attacker.ask(method, path, body=body(scene.name))

    async def attack(scene: Scene) -> str:
        return counted([await send(scene, hostile)])

    async def twin(scene: Scene) -> bool:
        return (await send(scene, decent)).is_good

    return Input(name=name, attack=attack, twin=twin)


def document(content: Any) -> Body:
    """The body of a new artifact with such content."""
    return lambda id: json.dumps({"id": f"docs/{id}", "kind": "document", "content": content}).encode()


def raw_document(content: bytes) -> Body:
    """Build a body like `document`, with content that is written as it stands."""
    return lambda id: b'{"id":"docs/%s","kind":"document","content":%s}' % (id.encode(), content)


def written(name: str, content: Any, decent: Any = "A short note.") -> Input:
    """An artifact of the attacker."""
    return posting(f"artifact-{name}", "/artifacts", document(content), document(decent))


def uploaded(
    name: str,
    file: str,
    chunk: bytes,
    *,
    size_bytes: int = UPLOAD_BYTES,
    prefix: bytes = b"",
    suffix: bytes = b"",
    decent: bytes = b"A short note.",
) -> Input:
    """An upload of one repeated piece; the twin has the same name and a small content."""

    async def attack(scene: Scene) -> str:
        room = size_bytes - len(prefix) - len(suffix) - 4096
        return counted([await upload(scene, file, _repeated(chunk, room, prefix, suffix))])

    async def twin(scene: Scene) -> bool:
        return (await upload(scene, file, [decent])).is_good

    return Input(name=f"upload-{name}", attack=attack, twin=twin)


def _repeated(chunk: bytes, room: int, prefix: bytes, suffix: bytes) -> list[bytes]:
    piece = chunk * max(1, MIB // len(chunk))
    return [prefix, *([piece] * (room // len(piece))), suffix]


async def upload(scene: Scene, file: str, content: list[bytes]) -> Answer:
    """Send a file in pieces."""
    head = (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{scene.name}-{file}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    ).encode()
    return await send_form(scene, [head, *content, f"\r\n--{BOUNDARY}--\r\n".encode()])


async def send_form(scene: Scene, pieces: list[bytes]) -> Answer:
    def each() -> Iterator[bytes]:
        yield from pieces

    return await scene.attacker.post(
        "/uploads",
        chunks=each(),
        size_bytes=sum(map(len, pieces)),
        within_s=60.0,
        headers={"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"},
    )
