"""Requests, answers and errors of A2A 1.0 over JSON-RPC, and the card that says so.

The records and error codes are those of the official SDK (`artelier[a2a]`); nothing else of it is used.
Import this module late: the records take a third of a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import msgspec
from a2a import types as a2a
from a2a.utils import errors as fault
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import Message

from artelier.errors import ArtelierError, Conflict, External, Flow, InvalidRequest, NotFound
from artelier.ids import VERSION
from artelier.server.errors import wire_of

PROTOCOL = "1.0"
ADDRESS = "/api/v1/a2a"
TEXT, DATA = "text/plain", "application/json"
MODES = (TEXT, DATA, "image/png", "image/jpeg", "image/webp", "image/gif", "application/pdf")
RPC_ID_CHARS_MAX = 200
SAID_CHARS_MAX = 400
TEXT_CHARS_MAX = 1_000_000
"""Of a text in the parameters, as a chat takes them."""
"""Of what a parser says about a request; more is a copy of the request."""

METHODS: dict[str, type[Message]] = {
    "SendMessage": a2a.SendMessageRequest,
    "SendStreamingMessage": a2a.SendMessageRequest,
    "GetTask": a2a.GetTaskRequest,
    "ListTasks": a2a.ListTasksRequest,
    "CancelTask": a2a.CancelTaskRequest,
    "SubscribeToTask": a2a.SubscribeToTaskRequest,
}
"""Methods that are answered, each with the record of its parameters."""
PUSHES = frozenset(
    (
        "CreateTaskPushNotificationConfig",
        "GetTaskPushNotificationConfig",
        "ListTaskPushNotificationConfigs",
        "DeleteTaskPushNotificationConfig",
    )
)
STREAMED = frozenset(("SendStreamingMessage", "SubscribeToTask"))

REFUSED = -32000
"""Code of a refusal that the protocol has no code for, as a spent budget: JSON-RPC leaves it to servers."""

ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"

EMPTY_PAGE: dict[str, Any] = {"tasks": [], "nextPageToken": "", "totalSize": 0}
"""The fields of every page of tasks; protobuf leaves out those that are empty."""

RpcId = str | int | None


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """The frame of a request; `params` are read by its method's record."""

    jsonrpc: str
    method: str
    id: str | int | None = None
    params: dict[str, Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRpc:
    """One request."""

    id: RpcId
    method: str
    params: Any
    """Of the record that `METHODS` names."""


class RpcRefused(Exception):
    """A request that is answered with an error, under its id."""

    def __init__(self, id: RpcId, error: fault.A2AError | ArtelierError) -> None:
        super().__init__(str(error))
        self.id = id
        self.error = error


def read_request(body: bytes) -> AskedRpc:
    """Return the request of a body. Errors: `RpcRefused`."""
    try:
        plain: object = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise RpcRefused(None, fault.JSONParseError("the body is no JSON")) from None
    given: object = cast("dict[str, object]", plain).get("id") if isinstance(plain, dict) else None
    is_id = (
        isinstance(given, int | str) and not isinstance(given, bool) and len(str(given)) < RPC_ID_CHARS_MAX
    )
    id = cast(RpcId, given) if is_id else None
    try:
        envelope = msgspec.convert(plain, Envelope)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise RpcRefused(
            id, fault.InvalidRequestError(f"no request of JSON-RPC: {error}"[:SAID_CHARS_MAX])
        ) from None
    if envelope.jsonrpc != "2.0" or envelope.id != id:
        raise RpcRefused(id, fault.InvalidRequestError('expected jsonrpc "2.0", and a short id'))
    if envelope.method in PUSHES:
        raise RpcRefused(id, fault.PushNotificationNotSupportedError())
    if envelope.method == "GetExtendedAgentCard":
        raise RpcRefused(id, fault.ExtendedAgentCardNotConfiguredError())
    record = METHODS.get(envelope.method)
    if record is None:
        named = ", ".join(METHODS)
        raise RpcRefused(id, fault.MethodNotFoundError(f"there is no such method; expected one of {named}"))
    if (size_chars := _longest_text(envelope.params)) > TEXT_CHARS_MAX:
        said = f"params: expected texts of at most {TEXT_CHARS_MAX:,} characters, got {size_chars:,}"
        raise RpcRefused(id, fault.InvalidParamsError(said))
    try:
        params = ParseDict(envelope.params, record(), ignore_unknown_fields=True)
    except (
        ParseError,
        ValueError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:  # as its C code has it
        said = str(error).encode("utf-8", "replace").decode()[:SAID_CHARS_MAX]
        raise RpcRefused(id, fault.InvalidParamsError(f"params: {said}")) from None
    return AskedRpc(id=id, method=envelope.method, params=params)


def _longest_text(value: object) -> int:
    """Return the length of the longest `text` of a part: its reader holds the interpreter until its end."""
    longest, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            fields = cast("dict[str, object]", one)
            text = fields.get("text")
            longest = max(longest, len(text) if isinstance(text, str) else 0)
            waiting.extend(fields.values())
        elif isinstance(one, list):
            waiting.extend(cast("list[object]", one))
    return longest


def check_version(version: str) -> None:
    """Errors: `VersionNotSupportedError`; without a header a client speaks 0.3, as the specification says."""
    if version.split(".")[:2] != PROTOCOL.split("."):
        raise fault.VersionNotSupportedError(
            f"this server speaks A2A {PROTOCOL}, expected the header A2A-Version: {PROTOCOL}"
        )


def plain_of(record: Message) -> dict[str, Any]:
    """Return a record as the JSON of the protocol has it."""
    plain = MessageToDict(record)
    is_page = isinstance(record, a2a.ListTasksResponse)
    return {**EMPTY_PAGE, **plain} if is_page else plain


def result_body(id: RpcId, result: Message) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": id, "result": plain_of(result)})


def error_body(refused: RpcRefused) -> bytes:
    """Return the answer to a request that is refused: the protocol's code, and ours in `data`."""
    error = refused.error
    if isinstance(error, ArtelierError):
        code, told = _code_of(error), wire_of(error)["error"]
        reason, message = str(told["code"]).upper(), str(told["message"])
        facts = {name: str(told[name]) for name in ("expected", "got", "hint") if told.get(name) is not None}
        domain = "artelier"
    else:
        code, message, facts = fault.JSON_RPC_ERROR_CODE_MAP.get(type(error), REFUSED), error.message, {}
        reason, domain = fault.A2A_ERROR_REASONS.get(type(error), "INVALID_REQUEST"), "a2a-protocol.org"
    info = {"@type": ERROR_INFO, "reason": reason, "domain": domain, "metadata": facts}
    return msgspec.json.encode(
        {"jsonrpc": "2.0", "id": refused.id, "error": {"code": code, "message": message, "data": [info]}}
    )


def _code_of(error: ArtelierError) -> int:
    codes = fault.JSON_RPC_ERROR_CODE_MAP
    if isinstance(error, NotFound):
        return codes[fault.TaskNotFoundError]
    if isinstance(error, InvalidRequest):
        return codes[fault.InvalidParamsError]
    if isinstance(error, Conflict):
        return codes[fault.UnsupportedOperationError]
    return codes[fault.InternalError] if isinstance(error, External) else REFUSED


def refusal_of(id: RpcId, error: fault.A2AError | ArtelierError | Flow) -> RpcRefused:
    """Return the refusal that an error is, also that of a run which a person holds."""
    if isinstance(error, Flow):
        error = Conflict(str(error), hint="Raise its limit or resume it, and ask again.")
    return RpcRefused(id, error)


def agent_card(base_url: str) -> bytes:
    """Return the public card: how to speak to this server, and nothing of what its tenants have."""
    bearer = a2a.SecurityScheme(
        http_auth_security_scheme=a2a.HTTPAuthSecurityScheme(
            scheme="Bearer", description="A token of `artelier token new`, or of the file of users."
        )
    )
    card = a2a.AgentCard(
        name="Artelier",
        description="An agent whose work is durable: tasks survive a crash, and every call is on record.",
        version=VERSION,
        supported_interfaces=[
            a2a.AgentInterface(
                url=f"{base_url.rstrip('/')}{ADDRESS}", protocol_binding="JSONRPC", protocol_version=PROTOCOL
            )
        ],
        capabilities=a2a.AgentCapabilities(
            streaming=True, push_notifications=False, extended_agent_card=False
        ),
        security_schemes={"bearer": bearer},
        security_requirements=[a2a.SecurityRequirement(schemes={"bearer": a2a.StringList(list=[])})],
        default_input_modes=list(MODES),
        default_output_modes=list(MODES),
        skills=[
            a2a.AgentSkill(
                id="task",
                name="Work on a task",
                description="Takes words, and images and PDFs that its model reads; uses the server's tools.",
                tags=["agent", "tools"],
                examples=["Which three regions sold most in Q3?"],
            )
        ],
    )
    return msgspec.json.encode(plain_of(card))
