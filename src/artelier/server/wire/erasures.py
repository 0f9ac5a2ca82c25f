"""Erasures as the API shows them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from artelier.log.erasure.content_removal import SUBJECT_CHARS_MAX
from artelier.server.wire.models import CheckedRequestBody, Told

Subject = Annotated[str, Field(min_length=1, max_length=SUBJECT_CHARS_MAX)]


class ErasureAsked(CheckedRequestBody):
    """The data to preview for erasure."""

    subject: Subject | None = None
    """The subject of runs, or a value that the vault knows, in any spelling. Null: all of the tenant."""


class ErasureConfirmed(ErasureAsked):
    """The same, with the confirmation."""

    token: Annotated[str, Field(min_length=1, max_length=500)]
    """Of a preview of the same subject, by the same person."""


class ErasureShown(Told):
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
