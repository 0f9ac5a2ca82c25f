"""Signed requests that come in: a signal or a message for a run, or a goal to plan.

Each is a run `webhooks-in/<name>/<digest of its id>` of one step. So it stands in the log who asked for what,
and a request that is sent again under its id, after an answer that was lost too, does nothing again.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol

import msgspec

from artelier.errors import Conflict, InvalidRequest, NotFound, Refused
from artelier.ids import check_run_id
from artelier.kernel import run_row
from artelier.kernel.queries.runs import find_run
from artelier.kernel.run.context import is_final
from artelier.kernel.tenants.registry import TenantScope
from artelier.log import EventData
from artelier.ports.webhook import IncomingWebhook, secret_key

# Signatures of the Standard Webhooks specification (https://www.standardwebhooks.com), version `v1`.

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"

TOLERANCE_S = 300
"""The greatest age of a signed request, or lead of its clock: as in the specification's own libraries."""

SIGNATURES_MAX = 16
"""Of one request: a sender that changes its secret signs with two."""

_ID = re.compile(r"[!-~]{1,256}")
_TIME = re.compile(r"[0-9]{1,12}")


class WebhookRefused(Refused):
    """The request is not signed as its webhook wants it; nothing was done."""

    code = "webhook_refused"


def sign(body: bytes, *, id: str, timestamp_s: int, secret: str, name: str = "") -> dict[str, str]:
    """Return the three headers of a body. Errors: `InvalidConfig` for a secret that is none."""
    digest = _digest(body, id=id, timestamp=str(timestamp_s), key=secret_key(secret, name=name))
    return {ID: id, TIMESTAMP: str(timestamp_s), SIGNATURE: f"v1,{digest}"}


def verify(
    body: bytes, headers: Mapping[str, str], *, secrets: Iterable[str], now_s: int, name: str = ""
) -> str:
    """Return the id of a signed request. `headers`: their names in lower case.

    Errors: `WebhookRefused` for a missing or broken header, a time outside of `TOLERANCE_S`, and a signature
    of none of the secrets. It does not say which part of a signature differs.
    """
    id, timestamp = headers.get(ID, ""), headers.get(TIMESTAMP, "")
    given = headers.get(SIGNATURE, "").split(" ")[:SIGNATURES_MAX]
    if not _ID.fullmatch(id) or not _TIME.fullmatch(timestamp) or not any(given):
        raise WebhookRefused(
            "the request is not signed",
            expected=f"the headers {ID}, {TIMESTAMP} (seconds since 1970) and {SIGNATURE}",
        )
    if abs(now_s - int(timestamp)) > TOLERANCE_S:
        raise WebhookRefused(
            "the signature is not of now",
            expected=f"a {TIMESTAMP} within {TOLERANCE_S} seconds of this server's clock",
            got=timestamp,
            hint="Sign it again, under the same id.",
        )
    is_good = False
    for secret in secrets:
        wanted = _digest(body, id=id, timestamp=timestamp, key=secret_key(secret, name=name)).encode()
        for one in given:
            version, _, digest = one.partition(",")
            # Each is compared, so that the time says nothing of which one was good.
            is_good |= version == "v1" and hmac.compare_digest(wanted, digest.encode("utf-8", "replace"))
    if not is_good:
        raise WebhookRefused(
            "the signature does not fit the request",
            expected="HMAC-SHA256 over <id>.<timestamp>.<body> with this webhook's secret, as v1,<base64>",
            hint="Sign the body as it is sent, byte for byte.",
        )
    return id


def _digest(body: bytes, *, id: str, timestamp: str, key: bytes) -> str:
    signed = f"{id}.{timestamp}.".encode() + body
    return base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


FOLDER = "webhooks-in"

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=20_000)]


class SignalAsked(
    msgspec.Struct, frozen=True, kw_only=True, tag="signal", tag_field="action", forbid_unknown_fields=True
):
    """Data for the next `wait_for(name)` of a run."""

    run_id: Name
    name: Name
    data: Any = None


class MessageAsked(
    msgspec.Struct, frozen=True, kw_only=True, tag="message", tag_field="action", forbid_unknown_fields=True
):
    """A text that a run is told before its next step."""

    run_id: Name
    text: Text


class GoalAsked(
    msgspec.Struct, frozen=True, kw_only=True, tag="goal", tag_field="action", forbid_unknown_fields=True
):
    """A goal that is taken apart into a plan; a person launches it."""

    goal: Text
    budget_usd: str | None = None


Asked = SignalAsked | MessageAsked | GoalAsked

_decode = msgspec.json.Decoder(Asked).decode
_ACTIONS: Mapping[type[Asked], str] = {SignalAsked: "signal", MessageAsked: "message", GoalAsked: "goal"}


class CommandScope(TenantScope, Protocol):
    """The kernel bound to a tenant, as far as requests from outside steer its runs."""

    async def signal(
        self,
        run_id: str,
        name: str,
        data: object = None,
        *,
        by: str = ...,
        request: str = ...,
        is_repeat: bool = ...,
    ) -> EventData: ...

    async def inject(
        self, run_id: str, note: str, *, by: str = ..., request: str = ..., is_repeat: bool = ...
    ) -> EventData: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedWebhook:
    """The outcome of a request."""

    id: str
    """Its `webhook-id`."""
    run_id: str
    """The run that records it."""
    status: Literal["accepted", "duplicate"]
    mission: str | None = None
    """Of a goal: the mission that plans it."""


PlanGoal = Callable[[str, GoalAsked], Awaitable[None]]
"""`(mission, asked)`: begin to plan a goal under this id; nothing if that has begun already."""


async def receive(
    desk: CommandScope, hook: IncomingWebhook, body: bytes, headers: Mapping[str, str], *, plan_goal: PlanGoal
) -> ReceivedWebhook:
    """Do what a signed request asks for, once.

    Errors: `WebhookRefused` before anything is read of the body; `InvalidRequest` for a body that does not
    fit; `NotFound`, `Conflict` for a run that is not there or has ended; what refused the goal, the signal or
    the message. The same request may come again then. `LeaseHeld` while it is being worked on.
    """
    now_s = desk.services.clock.now_us() // 1_000_000
    id = verify(body, headers, secrets=hook.secrets, now_s=now_s, name=hook.name)
    asked = _read(hook, body)
    digest = hashlib.sha256(id.encode()).hexdigest()[:32]
    run_id = f"{FOLDER}/{hook.name}/{digest}"
    mission = f"webhook-{hook.name}-{digest[:12]}" if isinstance(asked, GoalAsked) else None
    known = await find_run(desk.services.store, desk.id, run_id)
    if known is not None and is_final(known.status) and known.status != "failed":
        return ReceivedWebhook(id=id, run_id=run_id, status="duplicate", mission=mission)
    if not isinstance(asked, GoalAsked):
        await _check_target(desk, asked.run_id)
    by = f"webhook:{hook.name}"
    if known is not None and known.status == "failed":  # refused before: it is tried anew
        with suppress(Conflict):  # by somebody else as well
            await desk.retry(run_id, by=by)

    async def act() -> dict[str, Any]:
        if isinstance(asked, GoalAsked):
            assert mission is not None, "it was made of the request above"
            await plan_goal(mission, asked)
        else:
            # Had the server died behind the command, before this run recorded it: it is not given twice.
            await _command(desk, asked, by=by, request=run_id, is_repeat=known is not None)
        return {"action": _ACTIONS[type(asked)], "mission": mission}

    async with desk.run(run_id, principal=by, goal=f"a request of the webhook {hook.name}") as run:
        if not is_final(run.status):
            run.finish(await run.step("act", act, key="act"))
    return ReceivedWebhook(id=id, run_id=run_id, status="accepted", mission=mission)


async def _command(
    desk: CommandScope, asked: SignalAsked | MessageAsked, *, by: str, request: str, is_repeat: bool
) -> None:
    """Give a run its signal or its message."""
    if isinstance(asked, SignalAsked):
        data = desk.services.escape_placeholders(desk.id, asked.data)
        await desk.signal(asked.run_id, asked.name, data, by=by, request=request, is_repeat=is_repeat)
    else:
        await desk.inject(asked.run_id, asked.text, by=by, request=request, is_repeat=is_repeat)


def _read(hook: IncomingWebhook, body: bytes) -> Asked:
    """Return what a body asks for. Errors: `InvalidRequest`."""
    try:
        if hook.signal:
            return SignalAsked(run_id=hook.run, name=hook.signal, data=msgspec.json.decode(body))
        asked = _decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        expected = "a JSON value" if hook.signal else f'{{"action": ...}} with {" or ".join(hook.actions)}'
        raise InvalidRequest("the body does not fit", expected=expected, got=str(error)[:200]) from None
    action = _ACTIONS[type(asked)]
    if action not in hook.actions:
        raise InvalidRequest(
            f"webhook {hook.name} takes no {action}", expected=" or ".join(hook.actions), got=str(action)
        )
    return asked


async def _check_target(desk: TenantScope, run_id: str) -> None:
    """Errors: `NotFound`; `Conflict` for a run that has ended."""
    try:
        check_run_id(run_id)
    except InvalidRequest:
        raise NotFound(f"no run {run_id[:80]!r}") from None
    row = await run_row(desk.services.store, desk.id, run_id)
    if is_final(row.status):
        raise Conflict(f"run {run_id!r} has ended", expected="a run that goes on", got=row.status)
