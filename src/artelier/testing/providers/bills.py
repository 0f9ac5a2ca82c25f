"""The bill of a call with its prompt cache, and the media of a request, as providers document them.

Media are decoded, measured and refused as the real APIs do, in their words. Nothing is shared with what this
checks (`artelier.tokens`, `artelier.artifacts.media`), so that predictions are checked by something else.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import math
import re
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from artelier.models.scripted import PlainStep, reply_from
from artelier.ports.model import ModelReply
from artelier.testing.faults import Fault, ServerStep

Json = dict[str, Any]


class Refusal(Exception):
    """A request that the API answers with an error, in the words of its kind."""

    def __init__(self, message: str, *, status_code: int = 400) -> None:
        super().__init__(message)
        self.status_code = status_code


@dataclass(frozen=True, slots=True, kw_only=True)
class CallBill:
    """Tokens of one call by how they are billed."""

    fresh_tokens: int = 0
    read_tokens: int = 0
    written_tokens: int = 0
    written_long_tokens: int = 0
    """Of the written ones, those for the longest lifetime."""
    output_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def input_tokens(self) -> int:
        """Return all tokens of the prompt."""
        return self.fresh_tokens + self.read_tokens + self.written_tokens

    def input_cost(self, *, read: float = 0.1, written: float = 1.25, written_long: float = 2.0) -> float:
        """Return what the prompt costs, in prices of one fresh token. The rates are Anthropic's."""
        return (
            self.fresh_tokens
            + self.read_tokens * read
            + (self.written_tokens - self.written_long_tokens) * written
            + self.written_long_tokens * written_long
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedBlock:
    """A piece of a prompt that a cached prefix can end behind."""

    content: bytes
    tokens: int
    lifetime_s: int | None = None
    """Where a mark stands behind it: how long what it keeps lives."""


@dataclass(slots=True)
class PromptCache:
    """Prefixes that are kept for a while, at marks.

    `lookback_blocks`: how many blocks before a mark are looked at; None for all. A read renews the lifetime.
    """

    lookback_blocks: int | None
    prefix_tokens_min: int
    now_s: Callable[[], float] = time.monotonic
    long_lifetime_s: int = 3600
    kept: dict[bytes, float] = field(default_factory=dict[bytes, float])

    def bill(self, model: str, blocks: Sequence[CachedBlock]) -> CallBill:
        """Return the bill of a prompt, and keep what it writes."""
        now_s = self.now_s()
        digest, digests, sizes = hashlib.sha256(model.encode()).digest(), list[bytes](), [0]
        for block in blocks:
            digest = hashlib.sha256(digest + block.content).digest()
            digests.append(digest)
            sizes.append(sizes[-1] + block.tokens)
        marks = [
            (number, block.lifetime_s)
            for number, block in enumerate(blocks, start=1)
            if block.lifetime_s is not None and sizes[number] >= self.prefix_tokens_min
        ]
        hit = 0
        for mark, lifetime_s in marks:
            lowest = 1 if self.lookback_blocks is None else max(1, mark - self.lookback_blocks)
            for end in range(mark, lowest - 1, -1):
                if self.kept.get(digests[end - 1], -1.0) > now_s:
                    self.kept[digests[end - 1]] = max(self.kept[digests[end - 1]], now_s + lifetime_s)
                    hit = max(hit, end)
                    break
        long = 0
        for mark, lifetime_s in marks:
            self.kept[digests[mark - 1]] = max(self.kept.get(digests[mark - 1], 0.0), now_s + lifetime_s)
            if lifetime_s >= self.long_lifetime_s and mark > hit:
                long = sizes[mark] - sizes[hit]
        last = max((mark for mark, _ in marks), default=0)
        written = max(0, sizes[last] - sizes[hit])
        return CallBill(
            read_tokens=sizes[hit],
            written_tokens=written,
            written_long_tokens=long,
            fresh_tokens=sizes[-1] - sizes[hit] - written,
        )


def tokens_of(value: object) -> int:
    """Return the tokens of a value: one for four characters of it, or of its JSON."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    return -(-len(text) // 4)


def content_bytes(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def sign(text: str) -> str:
    """Return the signature of a piece of reasoning, which only its unchanged text has."""
    return hmac.new(b"a provider's own key", text.encode(), hashlib.sha256).hexdigest()


def objects(value: object) -> list[Json]:
    """Return the JSON objects of a list. Errors: `Refusal` for anything else."""
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in cast(list[object], value)):
        raise Refusal("Input should be a valid list of objects")
    return cast(list[Json], value)


class StrictProvider:
    """Answers requests of one API from a script, once each has been checked and billed.

    `script`: steps as `ScriptedModel` takes them, or one function of the request's body; the last step is
    repeated. Hand it to `OpenAIServer` as its script. Subclasses know one API.
    """

    def __init__(
        self,
        script: Sequence[PlainStep | Fault] | Callable[[Json], PlainStep | Fault],
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._script = script
        self._now_s = now_s
        self._taken = 0
        self.bodies: list[Json] = []
        """Of the requests that were answered."""
        self.bills: list[CallBill] = []
        self.refusals: list[str] = []

    def __call__(self, body: Json) -> ServerStep:
        """Return the answer to a request's body."""
        try:
            self.check(body)
            bill = self.bill(body)
        except Refusal as refusal:
            self.refusals.append(str(refusal))
            return self.refuse(refusal)
        step = self._next(body)
        if isinstance(step, Fault):
            return step
        self.bodies.append(body)
        return self.answer(body, reply_from(step), bill)

    def check(self, body: Json) -> None:
        """Refuse what the API refuses. Errors: `Refusal`."""
        raise NotImplementedError

    def bill(self, body: Json) -> CallBill:
        """Return the bill of a request's prompt."""
        raise NotImplementedError

    def answer(self, body: Json, reply: ModelReply, bill: CallBill) -> Fault:
        """Return the HTTP answer, plain or streamed as the request wants it."""
        raise NotImplementedError

    def refuse(self, refusal: Refusal) -> Fault:
        """Return the HTTP answer to a request that is refused."""
        raise NotImplementedError

    @property
    def uncached_ratio(self) -> float:
        """Return the price of all prompts, in that of the same prompts without a cache."""
        total = sum(bill.input_tokens for bill in self.bills)
        return sum(bill.input_cost() for bill in self.bills) / total if total else 0.0

    def _next(self, body: Json) -> PlainStep | Fault:
        if callable(self._script):
            return self._script(body)
        self._taken += 1
        return self._script[min(self._taken, len(self._script)) - 1]


def server_sent(events: Sequence[tuple[str | None, Json | str]]) -> Fault:
    """Return a whole stream of server-sent events, each with its name (or None) and its data."""
    lines = [
        (f"event: {name}\n" if name else "")
        + f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n"
        for name, data in events
    ]
    return Fault.raw("".join(lines).encode(), content_type="text/event-stream")


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
