"""A run at work: its identity, its flags, its writer, its history, and what people told it.

`Run` (run.py) is the door for users; the step modules work on this. One `RunCore` lives in one event loop.
"""

from __future__ import annotations

import asyncio
import contextvars
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, Protocol, TypeVar

from artelier.errors import (
    ArtelierError,
    CorruptStore,
    Exhausted,
    InvalidRequest,
    ReplayMismatch,
    RunEnded,
    RunStopped,
    RunSuspended,
    StoreUnavailable,
)
from artelier.kernel import events as ev
from artelier.kernel.history.step_history import History, Recorded
from artelier.kernel.pii_scrubber import Personal
from artelier.kernel.policy import ToolBounds, VisibleTools, is_granted, may_use_model
from artelier.kernel.prompt.conversation import Conversation, PlainLists
from artelier.kernel.prompt.manifest import comparable, encode_json
from artelier.kernel.run.delivery import Delivery
from artelier.kernel.run.pending_steps import CallsInFlight
from artelier.kernel.run.services import Services, TenantState
from artelier.kernel.run.status import FINAL, CompensationResult, StatusMachine, ended_hint
from artelier.kernel.run.writer import SMALL_BYTES, Actor
from artelier.kernel.steps.step_keys import SingleStep, StepKeys
from artelier.log import Blob, BlobRef, DataKey, Stream, control_stream, decode_stored, make_blob, stored_blob
from artelier.ports.model import Sending, ToolSchema
from artelier.ports.tool import ToolPort

T = TypeVar("T")

branch_key: contextvars.ContextVar[tuple[RunCore, str] | None] = contextvars.ContextVar(
    "branch_key", default=None
)
"""Whose steps the current task makes under which parent key; a run started inside has its own."""

LIST = "list:"
"""How the names of conversations begin that hold plain lists."""

RECENT_MAX, RECENT_BYTES = 64, 64 * 1024
"""Content kept last, which may not be stored yet: a cycle keeps about ten pieces before it commits."""


class ResultStore(Protocol):
    """Keeps content of a step as an artifact, in the batch of its event, and returns its ref.

    `media_type` is that of what is no text. Errors: those of writing an artifact.
    """

    def __call__(
        self, core: RunCore, key: str, content: bytes, /, *, media_type: str = ""
    ) -> Awaitable[str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunActions:
    """Actions on a run at work whose modules stand above it."""

    obey: Callable[[RunCore], Awaitable[None]]
    """Reads new commands and writes their effects."""
    take_back: Callable[[RunCore, ev.ModelRequested, str], Awaitable[None]]
    """Gives back what is held for a model call that was never made, and records it."""
    compensate_below: Callable[[RunCore, str, int, str], Awaitable[CompensationResult]]
    """Undoes what a child that has ended has done since a position, with a note: that opens the child."""
    refresh_caps: Callable[[RunCore], Awaitable[None]]
    """Reads the caps that are set above a child, by whichever process."""


class RunCore(ToolBounds):
    """The state and services of one run that this process drives."""

    joined: tuple[str, ...] = ()
    """Scopes that it counts in since it began, as `scopes.count_also` was last told."""
    versions: dict[str, int] | None = None
    """Of changes in its code, as recorded; None until somebody asks."""
    is_new = False
    """Whether this drive began it."""
    taken: Sequence[Conversation] = ()
    """Conversations whose messages `take_added` gave last."""
    fork_off: Callable[[ReplayMismatch], Awaitable[None]] | None = None
    """Makes the run go on as a fork of itself where its code differs from the record; None: it must not."""
    compensating = False
    """Whether what it has done is being undone."""

    def __init__(
        self,
        services: Services,
        *,
        run_id: str,
        tenant: TenantState,
        stream: Stream,
        history: History,
        on_wait: str,
        replay: str,
        grants: tuple[str, ...],
        tools: Mapping[str, ToolPort],
        actions: RunActions,
    ) -> None:
        super().__init__(services.policy)
        self._actions = actions
        self.services = services
        self.store = services.store
        self.clock = services.clock
        self.run_id = run_id
        self.tenant = tenant
        self.stream = stream
        self.history = history
        self.on_wait = on_wait
        self.replay = replay
        self.grants = grants
        self.tools = tools
        self.key: DataKey = tenant.key
        """Names what this run stores; a fork of an imported run goes on under the imported key."""
        self.shared_key: DataKey = tenant.key
        """Names what stays when its record is erased alone: artifacts that it writes; mostly the same key."""
        self.changes: Mapping[str, Any] = {}
        """What this fork changed (`model`, refs, steering); empty for other runs."""
        self.params: Mapping[str, Any] = {}
        """Of its model calls, for those that have none of their own."""
        self.owners: dict[str, str] = {}
        """Runs that dispatched this fork's unresolved tool steps, by key: they own the idempotency keys."""
        self.actor: Actor | None = None
        """None while the run is only replayed."""
        self.closed_because = ""
        """Why the run takes no new steps here, if not because it has ended."""
        self.refused_step: RunEnded | None = None
        """The refusal of the first step that a replay asked for and the log does not have."""
        self.lifecycle = StatusMachine()
        self.keys = StepKeys()
        self.control_seq = 0
        self.scopes: tuple[str, ...] = (f"run:{run_id}",)
        """Limit scopes that this run counts in: its own, its ancestors', the tenant's, its `extra_scopes`."""
        self.extra_scopes: tuple[str, ...] = ()
        """Those that it was opened with, and those it has `joined` since; its children do not count there."""
        self.counted: frozenset[tuple[str, str]] = frozenset()
        """(scope, unit) pairs in which it counts: those that have a cap, and all of its `extra_scopes`."""
        self.deadlines: dict[str, int] = {}
        """When the time of each of its scopes is up that has a cap on it; microseconds."""
        self.started_us = 0
        self.children: set[str] | None = None
        """Ids of the runs below it that its tools have started; None until somebody counts them."""
        self.conversations: dict[str, Conversation] = {}
        self.lists = PlainLists(partial(RunCore.list_conversation, self.itself))
        self.fresh: dict[int, Conversation] = {}
        """Conversations with messages that no event has recorded, by identity; in the order they grew."""
        self.row_id: int | None = None
        """The run's row, if it had a past when this process opened it."""
        self.loop = asyncio.get_running_loop()
        self.store_result: ResultStore | None = None
        """Writes a large tool result as an artifact in the batch of its event; gives its ref."""
        self._prepare_calls()
        self._look()
        self._hear()

    @property
    def itself(self) -> RunCore:
        """For what this run holds: in a cycle, it would be left to the collector, which stops everybody."""
        return weakref.proxy(self)

    def _prepare_calls(self) -> None:
        """Set the fields for calls of models and tools that are at work."""
        self.pending_caps: frozenset[tuple[str, str]] = frozenset()
        """Of caps that are on their way into the log: what is used counts there, but nothing is reserved."""
        self.calls = CallsInFlight(partial(RunCore.left_s, self.itself))
        """Those inside a model or a tool."""
        self.sendings: dict[str, Sending] = {}
        """Model calls at work, by key: the attempt, and when their provider was last heard of."""
        self.held: dict[str, ev.ModelRequested] = {}
        """Requests of model steps whose money is held, by key."""
        self.unsent: set[str] = set()
        """Of those: the ones that no provider has been asked, or has been paid for."""

    def _look(self) -> None:
        """Set the fields for what models are shown, and what of it is at hand."""
        self.result_bytes_max = self.policy.result_bytes_max
        """Larger tool results are shown to models as a preview with a ref; a loop may set it lower."""
        self.offered: frozenset[str] | None = None
        """Names of the tools that models are offered; None for all that the run sees."""
        self.listed: BlobRef | None = None
        """The list of tools that the log has, and under what it was made."""
        self.listed_under: VisibleTools | None = None
        self._visible: tuple[VisibleTools, tuple[ToolSchema, ...]] | None = None
        """The tools that are visible, and under what."""
        self.pii: Personal | None = None
        """What replaces personal data, if the policy asks for it."""
        if (personal := self.services.personal) is not None:
            self.pii = Personal(self.itself, personal(self.tenant.id))
            self.keys.check = self.pii.check_name
        self._kept: dict[bytes, tuple[BlobRef, Blob]] = {}
        self._recent: dict[str, bytes] = {}
        self._decoded: dict[str, Any] = {}

    def _hear(self) -> None:
        """Set the fields for commands, their effects, and what reaches the run's code."""
        self.delivery = Delivery(self.itself)
        self.paused = False
        self.stepping = SingleStep()
        """Whether it goes on for one cycle only."""
        self.is_hand_written = True
        """Whether no built-in loop drives it."""
        self.stopping = False
        """Whether the pause was a stop: nothing in flight is to be finished."""
        self.cancelled_reason: str | None = None
        self.turn = 0
        """Counts the commands that took effect."""
        self.changed = asyncio.Event()
        """Set when the next command takes effect."""
        self.deciding: set[str] = set()
        """Approvals whose decision is recorded or on its way; there is one to each."""
        self.answers: dict[str, tuple[ev.ApprovalGiven, str, int]] = {}
        self.questions: dict[str, Recorded] = {}
        self.unheard: tuple[str, ...] = ()
        """Questions of tools whose answer nobody hears in this drive, as its last word says."""
        """What tools have asked people, by step key, with the answers so far."""
        self.signals: list[tuple[int, str, BlobRef | None]] = []
        self.awaited_signals: set[str] = set()
        """Names that a step of this drive waits for."""
        self.notes: list[tuple[int, BlobRef]] = []
        """Injected notes that no `notes` step has taken: `(seq, text)`."""
        self.listener: asyncio.Task[None] | None = None
        """Obeys commands; None while there is nothing to read."""
        self.unread: StoreUnavailable | None = None
        """The error of the last try to read commands; None if they were read."""
        self.nudged = False
        self.ending = False
        """Set when the drive ends: from then on, commands are for whoever comes next."""
        self.released = asyncio.Event()
        self.is_over = False
        """Set when the drive has ended and given its lease back."""
        self.suspended: RunSuspended | None = None
        """Why the run must not go on in this drive, even if its code would."""

    # Content

    def keep(self, content: bytes) -> tuple[BlobRef, Blob]:
        """A reference to content, and the blob to record with it. The writer skips what it has stored."""
        known = self._kept.get(content)
        if known is not None:
            return known
        kept = make_blob(self.tenant.id, self.key, content)
        if len(content) <= RECENT_BYTES:
            if len(self._recent) >= RECENT_MAX:
                del self._recent[next(iter(self._recent))]
            self._recent[kept[0]] = kept[1].content
        if len(content) <= SMALL_BYTES:
            # Small content repeats (system prompts, arguments); large does not.
            if len(self._kept) >= 256:
                self._kept.clear()
            self._kept[content] = kept
        return kept

    def clean(self, content: bytes, *, foreign: bool = False) -> bytes:
        """JSON as this run and its log see it: with placeholders, if the policy asks for them.

        `foreign` says that it comes from outside, where only those of this run are placeholders.
        """
        return content if self.pii is None else self.pii.clean(content, foreign=foreign)

    def ref_of(self, value: object) -> BlobRef:
        """The reference that a JSON value has or would have; nothing is stored."""
        return make_blob(self.tenant.id, self.key, comparable(value))[0]

    def keep_json(self, value: object) -> tuple[BlobRef, list[Blob]]:
        ref, blob = self.keep(encode_json(value))
        return ref, [blob]

    async def load(self, ref: str) -> bytes:
        """Stored content, or content that rides with a batch which is not committed yet."""
        if (recent := self._recent.get(ref)) is not None:
            return recent
        try:
            return await stored_blob(self.store, self.tenant.id, ref)
        except CorruptStore:
            if self.actor is None:
                raise
            # Large content is not remembered here: it may be in a batch that is still on its way.
            await self.actor.commit()
            return await stored_blob(self.store, self.tenant.id, ref)

    async def told_json(self, ref: str | None) -> Any:
        """Return what a person said to the run, which so has received the placeholders in it."""
        if self.pii is not None and ref is not None:
            await self.pii.took(await self.load(ref))
        return await self.load_json(ref)

    async def load_json(self, ref: str | None) -> Any:
        return None if ref is None else decode_stored(await self.load(ref))

    async def load_decoded(self, ref: str, decode: Callable[[bytes], T]) -> T:
        """Stored content that many steps share (a manifest's head, a list of tools), decoded once."""
        if (found := self._decoded.get(ref)) is None:
            if len(self._decoded) >= 16:
                self._decoded.clear()
            found = self._decoded[ref] = decode(await self.load(ref))
        return found

    @property
    def model_override(self) -> str | None:
        """The model of steps that are new in this fork, whatever its code names."""
        return self.changes.get("model")

    def conversation(self, name: str = "main") -> Conversation:
        """The run's conversation of that name; made on first use. Errors: `InvalidRequest`."""
        found = self.conversations.get(name)
        if found is None:
            if not name or "~" in name or name.startswith(LIST):
                raise InvalidRequest(
                    "not a name for a conversation",
                    expected=f"text without '~' that does not begin with {LIST!r}",
                    got=repr(name)[:80],
                )
            found = self._conversation(name)
            self.conversations[name] = found
        return found

    def list_conversation(self, step: str) -> Conversation:
        """A conversation for messages that came as a plain list; named after the step that brought it."""
        return self._conversation(LIST + step)

    def _conversation(self, name: str) -> Conversation:
        clean, prepare = (None, None) if self.pii is None else (self.pii.clean, self.pii.prepare_foreign)
        keep, grown = partial(RunCore.keep, self.itself), partial(RunCore._note_grown, self.itself)
        return Conversation(name, keep=keep, grown=grown, clean=clean, prepare=prepare)

    def _note_grown(self, conversation: Conversation) -> None:
        self.fresh[id(conversation)] = conversation

    def take_added(
        self, recorded: ev.ContextAssembled | None = None
    ) -> tuple[tuple[ev.Added, ...], list[Blob]]:
        """Messages that conversations got since this was last asked, to be recorded now.

        With a request that is `recorded` already, only of the conversations that it brought: under a
        changed prompt there may be others, which the next live request must record.
        """
        names = None if recorded is None else {added.conversation for added in recorded.added}
        added: list[ev.Added] = []
        blobs: list[Blob] = []
        kept: dict[int, Conversation] = {}
        taken: list[Conversation] = []
        for index, conversation in self.fresh.items():
            if names is not None and conversation.name not in names:
                kept[index] = conversation
            elif (new := conversation.take_new()) is not None:
                added.append(new[0])
                blobs.extend(new[1])
                taken.append(conversation)
        self.fresh, self.taken = kept, taken
        return tuple(added), blobs

    def rebase(self) -> None:
        """Go on under new names: what stands in this process is not what is recorded under the old ones."""
        for conversation in (*self.conversations.values(), *self.lists.conversations):
            conversation.rebase()

    # Steps

    @property
    def parent_key(self) -> str:
        """Parent key of the steps that the current task makes in this run."""
        current = branch_key.get()
        return current[1] if current is not None and current[0] is self else ""

    def begin(self, key: str | None) -> tuple[str, str]:
        """`(parent, full key)` of a step that starts now; `end` must follow."""
        parent = self.parent_key
        return parent, self.keys.take(parent, key)

    def end(self, parent: str) -> None:
        self.keys.done(parent)

    def visible_tools(self) -> tuple[ToolSchema, ...]:
        """Schemas of the tools that this run may call, in the registry's order."""
        seen, sight = self._visible, self.sight
        if seen is None or seen[0] != sight:
            schemas = tuple(
                tool.schema
                for tool in self.tools.values()
                if self.may_use(tool.grant or f"tools:{tool.name}") and self.why_off(tool) is None
            )
            seen = self._visible = (sight, schemas)
        return seen[1]

    @property
    def sight(self) -> VisibleTools:
        """The settings that decide which tools the run sees."""
        return VisibleTools(self.tenant.grants, tuple(self.barred), self.risk_max)

    def offered_tools(self) -> tuple[ToolSchema, ...]:
        """Schemas of the tools that a model is offered now, of those that the run may call."""
        schemas = self.visible_tools()
        if self.offered is None:
            return schemas
        return tuple(schema for schema in schemas if schema.name in self.offered)

    def may_use(self, grant: str) -> bool:
        """Return True if the run was given a grant, and its tenant still has it."""
        return is_granted(self.grants, grant) and is_granted(self.tenant.grants, grant)

    def may_use_model(self, name: str) -> bool:
        if not self.policy.allows_model(name):
            return False
        return may_use_model(self.grants, name) and may_use_model(self.tenant.grants, name)

    async def find_recorded(self, key: str, kind: str) -> Recorded | None:
        """Return what the log has of a step, if anything. Errors: `ReplayMismatch` if it is of another
        kind.
        """
        if self.history.at_end:
            return None
        found = await self.history.find(key)
        if found is not None and found.is_past and found.status == "failed":
            raise self.mismatch(key, "outcome", expected="a step on a path that is past", got="another one")
        if found is not None and found.kind != kind:
            raise self.mismatch(key, "kind", expected=f"a {found.kind} step", got=f"a {kind} step")
        if found is not None:
            await self.delivery.note_found(found)
        return found

    def mismatch(self, key: str, section: str, *, expected: str = "", got: str = "") -> ReplayMismatch:
        """Return what to raise when the code asks for something else than was recorded."""
        return ReplayMismatch(
            f"step {key} of {self.run_id} asks for something else than was recorded",
            expected=expected or "the recorded request",
            got=got or f"a request that differs first in section {section!r}",
            hint="Run the code that recorded it, or open the run with replay='fork_on_drift'. A run that"
            f" has failed of it is reopened first: artelier retry {self.run_id}.",
            section=section,
            key=key,
        )

    @property
    def capped(self) -> frozenset[tuple[str, str]]:
        """The (scope, unit) pairs in which what it uses counts."""
        return self.counted | self.pending_caps if self.pending_caps else self.counted

    @property
    def status(self) -> str:
        """The status of the run, as events and people name it; `lifecycle` sets it."""
        return self.lifecycle.status.value

    @property
    def writer(self) -> Actor:
        """Errors: `RunEnded` if the run is only replayed."""
        if self.actor is None:
            why = self.closed_because or f"is {self.status}"
            ended = RunEnded(
                f"run {self.run_id} {why}; it takes no new steps",
                hint=ended_hint(self.run_id, self.status, is_imported=self.closed_because == "was imported"),
            )
            self.refused_step = self.refused_step or ended
            raise ended
        return self.actor

    async def refresh_caps(self) -> None:
        """Read the caps that are set above this run, by whichever process."""
        await self._actions.refresh_caps(self)

    def prepare_child(self) -> None:
        """Check that the code may open a run below this one, and record what it has cancelled before.

        After a cancel or a pause the run below is opened, and told the same before its first step.
        Errors: `RunSuspended` if this drive has ended, and for code that does not know what a side effect
        did.
        """
        if self.actor is None:
            return
        if self.suspended is not None:
            raise self.suspended
        self.delivery.effects.check(asyncio.current_task())
        self.delivery.settle()

    async def boundary(self) -> None:
        """Between steps: obey commands, limits of time, and pauses.

        Errors: `RunStopped` after a cancel; `RunSuspended` for a pause with `on_wait="suspend"` and when
        the time is up; `RunEnded` if the run is only replayed, before anything outside is asked.
        """
        self.writer.check()
        if self.cancelled_reason is not None:
            raise RunStopped(self.run_id, reason=self.cancelled_reason)
        if self.suspended is not None:
            raise self.suspended
        await self.refresh_caps()
        if self.services.draining.has_begun:
            await self.services.draining.park()
        if self.stepping.is_over(self.done):
            self.paused = True
            self.stepping = SingleStep(holding=self.stepping.command)
            await self.hear()  # the listener pauses the run: what others say is ordered with it
        if self.paused:
            await self.pause_over()
        if self.cancelled_reason is not None:  # meanwhile
            raise RunStopped(self.run_id, reason=self.cancelled_reason)
        if self.deadline_us is not None and self.clock.now_us() >= self.deadline_us:
            await self.out_of_time()

    @property
    def done(self) -> int:
        """The count of `step` in this drive: cycles of a built-in loop, or steps of a hand-written run."""
        return self.writer.steps if self.is_hand_written else self.writer.cycles

    @property
    def deadline_us(self) -> int | None:
        """The deadline of the run in microseconds: the earliest of its own and those of the runs above it."""
        return min(self.deadlines.values(), default=None)

    def left_s(self) -> float | None:
        """Return what is left of the run's time; None if it is not limited."""
        until_us = self.deadline_us
        return None if until_us is None else max(0.0, (until_us - self.clock.now_us()) / 1_000_000)

    async def out_of_time(self) -> NoReturn:
        """End the drive because the time is up. Errors: `RunSuspended`."""
        scope = min(self.deadlines, key=self.deadlines.__getitem__, default=self.scopes[0])
        await self.exhaust(ev.RunExhausted(scope=scope, unit="ms", reason="deadline"))

    async def pause_over(self) -> None:
        """Wait until nobody wants the run to pause (any more). Errors: as in `boundary`."""
        while self.paused:
            # Looked at before each wait: what was obeyed together with the pause wakes nobody any more.
            self.writer.check()
            if self.cancelled_reason is not None:
                raise RunStopped(self.run_id, reason=self.cancelled_reason)
            if self.on_wait == "suspend":
                raise self.suspend("paused", None)
            await self.wait_change(None, since=self.turn)

    async def wait_change(self, seconds: float | None, *, since: int) -> None:
        """Wait until a command took effect or after that much time of the run's clock.

        `since` is the `turn` in which the caller last looked, so that nothing is missed in between.
        Errors: `CancelledError` when the drive is over: what its code has left waits for nothing.
        """
        if self.turn == since and not self.is_over:
            await self._wait_announced(seconds)
        if self.is_over and (left := asyncio.current_task()) is not None:
            left.cancel()
            await asyncio.sleep(0)  # is where it is cancelled

    async def _wait_announced(self, seconds: float | None) -> None:
        waiting = asyncio.ensure_future(self.changed.wait())
        sleeping = None if seconds is None else asyncio.ensure_future(self.clock.sleep(seconds))
        tasks = [task for task in (waiting, sleeping) if task is not None]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    async def rest(self, seconds: float) -> None:
        """Let time pass between attempts. Errors: those of `boundary`, as soon as a command wants it."""
        until_us = self.clock.now_us() + int(seconds * 1_000_000)
        while True:
            since = self.turn
            await self.boundary()
            left_us = until_us - self.clock.now_us()
            if left_us <= 0:
                return
            await self.wait_change(left_us / 1_000_000, since=since)

    def announce(self) -> None:
        """A command took effect, or the drive is suspended: wake all that wait."""
        self.turn += 1
        self.changed.set()
        self.changed = asyncio.Event()

    def end_waits(self) -> None:
        """End what still waits when the drive is over; without this it would be collected as garbage."""
        self.is_over = True
        self.announce()

    async def exhaust(self, limit: ev.RunExhausted) -> NoReturn:
        """End the drive because a limit is reached; the run stays resumable. Raises `RunSuspended`."""
        await self.writer.commit(limit)
        limited = f"{limit.unit} of {limit.scope}"
        if limit.reason:
            raise self.suspend("budget_exhausted", limit.reason, detail=limited)
        raise self.suspend("budget_exhausted", limited)

    def suspend(
        self, status: str, reason: str | None, *, run_id: str = "", detail: str | None = None
    ) -> RunSuspended:
        """Return the error that ends this drive. `run_id`: of the child that waits, if there is one."""
        self.delivery.settle()  # what the code has cancelled before
        self.lifecycle.report(status)
        self.suspended = RunSuspended(run_id or self.run_id, status=status, reason=reason, detail=detail)
        self.announce()  # waits beside it end too
        return self.suspended

    async def end_refused(self, error: Exhausted) -> None:
        """End the drive because a reservation was refused for good: say whose cap it is if not its own."""
        scope, unit = str(error.facts.get("scope", "tenant")), str(error.facts.get("unit", "usd"))
        asked = int(error.facts.get("need", error.facts.get("asked", 0)))
        reason = "" if scope in self.extra_scopes else error.code
        await self.exhaust(ev.RunExhausted(scope=scope, unit=unit, reason=reason, asked=asked))

    def came_back(self) -> None:
        """Money or room under a limit was given back: wake calls of this tenant that wait for it."""
        self.services.money_came(self.tenant.id)

    async def take_back(self, request: ev.ModelRequested, key: str) -> None:
        """Give back what is held for a model call that was never made."""
        await self._actions.take_back(self, request, key)

    async def compensate_below(self, run_id: str, since: int, note: str) -> CompensationResult:
        """Undo what a child that has ended has done since a position."""
        return await self._actions.compensate_below(self, run_id, since, note)

    # Commands

    def nudge(self) -> None:
        """Somebody appended to the control stream (callable from the loop's thread only)."""
        self.nudged = True
        if self.listener is None and self.actor is not None and not self.ending:
            self.listener = self.loop.create_task(self._listen())

    async def _listen(self) -> None:
        try:
            while self.nudged and self.actor is not None and not self.ending:
                self.nudged = False
                await self._actions.obey(self)
        except ArtelierError as error:
            # Nobody waits for this task: the run's own next commit raises it.
            if self.actor is not None:
                self.actor.failure = self.actor.failure or error
            self.announce()
        finally:
            self.listener = None

    async def hear(self) -> None:
        """Obey what was said while nobody could, before the first step. Errors: `StoreUnavailable`."""
        self.nudge()
        if self.listener is not None:
            await asyncio.wait((self.listener,))
        if self.unread is not None:
            raise self.unread

    async def quiet(self) -> None:
        """Obey no more commands; return when the one at hand has taken effect."""
        self.ending = True
        if self.listener is not None:
            await asyncio.wait((self.listener,))

    def obey_again(self) -> None:
        """Obey commands again after `quiet`, those that came meanwhile first."""
        self.ending = False
        self.nudge()

    async def hear_last_notes(self) -> bool:
        """Return True if a note of people is unread. If none is, obey no more commands in this drive, so that
        nobody is told of a note as taken that is never read.
        """
        while True:
            await self.quiet()
            if self.notes or self.paused:
                self.obey_again()
            if not self.paused:
                return bool(self.notes)
            await self.pause_over()

    @property
    def can_go_on(self) -> bool:
        """True if an answer or a signal came after a step had begun to suspend the drive over it."""
        return bool(self.answers) or any(name in self.awaited_signals for _, name, _ in self.signals)

    def leave_questions(self) -> tuple[str, ...]:
        """Return the questions of tools whose answer has come, or is being recorded, and was not heard: from
        now on nobody hears it in this drive.
        """
        self.unheard = self.history.questions.missed({*self.answers, *self.deciding})
        return self.unheard

    @property
    def control(self) -> Stream:
        return control_stream(self.tenant.id, self.run_id)


def find_driver(services: Services, tenant: str, run_id: str) -> RunCore | None:
    """Return a run that this kernel drives; None if it does not."""
    core = services.driver(tenant, run_id)
    return core if isinstance(core, RunCore) else None


def is_final(status: str) -> bool:
    return status in FINAL
