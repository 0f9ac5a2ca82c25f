"""Cards in pictures: the container is read with care, and what is wrong with it is said."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest

from artelier.errors import InvalidImport
from artelier.operations.lore import read_card
from artelier.operations.lore.character_cards import CHUNKS_MAX
from tests.operations.writing.files import (
    END,
    HEADER,
    PIXELS,
    SIGNATURE,
    V1,
    V2,
    V3,
    chunk,
    encoded,
    png,
    text_chunk,
)


def test_v2_stands_in_chara_and_v3_in_ccv3_which_goes_first() -> None:
    old = read_card(png(text_chunk("chara", V2)))
    both = read_card(png(text_chunk("chara", V2), text_chunk("ccv3", V3)))

    assert (old.version, old.character.nickname) == ("2", None)
    assert (both.version, both.character.nickname) == ("3", "Sera")
    assert old.lorebook == both.lorebook


def test_v1_and_other_ways_to_write_the_same_are_read() -> None:
    packed = base64.b64encode(encoded(V1))
    lines = b"\n".join(packed[at : at + 76] for at in range(0, len(packed), 76))
    same = text_chunk("chara", V1)

    for data in (
        png(text_chunk("Chara", V1)),
        png(text_chunk("chara", lines)),
        png(text_chunk("chara", packed.rstrip(b"="))),
        png(same, same),
        png(text_chunk("Comment", b"{}"), same) + b"what follows the end",
    ):
        assert read_card(data).character.name == "Seraphina"


BOMB = zlib.compress(b"a" * 10_000_000)
CARD = text_chunk("chara", V1)

DAMAGED = {
    "no chunk at all": (SIGNATURE, "cut off"),
    "no end": (SIGNATURE + HEADER + CARD, "cut off"),
    "cut in a chunk": (png(CARD)[:-30], "cut off"),
    "cut in the card": ((SIGNATURE + HEADER + CARD)[:-100], "cut off in its chunk tEXt"),
    "cut in a length": (SIGNATURE + HEADER + b"\0\0", "cut off"),
    "wrong checksum": (png(chunk(b"tEXt", b"chara\0e30=", crc=1)), "wrong checksum of tEXt"),
    "wrong checksum of pixels": (SIGNATURE + HEADER + chunk(b"IDAT", crc=1) + END, "checksum of IDAT"),
    "a length beyond the file": (SIGNATURE + HEADER + struct.pack(">I", 2**31 - 1) + b"tEXtx", "cut off"),
    "a length beyond all": (SIGNATURE + HEADER + b"\xff\xff\xff\xff" + b"tEXt" + b"x" * 50, "cut off"),
    "a type that is none": (SIGNATURE + HEADER + chunk(b"\0\0\0\0") + END, "damaged"),
    "no header first": (SIGNATURE + PIXELS + CARD + END, "damaged"),
    "no card": (png(), "has no character card"),
    "a keyword without an end": (png(chunk(b"tEXt", b"chara")), "has no character card"),
    "two different cards": (png(CARD, text_chunk("chara", V2)), "two different cards"),
    "a compressed card": (png(chunk(b"zTXt", b"chara\0\0" + BOMB)), "a zTXt or iTXt chunk"),
    "an international card": (png(chunk(b"iTXt", b"ccv3\0\1\0\0\0" + BOMB)), "a zTXt or iTXt chunk"),
    "no base64": (png(text_chunk("chara", b"$$$$")), "no base64"),
    "no base64 of a whole length": (png(text_chunk("chara", b"abcde")), "no base64"),
    "nothing in it": (png(text_chunk("chara", b"")), "no JSON"),
    "a broken v3 beside a good v2": (png(CARD, text_chunk("ccv3", b"e30x")), "is no JSON"),
    "too many chunks": (SIGNATURE + HEADER + chunk(b"teXt") * CHUNKS_MAX + END, "too many chunks"),
}


@pytest.mark.parametrize(("data", "said"), DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_file_is_refused_with_the_reason(data: bytes, said: str) -> None:
    with pytest.raises(InvalidImport, match=said):
        read_card(data)


def test_every_flipped_bit_in_a_card_is_found() -> None:
    whole = png(CARD)
    start = whole.index(b"tEXt")

    for at in range(start - 4, start + len(CARD) - 4, 7):
        broken = bytearray(whole)
        broken[at] ^= 0x10
        with pytest.raises(InvalidImport):
            read_card(bytes(broken))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xff\xd8\xff\xe0", "a JPEG"),
        (b"PK\x03\x04", "the archive cannot be read"),
        (b"RIFF\0\0\0\0WEBP", "a WebP"),
        (b"GIF89a", "a GIF"),
        (b"\x89PNG\r\n", "no JSON"),
    ],
)
def test_other_files_are_named(data: bytes, said: str) -> None:
    with pytest.raises(InvalidImport, match=said):
        read_card(data)
