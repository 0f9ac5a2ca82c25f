"""Small images, sounds and PDFs, made here: no file of others, and no library that draws."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from artelier.artifacts.media.inspection import ResultWithMedia, inspect_medium
from artelier.tools.function import Tool


def png(width: int = 2, height: int = 2, *, shade: int = 0) -> bytes:
    """Return a grey picture."""
    rows = b"".join(b"\0" + bytes([shade]) * width for _ in range(height))

    def piece(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + piece(b"IHDR", head)
        + piece(b"IDAT", zlib.compress(rows))
        + piece(b"IEND", b"")
    )


def jpeg(width: int = 640, height: int = 480) -> bytes:
    """Return the frame of a JPEG: its size, and no picture."""
    size = struct.pack(">BHHB", 8, height, width, 1) + b"\x01\x11\x00"
    begin = b"\xff\xd8\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0"
    return begin + b"\xff\xc0" + struct.pack(">H", len(size) + 2) + size + b"\xff\xda\0\x02\xff\xd9"


def gif(width: int = 3, height: int = 4) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0;"


def webp(width: int = 30, height: int = 20) -> bytes:
    sides = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    body = b"WEBPVP8X" + struct.pack("<I", 10) + b"\0\0\0\0" + sides
    return b"RIFF" + struct.pack("<I", len(body)) + body


def wav(seconds: int = 2) -> bytes:
    data = b"\0" * (8_000 * seconds)
    form = struct.pack("<HHIIHH", 1, 1, 8_000, 8_000, 1, 8)
    body = b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def mp3(frames: int = 100) -> bytes:
    """Return silence: frames of 417 bytes, 128 kbit/s at 44,100 Hz."""
    return (b"\xff\xfb\x90\x00" + b"\0" * 413) * frames


def pdf(*texts: str, password: str = "") -> bytes:
    """Return a PDF with a page for each text."""
    writer = PdfWriter()
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    fonts = DictionaryObject({NameObject("/F1"): font})
    for text in texts:
        page = writer.add_blank_page(width=300, height=200)
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode("latin-1"))
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        page[NameObject("/Contents")] = writer._add_object(stream)  # pyright: ignore[reportPrivateUsage] - a sample
    if password:
        writer.encrypt(password, algorithm="AES-256")
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


class Painter(Tool[..., Any]):
    """A tool that paints a square, and shows it as tools of an MCP server do."""

    async def call(self, arguments: dict[str, Any], context: Any) -> object:
        side = int(arguments["side"])
        content = png(side, side) + bytes(int(arguments.get("extra_bytes", 0)))
        return ResultWithMedia(value={"painted": side}, media=(await inspect_medium(content),))


def painter() -> Painter:
    """Return the tool `paint`, with `side` and `extra_bytes` of its content."""

    def paint(side: int, extra_bytes: int = 0) -> dict[str, int]:
        """Paint a square."""
        return {"painted": side}

    return Painter(paint, side_effect=False)
