"""The step cycle that every mode shares, and the control of a loop's run from any process.

What differs between modes is in `Parts`, never in the loop. A loop of its own adds the drive itself and
what came of it.

Media that tools return beside data, such as images, stand in a message of their own behind all results of a
cycle, which every provider takes; whoever judges the work is shown them in the same form. What a model does
not take is left out, with the reason in words: no run ends of a picture.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from artelier.context.assembly import Section
from artelier.context.builder import shipped_text
from artelier.errors import ArtelierError, InvalidRequest, LeaseHeld, NotFound, RunSuspended, StoreUnavailable
from artelier.kernel import ModelResult, Prompt, Run, RunCore, Services, run_row
from artelier.kernel.history.fork_lineage import lineage
from artelier.kernel.prompt.conversation import Conversation
from artelier.kernel.queries.content import blob_json
from artelier.kernel.queries.runs import is_imported
from artelier.kernel.run.context import is_final
from artelier.kernel.run.crash_recovery import park
from artelier.kernel.run.status import ToolResult
from artelier.kernel.steps.call_media import why_not_shown
from artelier.ports.media import Medium, media_in, media_line
from artelier.ports.model import ChatMessage, Part

StateT = TypeVar("StateT")
ActionT = TypeVar("ActionT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[ActionT]):
    """The outcome of an action. `value` is None for a reply that acts on nothing."""

    value: ActionT | None = None


Hook = Callable[[StateT], Awaitable[StateT]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts(Generic[StateT, ActionT]):
    """One mode of the cycle: each part is a function of the state, and journals what it does."""

    assemble: Callable[[StateT], Awaitable[Prompt]]
    model: Callable[[StateT, Prompt], Awaitable[ModelResult]]
    act: Callable[[StateT, ModelResult], Awaitable[Outcome[ActionT]]]
    transition: Callable[[StateT, ModelResult | None, Outcome[ActionT]], Awaitable[StateT]]
    commit: Callable[[StateT], None]
    reflex: Callable[[StateT], Awaitable[Outcome[ActionT] | None]] | None = None
    """May act before any model is asked; then the cycle asks none."""
    before: tuple[Hook[Any], ...] = field(default=())
    after: tuple[Hook[Any], ...] = field(default=())


async def cycle(state: StateT, parts: Parts[StateT, ActionT]) -> StateT:
    """One cycle: reflex, operations before, prompt, model, action, operations after, transition, commit.

    Errors: whatever a part raises; nothing of an unfinished cycle is committed as finished.
    """
    result: ModelResult | None = None
    outcome = await parts.reflex(state) if parts.reflex is not None else None
    if outcome is None:
        for hook in parts.before:
            state = await hook(state)
        prompt = await parts.assemble(state)
        result = await parts.model(state, prompt)
        outcome = await parts.act(state, result)
    for hook in parts.after:
        state = await hook(state)
    state = await parts.transition(state, result, outcome)
    parts.commit(state)
    return state


JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")

WORKSPACE_DENIED = "the workspace is outside of the folder of its tenant"
"""Why a run is paused whose workspace is outside of its tenant's folder."""

HTTP_JSON = "http_json"
"""The tool of the settings' own servers, which a run over a workspace has if it is on."""

BRING_TOOLS = (
    "Give what it was started with: `--tools FILE`, `--skills DIR`, or the folder of its `.mcp.json`;"
    " or resume it from the program that started it."
)

OWN_PROGRAM = "Resume it from the program that started it, or give its tools: `--tools FILE`."
"""Of a run without a workspace, whose tools nobody has said to be of a file."""

HELD_LOOK_S, HELD_LOOKS_MAX = 0.5, 240
"""Another process drives the child: its lease is over after half a minute without a sign of life."""


async def read_recorded_job(
    services: Services,
    tenant: str,
    run_id: str,
    *,
    loop: str,
    job: Callable[[Any], JobT],
    other: Callable[[str], ArtelierError],
) -> JobT | None:
    """Return what a run was asked to do, as `job` makes it of settings; None if it never began.

    Errors: what `other` makes of the name of another loop.
    """
    try:
        row = await run_row(services.store, tenant, run_id)
    except NotFound:
        return None
    if row.loop != loop:
        raise other(row.loop or "own code")
    return job(await blob_json(services, tenant, row.settings))


async def has_ended(services: Services, tenant: str, run_id: str) -> bool:
    """Return True if a run is over; one that never began is not."""
    with suppress(NotFound):
        return is_final((await run_row(services.store, tenant, run_id)).status)
    return False


async def is_open(services: Services, tenant: str, run_id: str) -> bool:
    """Return True if a run exists and has no end yet."""
    with suppress(NotFound):
        return not is_final((await run_row(services.store, tenant, run_id)).status)
    return False


async def go(services: Services, tenant: str, run_id: str, drive: Awaitable[None]) -> str:
    """Drive a run as far as it goes: how it stands then is in the log. The text is of what ended it.

    Errors: whatever `drive` raises while the log has no end of the run; Flow is the caller's to judge.
    """
    try:
        await drive
    except ArtelierError as error:
        with suppress(ArtelierError):
            if await has_ended(services, tenant, run_id):
                return str(error)  # the failure is the run's result, not the caller's
        raise
    return ""


async def when_free(core: RunCore, drive: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Drive a child of the run of `core`, waiting while another process holds it; what came of it.

    Errors: `LeaseHeld` if that does not let go; those of `drive`.
    """
    for _ in range(HELD_LOOKS_MAX - 1):
        try:
            return await drive()
        except LeaseHeld:  # the process that drove it may just have died
            await core.rest(HELD_LOOK_S)
    return await drive()


async def go_below(core: RunCore, run_id: str, drive: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Drive a child as `when_free` does, where the child's end is the outcome of a call.

    Errors: `RunSuspended` if the child has not ended, whatever went wrong: then there is no outcome yet that
    the parent could record for its call. If the child has ended or never existed, whatever `drive` raises.
    """
    services, tenant = core.services, core.tenant.id

    async def once() -> ResultT:
        try:
            return await drive()
        except LeaseHeld:
            raise
        except ArtelierError as error:
            # A store that fails says nothing of the child, whether it had begun or not.
            is_store = isinstance(error, StoreUnavailable)
            if not is_store and not await is_open(services, tenant, run_id):
                raise
            reason = f"{error.code} in {run_id}"
            raise RunSuspended(core.run_id, status="pending", reason=reason) from error

    try:
        return await when_free(core, once)
    except LeaseHeld as held:
        raise RunSuspended(core.run_id, status="pending", reason=f"held: {run_id}") from held


async def check_origin(services: Services, tenant: str, run_id: str, *, what: str, hint: str) -> None:
    """Errors: `InvalidRequest` if a file from elsewhere would decide which files of this machine are used."""
    for place in await lineage(services, tenant, run_id):
        if await is_imported(services.store, tenant, place.run_id):
            raise InvalidRequest(
                f"{what} {run_id!r} comes from an imported file, which names files of this machine", hint=hint
            )


async def check_workspace(services: Services, tenant: str, run_id: str, workspace: str) -> None:
    """Park a run whose stored workspace is not its tenant's.

    Errors: `RunSuspended` once it is parked, with `WORKSPACE_DENIED` as its reason.
    """
    if not workspace or not services.workspaces.is_denied(tenant, workspace):
        return
    if await park(services, tenant, run_id, reason=WORKSPACE_DENIED):
        raise RunSuspended(run_id, status="paused", reason=WORKSPACE_DENIED)


def host_tools(services: Services) -> tuple[str, ...]:
    """Return the names of the tools that this kernel was given: a new run over a workspace has them too."""
    return tuple(name for name in services.tools if name != HTTP_JSON)


def check_host_tools(services: Services, names: Iterable[str], *, what: str, hint: str = BRING_TOOLS) -> None:
    """Errors: `InvalidRequest` if a run was started with tools that this process was not given."""
    missing = [name for name in names if name not in services.tools]
    if missing:
        raise InvalidRequest(
            f"the tools of {what} come from code that is not loaded here",
            got=", ".join(missing)[:300],
            hint=hint,
        )


async def check_tools(
    services: Services, tenant: str, run_id: str, *, tools: str | None, own: Collection[str], what: str
) -> None:
    """Errors: `InvalidRequest` if the run saw a tool that only its own program has.

    `tools`: the ref of what it saw. `own`: those that its loop brings itself.
    """
    listed: list[dict[str, Any]] = await blob_json(services, tenant, tools) or []
    names = [str(item["name"]) for item in listed if item["name"] not in own]
    check_host_tools(services, names, what=f"{what} {run_id!r}", hint=OWN_PROGRAM)


async def code_missing(
    services: Services,
    tenant: str,
    run_id: str,
    *,
    what: str,
    workspace: str,
    own: Collection[str],
    hint: str,
    host_tools: Sequence[str] = (),
) -> InvalidRequest | None:
    """Return why only the program that started a run can go on with it; None if anybody can.

    `what` the run is, for people. `own`: tools that its loop brings itself. `host_tools`: those of the kernel
    that it was started with over its workspace. Errors: `NotFound`.
    """
    try:
        if workspace:
            await check_origin(services, tenant, run_id, what=what, hint=hint)
            check_host_tools(services, host_tools, what=f"{what} {run_id!r}")
        else:
            row = await run_row(services.store, tenant, run_id)
            await check_tools(services, tenant, run_id, tools=row.tools, own=own, what=what)
    except InvalidRequest as error:
        return error
    return None


WHY_CHARS_MAX = 300


def media_sections(pieces: Sequence[Mapping[str, Any]]) -> list[Section]:
    """Return what `media_pieces` gave as a part of a prompt that has it in no conversation."""
    if not pieces:
        return []
    message = ChatMessage(role="user", content=tuple(msgspec.convert(one, Part) for one in pieces))
    return [
        Section(tag="tool_media", messages=(message,), trust="untrusted", priority=40, sources=("tools",))
    ]


def media_of_results(results: Iterable[tuple[str, ToolResult]]) -> list[tuple[str, Medium]]:
    """Return what tools have shown, with the name that each was called by."""
    return [(name, medium) for name, result in results for medium in result.media]


def media_before(conversation: Conversation, *, first: int = 1) -> Iterator[Medium]:
    """Yield the media of a conversation, from the first message on that prompts hold."""
    yield from media_in(conversation.messages(first, len(conversation)))


async def media_pieces(
    run: Run, media: Sequence[tuple[str, Medium]], *, model: str, shown: Iterable[Medium] = (), key: str
) -> list[dict[str, Any]]:
    """Return the pieces of a message that show what tools have returned; none if they showed nothing.

    `media` stand with the name that each tool was called by. `shown`: what the prompt holds beside them,
    which counts towards the most that a call takes; read only if there are some. The choice is journaled
    under `key`.
    """
    if not media:
        return []
    there = list(shown)

    def choose() -> list[str]:
        found = why_not_shown(run.core, [one for _, one in media], model=model, shown=there)
        return [why[:WHY_CHARS_MAX] for why in found]

    reasons = await run.step("media", choose, key=key)
    lines = [shipped_text("artelier.loops", "tool-media-1"), ""]
    for number, ((name, medium), why) in enumerate(zip(media, reasons, strict=True), 1):
        left_out = f": left out, since {why}" if why else ""
        lines.append(f"{number}. {name[:80]} {media_line(medium)}{left_out}")
    pieces: list[dict[str, Any]] = [{"type": "text", "text": "\n".join(lines)}]
    pieces += [
        msgspec.to_builtins(medium.part) for (_, medium), why in zip(media, reasons, strict=True) if not why
    ]
    return pieces
