"""Files that chats take in, and many large bodies at once."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Callable

from artelier_lab.availability.client import Answer
from artelier_lab.availability.inputs.builders import HALFWAY, MIB, UPLOAD_BYTES, counted, many
from artelier_lab.availability.scene import Input, Scene

WITHIN_S = 90.0
"""Bodies that find no memory wait for a minute."""
DECENT = json.dumps({"entries": {"0": {"key": ["tower"], "content": "It is tall."}}}).encode()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _card(text: bytes) -> bytes:
    """A picture with such a card in it."""
    head = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    pieces = _chunk(b"IHDR", head) + _chunk(b"tEXt", b"chara\0" + text)
    return b"\x89PNG\r\n\x1a\n" + pieces + _chunk(b"IDAT", zlib.compress(b"\0\0")) + _chunk(b"IEND", b"")


def _lorebook(key: str) -> bytes:
    return json.dumps({"entries": {"0": {"key": key, "content": "It is tall."}}}).encode()


async def _send(scene: Scene, content: bytes, name: str) -> Answer:
    return await scene.attacker.ask(
        "POST",
        f"/sessions/files?name={name}",
        chunks=(content[at : at + MIB] for at in range(0, len(content), MIB)),
        size_bytes=len(content),
        headers={"Content-Type": "application/octet-stream"},
        within_s=WITHIN_S,
    )


def _file(name: str, make: Callable[[], bytes], *, file: str = "book.json", count: int = 1) -> Input:
    async def attack(scene: Scene) -> str:
        content = make()
        return counted(await many(count, lambda _: _send(scene, content, file), at_once=count))

    return Input(name=f"file-{name}", attack=attack, twin=_decent)


async def _decent(scene: Scene) -> bool:
    return (await _send(scene, DECENT, "book.json")).is_good


def _many_bodies(path: str, size_bytes: int, count: int, *, base: str = "/api/v1") -> Input:
    """So many bodies whose last piece comes when all others are there."""

    async def one(scene: Scene, size: int) -> Answer:
        piece = b"x" * MIB
        return await scene.attacker.ask(
            "POST",
            path,
            chunks=(piece[: min(MIB, size - at)] for at in range(0, size, MIB)),
            size_bytes=size,
            headers={"Content-Type": "application/octet-stream"},
            base=base,
            within_s=WITHIN_S,
        )

    async def attack(scene: Scene) -> str:
        return counted(await many(count, lambda _: one(scene, size_bytes), at_once=count))

    async def twin(scene: Scene) -> bool:
        answers = await many(3, lambda _: _send(scene, DECENT, "book.json"), at_once=3)
        return all(one.is_good for one in answers)

    return Input(name=f"bodies-{count}-times-{size_bytes // MIB}-mb", attack=attack, twin=twin)


def _many_fields() -> bytes:
    """A message with as many fields beside its text as a line may have."""
    extra = b",".join(b'"k%d":1234567' % number for number in range(200_000))
    return b'{"mes":"x","extra":{%s}}\n' % extra


def _many_lines() -> bytes:
    """Messages with lists beside their texts."""
    line = b'{"mes":"hi","extra":{"a":[%s1]}}\n' % (b"[]," * 20_000)
    return line * (31 * MIB // len(line))


def _chat(texts: int, chars: int) -> bytes:
    """A chat of so many messages like card numbers, none of them equal."""
    digits = "4111 1111 1111 1112 " * (chars // 20)
    lines = [b'{"user_name":"Ann","character_name":"Mira"}']
    return b"\n".join(
        lines + [b'{"name":"Mira","mes":"%d %s"}' % (number, digits.encode()) for number in range(texts)]
    )


def _turns(count: int) -> bytes:
    """A chat of so many turns below the first of two replies."""
    lines = [
        {"user_name": "Ann", "character_name": "Mira"},
        {"name": "Ann", "is_user": True, "mes": "Hello."},
        {"name": "Mira", "mes": "One.", "swipes": ["One.", "Two."], "swipe_id": 0},
    ]
    for number in range(count):
        lines.append({"name": "Ann", "is_user": True, "mes": f"word {number}"})
        lines.append({"name": "Mira", "mes": f"said {number}"})
    return "\n".join(map(json.dumps, lines)).encode()


async def _move_about(scene: Scene, turns: int) -> list[Answer]:
    """Take a chat in, select the other reply and the first again, and say something."""
    taken = await _send(scene, _turns(turns), "a.jsonl")
    if not taken.is_good:
        return [taken]
    chat = f"/sessions/{taken.json()['chat_id']}"
    selected = [
        await scene.attacker.post(f"{chat}/select", {"turn": 1, "variant": variant}, within_s=WITHIN_S)
        for variant in (2, 1)
    ]
    await scene.attacker.ask("PATCH", chat, json_={"model": "reply:decent"})
    return [*selected, await scene.attacker.post(f"{chat}/turns", {"text": "And now?"}, within_s=WITHIN_S)]


async def _move_far(scene: Scene) -> str:
    return counted(await _move_about(scene, 2_000))


async def _move_near(scene: Scene) -> bool:
    return all(answer.is_good for answer in await _move_about(scene, 3))


INPUTS = (
    Input(name="chat-moved-about-in", attack=_move_far, twin=_move_near),
    _file("chat-of-250-texts-31-kb", lambda: _chat(250, 31_000), file="a.jsonl"),
    _file("chat-of-8000-texts-900", lambda: _chat(8_000, 900), file="a.jsonl"),
    _file("keys-16-mb", lambda: _lorebook("," * (15 * MIB))),
    _file("keys-16-mb-6-at-once", lambda: _lorebook("," * (15 * MIB)), count=6),
    _file("name-of-words", lambda: json.dumps({"name": "ab " * (5 * MIB), "entries": {}}).encode()),
    _file("card-of-lists", lambda: _card(base64.b64encode(b"[" + b"[]," * (2 * MIB) + b"[]]")), file="a.png"),
    _file(
        "card-of-lists-6-at-once",
        lambda: _card(base64.b64encode(b"[" + b"[]," * (2 * MIB) + b"[]]")),
        file="a.png",
        count=6,
    ),
    _file("card-of-spaces", lambda: _card(b"a " * (15 * MIB)), file="a.png"),
    _file("lists-behind-texts", lambda: b"[" + b'"",' * 100_010 + b"[]," * (10 * MIB) + b"1]"),
    _file("line-of-fields", _many_fields, file="a.jsonl"),
    _file("lines-of-lists", _many_lines, file="a.jsonl", count=2),
    _file("numbers-8-mb", lambda: b"[<" + (HALFWAY + b",") * (8 * MIB // len(HALFWAY)) + b"1]"),
    _many_bodies("/sessions/import", UPLOAD_BYTES - MIB, 16),
    _many_bodies("/chat/completions", 31 * MIB, 24, base="/v1"),
)
