"""Media in a request to a double: decoded, measured and refused as the real APIs do, in their words.

It shares no code with what it checks (`artelier.artifacts.media`, `artelier.tokens.media_rules`).
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from artelier.testing.providers.billing import Refusal

_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
    b"%PDF-": "application/pdf",
}
_PAGE = re.compile(rb"/Type\s*/Page\b")
_DATA_URL = re.compile(r"\Adata:([a-z]+/[a-z0-9.+-]+);base64,")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentMedium:
    """An image or a PDF as it came in a request."""

    media_type: str
    """What its bytes are."""
    size_bytes: int
    pixels: tuple[int, int] = (0, 0)
    pages: int = 0
    is_locked: bool = False
    """A PDF with a password."""


def sent_medium(data: str, media_type: str) -> SentMedium:
    """Return what base64 in a request holds. Errors: `Refusal` if it is not what the request says."""
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise Refusal("source.base64.data: Input should be a valid base64 string") from None
    found = next((kind for mark, kind in _SIGNATURES.items() if content.startswith(mark)), None)
    if found is None:
        raise Refusal("Could not process image")
    if found != media_type:
        raise Refusal(
            f"Image does not match the provided media type {media_type}: it appears to be a {found} image"
        )
    return SentMedium(
        media_type=found,
        size_bytes=len(content),
        pixels=_pixels(content, found),
        pages=len(_PAGE.findall(content)) if found == "application/pdf" else 0,
        is_locked=b"/Encrypt" in content,
    )


def medium_of_url(url: str) -> SentMedium:
    """Return what a data URL holds. Errors: `Refusal`, for other URLs too: a double opens no connection."""
    found = _DATA_URL.match(url)
    if found is None:
        raise Refusal("Invalid 'image_url': expected a base64-encoded data URL with a media type")
    return sent_medium(url[found.end() :], found[1])


def _pixels(content: bytes, media_type: str) -> tuple[int, int]:
    if media_type == "image/png":
        return struct.unpack(">II", content[16:24])
    if media_type == "image/gif":
        return struct.unpack("<HH", content[6:10])
    if media_type == "image/jpeg" and (
        frame := re.search(rb"\xff[\xc0-\xc2]..\x08(....)", content, re.DOTALL)
    ):
        height, width = struct.unpack(">HH", frame[1])
        return width, height
    return (1_024, 1_024)


def check_pictures(media: Sequence[SentMedium], *, count_max: int, bytes_max: int, side_max: int) -> None:
    """Refuse images beyond the limits of an API. Errors: `Refusal`."""
    images = [one for one in media if one.media_type != "application/pdf"]
    if len(images) > count_max:
        raise Refusal(f"messages: at most {count_max} images are allowed")
    for one in images:
        if one.size_bytes > bytes_max:
            raise Refusal(
                f"image exceeds {bytes_max >> 20} MB maximum: {one.size_bytes} bytes > {bytes_max} bytes"
            )
        if max(one.pixels) > side_max or min(one.pixels) < 1:
            raise Refusal(f"At least one of the image dimensions exceed max allowed size: {side_max} pixels")


def check_papers(media: Sequence[SentMedium], *, pages_max: int) -> None:
    """Refuse PDFs that an API does not read. Errors: `Refusal`."""
    papers = [one for one in media if one.media_type == "application/pdf"]
    if any(one.is_locked for one in papers):
        raise Refusal("The PDF specified was not valid: it is password protected")
    if sum(one.pages for one in papers) > pages_max:
        raise Refusal(f"A maximum of {pages_max} PDF pages may be provided")


def area_tokens(medium: SentMedium, *, tokens_max: int) -> int:
    """Return what Anthropic bills for an image: its area by 750, after it was scaled down."""
    width, height = medium.pixels
    return min(math.ceil(width * height / 750), tokens_max)


def tile_tokens(medium: SentMedium, *, base: int, tile: int) -> int:
    """Return what OpenAI bills for an image in tiles of 512 pixels."""
    width, height = medium.pixels
    shrunk = min(1.0, 2_048 / max(width, height))
    width, height = width * shrunk, height * shrunk
    shrunk = min(1.0, 768 / min(width, height))
    return base + tile * math.ceil(width * shrunk / 512) * math.ceil(height * shrunk / 512)
