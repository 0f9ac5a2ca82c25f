"""The decision loop of a task: decide, act, evaluate; one iteration a cycle, until it passes or has ended.

Whatever a part decides is a pure function of the state, or recorded before anything depends on it. A task is
done by a passed evaluation and by nothing else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any

import msgspec

from artelier.context import assemble
from artelier.errors import ArtelierError, Conflict, OutputInvalid, RunStopped, StoreUnavailable, ToolFailed
from artelier.kernel import ModelResult, Prompt, RangePart, Renderer, Run
from artelier.kernel.prompt.manifest import decode_reply, encode_json
from artelier.kernel.prompt.renderer import settle_numbers
from artelier.log import Blob, BlobRef, decode_stored
from artelier.loops import Outcome, Parts, cycle
from artelier.loops.cycle import media_before, media_of_results, media_pieces
from artelier.missions import events as ev
from artelier.missions.definition import Decision, TaskContent, template
from artelier.missions.queries import is_cancelled, max_iterations_now
from artelier.missions.steering_document import Guidance, SteeringReading, guidance_of
from artelier.missions.task import actions, context_sources, prompt_sections
from artelier.missions.task.actions import DELEGATE, Acted, ModelAnswer, ask, read_as
from artelier.missions.task.context_sources import TaskSight
from artelier.missions.task.evaluation import EvaluationResult, evaluate, rejected_in
from artelier.missions.task.loop_state import (
    STUCK_AFTER,
    Ended,
    Endings,
    TaskJob,
    TaskOutput,
    TaskState,
    ToolMedium,
    failed_by,
    id_of,
)
from artelier.missions.task.output_lint import RULES, Grounds, Judged, ToolStatement
from artelier.missions.task.verdict import OutputFault, StoredVerdict
from artelier.missions.view import REJECTED
from artelier.ports.media import CALL_MEDIA_MAX, MEDIA, medium_of
from artelier.ports.model import ModelReply, Part

DECISION_TOKENS_MAX = 8_000
INPUTS_MAX = 300
"""Those of a task, and what it had others make."""

COMPUTING = frozenset(("calculator",))
"""Tools that know nothing but their arguments."""

LOOKS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("list_dir", {"path": ".", "recursive": True}),
    ("describe_tables", {}),
)
"""Calls that show a task its workspace before its first decision, as far as their tools are on."""

NOTES_AT_ONCE = 20
"""Notes of people that are recorded as taken at once. Of more, earlier versions showed the newest alone."""


class TaskLoop:
    """One run that works on a task."""

    def __init__(self, run: Run, job: TaskJob, *, desk: Any = None, is_fork: bool = False) -> None:
        """`desk` is the kernel bound to the tenant; None in a replay."""
        self.run = run
        self.job = job
        self.task: TaskContent = job.content()
        self.conversation = run.conversation()
        self._desk = desk
        self._folder = actions.folder_of(run, job, is_fork=is_fork)
        self._endings = Endings(run)
        self._guidance = Guidance()
        self._looks = 0
        """How often the inputs were looked for."""
        self.sight = TaskSight(run, job, desk=desk)
        self._asked: ModelAnswer[Decision] | None = None
        self._is_fresh = False
        """Whether people or other artifacts have brought something new."""
        self._texts: dict[str, str] = {}
        """Contents of outputs, by their reference."""

    async def drive(self, snapshot: Mapping[str, Any] | None = None) -> None:
        """Iterate until the task has ended. Errors: Flow."""
        state = TaskState.from_stored(snapshot)
        await self._restore(state)
        parts = self._parts()
        is_steered = False
        while True:
            try:
                if not state.begun:
                    state = await self._begin(state)
                if not is_steered:
                    state = await self._steer(state)
                is_steered = True
                if self.job.looks and not state.messages:
                    state = await self._show_workspace(state)
                state = await self._iterate(state, parts)
                is_steered = False
            except Ended as ended:
                if ended.outputs is not None:
                    state = state.replace(outputs=ended.outputs)
                if not await self._endings.goes_on(ended, state.refs):
                    return await self._finish(ended, state)
                state = await self._again(ended, state)
                is_steered = ended.reason == "max_iterations"

    async def _show_workspace(self, state: TaskState) -> TaskState:
        """Put what the workspace holds before the first decision: each model would ask for it first."""

        def offered() -> list[list[object]]:
            core = self.run.core
            names = {schema.name for schema in core.offered_tools()}
            return [[name, given, core.tools[name].trust] for name, given in LOOKS if name in names]

        for number, (name, given, trust) in enumerate(await self.run.step("look", offered, key="look")):
            look = Decision(action="use_tool", reason=template("look-1"), tool=name, input=given)
            acted = await actions.used(self.run, look, key=f"look/{number}", trust=trust)
            said = encode_json(look.model_dump(mode="json")).decode()
            self.conversation.append({"role": "assistant", "content": said})
            await self.conversation.add({"role": "user", "content": prompt_sections.result(0, *acted.said)})
            state = self._learn(state, look, acted)
        return state.replace(messages=len(self.conversation), decided="", led_to="", action="", repeats=0)

    async def _iterate(self, state: TaskState, parts: Parts[TaskState, Acted]) -> TaskState:
        """Errors: `Ended`, for a step's failure too."""
        if state.iteration >= state.base + state.allowed:
            plural = "" if state.allowed == 1 else "s"
            said = f"not done after {state.allowed} iteration{plural}"
            raise Ended("failed", "max_iterations", iteration=state.iteration, message=said)
        try:
            return await cycle(state, parts)
        except ArtelierError as error:
            ended = failed_by(error, iteration=state.iteration + 1)
            if ended is None:
                raise
            raise ended from error

    def _parts(self) -> Parts[TaskState, Acted]:
        return Parts(
            before=(self._prepare,),
            assemble=self._assemble,
            model=self._model,
            act=self._act,
            transition=self._transition,
            commit=self._commit,
        )

    async def _restore(self, state: TaskState) -> None:
        run, job = self.run, self.job
        run.core.result_bytes_max = min(run.core.policy.result_bytes_max, job.result_bytes_max)
        if state.messages:
            renderer = await Renderer.open(run.core.services, run.tenant_id, run.id)
            messages = await renderer.messages(self.conversation.name, 1, state.messages)
            self.conversation.restore(1, messages)

    # Begin and end

    async def _begin(self, state: TaskState) -> TaskState:
        """Look for the inputs; without all of them the task is blocked."""
        self._looks += 1
        key = "begun" if self._looks == 1 else f"begun-{self._looks}"
        if not await self.run.core.history.knows(key):
            await self._end_if_cancelled()

        async def make(full: str) -> tuple[ev.TaskBegun, list[Blob]]:
            refs, missing = await context_sources.found_inputs(self._desk, self.job)
            most = await max_iterations_now(self._desk, self.run.id)
            event = ev.TaskBegun(
                key=full,
                agent=self.job.agent,
                inputs=tuple(refs),
                missing=missing,
                max_iterations=most or self.task.max_iterations,
            )
            return event, []

        begun = await self.run.receipt(ev.TaskBegun, make, key=key)
        if begun.missing:
            said = f"its input {begun.missing} is not there, or its agent may not read it"
            raise Ended("blocked", "missing_input", by=begun.missing, message=said)
        return state.replace(begun=self._looks, inputs=begun.inputs)

    async def _end_if_cancelled(self) -> None:
        """Cancel a run that began in the instant in which its task was cancelled. Errors: `RunStopped`."""
        run = self.run
        if run.core.actor is None or not await is_cancelled(self._desk, run.id):
            return
        with suppress(Conflict):
            await self._desk.cancel(run.id, by="kernel")
        await run.core.boundary()
        raise RunStopped(run.id, reason="cancelled")

    async def _again(self, ended: Ended, state: TaskState) -> TaskState:
        """A task that ended was reopened: what is there stays, and the limit counts anew."""
        if ended.is_before_work:
            return state
        if ended.status == "done":  # a person has rejected the output: no evaluator passes it again
            state = state.replace(judged=state.refs, verdict=ended.verdict, void=REJECTED)
        self.conversation.append({"role": "user", "content": template("again-1")})
        state = state.replace(
            iteration=ended.iteration,
            base=ended.iteration,
            messages=len(self.conversation),
            repeats=0,
            decided="",
            led_to="",
        )
        return await self._limited(state, place="again")

    async def _finish(self, ended: Ended, state: TaskState) -> None:
        text = await self._text(state.outputs[-1]) if state.outputs else ""
        result = {
            "status": ended.status,
            "reason": ended.reason,
            "outputs": list(state.refs),
            "iterations": ended.iteration,
            "text": text,
            "artifact": state.refs[-1] if state.refs else "",
            "output": None,
        }
        if ended.status == "done":
            self.run.finish(result)
        else:
            self.run.fail(ended.reason, ended.message, result=result)

    # Before the model

    async def _steer(self, state: TaskState) -> TaskState:
        """Return what steering says now holds for the whole iteration."""
        self._obey(await self.sight.steering(state))
        return await self._limited(state, place="limit")

    async def _limited(self, state: TaskState, *, place: str) -> TaskState:
        """Return the state with the iterations that the task's definition and steering allow now.

        The definition may have been changed since the run began.
        """
        is_past = place == "limit" and await self._endings.met_limit(state.iteration)
        if is_past:  # what was read when an iteration that came to nothing was asked for anew comes before it
            is_past = not await self.run.core.history.knows(f"c{state.iteration + 1}/limit")
        begun_with = self.task.max_iterations
        asked = await self.sight.max_iterations(state, "" if is_past else place) or begun_with
        allowed = self._guidance.iterations_for(asked, begun_with=begun_with)
        return state.replace(allowed=allowed, reads=self.sight.reads(state))

    def _obey(self, reading: SteeringReading) -> None:
        core = self.run.core
        self._guidance = guidance_of(reading, core)
        if self._guidance.delegation_depth == 0 or core.depth_max == 0:
            core.barred = {**core.barred, DELEGATE: "steering allows no more delegation"}

    async def _prepare(self, state: TaskState) -> TaskState:
        number = state.iteration + 1
        is_told = await self._hear(f"c{number}/notes")
        is_changed = await self.sight.look(state)
        self._is_fresh = is_told or is_changed
        return state.replace(reads=self.sight.reads(state))

    async def _hear(self, key: str) -> bool:
        """Put unread notes of people into the conversation. True if there are any."""
        notes = await self.run.notes_anew(key, at_once=NOTES_AT_ONCE)
        for note in notes:
            text = f"{template('note-1')}\n\n{note}"
            await self.conversation.add({"role": "user", "content": text})
        return bool(notes)

    # The prompt

    async def _assemble(self, state: TaskState) -> Prompt:
        sections = prompt_sections.decision_sections(
            self.job,
            self.task,
            state,
            guidance=self._guidance,
            seen=self.sight,
            conversation=self._conversation_range(),
        )
        return assemble(sections, budget_tokens=self.job.prompt_tokens_max)

    def _conversation_range(self) -> RangePart | None:
        count = len(self.conversation)
        return self.conversation.range(1, count) if count else None

    # Decide

    @property
    def _temperature(self) -> float | None:
        """Return what steering asks for; None where the run has a temperature of its own, which stands."""
        return None if "temperature" in self.run.core.params else self._guidance.temperature

    async def _model(self, state: TaskState, prompt: Prompt) -> ModelResult:
        number = state.iteration + 1

        def read(reply: ModelReply) -> Decision:
            return read_as(Decision, reply)

        self._asked = await ask(
            self.run,
            prompt,
            key=f"c{number}/decision",
            models=self.job.models,
            read=read,
            repair="repair-decision-1",
            form=Decision,
            temperature=self._temperature,
            output_tokens_max=min(self.job.max_output_tokens, DECISION_TOKENS_MAX),
        )
        if self._asked.value is None:
            await self._end_undecided(number, self._asked)
        return self._asked.result

    async def _end_undecided(self, number: int, asked: ModelAnswer[Any]) -> None:
        """Errors: `Ended`, always."""
        core = self.run.core

        async def make(full: str) -> tuple[ev.DecisionInvalid, list[Blob]]:
            reply, first = core.keep_json(asked.result.text)
            wrong, second = core.keep_json(asked.mistakes)
            event = ev.DecisionInvalid(key=full, iteration=number, reply=reply, mistakes=wrong)
            return event, [*first, *second]

        await self.run.receipt(ev.DecisionInvalid, make, key=f"c{number}/invalid")
        said = f"its reply and the repair of it are no decisions: {asked.mistakes}"
        raise Ended("failed", "decision_invalid", iteration=number, message=said)

    async def _act(self, state: TaskState, result: ModelResult) -> Outcome[Acted]:
        number, decision = state.iteration + 1, self._decision()
        repeats = self._repeats(state, decision)
        await self._record_decision(number, decision, repeats)
        if repeats >= STUCK_AFTER:
            said = f"{repeats + 1} equal decisions in a row brought nothing new"
            raise Ended("failed", "stuck", iteration=number, message=said)
        if decision.action in ("create_artifact", "use_tool"):
            # Whatever was switched off or lowered since it was decided holds for this step already.
            self._obey(await self.sight.steering_again(state))
        if decision.action == "create_artifact":
            await self.sight.look_again(state)
            return Outcome(value=await self._create_artifact(state, decision))
        if actions.lacks(decision, state.outputs):
            await self._record_execution(number, decision, actions.claim_outcome())
            said = f"{decision.reason} Missing: {' '.join((decision.target or '').split())}"
            raise Ended("blocked", "missing_input", iteration=number, message=said)
        if decision.action == "use_tool":
            trust = self.sight.trust_of(decision.tool)
            acted = await actions.used(self.run, decision, key=f"c{number}/tool/0", trust=trust)
        else:
            acted = (
                actions.claim_outcome() if decision.action == "complete_task" else actions.analysis_outcome()
            )
        await self._record_execution(number, decision, acted)
        return Outcome(value=acted)

    def _decision(self) -> Decision:
        assert self._asked is not None and self._asked.value is not None
        return self._asked.value

    def _repeats(self, state: TaskState, decision: Decision) -> int:
        """Return how many equal decisions without new evidence came right before this one."""
        if self._is_fresh or actions.equal_mark(decision) != state.decided:
            return 0
        return state.repeats + 1

    async def _record_decision(self, number: int, decision: Decision, repeats: int) -> None:
        core, guidance = self.run.core, self._guidance
        temperature = core.params.get("temperature", guidance.temperature)
        assert self._asked is not None
        repaired = self._asked.repaired
        # A name that no tool has is the model's free text: it stands in the decision alone.
        tool = decision.tool if decision.tool in core.tools else None

        async def make(full: str) -> tuple[ev.DecisionTaken, list[Blob]]:
            ref, blobs = core.keep_json(decision.model_dump(mode="json"))
            event = ev.DecisionTaken(
                key=full,
                iteration=number,
                decision=ref,
                action=decision.action,
                tool=tool or "",
                repaired=repaired,
                repeats=repeats,
                steering=guidance.refs[0] if guidance.refs else "",
                temperature=None if temperature is None else round(temperature * 1000),
            )
            return event, blobs

        await self.run.receipt(ev.DecisionTaken, make, key=f"c{number}/decided")

    async def _record_execution(
        self, number: int, decision: Decision, acted: Acted, write: Callable[[], Awaitable[str]] | None = None
    ) -> ev.DecisionExecuted:
        """Record what came of a decision, with the version that it writes in the same batch."""

        async def make(full: str) -> tuple[ev.DecisionExecuted, list[Blob]]:
            artifact, code = "", acted.code
            if write is not None:
                try:
                    artifact = await write()
                except ArtelierError as error:
                    if isinstance(error, StoreUnavailable | Conflict):
                        raise
                    code = error.code
            event = ev.DecisionExecuted(
                key=full,
                iteration=number,
                action=decision.action,
                step=acted.step,
                artifact=artifact,
                is_error=acted.is_error or bool(code),
                code=code,
                read=self.sight.shown_refs(),
            )
            return event, []

        return await self.run.receipt(ev.DecisionExecuted, make, key=f"c{number}/executed")

    # Create

    async def _create_artifact(self, state: TaskState, decision: Decision) -> Acted:
        number, media = state.iteration + 1, decision.artifact_type
        title = " ".join((decision.target or "").split()) or self.job.task.rpartition("/")[2]
        slug, own = actions.place_of(state.outputs, title, self._folder)
        guidance = self._guidance
        bytes_max = guidance.output_bytes
        # The decision stands, whatever was said since: the text is the first that can follow from it.
        if await self._hear(f"c{number}/content-notes"):
            self._is_fresh = True
        asked = await ask(
            self.run,
            await self._content_prompt(state, title, media, slug),
            key=f"c{number}/content",
            models=self.job.models,
            read=actions.reader(media, bytes_max=bytes_max),
            repair="repair-content-1",
            temperature=self._temperature,
            output_tokens_max=guidance.output_tokens(self.job.max_output_tokens),
        )
        try:
            if asked.value is None:
                raise OutputInvalid(f"the content is no JSON: {asked.mistakes}")
            written = actions.check_content(asked.result, media, bytes_max=bytes_max)
        except ArtelierError as error:
            acted = actions.refusal_outcome(error)
            await self._record_execution(number, decision, acted)
            return acted
        step = actions.Acted(said=(), led_to="", step=asked.result.key)

        async def write() -> str:
            return await actions.plan_write(
                self.run,
                self._desk,
                self.job,
                written,
                slug=slug,
                title=title,
                media=media,
                folder=self._folder,
                own=own,
                sources=self.sight.derived_from(),
            )

        executed = await self._record_execution(number, decision, step, write)
        if not executed.artifact:
            return actions.refusal_outcome(ToolFailed("it could not be written", got=executed.code))
        id_, _, version = executed.artifact.rpartition("@")
        assert asked.result.reply is not None
        output = TaskOutput(
            id=id_,
            version=int(version),
            slug=slug,
            media=media,
            reply=self.run.core.ref_of(asked.result.reply),
        )
        self._texts[output.reply] = written.text
        said = f"{template('written-1')} {output.ref} ({len(written.text.encode())} bytes)"
        return Acted(
            said=(said,),
            led_to=actions.digest(slug, media, written.text),
            step=asked.result.key,
            output=output,
        )

    async def _content_prompt(self, state: TaskState, title: str, media: str, slug: str) -> Prompt:
        earlier = next((one for one in state.outputs if one.slug == slug), None)
        text = await self._text(earlier) if earlier is not None else ""
        sections = [
            *prompt_sections.opening_sections(
                "content-1", self.job, self.task, state, guidance=self._guidance, seen=self.sight
            ),
            prompt_sections.target(title, media),
            *prompt_sections.attachment_sections(self.job),
            *prompt_sections.conversation_sections(self._conversation_range()),
            *prompt_sections.current(earlier.ref if earlier is not None else "", text),
            prompt_sections.tail_section(state, seen=self.sight),
        ]
        return assemble(sections, budget_tokens=self.job.prompt_tokens_max)

    # After it

    async def _transition(
        self, state: TaskState, result: ModelResult | None, outcome: Outcome[Acted]
    ) -> TaskState:
        assert self._asked is not None and outcome.value is not None
        number, decision, acted = state.iteration + 1, self._decision(), outcome.value
        outputs = _with(state.outputs, acted.output)
        state = self._learn(state, decision, acted).replace(outputs=outputs)
        self.conversation.append(self._asked.result)
        said = acted.said
        if acted.output is not None or decision.action == "complete_task":
            if await self._hears_first(state, number):
                said = (*said, template("postponed-evaluation-1"))
            else:
                state, more = await self._evaluate(state, number)
                said = (*said, *more)
        message = prompt_sections.result(number, *said)
        pieces = await self._media(number, decision, acted)
        content = [{"type": "text", "text": message}, *pieces] if pieces else message
        await self.conversation.add({"role": "user", "content": content})
        await self._endings.passed_over(number)
        reads, messages = self.sight.reads(state), len(self.conversation)
        return state.replace(iteration=number, messages=messages, reads=reads)

    async def _media(self, number: int, decision: Decision, acted: Acted) -> list[dict[str, Any]]:
        """Return what the tool of a decision has shown, as pieces of the message that tells its result."""
        if acted.result is None:
            return []
        return await media_pieces(
            self.run,
            media_of_results([(decision.tool or "", acted.result)]),
            model=self.job.model,
            shown=chain(self.job.media, media_before(self.conversation)),
            key=f"c{number}/media",
        )

    def _learn(self, state: TaskState, decision: Decision, acted: Acted) -> TaskState:
        mark = actions.equal_mark(decision)
        repeats = self._repeats(state, decision)
        if repeats and acted.led_to != state.led_to:
            repeats = 0  # the same call has told something else: that is new evidence
        sources, tools = state.sources, state.tools
        inputs = state.inputs
        if acted.source is not None and not actions.reads_own(decision, state.own):
            sources = (*sources, state.of_made(acted.source, actions.read_id(decision)))
            inputs = tuple(dict.fromkeys((*inputs, *acted.source.made)))[:INPUTS_MAX]
            tools = tuple(dict.fromkeys((*tools, acted.source.name)))
        return state.replace(
            decided=mark,
            led_to=acted.led_to,
            repeats=repeats,
            sources=sources,
            tools=tools,
            action=decision.action,
            inputs=inputs,
            media=self._media_after(state, decision, acted),
        )

    def _media_after(self, state: TaskState, decision: Decision, acted: Acted) -> tuple[ToolMedium, ...]:
        """Return what tools have shown so far, each medium once."""
        if acted.result is None or not self.job.sees:
            return state.media
        known = {one.part["data"]["blob"] for one in state.media}
        new = [
            ToolMedium((decision.tool or "")[:200], msgspec.to_builtins(one.part))
            for one in acted.result.media
            if one.blob not in known
        ]
        return (*state.media, *new)[-CALL_MEDIA_MAX:]

    async def _hears_first(self, state: TaskState, number: int) -> bool:
        """Return whether a note that nobody has read stands before the evaluation, which could end the task.

        It is read by the next decision, unless there is none.
        """
        core, key = self.run.core, f"c{number}/evaluat"
        if number >= state.base + state.allowed or await core.history.knows(f"{key}ed"):
            return False
        heard = await core.history.knows(f"c{number + 1}/notes")
        if not (heard or (core.actor is not None and core.notes)) or core.history.is_bound(f"c{number}"):
            return False
        # An evaluation that failed, and was to be asked again, has recorded the messages before it.
        await core.history.find(f"{key}ion")
        core.history.pass_over(f"{key}ion")
        await settle_numbers(core, Prompt(parts=()))
        return True

    async def _evaluate(self, state: TaskState, number: int) -> tuple[TaskState, tuple[str, ...]]:
        """Judge the outputs, unless they are those that were judged last. Errors: `Ended` when passed."""
        core = self.run.core
        stands = bool(state.outputs) and state.judged == state.refs
        if stands and state.void in RULES and len(state.sources) != state.judged_by:
            stands = False  # what broke a rule for want of sources may keep it now
        judgement: EvaluationResult | None = None
        if not stands:
            judgement = await self._judge(state, number)

        async def make(full: str) -> tuple[ev.TaskEvaluated, list[Blob]]:
            if judgement is None:
                assert state.verdict is not None
                verdict, blobs = state.verdict, list[Blob]()
            else:
                verdict, blobs = core.keep_json(judgement.stored)
            event = ev.TaskEvaluated(
                key=full,
                iteration=number,
                verdict=verdict,
                outputs=state.refs,
                passed=judgement is not None and judgement.passed,
                void=state.void if judgement is None else judgement.void,
            )
            return event, blobs

        evaluated = await self.run.receipt(ev.TaskEvaluated, make, key=f"c{number}/evaluated")
        state = state.replace(
            judged=state.refs, verdict=evaluated.verdict, void=evaluated.void, judged_by=len(state.sources)
        )
        if evaluated.passed:
            raise Ended("done", "", iteration=number, outputs=state.outputs, verdict=evaluated.verdict)
        if judgement is None:
            stored = decode_stored(await core.load(evaluated.verdict), type=StoredVerdict)
        else:
            stored = judgement.stored
        return state, prompt_sections.verdict(stored, void=evaluated.void, stands=stands)

    async def _judge(self, state: TaskState, number: int) -> EvaluationResult:
        outputs = [Judged(ref=one.ref, media=one.media, text=await self._text(one)) for one in state.outputs]
        key = f"c{number}/evaluation"
        seen = await media_pieces(
            self.run,
            [(one.tool, medium_of(msgspec.convert(one.part, Part))) for one in state.media],
            model=self.job.model,
            shown=self.job.media,
            key=f"{key}/media",
        )
        return await evaluate(
            self.run,
            self.job,
            self.task,
            outputs,
            await self._grounds(state, seen),
            seen=seen,
            rejected=partial(self._find_rejected, state.refs),
            key=key,
        )

    async def _find_rejected(self, refs: tuple[str, ...]) -> list[OutputFault]:
        """Find what a person has rejected among the outputs."""
        await self.run.core.writer.commit()  # the newest of them may not be in the log yet
        return await rejected_in(self._desk, (self.job.task, self.run.id), refs)

    async def _grounds(self, state: TaskState, seen: Sequence[Mapping[str, Any]]) -> Grounds:
        """All that the task was asked, and all that it was shown. `seen`: what tools have shown."""
        made = {id_of(ref) for one in state.sources for ref in one.made}
        shown = self.sight.texts(own=state.own, made=made)
        told: list[ToolStatement] = []
        for one in state.sources:
            given = "" if one.given is None else await self._load_text(one.given)
            said = [await self._load_text(one.content), *self.sight.inputs_at(one.made)]
            computes = one.name in COMPUTING
            told += [ToolStatement(text=text, given=given, computes=computes) for text in said]
        asked = [self.task.goal, self.task.success_criteria, self.job.role]
        asked += [block.text for block in self.sight.memory or []]
        count = len(self.conversation)
        messages = self.conversation.messages(1, count) if count else []
        marker = template("note-1")
        asked += [one.text for one in messages if one.role == "user" and one.text.startswith(marker)]
        media = [
            *self.job.media,
            *(medium_of(msgspec.convert(one, Part)) for one in seen if one["type"] == MEDIA),
        ]
        shown += [await self._load_text(BlobRef(one.text)) for one in media if one.text is not None]
        has_unsearched = any(one.text is None for one in media)
        return Grounds(asked=asked, shown=shown, told=told, has_unsearched=has_unsearched)

    async def _load_text(self, ref: BlobRef) -> str:
        return (await self.run.core.load(ref)).decode("utf-8", "replace")

    async def _text(self, output: TaskOutput) -> str:
        if output.reply not in self._texts:
            reply = decode_reply(await self.run.core.load(output.reply))
            self._texts[output.reply] = reply.text
        return self._texts[output.reply]

    def _commit(self, state: TaskState) -> None:
        self.run.complete_cycle(state.iteration, state.to_stored())


def _with(outputs: tuple[TaskOutput, ...], made: TaskOutput | None) -> tuple[TaskOutput, ...]:
    """The outputs with a new one in its place: the newest stands last."""
    if made is None:
        return outputs
    return (*(one for one in outputs if one.slug != made.slug), made)
