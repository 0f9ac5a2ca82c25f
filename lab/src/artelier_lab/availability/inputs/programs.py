"""Requests of programs that speak to `/v1` as to OpenAI: media, schemas and conversations of any size."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

from artelier_lab.availability.client import Answer
from artelier_lab.availability.inputs.builders import HALFWAY, MIB, counted, many
from artelier_lab.availability.scene import Input, Scene

MODEL = "openai-chat:gpt-4o"
"""Served by the provider of the trial, through the SDK."""


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png(size_bytes: int) -> str:
    """A data URL of a picture with so many bytes beside it."""
    head = struct.pack(">IIBBBBB", 64, 64, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes(64)) * 64)
    content = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", rows)
    content += _chunk(b"prVt", bytes(size_bytes)) + _chunk(b"IEND", b"")
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


def _image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


async def _ask(scene: Scene, content: Any, **more: Any) -> Answer:
    asked = {"model": MODEL, "messages": [{"role": "user", "content": content}], "max_tokens": 50, **more}
    return await _send(scene, json.dumps(asked).encode())


async def _send(scene: Scene, body: bytes, **headers: str) -> Answer:
    return await scene.attacker.ask(
        "POST", "/chat/completions", body=body, headers=headers, base="/v1", within_s=60.0
    )


def _asking(name: str, hostile: Any, decent: Any = "Hello.", *, count: int = 1, **more: Any) -> Input:
    """An input of messages with such content; `more` is said in the hostile request alone."""

    async def attack(scene: Scene) -> str:
        return counted(await many(count, lambda _: _ask(scene, hostile, **more), at_once=count))

    async def twin(scene: Scene) -> bool:
        return (await _ask(scene, decent)).is_good

    return Input(name=f"program-{name}", attack=attack, twin=twin)


def _tools(pattern: str, count: int) -> list[dict[str, Any]]:
    schema = {"type": "object", "properties": {"code": {"type": "string", "pattern": pattern}}}
    return [
        {"type": "function", "function": {"name": f"tool{number}", "parameters": schema}}
        for number in range(count)
    ]


def _nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return {"type": "json_schema", "json_schema": {"name": "deep", "schema": schema}}


async def _long_conversation(scene: Scene) -> str:
    said = [{"role": ("user", "assistant")[n % 2], "content": "a" * 10} for n in range(300_001)]
    return counted([await _send(scene, json.dumps({"model": MODEL, "messages": said}).encode())])


def _saying(name: str, count: int, text: Callable[[int], str]) -> Input:
    """An input of one request with so many messages."""

    async def attack(scene: Scene) -> str:
        said = [{"role": "user", "content": text(number)} for number in range(count)]
        return counted([await _send(scene, json.dumps({"model": MODEL, "messages": said}).encode())])

    return Input(name=f"program-{name}", attack=attack, twin=_hello)


def _people(number: int) -> str:
    return " ".join(f"p{60_000 * number + one}@b.co" for one in range(60_000))


def _digits(number: int, repeats: int) -> str:
    return f"{number} " + "4111 1111 1111 1112 " * repeats


def _look_alikes(number: int) -> str:
    code = "".join(chr(65 + number // 26**place % 26) for place in range(6))
    return f"<EMAIL_{code}> " * 100


def _lines(count: int, seed: int) -> str:
    return "\n".join(str(number * seed % 150) for number in range(count))


async def _compare(scene: Scene, count: int) -> list[Answer]:
    """Compare two prompts of a run, of the same lines in another order."""
    run, answers = f"compared-{scene.name}", list[Answer]()
    for seed in (1, 7):
        said = [{"role": "user", "content": _lines(count, seed)}]
        body = json.dumps({"model": MODEL, "messages": said}).encode()
        answers.append(await _send(scene, body, **{"Artelier-Run": run}))
    if all(answer.is_good for answer in answers):
        a, b = (answer.json()["artelier"]["step"] for answer in answers)
        page = f"/runs/{run}/prompt/diff?a={a}&b={b}"
        answers += await many(4, lambda _: scene.attacker.get(page, within_s=60.0), at_once=4)
    return answers


async def _compare_many(scene: Scene) -> str:
    return counted(await _compare(scene, 60_000))


async def _compare_few(scene: Scene) -> bool:
    return all(answer.is_good for answer in await _compare(scene, 10))


async def _deep_body(scene: Scene) -> str:
    return counted([await _send(scene, b'{"model":' + b"[" * (8 * MIB))])


async def _numbers(scene: Scene) -> str:
    body = b'{"model":"<","messages":[' + (HALFWAY + b",") * (30 * MIB // len(HALFWAY)) + b"1]}"
    return counted([await _send(scene, body)])


async def _emoji(scene: Scene, chars: int) -> str:
    """Texts in which each character takes four bytes of memory, as one of them does."""
    text = "\U0001f600 word a\u00e9 "
    said = [{"role": "user", "content": text * (chars // len(text))}]
    body = json.dumps({"model": MODEL, "messages": said}, ensure_ascii=False).encode()
    return counted(await many(4, lambda _: _send(scene, body), at_once=4))


async def _hello(scene: Scene) -> bool:
    return (await _ask(scene, "Hello.")).is_good


_SMALL = [{"type": "text", "text": "Look."}, _image(_png(100))]

INPUTS = (
    _asking("image-19-mb", [_image(_png(19_000_000))], _SMALL),
    _asking("images-4-times-19-mb", [_image(_png(19_000_000))], _SMALL, count=4),
    _asking("images-100", [_image(_png(10_000 + n)) for n in range(100)], _SMALL),
    _asking("image-bomb", [_image(f"data:image/png;base64,{'iVBORw0KGgo' * 2_000_000}")], _SMALL),
    _asking("pdf-of-digits", [_image(f"data:application/pdf;base64,{'JVBERi0x' * 1_000_000}")], _SMALL),
    _asking("digits-16-mb", "4111 1111 1111 1112 " * 800_000),
    _asking("digits-7-mb", "4111 1111 1111 1112 " * 350_000),
    _asking("tools-of-patterns", "Hello.", tools=_tools("^(a+)+b$", 128)),
    _asking("schema-deep", "Hello.", response_format=_nested(400)),
    Input(name="program-long-conversation", attack=_long_conversation, twin=_hello),
    _saying("addresses", 6, _people),
    _saying("texts-of-40-kb", 150, lambda number: _digits(number, 2_000)),
    _saying("texts-of-30-kb", 200, lambda number: _digits(number, 1_500)),
    _saying("messages-2000", 2_000, lambda number: _digits(number, 7)),
    _saying("look-alikes-2000", 2_000, _look_alikes),
    Input(name="program-emoji-4-times-31-mb", attack=partial(_emoji, chars=22_000_000), twin=_hello),
    Input(name="program-emoji-4-times-11-mb", attack=partial(_emoji, chars=7_900_000), twin=_hello),
    _asking("jpeg-of-fill-bytes", [_image(f"data:image/jpeg;base64,/9j{'/' * (24 * MIB + 1)}")], _SMALL),
    _asking("signs-30-mb", "<" * (30 * MIB)),
    _asking("signs-4-times-7-mb", "<" * (7 * MIB), count=4),
    Input(name="program-numbers-30-mb", attack=_numbers, twin=_hello),
    Input(name="program-prompts-compared", attack=_compare_many, twin=_compare_few),
    Input(name="program-deep-body", attack=_deep_body, twin=_hello),
)
