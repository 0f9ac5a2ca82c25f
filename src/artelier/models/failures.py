"""The failure of a call as one of our errors. No message ever holds a key.

Imported only after a call has failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import httpx2
from pydantic_ai import exceptions as vendor

from artelier.errors import (
    ArtelierError,
    ContextTooLong,
    External,
    ModelRefusedCall,
    ModelReplyBroken,
    ModelTimeout,
    ProviderUnavailable,
    RateLimited,
)
from artelier.models.http_client import REPLY_BYTES_MAX, ReplyCutOff, ReplyTooLarge

_DETAIL_CHARS = 400

_TOO_LONG = (
    "context length",
    "context window",
    "context_length_exceeded",
    "prompt is too long",
    "input is too long",
    "reduce the length of the messages",
    "input token count",
)
"""How providers word an overflow; most send no code of its own for it."""

_QUOTA = ("insufficient_quota", "billing_hard_limit_reached", "credit balance is too low")
"""A 429 (or 400) that no waiting cures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFacts:
    """The facts of a call that errors may name, and the secret that they must not."""

    model: str
    key_name: str
    """The environment variable that holds the key."""
    secret: str
    timeout_s: float

    def __repr__(self) -> str:
        return f"Call(model={self.model!r})"

    def redact(self, text: str) -> str:
        """One line, shortened, without the key."""
        text = text.replace(self.secret, "[key]") if len(self.secret) > 5 else text
        return " ".join(text.split())[:_DETAIL_CHARS]


def failure_of(error: Exception, call: CallFacts) -> ArtelierError:
    """Our error for whatever a vendor's code raised during a call.

    An exception that nobody foresaw is a reply that could not be read: by then the request had been
    mapped and sent, and only the reply is left to surprise.
    """
    if isinstance(error, ArtelierError):
        return error
    if (broken := _body_failure(error, call)) is not None:
        return broken
    match error:
        case vendor.ModelHTTPError():
            return _http_failure(error, call)
        case vendor.ModelTimeoutError() | vendor.ModelRequestTimeout() | TimeoutError():
            return timeout_of(call)
        case vendor.ModelConnectionError() | httpx2.TransportError():
            return ProviderUnavailable(
                f"{call.model} could not be reached: {call.redact(str(error)).rstrip('.')}",
                hint="Check the network and the base URL; the call is retried.",
            )
        # A warning arrives here if Python was told to make errors of them.
        case vendor.UserError() | Warning():
            return ModelRefusedCall(f"{call.model} cannot do this: {call.redact(str(error))}")
        case vendor.ModelAPIError(in_stream=True):
            return ProviderUnavailable(f"{call.model} broke off its stream: {call.redact(str(error))}")
        case _ if _is_redirect(error):
            return ModelRefusedCall(
                f"{call.model} redirects to another place, where the key will not be sent",
                hint="Set the base URL to the final address.",
            )
        case _:
            return ModelReplyBroken(
                f"the reply of {call.model} could not be read",
                expected="a complete reply of its API",
                got=f"{type(error).__name__}: {call.redact(str(error))}",
            )


def timeout_of(call: CallFacts) -> ModelTimeout:
    return ModelTimeout(
        f"{call.model} did not answer within {call.timeout_s:g} seconds",
        hint="Raise the parameter timeout_s if the model needs longer.",
    )


def _body_failure(error: Exception, call: CallFacts) -> ArtelierError | None:
    for cause in _chain(error):
        if isinstance(cause, ReplyTooLarge):
            return External(
                f"the reply of {call.model} is too large",
                expected=f"at most {REPLY_BYTES_MAX} bytes",
                got="more; the rest was not read",
                hint="Lower max_output_tokens, or look at what the server sends.",
                answered=True,
            )
        if isinstance(cause, ReplyCutOff):
            return ModelReplyBroken(
                f"the reply of {call.model} was cut off: {call.redact(str(cause))}",
                expected="a complete reply",
                got="a part of one",
            )
    return None


def _is_redirect(error: Exception) -> bool:
    return any(300 <= getattr(cause, "status_code", 0) < 400 for cause in _chain(error))


def _http_failure(error: vendor.ModelHTTPError, call: CallFacts) -> ArtelierError:
    status, detail = error.status_code, call.redact(_detail(error))
    wording = f"{detail} {getattr(error, 'provider_error_code', '')}".lower()
    retry_after_s = error.retry_after
    if status in (401, 403):
        return ModelRefusedCall(
            f"{call.model} refused the key (HTTP {status})",
            hint=f"Check {call.key_name}: it may be wrong, expired, or not allowed this model.",
        )
    if status in (400, 413, 422) and any(words in wording for words in _TOO_LONG):
        return ContextTooLong(
            f"the prompt does not fit {call.model}: {detail}",
            hint="Compact the conversation or choose a model with a larger window.",
        )
    if isinstance(error, vendor.ModelQuotaExceededError) or any(q in wording for q in _QUOTA):
        return ModelRefusedCall(
            f"the account behind {call.key_name} has no quota left: {detail}",
            hint="Check the plan and the billing of the provider; waiting does not help.",
        )
    if status == 429:
        return RateLimited(f"{call.model} is rate limited: {detail}", retry_after_s=retry_after_s)
    if status == 408:
        return timeout_of(call)
    if status >= 500 or status in (409, 425):
        return ProviderUnavailable(
            f"{call.model} is unavailable (HTTP {status}): {detail}", retry_after_s=retry_after_s
        )
    hint = "Check the name of the model and the base URL." if status == 404 else None
    return ModelRefusedCall(f"{call.model} refused the call (HTTP {status}): {detail}", hint=hint)


def _detail(error: vendor.ModelHTTPError) -> str:
    """The provider's own words, wherever its error object keeps them."""
    body: object = error.body
    for _ in range(3):
        if not isinstance(body, Mapping):
            break
        fields = cast(Mapping[str, Any], body)
        body = fields.get("message") or fields.get("error") or fields.get("detail")
    if isinstance(body, str) and body:
        return body
    return "no explanation given" if body is None else str(body)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception and what it was raised from, at most ten deep."""
    current: BaseException | None = error
    for _ in range(10):
        if current is None:
            return
        yield current
        current = current.__cause__ or current.__context__
