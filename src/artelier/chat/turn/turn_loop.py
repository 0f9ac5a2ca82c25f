"""One turn of a chat as a run: operations before, barrier, main call, operations after, commit.

A configuration of the one step cycle. What it reads from outside is in its first event, and everything that
it does is a keyed step; so a killed process goes on where it stopped, and a replay calls nothing. What it
changes of the chat is in two batches: at the barrier, and at the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ParamSpec, TypeVar

import msgspec

from artelier.chat.queries.chats import named_text
from artelier.chat.rows import TurnStatus
from artelier.chat.turn.lorebooks import lore_of
from artelier.chat.turn.main_call import (
    MainCall,
    Sink,
    SurroundingTexts,
    card_chars,
    macros_of,
    main_call,
    name_said,
    people_of,
)
from artelier.chat.turn.speakers import attribute, own_words, request_to_speak, with_speaker
from artelier.chat.turn.turn_config import IMPERSONATE, FailedTurn, TurnEnd, TurnJob
from artelier.chat.turn.turn_events import Chronicle, reports
from artelier.chat.turn.turn_inputs import SAID_AT_ONCE, TurnInputs, find, found_from, inputs_unread
from artelier.context import assemble
from artelier.context.assembly import Section
from artelier.errors import ArtelierError, ContextTooLong, RunStopped
from artelier.kernel import ModelResult, Prompt, Run
from artelier.kernel.prompt.conversation import Conversation
from artelier.kernel.prompt.renderer import settle_numbers
from artelier.kernel.tenants.registry import TenantScope
from artelier.log import Blob, decode_stored
from artelier.loops import Outcome as CycleOutcome
from artelier.loops import Parts, cycle
from artelier.loops.cycle import media_before, media_pieces, media_sections
from artelier.operations import events as ev
from artelier.operations.graph.artifact_inclusion import (
    InclusionFailed,
    around,
    inclusions,
    names_shown,
    place_sections,
    wording,
)
from artelier.operations.graph.effects import OperationOutcome, Turned, apply
from artelier.operations.graph.orchestrator import (
    Hooked,
    Surroundings,
    abort_event,
    fault_of,
    media_for_prompt,
    not_done,
    passages_of,
)
from artelier.operations.graph.plan import OperationPlan, Slot, plan, update_marks
from artelier.operations.graph.scope import Situation
from artelier.operations.profile.definition import AFTER, BEFORE
from artelier.operations.profile.operation_profile import OperationProfile
from artelier.ports.media import stored_media
from artelier.ports.model import ChatMessage
from artelier.threads import in_turns, read_beside_loop
from artelier.tokens import estimate_tokens

CONVERSATION = "chat"


class TurnFailure(Exception):
    """The turn ends without success."""

    def __init__(self, failed_type: str, *, code: str, message: str, operation: str = "") -> None:
        super().__init__(message)
        self.told = FailedTurn(
            failed_type=failed_type, operation=operation, code=code, message=message[:2_000]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnState:
    """A turn between two parts of the cycle."""

    turned: Turned
    before: tuple[OperationOutcome, ...] = ()
    after: tuple[OperationOutcome, ...] = ()
    call: MainCall | None = None
    result: ModelResult | None = None
    """The recorded reply of the main call."""


ParamsT = ParamSpec("ParamsT")
ReturnT = TypeVar("ReturnT")
Watch = Callable[[Hooked, "TurnParts"], None]


async def drive_turn(
    run: Run, job: TurnJob, *, desk: Any = None, sink: Sink | None = None, watch: Watch | None = None
) -> None:
    """Drive a turn to its end. `desk` is the kernel bound to the tenant; None in a replay.

    `watch` is told of each hook before its operations run.
    Errors: Flow, when a command, a wait or a limit ends the drive before that.
    """
    try:
        turn = await TurnParts.begin(run, job, desk=desk, sink=sink)
        turn.watch = watch
    except RunStopped:
        if desk is not None:
            await _note_plan(run, job, desk)
        raise
    try:
        await cycle(turn.start, turn.parts())
    except TurnFailure as failed:
        await turn.end_failed(failed)
    except RunStopped:
        turn.end_cancelled()
        raise


class TurnParts:
    """The parts of the cycle for one turn of a chat."""

    def __init__(
        self, run: Run, job: TurnJob, found: TurnInputs, sink: Sink | None, desk: TenantScope
    ) -> None:
        self.run = run
        self.job = job
        self.found = found
        self.profile: OperationProfile | None = found.profile
        self.now_us = run.core.started_us
        self.macros = macros_of(found.settings, job, run=run.id, now_us=self.now_us)
        self.people: dict[str, dict[str, Any]] = {}
        """Set by `begin`."""
        self.chronicle = Chronicle(run, job)
        self.chronicle.persona = name_said(found.settings, "user", is_group=bool(found.speaker))
        self.chronicle.speaker = name_said(found.settings, "char", is_group=bool(found.speaker))
        self.chronicle.is_group = bool(found.speaker)
        self.watch: Watch | None = None
        self._sink = sink
        self._plan: OperationPlan = plan(
            self.profile, trigger=job.trigger, turn=found.turn, tokens=found.tokens, marks=found.marks
        )
        self._desk = desk
        self._rag: dict[str, Any] = {}
        self._begun = False
        """Whether the turn has a variant in the chat."""
        self._hooked: set[str] = set()
        """Hooks that have begun: what becomes of their operations is recorded there."""
        self.start = TurnState(turned=Turned(state=found.state))
        self._last = self.start

    @classmethod
    async def begin(cls, run: Run, job: TurnJob, *, desk: TenantScope, sink: Sink | None) -> TurnParts:
        """Read what the turn goes on from, once."""

        async def make(full: str) -> tuple[ev.SessionRead, list[Blob]]:
            return await find(run, job, desk, key=full)

        read = await run.receipt(ev.SessionRead, make, key="session")
        found = await with_speaker(run, job, await found_from(run, job, read))
        turn = cls(run, job, found, sink, desk)
        turn.people = await turn._beside_loop(people_of, found.settings, turn.macros)
        await turn.chronicle.take_keys()
        # Every operation, skipped ones included, before anything runs.
        await turn._phase("planning", plan=turn._plan.to_planned())
        return turn

    def parts(self) -> Parts[TurnState, MainCall]:
        return Parts(
            before=(self._before, self._barrier),
            assemble=self._assemble,
            model=self._model,
            act=self._act,
            after=(self._after,),
            transition=self._transition,
            commit=self._commit,
        )

    async def _phase(self, phase: str, *, plan: tuple[ev.PlannedOperation, ...] = ()) -> None:
        async def make(full: str) -> tuple[ev.PhaseChanged, list[Blob]]:
            return ev.PhaseChanged(key=full, phase=phase, plan=plan), []

        await self.run.receipt(ev.PhaseChanged, make, key=f"phase/{phase}")

    # Before

    def _around(self) -> Surroundings:
        assert self.profile is not None
        return Surroundings(
            run=self.run,
            profile=self.profile,
            model=self.job.model,
            principal=self.job.principal,
            desk=self._desk,
            deadline_us=self._deadline_us,
        )

    @property
    def _deadline_us(self) -> int | None:
        limits = [self.job.deadline_ms / 1_000] if self.job.deadline_ms else []
        if self.profile is not None and self.profile.deadline_s:
            limits.append(self.profile.deadline_s)
        return self.run.core.started_us + int(min(limits) * 1_000_000) if limits else None

    def _left_s(self) -> float | None:
        until_us = self._deadline_us
        if until_us is None:
            return None
        return max(0.0, (until_us - self.run.core.clock.now_us()) / 1_000_000)

    def _situation(self, *, text: str, reply: str | None = None) -> Situation:
        job, found = self.job, self.found
        said = [*found.said_before, *found.said]
        if job.has_words:
            said.append(ChatMessage(role="user", content=text))
        situation = Situation.of(
            said,
            people=self.people,
            chat=job.chat,
            branch=job.branch,
            run=self.run.id,
            turn=found.turn,
            trigger=job.trigger,
            now_us=self.now_us,
            text=text,
            reply=reply,
            attachments=stored_media(job.attachments),
        )
        return attribute(situation, found, self._user_name) if found.speaker else situation

    @property
    def _user_name(self) -> str:
        return str(self.people["user"]["name"])

    async def _before(self, state: TurnState) -> TurnState:
        await self._phase(BEFORE)
        if self.profile is None or not self._plan.before:
            return state
        hooked = Hooked(
            self._around(), self._plan.before, state.turned.state, self._situation(text=self.job.text), {}
        )
        self._hooked.add(BEFORE)
        if self.watch is not None:
            self.watch(hooked, self)
        self._last = replace(state, before=tuple(await hooked.run_all()))
        return self._last

    async def _barrier(self, state: TurnState) -> TurnState:
        """Return what the operations before have changed becomes durable, together with the turn's
        variant.
        """
        await self._phase("barrier")
        self._rag = passages_of(state.before)
        if (blocking := not_done(state.before)) is not None:
            raise _failure("before_barrier", blocking)
        if self._out_of_time():
            raise TurnFailure("before_barrier", code="deadline", message="the time of the run is up")
        turned = apply(
            state.turned, state.before, at_us=self.now_us, keeps_unchanged=self.job.keeps_unchanged
        )

        async def make(full: str) -> tuple[ev.CommitReported, list[Blob]]:
            listed, blobs = reports(self.run.core, turned.applied)
            await self.chronicle.record_begin(turned)
            return ev.CommitReported(key=full, hook=BEFORE, reports=listed), blobs

        await self.run.receipt(ev.CommitReported, make, key="commit/before")
        self._begun = True
        self._last = replace(state, turned=replace(turned, applied=(), written=()))
        return self._last

    def _out_of_time(self) -> bool:
        left_s = self._left_s()
        return left_s is not None and left_s <= 0

    # The main call

    async def _beside_loop(
        self, fill: Callable[ParamsT, ReturnT], *args: ParamsT.args, **more: ParamsT.kwargs
    ) -> ReturnT:
        """Return what `fill` makes of the texts of the card: it fills in their macros."""
        return await read_beside_loop(card_chars(self.found.settings), partial(fill, *args, **more))

    async def _assemble(self, state: TurnState) -> Prompt:
        await self._phase("main_llm")
        try:
            sections = await self._sections(state)
            core, job = self.run.core, self.job
            window = core.services.window_of(job.model)
            budget = window.prompt_tokens_max(job.params.get("max_output_tokens"))
            return assemble(sections, budget_tokens=budget)
        except (InclusionFailed, ContextTooLong) as error:
            raise TurnFailure("main_llm", code=error.code, message=str(error)) from None

    async def _sections(self, state: TurnState) -> list[Section]:
        job, found, turned = self.job, self.found, state.turned
        text = turned.user.text if turned.user is not None else job.text
        conversation = await self._conversation(text)
        situation = self._situation(text=text)
        lore = await lore_of(
            self.run,
            job,
            found.settings,
            situation.messages,
            desk=self._desk,
            turn=found.turn,
            people=self.people,
        )
        shown = names_shown(self.profile, turned.state, situation, self._rag)
        rules = self.profile.inclusions if self.profile is not None and self.profile.enabled else ()
        items = await inclusions(self.run, rules, turned.state, shown, trigger=job.trigger, model=job.model)
        texts = SurroundingTexts.of(
            job, found.settings, self.people, self.macros, profile=self.profile, names=shown, lore=lore
        )
        try:
            base = await self._beside_loop(texts.introduction)
        except ArtelierError as error:
            raise InclusionFailed(f"the profile's system prompt fails: {error}") from None
        places = place_sections(base, turned, items, profile=job.profile)
        noted = await self._beside_loop(texts.at_depth)
        lore = replace(texts.lore, at_depth=(*noted, *lore.at_depth))
        places = lore.around(places, is_replaced=turned.replaced)
        tail = await self._beside_loop(texts.afterword)
        if job.trigger == IMPERSONATE:
            asked = wording("impersonate-1").replace("{user}", self._user_name).strip()
            tail.append(Section(tag=IMPERSONATE, text=asked, sources=("impersonate-1",), pinned=True))
        elif job.trigger != "continue":
            tail.extend(request_to_speak(found, has_words=job.has_words))
        else:
            tail.append(Section(tag="continue", text=wording("continue-1"), sources=("continue-1",)))
        places = replace(places, tail=(*tail, *places.tail))
        last = len(conversation)
        shown_by_tools = await self._tool_media(state, conversation)
        places = replace(places, after_user=(*places.after_user, *shown_by_tools))
        first = found.first_shown(max(conversation.first, last - job.history_max + 1), last=last, job=job)

        def span(start: int, end: int, later: int) -> Section:
            return Section(
                tag="conversation",
                range=conversation.range(start, end),
                stability="append_only",
                pinned=start <= last <= end,
                truncation="drop",
                priority=max(60, 69 - later),
            )

        user = last if job.has_words else 0
        return around(places, first=first, last=last, user=user, span=span)

    async def _tool_media(self, state: TurnState, conversation: Conversation) -> list[Section]:
        """Return what tools of operations before have shown, for this turn's prompt alone."""
        pieces = await media_pieces(
            self.run,
            media_for_prompt(state.before),
            model=self.job.model,
            shown=media_before(conversation, first=conversation.first),
            key="media",
        )
        return media_sections(pieces)

    async def _conversation(self, text: str) -> Conversation:
        """The chat's messages up to the newest: earlier ones by reference."""
        found, run = self.found, self.run
        if found.base_run:
            conversation = await run.continue_conversation(
                CONVERSATION, found.base_run, CONVERSATION, found.base_shown, keep_last=self.job.history_max
            )
        else:
            conversation = run.conversation(CONVERSATION)
        async for message in in_turns(found.said, at_once=SAID_AT_ONCE):
            await conversation.add(message)
        if self.job.has_words:
            words = named_text(self._user_name, text) if found.speaker else text
            shown = list(self.job.attachments)
            said = [{"type": "text", "text": words}, *shown] if shown else words
            await conversation.add({"role": "user", "content": said})
        return conversation

    async def _model(self, state: TurnState, prompt: Prompt) -> ModelResult:
        call, result = await main_call(
            self.run,
            prompt,
            models=self.job.models,
            params=self.job.params,
            left_s=self._left_s(),
            sink=self._sink,
        )
        if self.found.speaker:
            others = [one for one in (*self.found.members, self._user_name) if one != self.found.speaker]
            own = own_words(call.text, self.found.speaker, others)
            call = msgspec.structs.replace(call, text=own)
        self._last = replace(state, call=call, result=result)
        return result or ModelResult(text=call.text, finish_reason=call.finish_reason)

    # After

    async def _act(self, state: TurnState, result: ModelResult) -> CycleOutcome[MainCall]:
        """The reply becomes the turn's; one that failed ends it."""
        call = self._last.call
        assert call is not None
        if call.finish_reason == "user_abort":
            await self.run.core.boundary()  # a cancel ends the run here, a stop suspends it
        if not call.is_ok:
            raise TurnFailure(
                "main_llm", code=call.code or call.finish_reason, message=call.message or call.finish_reason
            )
        return CycleOutcome(value=call)

    async def _after(self, state: TurnState) -> TurnState:
        state = self._last
        assert state.call is not None
        await self._phase(AFTER)
        if self.profile is None or not self._plan.after:
            return state
        text = state.turned.user.text if state.turned.user is not None else self.job.text
        hooked = Hooked(
            self._around(),
            self._plan.after,
            state.turned.state,
            self._situation(text=text, reply=state.call.text),
            self._rag,
        )
        self._hooked.add(AFTER)
        if self.watch is not None:
            self.watch(hooked, self)
        self._last = replace(state, after=tuple(await hooked.run_all()))
        return self._last

    async def _transition(
        self, state: TurnState, result: ModelResult | None, outcome: CycleOutcome[MainCall]
    ) -> TurnState:
        await self._phase("commit")
        failed = not_done(state.after)
        await self._commit_turn(state, status=TurnStatus.DONE if failed is None else TurnStatus.FAILED)
        await self._phase("finished")
        if failed is not None:
            failure = _failure("after_main_llm", failed)
            self.run.fail("after_main_llm", str(failure), result=msgspec.to_builtins(self._end(failure.told)))
        else:
            self.run.finish(msgspec.to_builtins(self._end(None)))
        return self._last

    def _commit(self, state: TurnState) -> None:
        """Everything is noted already; the end of the run makes it durable."""

    async def _commit_turn(self, state: TurnState, *, status: TurnStatus) -> None:
        """Apply the effects of the operations after, and complete the variant, in one batch."""
        call = state.call
        reply = call.text if call is not None and call.is_ok else None
        turned = apply(
            state.turned,
            state.after,
            at_us=self.now_us,
            reply=reply,
            keeps_unchanged=self.job.keeps_unchanged,
        )
        self._last = replace(state, turned=turned)

        async def make(full: str) -> tuple[ev.CommitReported, list[Blob]]:
            listed, blobs = reports(self.run.core, turned.applied)
            # A call that a dead process has recorded has numbered the messages that it showed.
            await settle_numbers(self.run.core, Prompt(parts=()))
            await self.chronicle.record_end(
                turned,
                call,
                state.result,
                status=status,
                marks=self._marks(state),
                tokens=self._tokens(turned, call),
                said=self.found.said_last,
            )
            return ev.CommitReported(key=full, hook=AFTER, reports=listed), blobs

        await self.run.receipt(ev.CommitReported, make, key="commit/after")

    def _marks(self, state: TurnState) -> dict[str, tuple[int, int]]:
        found = self.found
        done = [one.slot for one in (*state.before, *state.after) if one.status == "done"]
        return update_marks(self._plan, done, turn=found.turn, tokens=found.tokens, marks=found.marks)

    def _tokens(self, turned: Turned, call: MainCall | None) -> int:
        text = turned.user.text if turned.user is not None else self.job.text
        reply = turned.reply.text if turned.reply is not None else call.text if call else ""
        return self.found.tokens + estimate_tokens(text) + estimate_tokens(reply)

    # Other ends

    async def end_failed(self, failed: TurnFailure) -> None:
        """The turn ends without success: what was committed stays, the rest never was."""
        for slot in self._left_over():
            await self._record_abort(slot)
        if self._begun:
            await self._phase("commit")
            await self._commit_turn(self._last, status=TurnStatus.FAILED)
        await self._phase("finished")
        end = msgspec.to_builtins(self._end(failed.told))
        self.run.fail(failed.told.failed_type, str(failed), result=end)

    def _left_over(self) -> list[Slot]:
        """Operations of the plan that were never begun."""
        ended = {(one.slot.hook, one.slot.id) for one in (*self._last.before, *self._last.after)}
        return [slot for slot in (*self._plan.before, *self._plan.after) if (slot.hook, slot.id) not in ended]

    async def _record_abort(self, slot: Slot) -> None:
        async def make(full: str) -> tuple[ev.OperationFinished, list[Blob]]:
            return _never_begun(slot, full, "run_ended"), []

        await self.run.receipt(ev.OperationFinished, make, key=slot.key)

    def end_cancelled(self) -> None:
        """The run was cancelled: the variant, if there is one, keeps what was said before that."""
        actor = self.run.core.actor
        if actor is None:
            return
        for slot in self._left_over():
            if slot.hook not in self._hooked:
                actor.note(_never_begun(slot, slot.key, "cancelled"))
        if self._begun:
            self.chronicle.cut(self._last.call, said=self.found.said_last)

    def _end(self, failed: FailedTurn | None) -> TurnEnd:
        """Return what `run.completed` and `run.failed` keep of the turn."""
        last = self._last
        call = last.call
        text = last.turned.reply.text if last.turned.reply is not None else call.text if call else ""
        return TurnEnd(
            text=text,
            turn=self.found.turn,
            failed=failed,
            finish_reason=call.finish_reason if call is not None else "",
            operations=_statuses((*last.before, *last.after)),
            is_cut=call is not None and call.code == "length",
        )


async def _note_plan(run: Run, job: TurnJob, desk: Any) -> None:
    """Record the operations of a turn that was cancelled before it began: each with why it never ran."""
    actor = run.core.actor
    if actor is None or not job.profile:
        return
    found = await inputs_unread(run, job, desk)
    if found is None:  # a resumed turn that had read them has recorded its plan as well
        return
    profile, stood = found
    planned = plan(profile, trigger=job.trigger, turn=stood.turn, tokens=stood.tokens, marks=stood.marks)
    actor.note(ev.PhaseChanged(key="phase/planning", phase="planning", plan=planned.to_planned()))
    for slot in (*planned.before, *planned.after):
        actor.note(_never_begun(slot, slot.key, "cancelled"))


def _statuses(outcomes: Sequence[OperationOutcome]) -> dict[str, dict[str, str]]:
    """Status of each operation, by hook."""
    told: dict[str, dict[str, str]] = {}
    for one in outcomes:
        told.setdefault(one.slot.hook, {})[one.slot.id] = one.status
    return told


def _never_begun(slot: Slot, key: str, code: str) -> ev.OperationFinished:
    """The end of an operation of the plan to which its run did not come."""
    ended = abort_event(slot, key, code)
    if not slot.skipped:
        return ended
    return msgspec.structs.replace(ended, status="skipped", reason=slot.skipped, code="")


def _failure(failed_type: str, outcome: OperationOutcome) -> TurnFailure:
    code, message = fault_of(outcome)
    return TurnFailure(failed_type, operation=outcome.slot.id, code=code, message=message)


async def replay_turn(run: Run, settings: object) -> None:
    """Drive a replay: every step returns what was recorded, nothing is called."""
    if isinstance(settings, bytes):
        settings = decode_stored(settings)
    await drive_turn(run, TurnJob.from_stored(settings))
