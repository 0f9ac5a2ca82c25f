"""Uploads of 64 MiB, the most that a server takes."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

from artelier_lab.availability.client import Answer
from artelier_lab.availability.inputs.builders import (
    BOUNDARY,
    MIB,
    counted,
    many,
    send_form,
    upload,
    uploaded,
)
from artelier_lab.availability.scene import Input, Scene


def _png(side: int) -> bytes:
    """A PNG of so many pixels each way, of which only the head is there."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 6, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0" * 5)) + chunk(b"IEND", b"")


def _zip(size_bytes: int) -> bytes:
    """An archive whose one file is so large."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", b"0" * size_bytes)
    return file.getvalue()


def _part(number: int, size: int) -> bytes:
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{number}.txt"\r\n\r\n'
    return head.encode() + b"x" * size + b"\r\n"


async def _many_parts(scene: Scene) -> str:
    pieces = [_part(number, 1) for number in range(200_000)]
    return counted([await send_form(scene, [b"".join(pieces), f"--{BOUNDARY}--\r\n".encode()])])


async def _few_parts(scene: Scene) -> bool:
    pieces = [_part(number, 5) for number in range(3)]
    return (await send_form(scene, [*pieces, f"--{BOUNDARY}--\r\n".encode()])).is_good


async def _flood(scene: Scene) -> str:
    async def one(number: int) -> Answer:
        return await upload(scene, f"{number}.txt", [b"x" * 100_000])

    return counted(await many(200, one))


async def _one(scene: Scene) -> bool:
    return (await upload(scene, "one.txt", [b"A short note."])).is_good


_PEOPLE = " ".join(f"u{number}@b.co" for number in range(300_000)).encode()
"""Values that all differ."""

INPUTS = (
    uploaded("digits", "digits.txt", b"4111111111111112"),
    uploaded("card-digits-7-mb", "cards.txt", b"4111 1111 1111 1112 ", size_bytes=7 * MIB),
    uploaded("addresses", "people.txt", b" ", size_bytes=0, prefix=_PEOPLE),
    uploaded("integers", "integers.json", b"1,", prefix=b"[", suffix=b"1]", decent=b"[1, 2]"),
    uploaded(
        "integers-6-mb", "few.json", b"1,", size_bytes=6 * MIB, prefix=b"[", suffix=b"1]", decent=b"[1, 2]"
    ),
    uploaded("nested-json", "nested.json", b"[", decent=b"[[1]]"),
    uploaded("objects", "objects.json", b'{"a":1},', prefix=b"[", suffix=b"{}]", decent=b"[{}]"),
    uploaded("png", "image.png", b"\0", prefix=_png(60_000), decent=_png(1)),
    uploaded("zip", "book.xlsx", b"\0", prefix=_zip(64 * MIB), decent=_zip(100)),
    uploaded("csv-wide", "wide.csv", b"a,", decent=b"a,b\n1,2\n"),
    uploaded("markdown", "page.md", b"`" * 1000, size_bytes=8 * MIB, decent=b"# A page\n"),
    uploaded("near-boundaries", "near.txt", f"\r\n--{BOUNDARY[:-1]}".encode(), decent=b"A note."),
    Input(name="upload-many-parts", attack=_many_parts, twin=_few_parts),
    Input(name="upload-flood", attack=_flood, twin=_one),
)
