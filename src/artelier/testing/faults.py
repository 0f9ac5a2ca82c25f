"""Ways in which a test server answers badly, late or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from artelier.models.scripted import PlainStep
from artelier.testing import openai_wire as wire


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A way to answer badly. Make one with a class method."""

    kind: Literal["answer", "reset", "truncated"]
    status_code: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    step: Any = None
    clean: bool = False
    """Of a truncated stream: whether HTTP says that it ended well."""

    @classmethod
    def status(
        cls,
        status_code: int,
        message: str = "scripted failure",
        *,
        error_type: str = "server_error",
        error_code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Fault:
        """An error of the API with its JSON error object."""
        return cls(
            kind="answer",
            status_code=status_code,
            body=json.dumps(wire.error(message, kind=error_type, code=error_code)).encode(),
            headers=tuple((headers or {}).items()),
        )

    @classmethod
    def rate_limited(cls, retry_after_s: float | None = None) -> Fault:
        return cls.status(
            429,
            "Rate limit reached",
            error_type="requests",
            error_code="rate_limit_exceeded",
            headers={} if retry_after_s is None else {"Retry-After": f"{retry_after_s:g}"},
        )

    @classmethod
    def context_too_long(cls) -> Fault:
        return cls.status(
            400,
            "This model's maximum context length is 128000 tokens.",
            error_type="invalid_request_error",
            error_code="context_length_exceeded",
        )

    @classmethod
    def reset(cls) -> Fault:
        """The connection is reset (RST) before any answer."""
        return cls(kind="reset")

    @classmethod
    def truncated(cls, step: PlainStep = "cut off in the middle of it", *, clean: bool = False) -> Fault:
        """The answer to `step` ends half way: a short body, or a stream without its end.

        `clean` ends a stream properly for HTTP, only without its second half.
        """
        return cls(kind="truncated", step=step, clean=clean)

    @classmethod
    def raw(
        cls,
        body: bytes,
        *,
        status_code: int = 200,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> Fault:
        """Exactly these bytes: garbage, a huge body, a wrong type, another provider's JSON."""
        return cls(
            kind="answer",
            status_code=status_code,
            body=body,
            headers=(("Content-Type", content_type), *(headers or {}).items()),
        )


class Slow(msgspec.Struct, frozen=True, kw_only=True):
    """Wait before answering with a step, and between the pieces of a stream."""

    step: Any
    delay_s: float = 0.0
    between_s: float = 0.0


ServerStep: TypeAlias = PlainStep | Fault | Slow


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it came over the wire."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: dict[str, Any]
