"""Wire models of the server itself: sign-in, events and erasures."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

from artelier.log.blobs import SUBJECT_CHARS_MAX
from artelier.ports.tool import Risk
from artelier.server.security.users import Role
from artelier.server.wire.base import RequestBody, ResponseModel


class UserShown(ResponseModel):
    """Somebody who may sign in."""

    name: str
    role: Role
    tenants: list[str]
    """Those of the user that the asking admin has too."""


class LagShown(ResponseModel):
    """The lag of the event loop behind its timers: every tenant waits that long."""

    p99_ms: int
    """Of the last minute, as the next is."""
    max_ms: int
    worst_ms: int
    """The largest since the server began."""


class ServerShown(ResponseModel):
    """The settings that this server was started with."""

    version: str
    model: str
    """Of whatever names none."""
    database: str
    """Name of the file, without its folder."""
    workspace: str
    """Name of the folder that the tools of new missions work on; empty for none."""
    has_worker: bool
    """Whether it drives runs that nobody else drives."""
    upload_bytes_max: int
    """Of one request with files."""
    models: dict[str, bool]
    """Each provider that needs a key, and whether the server has one."""
    lag: LagShown
    users: list[UserShown] | None
    """Those of the tenant, for an admin of it; null for others, and if nobody has to sign in by name."""


class ToolShown(ResponseModel):
    """A tool that runs of this server may be given."""

    name: str
    description: str
    source: str
    """`artelier` for a shipped one, `mcp:<name>` for one of an MCP server, else `program`."""
    risk: Risk
    """From which risk on a person approves each call, says the policy."""
    grant: str
    """The grant that a run needs for it."""
    side_effect: bool
    idempotent: bool
    """Whether a call may be repeated under one key."""
    parameters: dict[str, Any]
    """JSON Schema of its arguments."""


class Me(BaseModel):
    """The user of this session, and what it may be about."""

    name: str
    role: str = Field(description="viewer, operator or admin; each may do what those before it may.")
    actor: str = Field(description="How the log names this user.")
    tenant: str = Field(description="The tenant that requests are about.")
    tenants: list[str] = Field(description="Those that may be chosen, by the header X-Artelier-Tenant.")
    csrf_token: str | None = Field(
        description="Goes into X-CSRF-Token with every change; null for programs with a token."
    )
    features: list[str]
    version: str


class Login(RequestBody):
    """A name and a password."""

    user: str = Field(min_length=1, max_length=64)
    password: str = Field(min_length=1, max_length=1000)


class Choice(RequestBody):
    """A person's choices for the session."""

    tenant: str = Field(min_length=1, max_length=64)


class SignedIn(BaseModel):
    """A session has begun; its cookie came with the answer."""

    name: str


class SignedOut(BaseModel):
    """The session has ended."""

    signed_out: bool = True


class EventOut(ResponseModel):
    """One fact. Fields of `data` that hold their default are left out."""

    position: int = Field(description="Its place in the log; goes into `after`.")
    stream: str = Field(description="Such as run:m1/figures, artifact:notes, world:w, tenant:t.")
    space: str = Field(description="main, or world:<id>.")
    seq: int
    kind: str
    at_us: int = Field(description="In a world's stream the tick.")
    actor: str
    cause: str | None
    data: dict[str, Any]
    texts: dict[str, str] = Field(description="Content that fields of data name, shortened.")


class EventPage(BaseModel):
    items: list[EventOut]
    next: int | None = Field(description="Goes into `after`; null at the end of the log.")
    head: int = Field(description="Position of the newest event of the store.")


Subject = Annotated[str, Field(min_length=1, max_length=SUBJECT_CHARS_MAX)]


class ErasureAsked(RequestBody):
    """The data to preview for erasure."""

    subject: Subject | None = None
    """The subject of runs, or a value that the vault knows, in any spelling. Null: all of the tenant."""


class ErasureConfirmed(ErasureAsked):
    """The same, with the confirmation."""

    token: Annotated[str, Field(min_length=1, max_length=500)]
    """Of a preview of the same subject, by the same person."""


class ErasureShown(ResponseModel):
    """The data that was erased, or would be."""

    tenant: str
    whole: bool
    """Everything of the tenant."""
    keys: int
    contents: int
    size_bytes: int
    """Of the contents before compression."""
    values: int
    """Values of personal data that the vault forgets."""
    runs: list[str]
    """Runs of the subject, at most a hundred; empty for a whole tenant."""
    again: bool
    """It had been erased before: only its traces in the file are looked after."""
    cleaned: bool
    """No byte of it is left in the file."""
    not_reached: list[str] = ["exports", "backups", "reports"]
    """Files of their own: what was written into them before is still there."""


class ErasurePreview(ErasureShown):
    """A preview of an erasure, with the token that confirms it."""

    token: str
    """Goes into the request that erases."""
    until_us: int
    """Until when the token holds."""
