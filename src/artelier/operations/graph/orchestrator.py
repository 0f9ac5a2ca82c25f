"""Runs the operations of one hook: as soon as what they depend on is done, as many at once as may be.

What each came to is a receipt in the run, so that a resume does nothing twice and a replay nothing at all.
When and in which order they ran has no effect on what they see: the state at the beginning of the hook, and
what the operations that they depend on have made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NoReturn, cast

import msgspec

from artelier.errors import ArtelierError, Conflict, CorruptStore, Flow, RunStopped, StoreUnavailable
from artelier.kernel import Run
from artelier.kernel.steps.failures import words
from artelier.log import Blob
from artelier.operations import events as ev
from artelier.operations.graph.artifact_inclusion import unseen
from artelier.operations.graph.effects import (
    OperationOutcome,
    WishedEffect,
    check_size,
    refusal_of,
    wishes_from,
    wishes_of,
)
from artelier.operations.graph.failures import mask_secrets
from artelier.operations.graph.plan import Slot
from artelier.operations.graph.scope import Art, ArtState, Situation
from artelier.operations.kinds import OperationKind, kind_named
from artelier.operations.kinds.contract import OperationCall, OperationFailed, OperationResult, OperationScope
from artelier.operations.profile.definition import ArtifactUpsert
from artelier.operations.profile.operation_profile import OperationProfile
from artelier.ports.media import Medium, stored_media

GRACE_S = 0.25
"""How long an operation whose time is up may take to stop; then it goes on alone and commits nothing."""

MESSAGE_CHARS_MAX = 2_000
WITHHELD = (
    "the words of this error are withheld: the operation sees artifacts that people may not see,"
    " and an error may quote them"
)
PLAIN_CODES = frozenset(
    (
        "timeout",
        "deadline",
        "too_large",
        "too_many_effects",
        "max_cost",
        "memory",
        "not_granted",
        "price_unknown",
        "unknown_model",
        "missing_key",
        "template_limit",
        "template_undefined",
        "transform_timeout",
        "transform_too_large",
        "transform_no_match",
        "empty_prompt",
        "access_denied",
        "not_found",
    )
)
"""Of errors whose words are ours alone, whatever the operation saw."""
DETAILS_BYTES_MAX = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The surroundings of a run's operations: what they need besides the scope."""

    run: Run
    profile: OperationProfile
    model: str
    principal: str
    desk: Any
    """The kernel bound to the tenant; None in a replay."""
    prefix: str = ""
    """Of step keys: a run with several cycles has one for each."""
    deadline_us: int | None = None
    seed: str = ""
    """Of what operations draw by chance; the run's id by default."""


@dataclass(slots=True)
class _Progress:
    """One hook at work."""

    outcomes: dict[str, OperationOutcome] = field(default_factory=dict[str, OperationOutcome])
    running: dict[asyncio.Task[OperationOutcome], Slot] = field(
        default_factory=dict["asyncio.Task[OperationOutcome]", "Slot"]
    )
    waiting: list[Slot] = field(default_factory=list["Slot"])


class Hooked:
    """The operations of one hook of one run. `run_all` gives their outcomes in the order of commit."""

    def __init__(
        self,
        around: Surroundings,
        slots: Sequence[Slot],
        state: ArtState,
        situation: Situation,
        rag: Mapping[str, Any],
    ) -> None:
        """`rag`: passages that operations of an earlier hook found."""
        self._around = around
        self._run = around.run
        self._slots = slots
        self._state = state
        self._names = situation.names()
        self._art = state.names()
        self._rag = rag
        self._in_prompt = state.in_prompt
        self._in_ui = state.in_ui
        self._unseen = unseen(around.profile, state)
        self._now_us = situation.now_us
        self._attachments = situation.attachments
        self._above = _ancestors(slots)
        self._made: dict[str, tuple[Art, dict[str, Any]] | None] = {}
        self._outcomes: Mapping[str, OperationOutcome] = {}
        """Of `run_all`, once it has ended."""

    @property
    def slots(self) -> Sequence[Slot]:
        """The operations, in the order of commit."""
        return self._slots

    def scope_of(self, slot: Slot) -> OperationScope | None:
        """Return what an operation saw, or would have seen; None if what it depends on never ended."""
        ended = all(id_ in self._outcomes for id_ in self._above[slot.id])
        return self._scope(slot, self._outcomes) if ended else None

    def in_run(self, around: Surroundings) -> Hooked:
        """Return the same hook for another run, to run one of its operations in."""
        other = copy(self)
        other._around, other._run = around, around.run
        return other

    async def run_one(self, slot: Slot, scope: OperationScope) -> ev.OperationFinished:
        """Run one operation over a given scope, and record it; its effects are applied to nothing."""

        async def make(full: str) -> tuple[ev.OperationFinished, list[Blob]]:
            return await self._attempt(slot, scope, full)

        await self._begin(slot)
        return await self._run.receipt(ev.OperationFinished, make, key=f"{self._around.prefix}{slot.key}")

    async def run_all(self) -> list[OperationOutcome]:
        """Errors: Flow, when a command, a limit or a wait ends the drive; then nothing goes on alone."""
        progress = _Progress(waiting=list(self._slots))
        sequential = self._around.profile.execution_mode == "sequential"
        limit = 1 if sequential else self._around.profile.parallel_max
        try:
            while progress.waiting or progress.running:
                await self._start_ready(progress, limit)
                if not progress.running:
                    continue
                done, _ = await asyncio.wait(progress.running, return_when=asyncio.FIRST_COMPLETED)
                for task in sorted(done, key=lambda t: progress.running[t].id):
                    slot = progress.running.pop(task)
                    progress.outcomes[slot.id] = task.result()
        except BaseException as error:
            self._outcomes = progress.outcomes
            await _stop(progress.running)
            for task, slot in progress.running.items():
                if task.done() and not task.cancelled() and task.exception() is None:
                    progress.outcomes[slot.id] = task.result()
            if isinstance(error, RunStopped):
                self._abort_left(progress)
            raise
        self._outcomes = progress.outcomes
        return [progress.outcomes[slot.id] for slot in self._slots]

    async def _start_ready(self, progress: _Progress, limit: int) -> None:
        """Start what can be started, and end what never will be."""
        later: list[Slot] = []
        for index, slot in enumerate(progress.waiting):
            missing = [id_ for id_ in slot.operation.depends_on if id_ in self._above]
            if any(id_ not in progress.outcomes for id_ in missing):
                later.append(slot)
                continue
            if (skipped := self._skip_event(slot, progress.outcomes)) is not None:
                progress.outcomes[slot.id] = await self._record_end(slot, skipped, progress.outcomes)
                continue
            if len(progress.running) >= limit:
                later.extend(progress.waiting[index:])
                break
            task = asyncio.ensure_future(self._one(slot, progress.outcomes))
            progress.running[task] = slot
        progress.waiting = later

    def _skip_event(
        self, slot: Slot, outcomes: Mapping[str, OperationOutcome]
    ) -> ev.OperationFinished | None:
        """Return how an operation ends that is not started; None for one that is."""
        if slot.skipped:
            return self._end(slot, "skipped", reason=slot.skipped)
        failed = [id_ for id_ in slot.operation.depends_on if outcomes[id_].status != "done"]
        if failed:
            if slot.operation.required:
                return self._end(slot, "error", code="dependency_failed")
            return self._end(slot, "skipped", reason="dependency_failed")
        for condition in slot.operation.run_conditions:
            seen = _flag(outcomes[condition.source].value, condition.key)
            if seen is not (condition.operator == "is_true"):
                return self._end(slot, "skipped", reason="guard_not_matched")
        return None

    def _end(self, slot: Slot, status: str, *, reason: str = "", code: str = "") -> ev.OperationFinished:
        return ev.OperationFinished(
            key="", hook=slot.hook, operation_id=slot.id, status=status, reason=reason, code=code
        )

    async def _record_end(
        self, slot: Slot, event: ev.OperationFinished, outcomes: Mapping[str, OperationOutcome]
    ) -> OperationOutcome:

        async def make(full: str) -> tuple[ev.OperationFinished, list[Blob]]:
            core, blobs = self._run.core, list[Blob]()
            kept: dict[str, str] = {}

            def keep(field: str, value: object) -> None:
                kept[field], more = core.keep_json(value)
                blobs.extend(more)

            if event.reason in ("guard_not_matched", "dependency_failed") or event.code:
                keep("details", self._describe_conditions(slot, outcomes))
            if event.code:
                keep("message", _missing_words(slot, outcomes))
                keep("scope", _bounded_scope(self._scope(slot, outcomes)))
            return msgspec.structs.replace(event, key=full, **kept), blobs

        finished = await self._run.receipt(ev.OperationFinished, make, key=f"{self._around.prefix}{slot.key}")
        return await outcome_of(self._run, slot, finished)

    def _describe_conditions(self, slot: Slot, outcomes: Mapping[str, OperationOutcome]) -> _ConditionsSeen:
        """Return what a person needs to know of an operation that was not started."""
        ended = {id_: outcomes[id_] for id_ in slot.operation.depends_on}
        return _ConditionsSeen(
            depends_on={id_: one.status for id_, one in ended.items()},
            conditions=[
                _ConditionSeen(
                    source=one.source,
                    key=one.key,
                    operator=one.operator,
                    seen=_flag(ended[one.source].value, one.key),
                )
                for one in slot.operation.run_conditions
            ],
        )

    async def _one(self, slot: Slot, outcomes: Mapping[str, OperationOutcome]) -> OperationOutcome:
        """Run an operation, or take what the run has recorded of it."""

        async def make(full: str) -> tuple[ev.OperationFinished, list[Blob]]:
            return await self._attempt(slot, self._scope(slot, outcomes), full)

        await self._begin(slot)
        key = f"{self._around.prefix}{slot.key}"
        return await outcome_of(self._run, slot, await self._run.receipt(ev.OperationFinished, make, key=key))

    async def _begin(self, slot: Slot) -> None:
        async def make(full: str) -> tuple[ev.OperationStarted, list[Blob]]:
            started = ev.OperationStarted(
                key=full, hook=slot.hook, operation_id=slot.id, kind=slot.operation.kind
            )
            return started, []

        await self._run.receipt(ev.OperationStarted, make, key=f"{self._around.prefix}{slot.key}/started")

    # One operation at work

    async def _attempt(
        self, slot: Slot, scope: OperationScope, full: str
    ) -> tuple[ev.OperationFinished, list[Blob]]:
        if (needed := self._forbidden(slot)) is not None:
            details, blobs = self._run.core.keep_json({"not_granted": needed})
            return ev.OperationFinished(
                key=full,
                hook=slot.hook,
                operation_id=slot.id,
                status="skipped",
                reason="policy",
                details=details,
            ), blobs
        try:
            found = await self._within_time(slot, scope, full)
            check_size(found.value)
            wishes = wishes_of(slot, found, scope)
            for wish in wishes:
                check_size(wish.value)
        except (Flow, Conflict, StoreUnavailable, CorruptStore):
            raise  # not the operation's: the run cannot go on, or not now
        except Exception as error:  # whatever a kind, a template or a tool does wrong ends here
            return self._failure_event(slot, full, error, scope)
        refusal = refusal_of(wishes, slot.hook)
        result: dict[str, Any] = {"value": found.value, "effects": [wish.to_stored() for wish in wishes]}
        if found.media:
            result["media"] = [one.part for one in found.media]
        if slot.operation.debug.keep_scope:
            result["scope"] = _bounded_scope(scope)
        ref, blobs = self._run.core.keep_json(result)
        details = None
        if found.details is not None:
            details, more = self._run.core.keep_json(found.details)
            blobs = [*blobs, *more]
        if refusal is not None:
            finished, more = self._failure_event(slot, full, refusal, scope)
            finished = msgspec.structs.replace(finished, result=ref, details=details)
            return finished, [*blobs, *more]
        finished = ev.OperationFinished(
            key=full, hook=slot.hook, operation_id=slot.id, status="done", result=ref, details=details
        )
        return finished, blobs

    def _forbidden(self, slot: Slot) -> str | None:
        """The grant of a tool that an operation needs and its run does not have: it is passed over."""
        core, params = self._run.core, slot.operation.params
        tool = core.tools.get(params.name) if slot.operation.kind == "tool" else None
        if tool is None:
            return None
        grant = tool.grant or f"tools:{tool.name}"
        return None if core.may_use(grant) else grant

    def _failure_event(
        self, slot: Slot, full: str, error: Exception, scope: OperationScope
    ) -> tuple[ev.OperationFinished, list[Blob]]:
        core = self._run.core
        code = str(getattr(error, "code", "")) if isinstance(error, ArtelierError) else ""
        aborted = code == "deadline"
        is_ours = isinstance(error, ArtelierError)
        message = str(error) if is_ours else f"{type(error).__name__}: {words(error)}"
        is_told = code in PLAIN_CODES or _sees_nothing_hidden(scope)
        # The words of a plugin's own exception are its author's: nobody checked what they quote.
        public = (message if is_ours else type(error).__name__) if is_told else WITHHELD
        ref, blobs = core.keep_json(_clean(public))
        withheld = None
        if public != message:
            withheld, more = core.keep_json(_clean(message))
            blobs = [*blobs, *more]
        seen, more = core.keep_json(_bounded_scope(scope))
        blobs = [*blobs, *more]
        details = None
        if is_told and (known := getattr(error, "details", None)) is not None:
            with suppress(ArtelierError):
                check_size(known)
                details, more = core.keep_json(known)
                blobs = [*blobs, *more]
        finished = ev.OperationFinished(
            key=full,
            hook=slot.hook,
            operation_id=slot.id,
            status="aborted" if aborted else "error",
            code=code or "operation_failed",
            message=ref,
            withheld=withheld,
            scope=seen,
            details=details,
        )
        return finished, blobs

    def _scope(self, slot: Slot, outcomes: Mapping[str, OperationOutcome]) -> OperationScope:
        """Return what an operation sees: of this hook only what it depends on, however far."""
        above = self._above[slot.id]
        deps = {id_: outcomes[id_].value for id_ in above}
        rag = {id_: deps[id_] for id_ in above if outcomes[id_].slot.operation.kind == "rag"}
        art, in_prompt, in_ui = self._art, self._in_prompt, self._in_ui
        made = [one for id_ in above if (one := self._made_by(outcomes[id_])) is not None]
        if made:
            art = {**art, **{one.tag: names for one, names in made}}
            in_prompt = _with(in_prompt, {one.tag: one.in_prompt for one, _ in made})
            in_ui = _with(in_ui, {one.tag: one.in_ui for one, _ in made})
        names = {**self._names, "art": art, "rag": {**self._rag, **rag}, "deps": deps}
        return OperationScope(
            names=names,
            in_prompt=in_prompt,
            in_ui=in_ui,
            unseen=self._unseen,
            attachments=self._attachments,
            shown={id_: _named_media(outcomes[id_]) for id_ in above if outcomes[id_].media},
        )

    def _made_by(self, outcome: OperationOutcome) -> tuple[Art, dict[str, Any]] | None:
        """The artifact that an operation has written, and its names. It is the only writer of its tag."""
        id_ = outcome.slot.id
        if id_ not in self._made:
            state, tag = self._state, ""
            for wish in outcome.wishes:
                if isinstance(wish.effect, ArtifactUpsert):
                    tag = wish.effect.tag
                    state = state.upsert(wish.effect, wish.value, operation=id_, at_us=self._now_us)
            self._made[id_] = (state.arts[tag], state.arts[tag].names()) if tag else None
        return self._made[id_]

    async def _within_time(self, slot: Slot, scope: OperationScope, full: str) -> OperationResult:
        """Return what the operation finds, within its own time and the run's.

        Errors: `OperationFailed` with `timeout` or `deadline`. One that does not stop when it is cancelled
        is left alone: whatever it still finds is no outcome.
        """
        own_s = slot.operation.params.timeout_s
        operation = slot.operation
        call: OperationCall[Any] = OperationCall(
            run=Run(self._run.core, parent_key=full),
            operation=operation,
            params=operation.params,
            scope=scope,
            model=self._around.model,
            principal=self._around.principal,
            seed=_seed(self._around.seed or _name(self._run), full),
            desk=self._around.desk,
        )
        kind = self._kind(operation.kind)
        task = asyncio.ensure_future(kind.run(call))
        try:
            late = await self._late(task, own_s)
        except asyncio.CancelledError:
            await _stop((task,))
            raise
        if not late:
            return task.result()
        await _stop((task,))
        if task.done() and not task.cancelled() and isinstance(task.exception(), Flow):
            raise _of(task)
        if late == "cancelled":
            await self._run.core.boundary()
        if late == "deadline":
            raise OperationFailed("deadline", "the time of the run is up")
        failure = OperationFailed(
            "timeout", "the operation gave no result in time", expected=f"at most {own_s:g} s"
        )
        if (found := kind.fallen(operation.params, failure)) is None:
            raise failure
        return found

    def _kind(self, name: str) -> OperationKind[Any]:
        """Return a kind that this kernel knows. Errors: `OperationFailed` with `unknown_kind`."""
        try:
            return kind_named(name, plugins=self._run.core.services.plugins)
        except KeyError:
            raise OperationFailed(
                "unknown_kind",
                f"no kind of operation is called {name!r}",
                hint="Name the plugin that offers it in [plugins] allow, or in Kernel.open(plugins=...).",
            ) from None

    async def _late(self, task: asyncio.Task[Any], own_s: float) -> str:
        """Return why an operation must stop: `timeout`, `deadline`, `cancelled`; empty if it ends in time.

        While a person is asked, or the run is paused, its own time stands still: it begins anew afterwards.
        """
        core, loop = self._run.core, asyncio.get_running_loop()
        until = loop.time() + own_s
        while True:
            heard = asyncio.ensure_future(core.changed.wait())
            try:
                if core.cancelled_reason is not None and core.calls.tasks.get(task) is not False:
                    # Its call is cut already: most end by themselves now.
                    done, _ = await asyncio.wait((task,), timeout=GRACE_S)
                    return "" if done else "cancelled"
                left_s, rest_s = self._left_s(), max(0.0, until - loop.time())
                is_last = left_s is not None and left_s <= rest_s
                await asyncio.wait(
                    (task, heard), timeout=left_s if is_last else rest_s, return_when=asyncio.FIRST_COMPLETED
                )
                if task.done():
                    return ""
                if heard.done():
                    continue
            finally:
                heard.cancel()
            if is_last:
                return "deadline"
            if not core.paused and core.status not in ("waiting", "waiting_approval"):
                return "timeout"
            until = loop.time() + own_s

    def _left_s(self) -> float | None:
        until_us = self._around.deadline_us
        if until_us is None:
            return None
        return max(0.0, (until_us - self._run.core.clock.now_us()) / 1_000_000)

    def _abort_left(self, progress: _Progress) -> None:
        """The run was cancelled: say so of each operation that has not ended."""
        actor = self._run.core.actor
        if actor is None:
            return
        for slot in self._slots:
            if slot.id not in progress.outcomes:
                full = f"{self._around.prefix}{slot.key}"
                actor.note(abort_event(slot, full, "cancelled"))


def abort_event(slot: Slot, key: str, code: str) -> ev.OperationFinished:
    """The end of an operation that was stopped, or never begun since the run ends."""
    return ev.OperationFinished(key=key, hook=slot.hook, operation_id=slot.id, status="aborted", code=code)


async def outcome_of(run: Run, slot: Slot, finished: ev.OperationFinished) -> OperationOutcome:
    """An outcome from its record."""
    value: Any = None
    wishes: tuple[WishedEffect, ...] = ()
    media: list[Any] = []
    if finished.result is not None:
        stored = await run.core.load_json(finished.result)
        value, wishes = stored["value"], wishes_from(stored["effects"])
        media = stored.get("media", [])
    return OperationOutcome(
        slot=slot,
        status=finished.status,
        reason=finished.reason,
        code=finished.code,
        value=value,
        wishes=wishes,
        media=stored_media(media),
    )


def media_for_prompt(outcomes: Iterable[OperationOutcome]) -> list[tuple[str, Medium]]:
    """Return what tools have shown that a prompt shows: of operations that are done and add to it."""
    return [
        named
        for one in outcomes
        if one.status == "done" and any(wish.effect.type.startswith("prompt.") for wish in one.wishes)
        for named in _named_media(one)
    ]


def _named_media(outcome: OperationOutcome) -> list[tuple[str, Medium]]:
    """Return what a tool has shown, with the name that it was called by."""
    name = str(getattr(outcome.slot.operation.params, "name", outcome.slot.id))
    return [(name, medium) for medium in outcome.media]


def passages_of(outcomes: Sequence[OperationOutcome]) -> dict[str, Any]:
    """Return what searches found, by operation."""
    return {
        one.slot.id: one.value
        for one in outcomes
        if one.slot.operation.kind == "rag" and one.status == "done"
    }


class _ConditionSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A condition of an operation, with what its guard has found."""

    source: str
    key: str
    operator: str
    seen: bool | None
    """None for a flag that the guard has not found."""


class _ConditionsSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that a person needs of an operation that was not started."""

    depends_on: dict[str, str]
    """Status by operation."""
    conditions: list[_ConditionSeen]


def _flag(flags: object, key: str) -> bool | None:
    """A flag that a guard has found; None for one that it has not."""
    return cast(dict[str, bool], flags).get(key) if isinstance(flags, dict) else None


_EXEMPT = ("disabled", "trigger_mismatch", "not_due", "guard_not_matched")
"""Reasons for which a required operation may have been skipped."""


def not_done(outcomes: Sequence[OperationOutcome]) -> OperationOutcome | None:
    """The first required operation, in order of commit, that had to be done and is not."""
    for one in outcomes:
        exempt = one.status == "skipped" and one.reason in _EXEMPT
        if one.slot.operation.required and one.status != "done" and not exempt:
            return one
    return None


def fault_of(outcome: OperationOutcome) -> tuple[str, str]:
    """Code and message of what `not_done` has found."""
    code = outcome.code or outcome.reason or outcome.status
    return code, f"required operation {outcome.slot.id!r} is {outcome.status} ({code})"


def _missing_words(slot: Slot, outcomes: Mapping[str, OperationOutcome]) -> str:
    """Return why a required operation was not started."""
    failed = [
        f"{id_!r} is {one.status} ({one.code or one.reason or one.status})"
        for id_ in slot.operation.depends_on
        if (one := outcomes[id_]).status != "done"
    ]
    return f"what it depends on was not done: {', '.join(failed)}"[:MESSAGE_CHARS_MAX]


def _ancestors(slots: Sequence[Slot]) -> dict[str, tuple[str, ...]]:
    """All that each operation depends on, however far, in the order of commit. `slots` are in that order."""
    found: dict[str, tuple[str, ...]] = {}
    place = {slot.id: index for index, slot in enumerate(slots)}
    for slot in slots:
        above: set[str] = set()
        for id_ in slot.operation.depends_on:
            above.add(id_)
            above.update(found[id_])
        found[slot.id] = tuple(sorted(above, key=place.__getitem__))
    return found


def _with(tags: frozenset[str], changed: Mapping[str, bool]) -> frozenset[str]:
    if all((tag in tags) is is_in for tag, is_in in changed.items()):
        return tags
    gone = frozenset(tag for tag, is_in in changed.items() if not is_in)
    return (tags - gone) | frozenset(tag for tag, is_in in changed.items() if is_in)


def _name(run: Run) -> str:
    """Tells a run from one of the same name elsewhere: two chats do not throw the same dice."""
    return f"{run.id}\0{run.core.started_us}"


def _seed(seed: str, key: str) -> int:
    return int.from_bytes(sha256(f"{seed}\0{key}".encode()).digest()[:6])


def _clean(message: str) -> str:
    """Bounded, without secrets, and without control characters that a terminal would obey."""
    text = mask_secrets(message[: 2 * MESSAGE_CHARS_MAX])
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)[:MESSAGE_CHARS_MAX]


def _sees_nothing_hidden(scope: OperationScope) -> bool:
    """Return True if all that an operation saw may be shown to people."""
    return all(tag in scope.in_ui for tag in scope.names["art"]) and not scope.unseen.get("ui")


def _bounded_scope(scope: OperationScope) -> Mapping[str, Any]:
    from artelier.kernel.prompt.manifest import encode_json

    with suppress(ArtelierError, TypeError, ValueError):
        if len(encode_json(dict(scope.names))) <= DETAILS_BYTES_MAX:
            return dict(scope.names)
    return {"cut": "the names in scope are too large to be kept"}


async def _stop(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait a little for their end; what they raise then is nobody's."""
    waiting = [task for task in tasks if not task.done()]
    for task in waiting:
        task.cancel()
    if waiting:
        await asyncio.wait(waiting, timeout=GRACE_S)
    for task in tasks:
        task.add_done_callback(_forget)


def _forget(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


def _of(task: asyncio.Task[Any]) -> NoReturn:
    error = task.exception()
    assert error is not None
    raise error
