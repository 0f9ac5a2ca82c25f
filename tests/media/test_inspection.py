"""What comes in is known by its bytes, and what is broken is refused with a reason."""

from __future__ import annotations

import asyncio
import struct
import time
import zlib

import pytest

from artelier.artifacts.media.inspection import BrokenMedium, inspect_medium
from artelier.errors import InvalidRequest
from tests.media.samples import gif, jpeg, mp3, pdf, png, wav, webp


@pytest.mark.parametrize(
    ("content", "media_type", "pixels", "seconds"),
    [
        (png(7, 5), "image/png", (7, 5), None),
        (jpeg(640, 480), "image/jpeg", (640, 480), None),
        (gif(3, 4), "image/gif", (3, 4), None),
        (webp(30, 20), "image/webp", (30, 20), None),
        (wav(2), "audio/wav", None, 2),
        (mp3(100), "audio/mpeg", None, 3),
        (b"ID3\x04\0\0\0\0\0\x0a" + b"\0" * 10 + mp3(100), "audio/mpeg", None, 3),
    ],
)
def test_a_medium_is_known_by_its_bytes(
    content: bytes, media_type: str, pixels: tuple[int, int] | None, seconds: int | None
) -> None:
    facts = asyncio.run(inspect_medium(content))

    assert facts.header.media_type == media_type
    assert (facts.header.pixels, facts.header.seconds) == (pixels, seconds)


def test_a_pdf_has_pages_and_a_text() -> None:
    facts = asyncio.run(inspect_medium(pdf("Revenue rose", "Costs fell")))

    assert facts.pages == 2
    assert facts.text.split() == ["[page", "1]", "Revenue", "rose", "[page", "2]", "Costs", "fell"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (png()[:-6], "breaks off"),
        (png()[:40] + b"?" + png()[41:], "checksum"),
        (png()[:33] + png()[-12:], "holds no picture"),
        (png(0, 3), "0 x 3 pixels"),
        (jpeg()[:-2], "breaks off"),
        (jpeg()[:20] + b"\xff\xd9", "breaks off"),
        (gif()[:-1], "breaks off"),
        (webp()[:-4], "breaks off"),
        (wav()[:40], "breaks off"),
        (b"ID3" + b"\0" * 50, "no sound"),
        (b"%PDF-1.7 and nothing more", "PDF is broken"),
        (pdf("secret", password="x"), "has a password"),
    ],
)
def test_what_is_broken_is_refused_with_a_reason(content: bytes, why: str) -> None:
    with pytest.raises(BrokenMedium, match=why):
        asyncio.run(inspect_medium(content))


def test_bytes_that_fill_a_jpeg_are_passed_over() -> None:
    filled = jpeg()[:2] + b"\xff" * 200_000 + jpeg()[2:]

    assert asyncio.run(inspect_medium(filled)).header.pixels == (640, 480)


PIECES = {
    "PNG": png()[:33] + (struct.pack(">I", 0) + b"abCd" + struct.pack(">I", zlib.crc32(b"abCd"))) * 1_600_000,
    "JPEG": b"\xff\xd8\xff" + b"\x01\xff" * 9_000_000 + b"\xd9",
    "WAV": b"RIFF\0\0\0\0WAVE" + b"abcd\0\0\0\0" * 2_400_000,
}


@pytest.mark.parametrize(("what", "content"), PIECES.items(), ids=PIECES)
def test_pieces_of_a_few_bytes_are_looked_at_up_to_a_number(what: str, content: bytes) -> None:
    with pytest.raises(BrokenMedium, match=f"this {what} is broken: it has more than 50,000 pieces"):
        asyncio.run(inspect_medium(content))


def test_bytes_that_only_fill_take_no_time() -> None:
    began_s = time.process_time()
    with pytest.raises(BrokenMedium, match="breaks off"):
        asyncio.run(inspect_medium(b"\xff\xd8" + b"\xff" * 19_000_000 + b"\xff\xd9"))

    assert time.process_time() - began_s < 0.7  # 1.5 where each was looked at


def test_frames_of_a_sound_beyond_a_number_count_as_the_slowest() -> None:
    content = (b"\xff\xf3\x14\0" + b"\0" * 20) * 300_000  # 8 kbit/s, which are 24 ms each

    assert asyncio.run(inspect_medium(content)).header.seconds == 250_000 * 0.024 + 1 + 50_000 * 24 // 1_000


def test_a_pdf_that_unfolds_without_end_is_refused() -> None:
    bomb = zlib.compress(b"q " * 60_000_000, 9)
    stream = b"<< /Length %d /Filter /FlateDecode >> stream\n" % len(bomb) + bomb + b"\nendstream"
    pieces = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R >>",
        stream,
    ]
    content = b"%PDF-1.4\n" + b"".join(b"%d 0 obj %b endobj\n" % (n, one) for n, one in enumerate(pieces, 1))

    with pytest.raises(BrokenMedium):
        asyncio.run(inspect_medium(content + b"trailer << /Root 1 0 R >>\n%%EOF"))


@pytest.mark.parametrize(
    ("content", "said", "why"),
    [
        (b"\0" * 200_000_000, "", "too large"),
        (b"hel\0lo", "", "no image, sound, PDF or text"),
        (b"hel\xfflo", "", "no image, sound, PDF or text"),
        (b"hello", "image/png", "no image, sound, PDF or text"),
        (b" \n", "text/csv", "this file is empty"),
        (b"", "", "this file is empty"),
        (b"x" * 400_001, "", "this text is too long"),
        (b"x" * 399_999 + "\u00fc".encode() * 10, "", "this text is too long"),
        (b"x" * 400_001 + b"\xff\0", "", "this text is too long"),  # its rest is not looked at
        (b"\0" + b"x" * 400_001, "", "no image, sound, PDF or text"),
        (png(), "image/jpeg", "another type"),
    ],
)
def test_what_no_model_takes_is_refused(content: bytes, said: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        asyncio.run(inspect_medium(content, media_type=said))


def test_other_names_of_a_type_are_taken() -> None:
    assert asyncio.run(inspect_medium(jpeg(), media_type="image/jpg; q=1")).header.media_type == "image/jpeg"
