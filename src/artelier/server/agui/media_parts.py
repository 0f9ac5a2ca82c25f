"""Parts of AG-UI messages that show an image, a sound or a file, in a person's words and in a tool's result.

What a person shows is checked at the door, where it can be said otherwise. A client's tool has run already:
its result is taken as that of any tool, so what cannot be shown of it is left out, and the result says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ag_ui import core as agui

from artelier.app import TenantKernel
from artelier.artifacts.media.inspection import MediaFacts, ShownMedia
from artelier.errors import InvalidRequest
from artelier.server.deps import attachments_of, medium_at
from artelier.server.openai_api.requests import InlineMedium, inline_medium, refuse
from artelier.server.wire.base import AttachmentAsk

MediaPart = agui.ImagePart | agui.AudioPart | agui.VideoPart | agui.DocumentPart


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerMedia:
    """The media of a tool's result."""

    shown: tuple[MediaFacts, ...] = ()
    notes: tuple[str, ...] = ()
    """A note on each part, for the model."""


def medium_of_part(part: MediaPart, *, param: str) -> AttachmentAsk | InlineMedium:
    """Return what a part shows, not decoded yet. Errors: `InvalidRequest`."""
    source = part.source
    if source.type == "data":
        return inline_medium(source.mime_type, source.value, param=param)
    if source.type == "url" and source.value:
        return medium_at(source.value, param=param)
    raise refuse(
        param,
        f"{part.type}: this server cannot read what another holds for you",
        expected="a source of type data, or of type url with a data URL or the ref of an artifact",
        got=source.type,
    )


async def read_result_media(desk: TenantKernel, actor: str, parts: Sequence[MediaPart]) -> AnswerMedia:
    """Return the media of a result, within the bounds of attachments.

    Errors: `NotFound`, `AccessDenied` of an artifact.
    """
    shown, notes = ShownMedia(), list[str]()
    for part in parts:
        try:
            one = medium_of_part(part, param="content")
            found = None if isinstance(one, InlineMedium) else await attachments_of(desk, actor, [one])
        except InvalidRequest as error:
            notes.append(f"left out: {error.message}")
            continue
        if isinstance(one, InlineMedium):
            notes.append(await shown.add_base64(one.encoded, media_type=one.media_type))
        elif found is not None:
            [content] = found
            notes.append(await shown.add(len(content), partial(bytes, content)))
    return AnswerMedia(shown=tuple(shown.facts), notes=tuple(notes))
