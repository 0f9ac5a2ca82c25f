"""Events that go out: each is a run of the loop `webhook`, so it is delivered, or says why it was not.

The run `webhooks/<name>/<position>` is about the event at this position of the log. A worker finds what is
not delivered yet, and drives it: an attempt is a step of a tool, and between two attempts the run sleeps
durably. So a killed process, a receiver that is down for a day and a second worker all come to one delivery
under one id; a receiver that sees an id twice drops the second. What was sent and answered is in the log.

Payloads name things and say how they stand. They hold no content: a receiver that needs it asks the API.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from artelier.agents.loop_registry import BuiltIn, register_loop
from artelier.agents.run_config import agent_result
from artelier.errors import InvalidRequest, NotFound, RunStopped, RunSuspended, ToolFailed
from artelier.kernel import AgentResult, Run, run_row
from artelier.kernel.events import RunReopened
from artelier.kernel.queries.content import blob_json
from artelier.kernel.queries.runs import DueLook, begun_runs, run_ids_like
from artelier.kernel.run.context import is_final
from artelier.kernel.run.services import Services
from artelier.kernel.tenants.registry import TenantScope
from artelier.log import Event
from artelier.log.queries import stream_events
from artelier.ports.model import ToolSchema
from artelier.ports.tool import Risk, ToolContext
from artelier.ports.webhook import OutgoingWebhook
from artelier.tools.function import DaemonThreads
from artelier.webhooks.signed_requests import sign

LOOP = "webhook"
FOLDER = "webhooks"
TOOL = "deliver_webhook"

WAITS_S = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400)
"""Between attempts, as the specification recommends: the last is made 32 hours after the first."""
TIMEOUT_S = 20.0
BATCH_MAX = 100
"""Deliveries of a webhook that may wait to be begun."""
PAGE, PAGES_MAX = 500, 10
"""Events that one look reads."""
_PING_MARK = "-ping"
PING = "webhook.ping"
"""The first delivery of a webhook: it says that the address is known, and from where on events are sent."""

FIELDS = ("reason", "status", "key", "task", "scope", "unit", "decision", "by", "expires_us")
"""What a payload takes from an event: names, states and times."""

_threads = DaemonThreads()


class WebhookJob(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a delivery's run."""

    hook: str
    id: str
    """The `webhook-id`."""
    body: str
    """What is signed and sent, byte for byte."""


# Which events are not delivered yet


async def due(services: Services, look: DueLook) -> list[tuple[str, str]]:
    """Return deliveries that nobody has begun, as (tenant, run id), oldest first."""
    found: list[tuple[str, str]] = []
    for hook in services.webhooks:
        if look.tenant is None or look.tenant == hook.tenant:
            found += [(hook.tenant, run_id) for run_id in await _waiting(services, hook)]
    return found


async def _waiting(services: Services, hook: OutgoingWebhook) -> list[str]:
    """Return the deliveries of a webhook that wait; the next ones are looked for when all of them have begun.

    So none that was left behind lies further back than one batch.
    """
    state = services.webhook_looks.get(hook.name)
    after, waiting = await _start(services, hook) if state is None else state
    begun = await begun_runs(services.store, hook.tenant, waiting)
    waiting = [run_id for run_id in waiting if run_id not in begun]
    for _ in range(PAGES_MAX):
        if waiting:
            break
        page = await services.store.read_all(after=after, limit=PAGE, tenant=hook.tenant)
        found = [event for event in page if _is_sent(hook, event)][:BATCH_MAX]
        if len(found) == BATCH_MAX:
            after = found[-1].position
        elif page:
            after = page[-1].position
        ids = [_run_id(hook, event.position) for event in found]
        begun = await begun_runs(services.store, hook.tenant, ids)
        waiting = [run_id for run_id in ids if run_id not in begun]
        if len(page) < PAGE:
            break
    services.webhook_looks[hook.name] = (after, waiting)
    return waiting


async def _start(services: Services, hook: OutgoingWebhook) -> tuple[int, list[str]]:
    """Return from where on a process looks, and a ping for a webhook that has none."""
    prefix = f"{FOLDER}/{hook.name}/"
    known = await run_ids_like(services.store, hook.tenant, prefix, limit=BATCH_MAX)
    if known:
        return min(_position(run_id) for run_id in known), []
    head = (await services.store.root())[0]
    return head, [f"{_run_id(hook, head)}{_PING_MARK}"]


def _is_sent(hook: OutgoingWebhook, event: Event) -> bool:
    # Else each delivery would bring the next one.
    is_own = event.stream.local.startswith((f"run:{FOLDER}/", f"run:{FOLDER}-in/"))
    return hook.wants(event.kind) and not is_own


def _run_id(hook: OutgoingWebhook, position: int) -> str:
    return f"{FOLDER}/{hook.name}/{position:015d}"


def _position(run_id: str) -> int:
    """Return the position that a delivery is named after; -1 for what is none."""
    number = run_id.rpartition("/")[2].removesuffix(_PING_MARK)
    return int(number) if number.isdecimal() and number.isascii() and len(number) == 15 else -1


# One delivery


async def _begin(kernel: Any, tenant: Any, run_id: str, on_wait: str) -> AgentResult | None:
    """Start a delivery; None for a run that is none of a webhook of this kernel."""
    desk: TenantScope = kernel.for_tenant(tenant)
    folder, _, rest = run_id.partition("/")
    hook, position = find_webhook(desk, rest.partition("/")[0]), _position(run_id)
    if folder != FOLDER or hook is None or position < 0:
        return None
    if run_id.endswith(_PING_MARK):
        mark, body = str((await desk.services.store.root())[1].hex()), _ping(hook, desk)
    else:
        page = await desk.services.store.read_all(after=position - 1, limit=1, tenant=desk.id)
        if not page or page[0].position != position or not _is_sent(hook, page[0]):
            return None
        mark, body = page[0].hash.hex(), payload_of(page[0])
    digest = hashlib.sha256(f"{hook.name}:{run_id}:{mark}".encode()).hexdigest()[:32]
    job = WebhookJob(hook=hook.name, id=f"msg_{digest}", body=msgspec.json.encode(body).decode())
    return await _drive(desk, run_id, job, on_wait)


class Payload(msgspec.Struct, frozen=True):
    """The body of a delivery, as the specification has it."""

    type: str
    timestamp: str
    data: dict[str, Any]


def payload_of(event: Event) -> Payload:
    """Return what is sent of an event."""
    told = event.plain()
    kind, _, name = event.stream.local.partition(":")
    data: dict[str, Any] = {"tenant": event.stream.tenant, "position": event.position, "seq": event.seq}
    data["run_id" if kind == "run" else "stream"] = name if kind == "run" else event.stream.local
    data |= {field: told[field] for field in FIELDS if isinstance(told.get(field), str | int)}
    return Payload(event.kind, _time(event.at_us), data)


def _ping(hook: OutgoingWebhook, desk: TenantScope) -> Payload:
    data = {"tenant": desk.id, "webhook": hook.name, "events": list(hook.events)}
    return Payload(PING, _time(desk.services.clock.now_us()), data)


def _time(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1_000_000, UTC).isoformat().replace("+00:00", "Z")


def find_webhook(desk: TenantScope, name: str) -> OutgoingWebhook | None:
    """Return a webhook of this kernel that sends events of this tenant."""
    mine = (one for one in desk.services.webhooks if one.tenant == desk.id)
    return next((one for one in mine if one.name == name), None)


async def _drive(desk: TenantScope, run_id: str, job: WebhookJob, on_wait: str) -> AgentResult:
    if (hook := find_webhook(desk, job.hook)) is None:
        raise _no_webhook(job.hook)
    opened = desk.run(
        run_id,
        loop=LOOP,
        settings=msgspec.to_builtins(job),
        goal=f"deliver an event to {job.hook}",
        tools={TOOL: DeliveryTool(hook)},
        on_wait="suspend" if on_wait == "return" else on_wait,
        principal=f"webhook:{job.hook}",
    )
    with suppress(RunSuspended, RunStopped):  # how it stands is in the log
        async with opened as run:
            if not is_final(run.status):
                await deliver(run, job)
    return await agent_result(desk.services, desk.id, run_id)


async def deliver(run: Run, job: WebhookJob) -> None:
    """Try until the receiver takes it, says that it is gone, or the last wait is over; and once more for each
    time that somebody has reopened the run since.
    """
    error: dict[str, Any] | None = {}
    for attempt in range(len(WAITS_S) + 1):
        error = await _attempt(run, job, f"attempt-{attempt + 1}")
        if error is None:
            return
        if error.get("code") == GONE or attempt == len(WAITS_S):
            break
        await run.sleep(WAITS_S[attempt], key=f"wait-{attempt + 1}")
    for number in range(1, await _reopenings(run) + 1):
        if (error := await _attempt(run, job, f"retry-{number}")) is None:
            return
    run.fail("undelivered", str((error or {}).get("message", "")))


async def _reopenings(run: Run) -> int:
    store = run.core.services.store
    row = await run_row(store, run.tenant_id, run.id)
    return len(await stream_events(store, row.id, RunReopened.KIND))


async def _attempt(run: Run, job: WebhookJob, key: str) -> dict[str, Any] | None:
    """Return the error of an attempt; None if the receiver has taken it, which ends the run."""
    result = await run.step_tool(TOOL, {"id": job.id, "body": job.body}, key=key)
    if result.is_error:
        return result.value["error"]
    run.finish(result.value)
    return None


GONE = "webhook_gone"


class ReceiverGone(ToolFailed):
    """The receiver says that it wants nothing more of this webhook."""

    code = GONE


class DeliveryTool:
    """One attempt: it may be made again, as a receiver knows the id of what it has seen."""

    def __init__(self, hook: OutgoingWebhook) -> None:
        self.name = TOOL
        self.description = f"Deliver an event to the webhook {hook.name}."
        self.side_effect, self.idempotent = True, True
        self.grant: str | None = None
        self.timeout_s: float | None = TIMEOUT_S + 5
        self.heartbeat_timeout_s: float | None = None
        self.risk: Risk = "low"
        self.trust = "untrusted"
        self._hook = hook

    @property
    def schema(self) -> ToolSchema:
        text = {"type": "string"}
        parameters = {"type": "object", "properties": {"id": text, "body": text}, "required": ["id", "body"]}
        return ToolSchema(name=TOOL, description=self.description, parameters=parameters)

    @property
    def probe(self) -> None:
        """None: an attempt is simply made again."""
        return None

    def validate(self, arguments: object) -> dict[str, Any]:
        assert isinstance(arguments, dict), "only its own loop calls it"
        return dict(arguments)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - as above

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        """Return the receiver's status. Errors: `ToolFailed` for any but success; `ReceiverGone`."""
        body, now_s = arguments["body"].encode(), int(datetime.now(UTC).timestamp())
        headers = sign(
            body, id=arguments["id"], timestamp_s=now_s, secret=self._hook.secret, name=self._hook.name
        )
        status = await post(self._hook, body, headers)
        if status == 410:
            raise ReceiverGone("the receiver says that it is gone (410)")
        if not 200 <= status < 300:
            raise ToolFailed(f"the receiver answered {status}", expected="a status of 200 to 299")
        return {"status": status}


async def post(hook: OutgoingWebhook, body: bytes, headers: Mapping[str, str]) -> int:
    """Send a body to a webhook's address, and return the status. No redirect is followed.

    Errors: `ToolFailed` for an address that must not be called, for no answer, and for none in time.
    """
    import ssl  # takes longer than all of this module, and most kernels send nothing

    from artelier.tools.http_json import HostConnection, NotSent, ReplyCut
    from artelier.tools.http_rules import UnclearUrl, addresses_of, parse_url, system_resolver

    try:
        target = parse_url(hook.url)
    except UnclearUrl as error:
        raise ToolFailed(f"the URL of webhook {hook.name} {error}") from None
    sent = {
        "host": target.authority,
        "content-type": "application/json",
        "content-length": str(len(body)),
        "user-agent": "artelier",
        "accept-encoding": "gzip",
        "connection": "close",
        **headers,
    }
    try:
        async with asyncio.timeout(TIMEOUT_S):
            addresses = await _threads.run(
                lambda: addresses_of(target.host, target.port, private=hook.private, resolve=system_resolver)
            )
            line = HostConnection(target, addresses, ssl.create_default_context())
            try:
                reply = await _threads.run(lambda: line.exchange("POST", sent, body, timeout_s=TIMEOUT_S))
            finally:
                line.cut()
    except (NotSent, ReplyCut) as error:
        raise ToolFailed(error.message, got=error.got) from None
    except TimeoutError:
        raise ToolFailed(f"the receiver did not answer within {TIMEOUT_S:g} s") from None
    return reply.status


# As the worker knows it


def _no_webhook(name: str) -> InvalidRequest:
    return InvalidRequest(
        f"there is no webhook {name!r} here",
        expected=f"[webhooks.out.{name}] in artelier.toml, or Kernel.open(webhooks=[...])",
        hint="Give it back, or cancel the delivery.",
    )


async def _stored_job(desk: TenantScope, run_id: str) -> WebhookJob:
    row = await run_row(desk.services.store, desk.id, run_id)
    return msgspec.convert(await blob_json(desk.services, desk.id, row.settings), WebhookJob)


async def _resume(kernel: Any, tenant: Any, run_id: str, on_wait: str) -> AgentResult:
    desk: TenantScope = kernel.for_tenant(tenant)
    return await _drive(desk, run_id, await _stored_job(desk, run_id), on_wait)


async def _replay(run: Run, settings: dict[str, Any]) -> None:
    await deliver(run, msgspec.convert(settings, WebhookJob))


async def _needs(kernel: Any, tenant: Any, run_id: str) -> InvalidRequest | None:
    desk: TenantScope = kernel.for_tenant(tenant)
    try:
        job = await _stored_job(desk, run_id)
    except NotFound:
        return None
    return None if find_webhook(desk, job.hook) is not None else _no_webhook(job.hook)


def register() -> None:
    """Make deliveries known to workers. Idempotent."""
    register_loop(LOOP, BuiltIn(resume=_resume, replay=_replay, needs=_needs, due=due, begin=_begin))
