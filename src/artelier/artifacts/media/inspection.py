"""A medium that comes in: inspected off the event loop, refused with a reason, and kept under a key.

PDFs are opened in a helper process that can be killed; their text is read once, when they come in, and
stored beside them. So what a model without PDF input is sent is content of the log, whoever reads PDFs later.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from artelier.artifacts.media.headers import PDF, BrokenMedium, MediaHeader, broken, read_header, type_of
from artelier.child import ChildPool, ChildStopped, Question
from artelier.confinement import Needs
from artelier.errors import InvalidRequest, ToolFailed
from artelier.log import Blob
from artelier.log.blobs import DataKey, prepared_blob
from artelier.ports.media import MEDIA_TYPES, MEDIUM_BYTES_MAX, PAGES_MAX, Medium

TEXT_BYTES_MAX = 4 * 1024 * 1024
"""Of the text of a PDF: more than any model reads."""
PDF_TIME_S = 20.0
"""Of the processor, to open a PDF and read its text."""

_POOL = ChildPool(
    "artelier.artifacts.media.worker",
    first={"pdf": "", "pages_max": 0, "text_bytes_max": 0},
    # It reads what others wrote and runs none of it; the library loads tables and ciphers as it meets them.
    needs=Needs(walls=("limits", "namespaces", "privileges")),
)
PDFS_AT_ONCE = 2
_places: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
"""For PDFs that are opened, by the event loop that waits for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFacts:
    """A medium as it came, before it is stored."""

    content: bytes
    header: MediaHeader
    pages: int | None = None
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptMedium:
    """A medium with a name, and what must be stored with whatever names it first."""

    medium: Medium
    blobs: tuple[Blob, ...]


def check_size(size_bytes: int) -> None:
    """Refuse what is too large before it is read. Errors: `InvalidRequest`."""
    if size_bytes > MEDIUM_BYTES_MAX:
        raise InvalidRequest(
            "this is too large to be sent to a model",
            expected=f"at most {MEDIUM_BYTES_MAX} bytes",
            got=size_bytes,
            hint="Scale the image down, or part the document.",
        )


async def inspect_medium(content: bytes, *, media_type: str = "") -> MediaFacts:
    """Return what a medium is. `media_type` is what somebody says of it; its bytes decide.

    Errors: `InvalidRequest` for what is too large, of a type that no model takes, or of another type than is
    said; `BrokenMedium` for one that is not whole, or a PDF with a password.
    """
    check_size(len(content))
    found = type_of(content)
    if found is None:
        raise InvalidRequest(
            "this is no image, sound or PDF that a model takes",
            expected=", ".join(MEDIA_TYPES),
            got=repr(content[:12])[:60],
        )
    if media_type and _plain_type(media_type) != found:
        raise InvalidRequest(
            "this is another type of medium than is said", expected=found, got=media_type[:60]
        )
    if found != PDF:
        return MediaFacts(content=content, header=await asyncio.to_thread(read_header, content, found))
    return await _read_pdf(content)


_OTHER_NAMES = {
    "image/jpg": "image/jpeg",
    "audio/mp3": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "application/x-pdf": PDF,
}


def _plain_type(media_type: str) -> str:
    name = media_type.partition(";")[0].strip().lower()
    return _OTHER_NAMES.get(name, name)


async def _read_pdf(content: bytes) -> MediaFacts:
    question = Question(_POOL)

    def ask() -> dict[str, object]:
        encoded = base64.b64encode(content).decode()
        message = {"pdf": encoded, "pages_max": PAGES_MAX, "text_bytes_max": TEXT_BYTES_MAX}
        return question.ask(message, time_s=PDF_TIME_S)

    places = _places.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(PDFS_AT_ONCE))
    async with places:
        try:
            answer = await asyncio.to_thread(ask)
        except asyncio.CancelledError:
            question.stop()
            raise
        except ChildStopped as error:
            raise ToolFailed(f"the helper process does not start: {error}") from None
    failed, pages, text = answer.get("failed"), answer.get("pages"), answer.get("text")
    if failed == "password":
        raise BrokenMedium(
            "this PDF has a password",
            expected="one that opens without",
            hint="Nothing of it was kept. Save it without its password.",
        )
    if failed is not None:
        raise broken("PDF", str(answer.get("message", failed))[:200])
    assert isinstance(pages, int) and isinstance(text, str)
    return MediaFacts(content=content, header=MediaHeader(media_type=PDF), pages=pages, text=text)


async def keep_medium(
    tenant: str, key: DataKey, facts: MediaFacts, *, escape: Callable[[str, str], str]
) -> KeptMedium:
    """Name a medium and its text under a key; personal data in the text is replaced, as in all content.

    `escape` makes what only looks like a placeholder none, in the text of a tenant: whoever wrote a PDF must
    not name the values of others. Errors: those of `prepared_blob`.
    """
    ref, blob = await prepared_blob(tenant, key, facts.content)
    blobs, text_ref, text_bytes = [blob], None, 0
    if facts.text.strip():
        text_ref, text = await prepared_blob(tenant, key, escape(tenant, facts.text).encode())
        blobs.append(text)
        text_bytes = len(text.content)
    medium = Medium(
        blob=ref,
        media_type=facts.header.media_type,
        size_bytes=len(blob.content),
        pages=facts.pages,
        pixels=facts.header.pixels,
        seconds=facts.header.seconds,
        text=text_ref,
        text_bytes=text_bytes,
    )
    return KeptMedium(medium=medium, blobs=tuple(blobs))
