"""The media of a model call: checked and bounded before anything is reserved, loaded for its adapter alone.

A request names media by content; what a model takes of them, it is given here: the bytes through the
adapter's loader, a PDF that it cannot read as the text that was read when the PDF came in. Nothing of this
changes the request that is recorded.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import msgspec

from artelier.artifacts.media.inspection import KeptMedium, MediaFacts, inspect_attachments
from artelier.errors import (
    ArtelierError,
    CorruptStore,
    InvalidRequest,
    MediaNotTaken,
    NotFound,
    NotGranted,
    PriceUnknown,
)
from artelier.kernel.budget import NO_MEDIA_SIZE, TENANT, MediaSize, price_for, rate_tokens, source_for
from artelier.kernel.prompt.manifest import PromptPart, RangePart, fence
from artelier.kernel.run.context import RunCore
from artelier.log import blob_name
from artelier.ports.media import (
    CALL_BYTES_MAX,
    CALL_MEDIA_MAX,
    MEDIA,
    NO_MEDIA,
    MediaKind,
    MediaModelPort,
    MediaRules,
    Medium,
    media_in,
    medium_of,
)
from artelier.ports.model import (
    FREE,
    ChatMessage,
    Delta,
    ModelPort,
    ModelReply,
    ModelRequest,
    Part,
    Price,
    StreamingModelPort,
)
from artelier.tokens.estimate import estimate_media_tokens, estimate_tokens

SEND = "media:send"
"""The grant under which media leave this machine where personal data is looked for, since they are not
searched."""

TEXT_SENT = "application/pdf (its text was sent)"
"""What the record of a call says of a PDF that its model was given as text."""

_WORDS: dict[MediaKind, str] = {"image": "images", "audio": "sounds", "pdf": "PDFs", "text": "texts"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CallMedia:
    """The media of one call, ready to be sent."""

    contents: Mapping[str, bytes]
    """By reference: of those that are sent as they are."""
    texts: Mapping[str, str]
    """By reference: what is sent in place of a PDF."""
    size: MediaSize
    not_sent: tuple[str, ...] = ()
    """Of what was sent as text, in words for the record of the call."""

    async def load(self, medium: Medium) -> bytes:
        """Return the bytes of a medium of this call. Errors: `NotFound` for another one."""
        content = self.contents.get(medium.blob)
        if content is None:
            raise NotFound("this medium is none of the call at hand", got=medium.blob)
        return content

    def port_for(self, port: ModelPort) -> ModelPort:
        """Return the port of this call alone."""
        inner = port
        if self.contents and isinstance(port, MediaModelPort):
            inner = port.with_media(self.load)
        if not self.texts:
            return inner
        is_streaming = isinstance(inner, StreamingModelPort)
        return _StreamingTextPort(inner, self.texts) if is_streaming else _TextPort(inner, self.texts)


_NOTHING = CallMedia(contents={}, texts={}, size=NO_MEDIA_SIZE)


class _TextPort:
    """A port that is given the text of PDFs instead of PDFs."""

    def __init__(self, port: ModelPort, texts: Mapping[str, str]) -> None:
        self._port = port
        self._texts = texts

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        return await self._port.complete(self._with_texts(request))

    def _with_texts(self, request: ModelRequest) -> ModelRequest:
        messages = tuple([self._message(one) for one in request.messages])
        return msgspec.structs.replace(request, messages=messages)

    def _message(self, message: ChatMessage) -> ChatMessage:
        if isinstance(message.content, str):
            return message
        return msgspec.structs.replace(message, content=tuple([self._piece(one) for one in message.content]))

    def _piece(self, part: Part) -> Part:
        text = self._texts.get(medium_of(part).blob) if part.type == MEDIA else None
        return part if text is None else Part(text=text)


class _StreamingTextPort(_TextPort):
    """The same, of a port that streams."""

    def stream(self, request: ModelRequest, /) -> AsyncIterator[Delta | ModelReply]:
        return cast(StreamingModelPort, self._port).stream(self._with_texts(request))


async def inspect_for_model(contents: Sequence[bytes], *, model: str, port: ModelPort) -> list[MediaFacts]:
    """Return what a new run is shown, known to be such as its model takes.

    Errors: `MediaNotTaken`; `InvalidRequest` for too many or too large ones; `BrokenMedium`.
    """
    facts = await inspect_attachments(contents)
    rules = port.media_rules(model) if isinstance(port, MediaModelPort) else NO_MEDIA
    sent = [one for one in facts if one.header.media_type in rules.types or not one.text.strip()]
    _check_rules([one.to_medium() for one in sent], rules, model)
    return facts


def why_not_shown(
    core: RunCore, media: Sequence[Medium], *, model: str, shown: Sequence[Medium] = ()
) -> list[str]:
    """Return, for each medium, why a model is not shown it, in words; empty for one that it takes.

    `shown` are those that its prompt has already. A call that held one of the others would be refused.
    """
    name, port = core.services.model(core.model_override or core.replacement_of(model))
    price = price_for(core, name, port)
    rules = port.media_rules(name) if isinstance(port, MediaModelPort) else NO_MEDIA
    taken, found = list(shown), list[str]()
    for one in media:
        try:
            if not _goes_as_text(core, one, rules):
                _check_rules([one], rules, name)
                _check_rules([*(each for each in taken if each.media_type in rules.types), one], rules, name)
                if core.pii is not None and not core.may_use(SEND):
                    raise NotGranted(f"the run lacks the grant {SEND}, and nobody can look for personal data")
                if rules.bound(one) is None and _is_bounded(core, name, price):
                    raise PriceUnknown(f"nobody says how many tokens {name} counts for it")
        except ArtelierError as error:
            found.append(error.message)
        else:
            found.append("")
            taken.append(one)
    return found


def media_shown(parts: Sequence[PromptPart]) -> tuple[Medium, ...]:
    """Return the media that a prompt shows, each once. Cost: O(1) for a conversation that has none.

    Errors: `InvalidRequest` for a part that is malformed.
    """
    return tuple({medium.blob: medium for medium in _shown(parts)}.values())


def _shown(parts: Sequence[PromptPart]) -> Iterator[Medium]:
    for part in parts:
        if isinstance(part, RangePart):
            measure = part.measure
            is_known = measure is not None and measure.messages is part.messages
            if part.quote is not None or (is_known and measure is not None and not measure.media):
                continue
        yield from media_in(part.messages)


async def prepare_media(
    core: RunCore,
    parts: Sequence[PromptPart],
    *,
    model: str,
    port: ModelPort | None,
    price: Price | None,
    kept: Sequence[KeptMedium] = (),
    is_bounded: bool = False,
) -> CallMedia:
    """Return the media of a call that is made now; none in a replay, which has no `port`.

    `kept` are stored with the request itself. `is_bounded`: its caller limits what the call may cost.
    Errors: `MediaNotTaken` for what the model does not read; `NotGranted` without `media:send` where personal
    data is looked for; `PriceUnknown` for a bound that nobody knows, under a limit; `NotFound`, `Erased`.
    """
    media = () if port is None else media_shown(parts)
    if not media:
        return _NOTHING
    rules = port.media_rules(model) if isinstance(port, MediaModelPort) else NO_MEDIA
    as_text = {one.blob for one in media if _goes_as_text(core, one, rules)}
    sent = [one for one in media if one.blob not in as_text]
    _check_rules(sent, rules, model)
    if sent and core.pii is not None and not core.may_use(SEND):
        raise NotGranted(
            "personal data is looked for here, and nobody can look for it in images, sounds and scans",
            expected=f"the grant {SEND}",
            got=", ".join(sorted({one.media_type for one in sent})),
            hint="Nothing was sent. PDFs whose text can be read go as text without it.",
        )
    bounds = [rules.bound(one) for one in sent]
    if None in bounds and (is_bounded or _is_bounded(core, model, price)):
        unknown = sent[bounds.index(None)]
        raise PriceUnknown(
            f"nobody says how many tokens {model} counts for {unknown.media_type} at most, so nothing can be"
            " reserved for it",
            hint="Ask a model whose bound is known, or without a limit of money and tokens.",
        )
    held = {blob.name: blob.content for one in kept for blob in one.blobs}
    texts = {one.blob: await _text(core, one, held) for one in media if one.blob in as_text}
    contents = {one.blob: await _content(core, one.blob, one.size_bytes, held) for one in sent}
    return CallMedia(
        contents=contents,
        texts=texts,
        not_sent=(TEXT_SENT,) if any(one.kind == "pdf" and one.blob in as_text for one in media) else (),
        size=MediaSize(
            tokens=sum(map(estimate_media_tokens, sent)) + sum(map(estimate_tokens, texts.values())),
            tokens_max=sum(one or 0 for one in bounds) + sum(len(text.encode()) for text in texts.values()),
        ),
    )


def _goes_as_text(core: RunCore, medium: Medium, rules: MediaRules) -> bool:
    if medium.text is None:
        return False
    return medium.media_type not in rules.types or (core.pii is not None and not core.may_use(SEND))


def _is_bounded(core: RunCore, model: str, price: Price | None) -> bool:
    """Return True if a limit counts what the call uses."""
    units = {unit for _, unit in core.counted}
    if "tokens" in units or rate_tokens(core, model) is not None:
        return True
    is_free = price is not None and price == FREE
    return not is_free and ("usd" in units or source_for(core) == TENANT)


def _check_rules(media: Sequence[Medium], rules: MediaRules, model: str) -> None:
    """Errors: `MediaNotTaken` that names the model and what it takes; `InvalidRequest` for too much."""
    for one in media:
        if one.media_type not in rules.types:
            is_scan = one.kind == "pdf"
            raise MediaNotTaken(
                f"model {model} takes no {one.media_type}"
                + (", and this PDF has no text that could be sent instead" if is_scan else ""),
                expected=", ".join(sorted(rules.types)) or "text alone",
                got=one.media_type,
                hint="Nothing was sent or lost. Ask a model that takes it, or leave it out.",
            )
        _check_one(one, rules, model)
    total = sum(one.size_bytes for one in media)
    if total > CALL_BYTES_MAX or len(media) > min(rules.count_max, CALL_MEDIA_MAX):
        raise InvalidRequest(
            "too many media for one call",
            expected=f"at most {min(rules.count_max, CALL_MEDIA_MAX)} with {CALL_BYTES_MAX} bytes together",
            got=f"{len(media)} with {total} bytes",
        )
    pages = sum(one.pages or 0 for one in media)
    if rules.pages_max is not None and pages > rules.pages_max:
        raise InvalidRequest(f"too many pages of PDFs for {model}", expected=rules.pages_max, got=pages)


def _check_one(medium: Medium, rules: MediaRules, model: str) -> None:
    bytes_max = rules.bytes_max.get(medium.kind)
    if bytes_max is not None and medium.size_bytes > bytes_max:
        raise MediaNotTaken(
            f"model {model} takes {_WORDS[medium.kind]} of {bytes_max} bytes at most", got=medium.size_bytes
        )
    side = max(medium.pixels or (0,))
    if rules.side_pixels_max is not None and side > rules.side_pixels_max:
        raise MediaNotTaken(
            f"model {model} takes images of {rules.side_pixels_max} pixels a side at most", got=side
        )


async def _text(core: RunCore, medium: Medium, held: Mapping[bytes, bytes]) -> str:
    """Return what is sent in place of a PDF: data, between marks, as it was stored when it came in."""
    assert medium.text is not None
    content = await _content(core, medium.text, medium.text_bytes, held)
    if core.pii is not None:
        await core.pii.took(content)
    return fence(content.decode("utf-8", "replace"), source=medium.media_type)


async def _content(core: RunCore, ref: str, size_bytes: int, held: Mapping[bytes, bytes]) -> bytes:
    content = held.get(blob_name(ref))
    if content is None:
        try:
            content = await core.load(ref)
        except CorruptStore:
            raise NotFound(
                "a message names a medium that is not stored here",
                got=ref,
                hint="Attach it: `run.attach(content)`.",
            ) from None
    if len(content) != size_bytes:
        raise InvalidRequest(
            "a media part says another size than its content has", expected=len(content), got=size_bytes
        )
    return content
