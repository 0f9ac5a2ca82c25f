"""The state at the start of a turn: read from the chat once, and afterwards from the run's own record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from artelier.chat.turn.turn_config import GROUP_RULES, TurnJob
from artelier.errors import RunEnded
from artelier.kernel import Renderer, Run, run_row
from artelier.kernel.queries.steps import find_step
from artelier.log import Blob, BlobRef, decode_stored, make_blob
from artelier.operations import events as ev
from artelier.operations.graph.scope import Art, ArtState, Version
from artelier.operations.profile.operation_profile import OperationProfile
from artelier.operations.profile.profile_reader import parse_with_content, parsed_content
from artelier.ports.model import ChatMessage
from artelier.threads import in_turns

if TYPE_CHECKING:
    from artelier.chat.queries.tree import NodeState

SAID_AT_ONCE = 50
"""Messages that a turn reads, or takes into its conversation, before others have their turn: some 2 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnInputs:
    """The chat, its artifacts and the profile as a turn finds them."""

    settings: dict[str, Any]
    """Of the chat: `user`, `char`, `system`, ..."""
    profile: OperationProfile | None
    state: ArtState
    marks: dict[str, tuple[int, int]]
    turn: int
    tokens: int
    base_run: str
    base_shown: int
    said: tuple[ChatMessage, ...]
    """Messages after those of the base run."""
    said_before: tuple[ChatMessage, ...]
    """The newest messages of the base run."""
    said_last: str
    """The reply that a `continue` goes on from; empty otherwise."""
    speaker: str = ""
    """The member of a group that writes the reply; empty in a chat without one."""
    members: tuple[str, ...] = ()
    """Names of a group, in order."""

    def first_shown(self, first: int, *, last: int, job: TurnJob) -> int:
        """Return which message a prompt begins with that has room for those from `first` to `last`.

        A history that is cut begins with words of the person, if that leaves at least half of it.
        """
        if first <= 1 or job.card_rules < GROUP_RULES:
            return first
        known = [*self.said_before, *self.said]
        before = self.base_shown + len(self.said) - len(known)  # messages that nobody has read
        for number in range(first, first + (last - first + 1) // 2 + 1):
            at = number - before - 1
            if at >= len(known) or (at >= 0 and known[at].role == "user"):
                return number
        return first


async def find(run: Run, job: TurnJob, desk: Any, *, key: str) -> tuple[ev.SessionRead, list[Blob]]:
    """The event that keeps all of it. Errors: `NotFound`; `RunEnded` in a replay that has none."""
    if desk is None:
        raise RunEnded(f"run {run.id} ended before it had read its chat")
    from artelier.chat.queries.tree import stand
    from artelier.operations.profile.store import read_profile

    core, blobs = run.core, list[Blob]()
    stood = await stand(
        core.store,
        run.tenant_id,
        job.chat,
        node=job.node,
        scope=job.scope,
        trigger=job.trigger,
        now_us=core.started_us,
        is_named=bool(job.speaker),
    )
    profile = None
    if job.profile:
        stored, _ = await read_profile(desk, job.profile, by=job.principal or "operator")
        # Many turns share it: it is no part of the record that goes with one of them.
        profile, blob = make_blob(run.tenant_id, core.shared_key, parse_with_content(stored)[1])
        blobs.append(blob)
    said: list[BlobRef] = []
    for message in stood.said:
        content = message.canonical()
        if core.key.scrub is not None:
            await core.key.scrub.prepare(content)
        ref, blob = core.keep(content)
        said.append(ref)
        blobs.append(blob)
    event = ev.SessionRead(
        key=key,
        settings=stood.settings,
        profile=profile,
        base_run=stood.base_run,
        base_shown=stood.base_shown,
        said=tuple(said),
        artifacts=stood.artifacts,
        marks=dict(stood.marks),
        turn=stood.turn,
        tokens=stood.tokens,
    )
    return event, blobs


async def inputs_unread(run: Run, job: TurnJob, desk: Any) -> tuple[OperationProfile, NodeState] | None:
    """Return the profile and the state that a turn would go on from; None if the run has read them.

    Errors: those of reading a profile.
    """
    from artelier.chat.queries.tree import stand
    from artelier.operations.profile.store import read_profile

    core = run.core
    row = await run_row(core.store, run.tenant_id, run.id)
    if await find_step(core.store, row.id, "session") is not None:
        return None
    stood = await stand(
        core.store,
        run.tenant_id,
        job.chat,
        node=job.node,
        scope=job.scope,
        tags=(),
        trigger=job.trigger,
        now_us=core.started_us,
    )
    stored, _ = await read_profile(desk, job.profile, by=job.principal or "operator")
    return parse_with_content(stored)[0], stood


async def found_from(run: Run, job: TurnJob | None, read: ev.SessionRead) -> TurnInputs:
    """Return what a run has recorded of its beginning."""
    core = run.core
    profile = None
    if read.profile is not None:
        profile = parsed_content(await core.load(read.profile))
    said = [
        msgspec.json.decode(await core.load(ref), type=ChatMessage)
        async for ref in in_turns(read.said, at_once=SAID_AT_ONCE)
    ]
    before: list[ChatMessage] = []
    if job is not None and read.base_run and read.base_shown:
        first = max(1, read.base_shown - job.history_max + 1)
        renderer = await Renderer.open(core.services, run.tenant_id, read.base_run)
        before = await renderer.messages("chat", first, read.base_shown)
    all_said = [*before, *said]
    last = all_said[-1].text if all_said and all_said[-1].role == "assistant" else ""
    return TurnInputs(
        settings=decode_stored(await core.load(read.settings)),
        profile=profile,
        state=ArtState(arts={seen.tag: await _art(run, seen) for seen in read.artifacts}),
        marks=dict(read.marks),
        turn=read.turn,
        tokens=read.tokens,
        base_run=read.base_run,
        base_shown=read.base_shown,
        said=tuple(said),
        said_before=tuple(before),
        said_last=last if job is not None and job.trigger == "continue" else "",
    )


async def _art(run: Run, seen: ev.Seen) -> Art:
    values = [await run.core.load_json(ref) for ref in seen.values]
    versions = tuple(
        Version(value=value, at_us=at_us, version=seen.version - index)
        for index, (value, at_us) in enumerate(zip(values, seen.at_us, strict=True))
    )
    value: Any = [one.value for one in reversed(versions)] if seen.append else values[0]
    return Art(
        tag=seen.tag,
        value=value,
        at_us=seen.at_us[0] if seen.at_us else 0,
        version=seen.version,
        history=versions if seen.append else versions[1:],
        append=seen.append,
        usage=seen.usage,
        semantics=seen.semantics,
        operation=seen.operation,
        run=seen.run,
    )
