"""Every refusal of the server in one shape: `{"error": {code, message, expected, got, hint}}`.

    401 not_signed_in, webhook_refused   403 refused, access_denied, ...     404 not_found
    405 method_not_allowed       408 too_slow                        413 too_large
                                 409 conflict, exhausted, ...
    422 invalid_request, ...     429 too_many_attempts, ...          502 external
    503 store_unavailable, queue_full    507 quota_reached           500 internal, corrupt

What failed inside is told to the server's own log. The answer holds no trace, no path, no text of an
exception that nobody wrote for people.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Match

from artelier.errors import (
    ArtelierError,
    Conflict,
    ContextTooLong,
    Corrupt,
    Exhausted,
    External,
    InvalidRequest,
    MissingKey,
    ModelRefusedCall,
    NotFound,
    QueueFull,
    QuotaReached,
    RateLimited,
    Refused,
    StoreUnavailable,
    TooManyAtOnce,
    TransientError,
    UnknownModel,
)
from artelier.pii.scrubber_registry import marked_wire
from artelier.sandbox.protocol import SandboxError
from artelier.webhooks.signed_requests import WebhookRefused

logger = logging.getLogger("artelier.server")


class NotSignedIn(Refused):
    code = "not_signed_in"


class TooLarge(InvalidRequest):
    code = "too_large"


class TooSlow(InvalidRequest):
    code = "too_slow"


class TooManyAttempts(Exhausted):
    """`retry_after_s` says when to try again."""

    code = "too_many_attempts"


class MethodNotAllowed(InvalidRequest):
    code = "method_not_allowed"


STATUSES: tuple[tuple[type[ArtelierError], int], ...] = (
    (NotSignedIn, 401),
    (WebhookRefused, 401),
    (TooLarge, 413),
    (TooSlow, 408),
    (TooManyAttempts, 429),
    (MethodNotAllowed, 405),
    (RateLimited, 429),
    (TooManyAtOnce, 429),
    (QuotaReached, 507),
    (QueueFull, 503),
    (StoreUnavailable, 503),
    (InvalidRequest, 422),
    (NotFound, 404),
    (Conflict, 409),
    (Refused, 403),
    (Exhausted, 409),
    (MissingKey, 422),  # the request named a model that this server cannot ask
    (External, 502),
    (SandboxError, 422),
    (Corrupt, 500),
    (ArtelierError, 409),  # of no family: code of the host or of an artifact failed, not the server
)
"""The first that an error belongs to counts."""

FIELDS_MAX = 10
"""Of a broken request that are named."""


def status_of(error: ArtelierError) -> int:
    return next((status for kind, status in STATUSES if isinstance(error, kind)), 500)


def wire_of(error: ArtelierError) -> dict[str, Any]:
    """The body of an answer. What the store says may name files: of that only the code leaves."""
    if isinstance(error, StoreUnavailable):
        told = StoreUnavailable("the store cannot be used now", hint="Try again in a moment.")
        return {"error": {**told.to_wire(), "code": error.code}}
    if isinstance(error, Corrupt):
        told = Corrupt(
            "stored data is not what was written",
            hint="The server's log says which; `artelier verify` names all damage.",
        )
        return {"error": {**told.to_wire(), "code": error.code}}
    told = marked_wire(error.to_wire())
    if mistakes := error.facts.get(
        "profile_mistakes"
    ):  # each with its path, as `/profiles/validate` has them
        told["errors"] = marked_wire(mistakes)
    return {"error": told}


class _ErrorResponse(JSONResponse):
    """Says what it is about even where that is no Unicode: JSON lets half a character through."""

    def render(self, content: object) -> bytes:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")


def answer_of(error: ArtelierError) -> JSONResponse:
    status = status_of(error)
    if status >= 500:
        logger.error("%s: %s", error.code, error)
    headers = {"Cache-Control": "no-store"}
    if (wait_s := error.facts.get("retry_after_s")) is not None:
        headers["Retry-After"] = str(max(1, round(wait_s)))
    if allowed := error.facts.get("allow"):
        headers["Allow"] = allowed
    return _ErrorResponse(wire_of(error), status_code=status, headers=headers)


# OpenAI's shape


OPENAI = "/v1/"
"""Addresses of the face that speaks as OpenAI does."""

OPENAI_STATUSES: tuple[tuple[type[ArtelierError], int, str, str], ...] = (
    (NotSignedIn, 401, "invalid_request_error", "invalid_api_key"),
    (UnknownModel, 404, "invalid_request_error", "model_not_found"),
    (ContextTooLong, 400, "invalid_request_error", "context_length_exceeded"),
    (RateLimited, 429, "rate_limit_error", "rate_limit_exceeded"),
    (TooManyAtOnce, 429, "rate_limit_error", "rate_limit_exceeded"),
    (QueueFull, 503, "server_error", "server_overloaded"),
    (MethodNotAllowed, 405, "invalid_request_error", ""),
    (Exhausted, 429, "insufficient_quota", "insufficient_quota"),
    (InvalidRequest, 400, "invalid_request_error", ""),
    (ModelRefusedCall, 400, "invalid_request_error", ""),
    (Refused, 403, "permission_error", ""),
)
"""The first that an error belongs to: status, type and code. Others keep theirs."""


def openai_error(error: ArtelierError) -> tuple[int, dict[str, Any]]:
    """Return status and body of an error as OpenAI's clients read it; what only we know is in the message."""
    found = next((one for one in OPENAI_STATUSES if isinstance(error, one[0])), None)
    own = wire_of(error)["error"]
    status, kind, code = found[1:] if found is not None else (status_of(error), "", "")
    expected = f"; expected {own['expected']}" if own["expected"] is not None else ""
    got = f", got {own['got']}" if own["got"] is not None else ""
    said = f"{own['message']}{expected}{got}".rstrip(".")
    told = {
        "message": f"{said}. {own['hint'] or ''}".strip(),
        "type": kind or ("server_error" if status >= 500 else "invalid_request_error"),
        "param": error.facts.get("param"),
        "code": code or own["code"],
    }
    return status, {"error": told}


def _openai_answer(error: ArtelierError) -> JSONResponse:
    status, body = openai_error(error)
    answer = answer_of(error)
    passing = isinstance(error, TransientError | TooManyAtOnce | QueueFull | StoreUnavailable)
    kept = ("Cache-Control", "Retry-After", "Allow")
    headers = {name: answer.headers[name] for name in kept if name in answer.headers}
    # Without this their clients ask twice more, also for what no second try changes.
    headers["X-Should-Retry"] = "true" if passing else "false"
    return _ErrorResponse(body, status_code=status, headers=headers)


def answer_at(path: str, error: ArtelierError) -> JSONResponse:
    """Return the answer in the shape of the address that was asked."""
    return _openai_answer(error) if path.startswith(OPENAI) else answer_of(error)


def internal() -> JSONResponse:
    """The answer to what nobody expected; call it where the exception was logged."""
    wire = {
        "code": "internal",
        "message": "something went wrong in the server",
        "expected": None,
        "got": None,
        "hint": "The server's log has the details.",
    }
    return JSONResponse({"error": wire}, status_code=500)


def _misfit(error: RequestValidationError) -> InvalidRequest:
    """Field paths and what was expected of each. What came is not repeated: it may be anything."""
    found = list(error.errors())
    named = [f"{'.'.join(str(step)[:80] for step in one['loc'])}: {one['msg']}" for one in found[:FIELDS_MAX]]
    more = f" and {len(found) - FIELDS_MAX} more" if len(found) > FIELDS_MAX else ""
    return InvalidRequest(
        "the request does not fit: " + "; ".join(named)[:2000] + more,
        hint="/api/v1/openapi.json describes every request.",
    )


PROGRAMS = ("/api/", "/v1/", "/.well-known/")
"""Addresses of programs: what is not there is said in JSON, and never by a page."""

PAGES = "/{path:path}"
"""The route of pages, which stands behind all others and takes every address."""


def missing_address(request: Request) -> ArtelierError:
    """Return what is wrong with an address of programs that no route takes: it, or the method alone."""
    others = [one for one in request.app.router.routes if getattr(one, "path", "") != PAGES]
    near = [one for one in others if one.matches(request.scope)[0] is Match.PARTIAL]
    if near:
        return _wrong_method(sorted({name for one in near for name in one.methods}))
    return NotFound("there is no such address", hint="/api/v1/openapi.json lists those there are.")


def _wrong_method(allowed: Iterable[str]) -> MethodNotAllowed:
    return MethodNotAllowed("this address does not take that method", allow=", ".join(allowed))


def _of_router(error: HTTPException, request: Request) -> ArtelierError:
    """Return what the framework refuses before a route is reached."""
    if error.status_code in (404, 405) and f"{request.url.path}/".startswith(PROGRAMS):
        return missing_address(request)
    if error.status_code == 404:
        return NotFound("there is no such address")
    if error.status_code == 405:
        return _wrong_method(("GET", "HEAD"))  # of pages
    if error.status_code == 413:
        return TooLarge("the body is too large")
    return InvalidRequest("the request cannot be read", expected="a body of the announced type")


def install(app: FastAPI) -> None:
    """Let an app answer every error in the one shape."""

    async def ours(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, ArtelierError)
        return answer_at(request.url.path, error)

    async def misfit(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return answer_at(request.url.path, _misfit(error))

    async def of_router(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        return answer_at(request.url.path, _of_router(error, request))

    app.add_exception_handler(ArtelierError, ours)
    app.add_exception_handler(RequestValidationError, misfit)
    app.add_exception_handler(HTTPException, of_router)
