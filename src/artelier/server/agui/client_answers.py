"""The tools that a client of AG-UI brings with a request, and the answers to their calls: read and recorded.

A call of such a tool is a question of its run, `<key of the step>/ask/1`. Agents and missions take answers
through this one door.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import msgspec
from ag_ui import core as agui

from artelier.app import TenantKernel
from artelier.errors import InvalidRequest, NotFound
from artelier.kernel import run_row
from artelier.kernel.queries.steps import step_of
from artelier.server.agui.media_parts import MediaPart, read_result_media
from artelier.tools.client_tool import ClientTool, client_call, read_client_tools

PREFIX = "agui."
"""How the ids begin of what is made for a thread of AG-UI."""
ANSWER_BYTES_MAX = 256 * 1024
"""Of what a client says that its tool gave."""
_ASKED = "/ask/1"
"""What the key of a call's question ends with."""


def client_tools(asked: agui.RunAgentInput, taken: Collection[str]) -> list[ClientTool]:
    """Return the tools of a request. `taken`: names that mean another tool.

    Errors: `InvalidRequest` that names the tool.
    """
    definitions = [
        {"name": one.name, "description": one.description, "parameters": one.parameters}
        for one in asked.tools or []
    ]
    return read_client_tools(definitions, taken=taken)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAnswer:
    """The result of a client's tool, from a `tool` message of its request."""

    run_id: str
    question: str
    """Key of the question that it answers."""
    content: object
    error: str
    """Empty for a call that succeeded."""
    parts: tuple[MediaPart, ...] = ()
    """The images, sounds and files of the result."""


def answers_of(asked: agui.RunAgentInput, session: str) -> list[ClientAnswer]:
    """Return the answers at the end of a request; none if a person has spoken last.

    Errors: `InvalidRequest` for one that answers no call of this thread.
    """
    found: list[ClientAnswer] = []
    for message in reversed(asked.messages):
        if message.role != "tool":
            break
        run_id, mark, key = message.tool_call_id.partition("#")
        if not mark or not run_id.startswith(f"{session}/"):
            if found:  # of an earlier turn, which this server has the outcome of
                break
            raise InvalidRequest(
                "a tool message answers no call of this thread",
                expected="toolCallId as TOOL_CALL_START gave it",
                got=repr(message.tool_call_id)[:80],
            )
        found.append(
            ClientAnswer(
                run_id=run_id,
                question=f"{key}{_ASKED}",
                content=_content_of(message.content),
                error=(message.error or "")[:2_000],
                parts=_media_of(message.content),
            )
        )
    return list(reversed(found))


def _media_of(content: str | Sequence[agui.ContentPart]) -> tuple[MediaPart, ...]:
    return () if isinstance(content, str) else tuple(part for part in content if part.type != "text")


def _content_of(content: str | Sequence[agui.ContentPart]) -> object:
    """Return what a tool gave beside media: JSON as data, else its text.

    Errors: `InvalidRequest` if it is too large.
    """
    if not isinstance(content, str):
        content = "\n".join([part.text for part in content if part.type == "text"])
    raw = content.encode("utf-8", "replace")
    if len(raw) > ANSWER_BYTES_MAX:
        raise InvalidRequest(
            "the result of a client's tool is too large",
            expected=f"at most {ANSWER_BYTES_MAX} bytes",
            got=len(raw),
        )
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        return content


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCall:
    """A call of a client's tool that waits for its answer."""

    run_id: str
    step: str
    tool: str
    arguments: object

    @property
    def id(self) -> str:
        """The `toolCallId` that the client is told."""
        return f"{self.run_id}#{self.step}"


async def open_calls(desk: TenantKernel, run_ids: Iterable[str]) -> list[OpenCall]:
    """Return the calls of client tools that these runs wait for."""
    found: list[OpenCall] = []
    for run_id in dict.fromkeys(run_ids):
        for one in await desk.approvals(run_id):
            if call := client_call(one.get("details")):
                found.append(
                    OpenCall(
                        run_id=run_id,
                        step=one["step"].removesuffix(_ASKED),
                        tool=call["client_tool"],
                        arguments=call.get("arguments"),
                    )
                )
    return found


async def record_answers(
    desk: TenantKernel, answers: Sequence[ClientAnswer], open_: Sequence[OpenCall], *, by: str
) -> int:
    """Record answers to calls that are open, and return how many they are: each goes in once.

    A client that sends one again, because it did not hear of the end, changes nothing.
    Errors: `NotFound`, before anything is recorded, for an answer to nothing that was ever asked, and for an
    artifact that is not there; `AccessDenied` of one.
    """
    waiting = {f"{one.id}{_ASKED}" for one in open_}
    new: dict[str, ClientAnswer] = {}
    for answer in answers:
        await run_row(desk.services.store, desk.id, answer.run_id)
        if (question := f"{answer.run_id}#{answer.question}") in waiting:
            new.setdefault(question, answer)
        elif not await _was_asked(desk, answer):
            raise unknown_call(answer)
    given = [(one, await read_result_media(desk, by, one.parts)) for one in new.values()]
    for answer, shows in given:
        said: dict[str, object] = {"content": answer.content}
        if shows.notes:
            said["media"] = list(shows.notes)
        await desk.approve(
            answer.run_id,
            answer.question,
            deny=bool(answer.error),
            arguments=desk.services.escape_placeholders(desk.id, said),
            note=answer.error,
            media=shows.shown,
            by=by,
        )
    return len(new)


async def _was_asked(desk: TenantKernel, answer: ClientAnswer) -> bool:
    step = await step_of(desk.services.store, desk.id, answer.run_id, answer.question)
    return step is not None and step.kind == "approval"


def unknown_call(answer: ClientAnswer) -> NotFound:
    """Return the error for an answer that nothing waits for."""
    return NotFound(
        "no call of a client's tool waits for this answer",
        got=answer.question.removesuffix(_ASKED)[:120],
        hint="It may be answered already.",
    )
