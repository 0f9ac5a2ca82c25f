"""The signed-in person."""

from __future__ import annotations

from pydantic import BaseModel, Field

from artelier.server.wire.base import RequestBody


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
