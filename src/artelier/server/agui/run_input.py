"""A request of AG-UI: what it says, what it wishes, and who answers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from ag_ui import core as agui
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from artelier.app import TenantKernel
from artelier.chat.session.session import Session
from artelier.chat.session.settings import check_chat, said_text
from artelier.errors import InvalidRequest
from artelier.server.agui.client_answers import PREFIX
from artelier.server.agui.media_parts import medium_of_part
from artelier.server.deps import attachments_of

RUN_CHARS_MAX = 200
"""Of a client's name for its run."""


class Wishes(BaseModel):
    """The accepted keys of `forwardedProps`; all other keys are ignored."""

    model_config = ConfigDict(extra="ignore", use_attribute_docstrings=True)

    model: str | None = Field(default=None, min_length=1, max_length=200)
    """The model to ask; without it that of the chat, else the server's."""
    profile: str | None = Field(default=None, max_length=200)
    """Of a chat: the operations around its replies."""
    agent: bool | None = None
    """True: an agent answers, with its own tools and the client's. None: if the client brings tools."""
    mission: bool = False
    """True: the person's words are a goal, and become a mission; its tasks have the client's tools, too."""
    launch: bool = False
    """True: the plan of a new mission is launched without a question to a person."""
    budget_usd: str | None = Field(default=None, max_length=40)
    """The most that a turn of an agent, or a mission, may spend."""


INPUT_SCHEMA = "AgUiRunAgentInput"
"""The name of what `read_input` reads, among the schemas of the OpenAPI document."""


def input_schemas(refs: str) -> dict[str, dict[str, Any]]:
    """Return the schemas of a request by name, with references that begin with `refs`."""
    prefix = INPUT_SCHEMA.removesuffix(agui.RunAgentInput.__name__)
    template = refs + prefix + "{model}"
    schemas: dict[str, dict[str, Any]] = {}
    for model in (agui.RunAgentInput, Wishes):
        schema = model.model_json_schema(by_alias=True, ref_template=template)
        found: dict[str, Any] = {**schema.pop("$defs", {}), model.__name__: schema}
        for name, one in found.items():
            one.pop("title", None)  # its name
            if model is agui.RunAgentInput:
                one.pop("description", None)  # the protocol's own words, for who writes a library of it
            schemas[prefix + name] = one
    wishes = {"$ref": refs + prefix + Wishes.__name__}
    schemas[INPUT_SCHEMA]["properties"]["forwardedProps"] = {"anyOf": [wishes, {"type": "null"}]}
    return schemas


def read_input(body: bytes) -> agui.RunAgentInput:
    """Errors: `InvalidRequest` that names what is wrong, and not what came."""
    try:
        return agui.RunAgentInput.model_validate_json(_upgrade(body))
    except ValidationError as error:
        raise _misfit(error, "the body is no RunAgentInput") from None


def _upgrade(body: bytes) -> bytes:
    """Return a body with the media parts of AG-UI 1.0 in place of the `binary` parts of clients before it."""
    if b'"binary"' not in body:
        return body
    try:
        asked: Any = msgspec.json.decode(body)
        for message in asked["messages"]:
            if isinstance(message.get("content"), list):
                message["content"] = [_upgraded(part) for part in message["content"]]
        return msgspec.json.encode(asked)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, LookupError, TypeError, AttributeError):
        return body  # it does not fit either way, and the validation says why


def _upgraded(part: Any) -> Any:
    if part["type"] != "binary":
        return part
    media_type: str = part["mimeType"]
    kind = media_type.partition("/")[0]
    for name, source in (("data", "data"), ("url", "url"), ("id", "file")):
        if value := part.get(name):
            given = {"type": source, "value": value, "mimeType": media_type}
            return {"type": kind if kind in ("image", "audio", "video") else "document", "source": given}
    return part


def _misfit(error: ValidationError, what: str) -> InvalidRequest:
    named = [
        f"{'.'.join(str(step)[:80] for step in one['loc'])}: {one['msg']}"
        for one in error.errors(include_input=False, include_url=False)[:10]
    ]
    return InvalidRequest(f"{what}: " + "; ".join(named)[:1000], expected="RunAgentInput of AG-UI 1.0")


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidContent:
    """The last thing that the person said, and what they show with it."""

    words: str
    attachments: tuple[bytes, ...] = ()


def words_of(asked: agui.RunAgentInput) -> str:
    """Return the words of the last thing that the person said. Errors: `InvalidRequest` for none."""
    return said_text("\n".join([one.text for one in _parts_of(asked) if one.type == "text"]))


async def read_said(desk: TenantKernel, actor: str, asked: agui.RunAgentInput) -> SaidContent:
    """Return the last thing that the person said, with the content of what they show.

    Errors: `InvalidRequest` for no words, and for a part that is taken nowhere; those of `attachments_of`.
    """
    words = words_of(asked)
    place = f"messages.{len(asked.messages) - 1}.content"
    shown = [
        medium_of_part(one, param=f"{place}.{number}")
        for number, one in enumerate(_parts_of(asked))
        if one.type != "text"
    ]
    return SaidContent(words=words, attachments=tuple(await attachments_of(desk, actor, shown)))


def _parts_of(asked: agui.RunAgentInput) -> list[agui.ContentPart]:
    said = asked.messages[-1] if asked.messages else None
    if said is None or said.role != "user":
        raise InvalidRequest("nobody has said anything", expected="a user message at the end")
    return [agui.TextPart(text=said.content)] if isinstance(said.content, str) else said.content


def wishes_of(asked: agui.RunAgentInput) -> Wishes:
    """Return what a request wishes beside its words. Errors: `InvalidRequest`."""
    if len(asked.run_id) > RUN_CHARS_MAX:
        raise InvalidRequest(
            "runId is too long", expected=f"at most {RUN_CHARS_MAX} characters", got=len(asked.run_id)
        )
    try:
        wishes = Wishes.model_validate(asked.forwarded_props or {})
    except ValidationError as error:
        raise _misfit(error, "forwardedProps") from None
    if wishes.agent and wishes.profile:
        raise InvalidRequest("an agent has no profile here", expected="either agent or profile", got="both")
    if wishes.mission and (wishes.agent or wishes.profile):
        other = "agent" if wishes.agent else "profile"
        raise InvalidRequest("a mission is no turn", expected=f"either mission or {other}", got="both")
    return wishes


async def is_for_agent(desk: TenantKernel, asked: agui.RunAgentInput, wishes: Wishes) -> bool:
    """Return True if an agent answers: by wish, or for a client with tools whose thread is no chat."""
    if wishes.agent is not None:
        return wishes.agent
    if any(one.interrupt_id.startswith(f"{PREFIX}{asked.thread_id}/") for one in asked.resume or []):
        return True
    if not asked.tools or wishes.profile is not None:
        return False
    return not await Session(desk, check_chat(asked.thread_id), branch="main").exists()
