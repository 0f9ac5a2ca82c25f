"""Images, audio and PDFs in a message: parts that name stored content, and a model that takes them.

A medium stands in a message as `Part(type="media", data={"blob": "b:...", ...})`, never as base64: the log
keeps its bytes once, and an adapter is given a loader for the call at hand.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast, runtime_checkable

import msgspec

from artelier.errors import InvalidRequest
from artelier.ports.model import ChatMessage, ModelPort, Part

MEDIA = "media"
"""The type of a part that is no text."""

MediaKind = Literal["image", "audio", "pdf", "text"]

MEDIA_TYPES: dict[str, MediaKind] = {
    "image/png": "image",
    "image/jpeg": "image",
    "image/gif": "image",
    "image/webp": "image",
    "audio/wav": "audio",
    "audio/mpeg": "audio",
    "application/pdf": "pdf",
    "text/plain": "text",
}
"""The media types that can be attached. Text of any kind is `text/plain`; models are given it as text."""

MEDIUM_BYTES_MAX = 20 * 1024 * 1024
"""One medium (the most that any provider takes in a request is 32 MB, as base64)."""
ATTACHED_TEXT_BYTES_MAX = 400_000
"""One text (some 100,000 tokens): a longer one is for tools that read a part of it."""
CALL_BYTES_MAX = 22 * 1024 * 1024
"""All media of one call together; base64 makes a third more of it."""
ATTACHMENTS_MAX = 20
"""Media that a command or a request comes with."""
CALL_MEDIA_MAX = 100
"""Media in one call: Anthropic's bound, and the lowest of those that are known."""
PAGES_MAX = 1_000
"""Pages of a PDF."""


class PdfText(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a PDF, as a model without PDF input is sent it."""

    pages: int
    text: str
    """Of all pages that have some, each under its number; empty for a scan."""


_NAME_CHARS = 45


@dataclass(frozen=True, slots=True, kw_only=True)
class Medium:
    """One image, sound, PDF or text, and what bounds its cost."""

    blob: str
    """Reference of its bytes."""
    media_type: str
    """One of `MEDIA_TYPES`."""
    size_bytes: int
    pages: int | None = None
    """Of a PDF."""
    pixels: tuple[int, int] | None = None
    """Width and height of an image."""
    seconds: int | None = None
    """Length of a sound, rounded up."""
    text: str | None = None
    """Reference of a PDF's text; None if it has none, as a scan."""
    text_bytes: int = 0
    """Size of that text, in UTF-8."""

    @property
    def kind(self) -> MediaKind:
        return MEDIA_TYPES[self.media_type]

    @property
    def refs(self) -> tuple[str, ...]:
        """References of all content that belongs to it."""
        return (self.blob,) if self.text is None else (self.blob, self.text)

    @property
    def part(self) -> Part:
        """The piece of a message that shows it."""
        data: dict[str, Any] = {
            "blob": self.blob,
            "media_type": self.media_type,
            "size_bytes": self.size_bytes,
            "pages": self.pages,
            "pixels": None if self.pixels is None else list(self.pixels),
        }
        if self.seconds is not None:
            data["seconds"] = self.seconds
        if self.text is not None:
            data |= {"text": self.text, "text_bytes": self.text_bytes}
        return Part(type=MEDIA, data=data)


class _StoredMedium(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`data` of a media part."""

    blob: str
    media_type: str
    size_bytes: int
    pages: int | None = None
    pixels: tuple[int, int] | None = None
    seconds: int | None = None
    text: str | None = None
    text_bytes: int = 0


def medium_of(part: Part) -> Medium:
    """Return what a media part shows. Errors: `InvalidRequest` for one that is malformed."""
    try:
        stored = msgspec.convert(part.data, _StoredMedium)
    except (msgspec.ValidationError, TypeError) as error:
        raise InvalidRequest(
            f"not a media part: {str(error)[:200]}",
            expected="data with blob, media_type, size_bytes, such as `(await run.attach(content)).data`",
        ) from None
    numbers = (stored.size_bytes, stored.pages, stored.seconds, stored.text_bytes, *(stored.pixels or ()))
    refs = [one for one in (stored.blob, stored.text) if one is not None]
    is_named = all(one.startswith("b:") and len(one) == _NAME_CHARS for one in refs)
    if stored.media_type not in MEDIA_TYPES or not is_named or any(n is not None and n < 0 for n in numbers):
        raise InvalidRequest(
            "not a media part",
            expected=f"a stored blob of a type such as {', '.join(MEDIA_TYPES)}",
            got=f"{stored.blob[:60]} of type {stored.media_type[:60]}",
        )
    fields = {name: getattr(stored, name) for name in _StoredMedium.__struct_fields__}
    return Medium(**fields)


def stored_media(pieces: Iterable[object]) -> tuple[Medium, ...]:
    """Return what stored media parts show, from their JSON. Errors: as of `medium_of`."""
    return tuple(medium_of(msgspec.convert(one, Part)) for one in pieces)


def has_media(message: ChatMessage) -> bool:
    """Return True if something of a message is no text. Cost: O(1) for one that is a single text."""
    return not isinstance(message.content, str) and any(part.type == MEDIA for part in message.content)


def media_facts(medium: Medium) -> str:
    """Return what a medium is, for people, such as `image/png, 640 x 480 pixels, 9,120 bytes`."""
    facts = [medium.media_type]
    if medium.pixels is not None:
        facts.append(f"{medium.pixels[0]} x {medium.pixels[1]} pixels")
    if medium.pages is not None:
        facts.append("1 page" if medium.pages == 1 else f"{medium.pages} pages")
    if medium.seconds is not None:
        facts.append(f"{medium.seconds} s")
    return f"{', '.join(facts)}, {medium.size_bytes:,} bytes"


def media_line(medium: Medium) -> str:
    """Return a medium in one line with its reference, such as `(image/png, 9,120 bytes, b:...)`."""
    return f"({media_facts(medium)}, {medium.blob})"


def media_in(messages: Iterable[ChatMessage]) -> Iterator[Medium]:
    """Yield the media that messages show, in order. Errors: `InvalidRequest` for a malformed part."""
    for message in messages:
        if not isinstance(message.content, str):
            yield from (medium_of(part) for part in message.content if part.type == MEDIA)


ATTACH = "attach"
"""Name of the step that stores a medium; its result is the piece of a message that shows it."""
ATTACHMENTS = "attachments"
"""Where settings of a run or a turn hold media parts."""

_MARK = b'"type":"media"'


def media_refs(content: bytes) -> Iterator[str]:
    """Yield the references of media that stored content holds: messages, settings, or a part.

    What looks like a part elsewhere, such as in the arguments of a tool, is none.
    Cost: one search of the bytes where there is none.
    """
    if _MARK not in content:
        return
    try:
        value: object = msgspec.json.decode(content)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return
    for holder in cast("list[object]", value) if isinstance(value, list) else [value]:
        if not isinstance(holder, dict):
            continue
        members = cast("dict[str, object]", holder)
        for pieces in (
            [members],
            members.get(ATTACHMENTS),
            members.get("content") if "role" in members else None,
        ):
            for piece in cast("list[object]", pieces) if isinstance(pieces, list) else ():
                yield from _refs_of(piece)


def _refs_of(piece: object) -> tuple[str, ...]:
    if not isinstance(piece, dict) or cast("dict[str, object]", piece).get("type") != MEDIA:
        return ()
    try:
        return medium_of(Part(type=MEDIA, data=cast("dict[str, object]", piece).get("data"))).refs
    except InvalidRequest:
        return ()


LoadMedia = Callable[[Medium], Awaitable[bytes]]
"""Gives the bytes of a medium of the call at hand. Errors: `NotFound`, `Erased`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaRules:
    """The media that a model takes, and the most that each can cost."""

    types: frozenset[str] = frozenset()
    """Media types; none for a model that reads text alone."""
    bytes_max: Mapping[MediaKind, int] = field(default_factory=dict[MediaKind, int])
    """By kind, where a provider takes less than `MEDIUM_BYTES_MAX`."""
    count_max: int = CALL_MEDIA_MAX
    """Images in one call."""
    side_pixels_max: int | None = None
    """Of an image."""
    pages_max: int | None = None
    """Of all PDFs of a call."""
    bound: Callable[[Medium], int | None] = lambda medium: None
    """The most tokens that a medium is billed as; None where nobody knows."""


NO_MEDIA = MediaRules()
"""Of a model that reads text alone."""


@runtime_checkable
class MediaModelPort(Protocol):
    """A model that takes media. One without these methods is never sent any: the call is refused before."""

    def media_rules(self, model: str, /) -> MediaRules:
        """Return what the model of this name takes."""
        ...

    def with_media(self, load: LoadMedia, /) -> ModelPort:
        """Return the port for one call, with which it loads the media that the request names."""
        ...
