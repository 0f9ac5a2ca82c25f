"""The images, sounds, PDFs and texts that a question shows beside its words.

They stand in messages as those of agents do: what words came with and what artifacts hold beside the
question, what tools have shown behind it. Limits and errors are those of every model call.
Read next: `kernel/steps/call_media.py`, `loops/tool_media.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from artelier.artifacts.ref import Ref
from artelier.errors import InvalidRequest
from artelier.loops.tool_media import media_pieces, media_sections
from artelier.operations.kinds.contract import OperationCall, Problem, read_artifact
from artelier.operations.profile.definition import ID, ArtifactRef, Form
from artelier.ports.media import ATTACHMENTS_MAX, medium_of
from artelier.ports.model import ChatMessage, Part


class QuestionMedia(Form):
    """The media that a question shows; none unless said. A model that takes none such is not asked."""

    words: bool = False
    """What the person's newest words came with; of a step of an agent, what its task came with."""
    deps: tuple[Annotated[str, Field(pattern=ID)], ...] = Field(default=(), max_length=ATTACHMENTS_MAX)
    """Operations that this one depends on: what their tools have shown. What the model does not take is left
    out, and the question says why."""
    artifacts: tuple[ArtifactRef, ...] = Field(default=(), max_length=ATTACHMENTS_MAX)
    """Refs of artifacts that hold an image, a sound, a PDF or a text."""


def media_problems(media: QuestionMedia) -> Iterable[Problem]:
    for index, ref in enumerate(media.artifacts):
        try:
            Ref.parse(ref)
        except InvalidRequest as error:
            yield Problem(path=f"media.artifacts[{index}]", code="bad_ref", message=str(error))


def media_templates(media: QuestionMedia) -> Mapping[str, str]:
    """Return templates that read what is shown of other operations, by path.

    What an operation has shown is read like its value: of a dependency alone, and where prompts may show it.
    """
    return {f"media.deps[{index}]": f"{{{{ deps['{id_}'] }}}}" for index, id_ in enumerate(media.deps)}


async def media_beside(call: OperationCall[Any], media: QuestionMedia) -> list[Part]:
    """Return the pieces of the message that asks: what words came with, then artifacts.

    Errors: those of reading artifacts; `InvalidRequest` for one that holds no medium, `BrokenMedium`.
    """
    shown = [one.part for one in call.scope.attachments] if media.words else []
    for number, ref in enumerate(media.artifacts, 1):
        shown.append(await _attach(call, ref, key=f"attach-{number}"))
    return shown


async def _attach(call: OperationCall[Any], ref: str, *, key: str) -> Part:
    async def read() -> bytes:
        content = (await read_artifact(call, ref)).content
        if isinstance(content, str):
            return content.encode()
        if not isinstance(content, bytes):
            raise InvalidRequest(
                "this artifact can be shown to no model",
                expected="an image, a sound, a PDF or a text",
                got=f"{ref}: JSON",
                hint="Name it in the prompt, or read it with a tool.",
            )
        return content

    return await call.run.attach(read, key=key)


async def media_behind(
    call: OperationCall[Any], media: QuestionMedia, *, model: str, shown: Sequence[Part]
) -> list[ChatMessage]:
    """Return the message behind the one that asks, with what tools have shown; none if they showed nothing.

    `shown`: what stands beside the question, which counts towards the most that a call takes.
    """
    found = [named for id_ in media.deps for named in call.scope.shown_in_prompt(id_)]
    pieces = await media_pieces(call.run, found, model=model, shown=map(medium_of, shown), key="media")
    return [message for section in media_sections(pieces) for message in section.messages]
