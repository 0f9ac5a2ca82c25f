"""The result of an upload."""

from __future__ import annotations

from typing import Literal

from artelier.server.wire.models import Told


class Uploaded(Told):
    """One file, stored as an artifact."""

    id: str
    version: int
    kind: Literal["document", "dataset"]
    media: Literal["text", "json", "bytes"]
    size_bytes: int
    """Of the file as it came."""
    name: str
    """The name that it came with, made harmless."""
    is_new: bool
    """False if the same file was there already."""


class Uploads(Told):
    """All files of one request, in their order."""

    items: list[Uploaded]
