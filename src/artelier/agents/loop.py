"""The loop of one agent run: the parts that it gives the step cycle.

Whatever a part decides is either a pure function of the state, or recorded before anything depends on it. On
resume and replay the record decides: a compaction happens again because its receipt is there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from hashlib import sha256
from itertools import compress
from typing import TYPE_CHECKING, Any, cast

import msgspec

from artelier.agents.compaction import ContextWindow
from artelier.agents.run_config import (
    SKILLS_MAX,
    AgentState,
    Job,
    LoadedSkill,
    Sink,
    finish,
    steps_of,
    template,
)
from artelier.context import Context, ContextBuilder, Section, cut
from artelier.errors import ContextTooLong, LimitReached, ModelRefusedCall, OutputInvalid
from artelier.kernel import ModelResult, Prompt, Renderer, Run, ToolResult
from artelier.kernel.events import RunReopened
from artelier.kernel.history.fork_lineage import lineage
from artelier.kernel.run_limits import GO_ON, reopenings
from artelier.kernel.steps.failures import ask_in_turn
from artelier.kernel.tool_calls.tool_list import listed_polls
from artelier.log import decode_stored
from artelier.loops import Outcome, Parts, cycle
from artelier.loops.cycle import media_before, media_of_results, media_pieces
from artelier.operations.graph.failures import OperationStepFailed
from artelier.ports.model import Delta, ToolCall
from artelier.tokens import estimate_tokens

if TYPE_CHECKING:
    from artelier.tools.skills import Listing

REPAIRS_MAX = 2
"""Turns in a row in which a model may correct a reply that does not fit."""

QUERY_CHARS_MAX = 1_000
"""Of the newest message, for retrieval."""

TASK = "kept task"
"""Name of the reading that says where a very long task is kept."""

SKILL_TOOLS = frozenset(("load_skill", "use_skill", "unload_skill"))
"""Our own tools whose results say which skills are loaded."""

MISFIT = "(does not fit)"
"""As `finish_reason`: the reply does not fit the schema. No provider says this."""

READS_MAX = 256
"""Different readings that a run's prompts may depend on."""


class AgentLoop:
    """One run of the autonomous agent."""

    def __init__(
        self,
        run: Run,
        job: Job,
        builder: ContextBuilder,
        *,
        agent_id: str,
        listing: Listing | None = None,
        native: frozenset[str] | None = None,
        sink: Sink | None = None,
        desk: Any = None,
    ) -> None:
        """`listing`: the skills as they are now; `native`: names of the tools that are offered as such.

        `desk`: the kernel bound to the tenant, for operations; None in a replay.
        """
        self.run = run
        self.job = job
        self.builder = builder
        self.agent_id = agent_id
        self.conversation = run.conversation()
        self.window = ContextWindow(run, job, self.conversation)
        self._listing = listing
        self._native = native
        self._sink = sink
        self._read_now: dict[str, tuple[Any, str]] = {}
        """Readings of the cycle at hand."""
        self._kept = ""
        """Reference of the reading that says where the last long text was kept."""
        self._task_text: str | None = None
        self._task_ref = ""
        self._prompt = Prompt(parts=())
        self._raw = 0
        """Estimate of the prompt at hand, tools included."""
        self._called: list[str] = []
        """Names of the tools that the calls of this cycle reached."""
        self._tightened: AgentState | None = None
        """The state after a compaction in the middle of a cycle."""
        self._said = ""
        """The text of this cycle's reply."""
        self._listed_polls: dict[str, bool] = {}
        """Tools that the run was started with, and whether calls of them only wait for something."""
        self._steps = steps_of(run, job, desk, agent_id=agent_id)

    async def drive(self, snapshot: Mapping[str, Any] | None = None) -> None:
        """Cycles until the state says that it ended."""
        state = AgentState.from_stored(snapshot)
        await self._restore(state)
        reopenings = await self._reopenings(from_snapshot=snapshot is not None)
        parts = self._parts()
        while True:
            for event in reopenings.get(state.cycle, ()):
                state = state.reopen(event)
            if state.status != "running":
                break
            if self._is_used_up(state):
                self.run.fail("max_iterations", _end_message(self.run, "max_iterations", state))
                return
            try:
                state = await cycle(state, parts)
            except OperationStepFailed as failed:
                self.run.fail(str(failed.facts["failed_type"]), failed.message)
                return
        if state.status == "failed":
            self.run.fail(state.reason, _end_message(self.run, state.reason, state))

    async def _reopenings(self, *, from_snapshot: bool) -> dict[int, list[RunReopened]]:
        """Return how the run was reopened after failing, by the cycle behind which it goes on."""
        core = self.run.core
        if core.is_new:
            return {}
        places = await lineage(core.services, core.tenant.id, core.run_id)
        found: dict[int, list[RunReopened]] = {}
        for event in await reopenings(core.services, places, from_snapshot=from_snapshot):
            found.setdefault(event.cycle, []).append(event)
        return found

    def _is_used_up(self, state: AgentState) -> bool:
        most = state.raised.get("max_iterations", self.job.max_iterations)
        return state.cycle - state.iterations_from >= most

    async def _restore(self, state: AgentState) -> None:
        run, job = self.run, self.job
        run.core.result_bytes_max = min(run.core.policy.result_bytes_max, job.message_bytes_max)
        if not run.core.is_new:
            self._listed_polls = await listed_polls(run.core)
        if state.messages >= state.shown:
            renderer = await Renderer.open(run.core.services, run.tenant_id, run.id)
            name = self.conversation.name
            messages = await renderer.messages(name, state.shown, state.messages)
            self.conversation.restore(state.shown, messages)
        self._offer(state)

    def _parts(self) -> Parts[AgentState, list[ToolResult]]:
        return Parts(
            assemble=self._assemble,
            model=self._model,
            act=self._act,
            transition=self._transition,
            commit=self._commit,
            before=(self._prepare,),
            after=(self._operations_after,),
        )

    # Before the model

    async def _prepare(self, state: AgentState) -> AgentState:
        number = state.cycle + 1
        self._read_now = {}
        if number == 1:
            await self._begin()
        for note in await self.run.notes_anew(f"c{number}/notes"):
            place = f"c{number}/kept/{len(self.conversation) + 1}"
            text = await self._bound_text(note, key=place)
            await self.conversation.add({"role": "user", "content": text})
        state = await self.window.undone(state)
        if self._steps is not None:
            await self._steps.before(number, self.conversation, text=self.job.prompt)
        state = await self._fit_prompt(state)
        return state.replace(reads=self._reads(state))

    async def _begin(self) -> None:
        """A chat begins with what was said before, and with what the person says now."""
        job = self.job
        if len(self.conversation):
            return
        if job.earlier is not None:
            from artelier.chat.session.agent_conversation import messages_before

            messages, is_recorded = await messages_before(self.run, job.earlier)
            for message in messages:
                await self.conversation.add(message, is_recorded=is_recorded)
        for number, text in enumerate(job.news):
            told = await self._bound_text(text, key=f"c1/kept/news/{number}")
            await self.conversation.add({"role": "user", "content": told})
        text = template("attached-1") if job.attachments else ""
        if job.is_chat:
            text = await self._bound_text(job.prompt, key="c1/kept/task", most=job.task_tokens_max)
        if job.attachments:
            said = [{"type": "text", "text": text}, *job.attachments]
            await self.conversation.add({"role": "user", "content": said})
        elif job.is_chat:
            await self.conversation.add({"role": "user", "content": text})

    async def _bound_text(self, text: str, *, key: str, known: str = "", most: int = 0) -> str:
        """Return text of a person, verbatim up to `most` tokens; beyond, it is kept as an artifact, and
        shown by head and tail."""
        tokens = self.job.note_tokens_max
        if estimate_tokens(text) <= (most or tokens):
            return text
        core = self.run.core

        async def keep() -> object:
            if known:
                return await core.load_json(known)
            assert core.store_result is not None
            return await core.store_result(core, key, text.encode("utf-8", "replace"))

        ref, self._kept = await self.run.reading(keep, key=key, last=known)
        shown = cut(text, tokens=tokens // 2, where="middle")
        return f"{shown}\n\n{template('kept-1')} {ref}"

    async def _fit_prompt(self, state: AgentState, *, force: str = "") -> AgentState:
        """Make the prompt; if it has grown too long, compact and make it again."""
        sections = await self._sections(state)
        compacted = await self.window.compact_if_due(state, sections, force=force)
        if compacted is not state:
            state = compacted
            sections = await self._sections(state)
        self._prompt, self._raw = self.window.assemble_prompt(state, sections)
        return state

    async def _sections(self, state: AgentState) -> list[Section]:
        run, job = self.run, self.job
        count = len(self.conversation)
        shown = self.conversation.align_range(state.shown, count) if count >= state.shown else None
        summary = ""
        if state.summary is not None:  # the same one for many turns
            summary = await run.core.load_decoded(state.summary, decode_stored)
        elif job.earlier is not None:
            summary = job.earlier.summary
        trust = state.trust if state.summary or job.earlier is None else job.earlier.trust
        skills = None
        if self.builder.progressive_skills:
            skills = await self._read(state, "skills", self._list)
        loaded = [
            await run.core.load_decoded(skill.value, decode_stored)
            for skill in state.skills
            if skill.message < state.shown
        ]
        context = Context(
            run_id=run.id,
            tenant_id=run.tenant_id,
            agent_id=self.agent_id,
            model=job.model,
            cycle=state.cycle + 1,
            window_tokens=job.window_tokens,
            conversation=shown,
            task=await self._task(state),
            task_kept=self._task_ref,
            summary=summary,
            summary_trust=trust,
            summary_from=f"{run.id}:{state.compaction}" if state.compaction else "log",
            query=self._query(),
            skills=skills,
            loaded=loaded,
            reader=lambda key, read: self._read(state, key, read),
        )
        sections = await self.builder.sections(context)
        return sections if self._steps is None else [*sections, *self._steps.sections()]

    async def _task(self, state: AgentState) -> str:
        """Return what the person asked for, verbatim if a window can hold it."""
        if self.job.is_chat:
            return ""
        if self._task_text is None:
            self._kept = ""
            known = state.reads.get(TASK, "")
            key = f"c{state.cycle + 1}/kept/task"
            most = self.job.task_tokens_max
            self._task_text = await self._bound_text(self.job.prompt, key=key, known=known, most=most)
            if self._kept:
                self._read_now[TASK] = (None, self._kept)
                self._task_ref = str(await self.run.core.load_json(self._kept))
        return self._task_text

    def _query(self) -> str:
        """The newest words that were said, with the task they serve."""
        newest = ""
        if len(self.conversation) >= self.conversation.first:
            last = self.conversation.messages(len(self.conversation), len(self.conversation))
            newest = last[0].text[:QUERY_CHARS_MAX] if last else ""
        return f"{self.job.prompt[: QUERY_CHARS_MAX // 2]}\n{newest}".strip()

    async def _read(self, state: AgentState, name: str, read: Callable[[], Awaitable[Any]]) -> Any:
        """A journaled reading, once a cycle however often it is asked for."""
        if name not in self._read_now:
            known = state.reads.get(name, "")
            if not known and len(state.reads) + len(self._read_now) >= READS_MAX:
                raise LimitReached("a prompt depends on too many readings", got=name[:80])
            key = f"c{state.cycle + 1}/read/{_key_part(name)}"
            self._read_now[name] = await self.run.reading(read, key=key, last=known)
        return self._read_now[name][0]

    def _reads(self, state: AgentState) -> dict[str, str]:
        now = {name: ref for name, (_, ref) in self._read_now.items()}
        merged = {**state.reads, **now}
        return {name: ref for name, ref in merged.items() if ref}

    async def _list(self) -> object:
        """The skills that this run may use: what it was not granted, its model does not hear of."""
        assert self._listing is not None
        core = self.run.core
        listing = self._listing

        def may_use(name: str) -> bool:
            tool = core.tools.get(name)
            return tool is None or core.may_use(tool.grant or f"tools:{tool.name}")

        skills = tuple(line for line in listing.skills if may_use(line.name))
        return msgspec.structs.replace(listing, skills=skills) if skills else None

    async def _assemble(self, state: AgentState) -> Prompt:
        return self._prompt

    # The model

    async def _model(self, state: AgentState, prompt: Prompt) -> ModelResult:
        result = await self._answer(state, prompt)
        self._said = result.text
        return result

    async def _answer(self, state: AgentState, prompt: Prompt) -> ModelResult:
        key = f"c{state.cycle + 1}/model"
        self._tightened = None
        try:
            return await self._ask_model(state, prompt, key)
        except ContextTooLong:
            # The provider counts otherwise than we do: make room once, and ask again.
            told = self.window.note_overflow(state, raw=self._raw)
            tighter = await self._fit_prompt(told, force="too_long")
            if tighter is told:
                raise
            self._tightened = tighter
            return await self._ask_model(tighter, self._prompt, f"{key}/again")

    async def _ask_model(self, state: AgentState, prompt: Prompt, key: str) -> ModelResult:
        job = self.job
        call: dict[str, Any] = {
            "model": job.model,
            "messages": prompt,
            "tools": None,
            "output": job.output_schema,
            "key": key,
        }
        if not job.fits_budget:
            call["max_output_tokens"] = job.max_output_tokens
        try:
            result = await self._reply(call)
            if not self._may_say_more(result):
                return result
            return await self._ask_for_more(call, result)
        except OutputInvalid as error:
            if state.repairs >= REPAIRS_MAX:
                raise
            reply = error.facts.get("reply")
            return ModelResult(
                text=getattr(reply, "text", ""), finish_reason=MISFIT, key=key, reply=reply, output=str(error)
            )

    async def _ask_for_more(self, call: dict[str, Any], cut: ModelResult) -> ModelResult:
        """Ask once more for an answer that was cut; it stands if a model whose limit was assumed refuses."""
        more = {**call, "key": f"{call['key']}/more", "after_cut": cut.max_output_tokens}
        if cut.max_output_tokens < self.job.max_output_tokens:
            return await self._reply(more)
        try:
            return await self._reply(more)
        except ModelRefusedCall:
            return cut

    def _may_say_more(self, result: ModelResult) -> bool:
        """Return True for an answer that was cut where the limit was money's, or one that is assumed."""
        if result.finish_reason != "length" or result.tool_calls or not self.job.fits_budget:
            return False
        limit = self.job.max_output_tokens
        return 0 < result.max_output_tokens < limit or (
            result.max_output_tokens == limit and self.job.is_output_assumed
        )

    async def _reply(self, call: dict[str, Any]) -> ModelResult:
        async def ask(model: str, key: str | None) -> ModelResult:
            one: dict[str, Any] = {**call, "model": model, "key": key}
            return await (self.run.step_model(**one) if self._sink is None else self._stream_reply(one))

        return await ask_in_turn((call["model"], *self.job.fallbacks), call["key"], ask)

    async def _stream_reply(self, call: dict[str, Any]) -> ModelResult:
        assert self._sink is not None
        sink = self._sink

        async def think(piece: str) -> None:
            await sink(Delta(reasoning=piece))

        async for item in self.run.stream_model(**call, on_reasoning=think):
            if isinstance(item, ModelResult):
                return item
            await sink(item)
        raise AssertionError("a stream ends with the whole reply")

    # The action

    async def _act(self, state: AgentState, result: ModelResult) -> Outcome[list[ToolResult]]:
        calls = result.tool_calls
        if not calls or result.finish_reason == MISFIT:
            return Outcome()
        core = self.run.core
        share = self.job.message_bytes_max // len(calls)
        core.result_bytes_max = min(core.policy.result_bytes_max, max(1_000, share))
        loaded = {skill.name: skill.tool for skill in state.skills}
        key = f"c{state.cycle + 1}/tool"
        listed = self._listed_skills()
        asked = [_asked_of(call, loaded, listed) for call in calls]
        self._called = [name for name, _ in asked]
        steps = [
            self.run.step_tool(name, arguments, key=f"{key}/{index}", call=calls[index])
            for index, (name, arguments) in enumerate(asked)
        ]
        if len(steps) == 1:
            return Outcome(value=[await steps[0]])
        return Outcome(value=await self.run.parallel(*steps))

    def _listed_skills(self) -> frozenset[str]:
        """Names of the skills that this cycle's prompt listed, by its record."""
        listing: Any = self._read_now.get("skills", (None, ""))[0]
        if not isinstance(listing, dict):
            return frozenset()
        lines = cast(list[dict[str, Any]], listing["skills"])
        return frozenset(str(line["name"]) for line in lines)

    # After it

    async def _operations_after(self, state: AgentState) -> AgentState:
        if self._steps is not None:
            await self._steps.after(self._said)
        return state

    async def _transition(
        self, state: AgentState, result: ModelResult | None, outcome: Outcome[list[ToolResult]]
    ) -> AgentState:
        assert result is not None
        state = self._tightened or state
        state = self.window.learn_from_bill(state, result, raw=self._raw)
        self.conversation.append(result)
        if outcome.value is not None:
            state = self._after_tools(state, result, outcome.value)
            await self._show_media(state, outcome.value)
        elif (said := self._objection(state, result)) is not None:
            kind, text = said
            if kind != "held" and state.repairs >= REPAIRS_MAX:
                state = state.replace(status="failed", reason=kind, repairs=0)
            else:
                repairs = state.repairs + (kind != "held")
                state = state.replace(repairs=repairs, repeated=0, seen="")
                await self.conversation.add({"role": "user", "content": text})
        else:
            state = state.replace(repairs=0, repeated=0, seen="")
            if not await self._goes_on_for_notes(state):
                await finish(self.run, self.job, result)
                state = state.replace(status="completed")
        state = state.replace(cycle=state.cycle + 1, messages=len(self.conversation))
        self._offer(state)
        return state

    async def _goes_on_for_notes(self, state: AgentState) -> bool:
        """Return whether an answer is not the end, since the model has not read the newest notes of people.

        They came after its prompt was made. A run without cycles left ends with its answer.
        """
        core, done = self.run.core, state.replace(cycle=state.cycle + 1)
        if await core.history.knows(f"c{done.cycle + 1}/notes"):
            return True
        return core.actor is not None and not self._is_used_up(done) and await core.hear_last_notes()

    def _after_tools(self, state: AgentState, result: ModelResult, results: list[ToolResult]) -> AgentState:
        for tool_result in results:
            self.conversation.append(tool_result)
        state = self._with_skills(state, results)
        state = state.replace(repairs=0, passed=_passed_gates(self.job, state, self._called, results))
        counted = [not self._polls(name) for name in self._called]
        if not any(counted):  # looking again is what they are for
            return state
        seen = _digest(compress(result.tool_calls, counted), compress(results, counted))
        repeated = state.repeated + 1 if seen == state.seen else 1
        state = state.replace(seen=seen, repeated=repeated)
        if 0 < state.raised.get("stuck_after", self.job.stuck_after) <= repeated:
            return state.replace(status="failed", reason="stuck")
        return state

    async def _show_media(self, state: AgentState, results: list[ToolResult]) -> None:
        pieces = await media_pieces(
            self.run,
            media_of_results(zip(self._called, results, strict=True)),
            model=self.job.model,
            shown=media_before(self.conversation, first=state.shown),
            key=f"c{state.cycle + 1}/media",
        )
        if pieces:
            await self.conversation.add({"role": "user", "content": pieces})

    def _polls(self, name: str) -> bool:
        """Return whether a tool is called again and again to wait for something: as the run has it listed."""
        listed = self._listed_polls.get(name)
        return getattr(self.run.core.tools.get(name), "poll", False) if listed is None else listed

    def _objection(self, state: AgentState, result: ModelResult) -> tuple[str, str] | None:
        """Return why a reply without tool calls is not the end yet, and what the model is told."""
        if result.finish_reason == MISFIT:
            return "output_invalid", f"{template('repair-1')}\n\n{result.output}"
        if result.finish_reason == "length":
            return "output_cut", template("length-1")
        if not result.text.strip() and result.output is None:
            return "empty_reply", template("empty-1")
        missing = [name for name in self.job.acceptance if name not in state.passed]
        if missing:
            return "held", f"{template('held-1')} {', '.join(missing)}"
        return None

    def _with_skills(self, state: AgentState, results: list[ToolResult]) -> AgentState:
        """Skills that this cycle has loaded or unloaded."""
        skills = {skill.name: skill for skill in state.skills}
        first = len(self.conversation) - len(results) + 1
        for index, (name, answer) in enumerate(zip(self._called, results, strict=True)):
            # What another tool returns is data, however much it looks like this.
            value: Any = answer.value
            if name not in SKILL_TOOLS or answer.is_error or not isinstance(value, dict):
                continue
            said = cast(dict[str, Any], value)
            skill = said.get("skill")
            if not isinstance(skill, str) or not skill:
                continue
            if said.get("loaded") is True:
                skills.pop(skill, None)
                tool = said.get("tool")
                skills[skill] = LoadedSkill(
                    name=skill,
                    tool=tool if isinstance(tool, str) else "",
                    value=self.run.core.ref_of(said),
                    message=first + index,
                )
            elif said.get("unloaded") is True:
                skills.pop(skill, None)
        return state.replace(skills=tuple(skills.values())[-SKILLS_MAX:])

    def _offer(self, state: AgentState) -> None:
        """Choose the tools that the next prompt offers: with skills, a constant few."""
        if self._native is None:
            return
        offered = self._native
        if self.builder.native_tools:
            offered = offered | {skill.tool for skill in state.skills if skill.tool}
        self.run.core.offered = offered

    def _commit(self, state: AgentState) -> None:
        # A cycle that completes the run is committed by the end itself: a resume between the two, or a fork
        # from there, finds the reply in the log and ends the run anew. One that ends it by a limit is
        # there to go on from when somebody reopens the run.
        if state.status != "completed":
            self.run.complete_cycle(state.cycle, state.to_stored())


_ENDS = {
    "max_iterations": ("no answer after {cycle} cycles", "--max-iterations {more}"),
    "stuck": ("the same calls gave the same results {repeated} times", "--stuck-after {twice}"),
    "output_invalid": ("no reply fits the schema", ""),
    "output_cut": ("replies are cut off at the model's longest", ""),
    "empty_reply": ("replies say nothing", ""),
}
"""Reason of an end by a limit to its words, and to the option that raises the limit."""


def _end_message(run: Run, reason: str, state: AgentState) -> str:
    """Return what is said of an end by a limit: what happened, and to people how the run goes on.

    What a child says is read by its parent's model, which has no commands.
    """
    what, option = _ENDS[reason]
    said = what.format(cycle=state.cycle, repeated=state.repeated)
    if any(scope.startswith("run:") for scope in run.core.scopes[1:]):
        return said
    more = state.cycle + max(20, state.cycle - state.iterations_from)
    raised = option.format(more=more, twice=2 * state.repeated)
    ways = f"{raised} or --note TEXT" if raised else "--note TEXT"
    return f"{said}{GO_ON}resume {run.id} {ways}"


def _key_part(name: str) -> str:
    """A name as a part of a step's key; long or odd ones by their hash."""
    if len(name) <= 60 and name.isprintable() and "/" not in name:
        return name
    return sha256(name.encode("utf-8", "replace")).hexdigest()[:24]


def _asked_of(call: ToolCall, loaded: Mapping[str, str], listed: frozenset[str]) -> tuple[str, object]:
    """Tool and arguments of a call.

    That of a loaded skill is one of its tool, with the tool's own rules; a skill that is called by its name
    without having been loaded is loaded instead.
    """
    if call.name in listed and call.name not in loaded:
        return "load_skill", {"skill_name": call.name}
    arguments: Any = call.arguments
    if call.name == "use_skill" and isinstance(arguments, dict):
        given = cast(dict[str, Any], arguments)
        if tool := loaded.get(str(given.get("name", "")), ""):
            return tool, given.get("arguments") or {}
    return call.name, call.arguments


def _passed_gates(
    job: Job, state: AgentState, called: list[str], results: list[ToolResult]
) -> tuple[str, ...]:
    """Gate tools whose last call was no error and did not say of itself that it failed."""
    if not job.acceptance:
        return ()
    passed = set(state.passed)
    for name, answer in zip(called, results, strict=True):
        if name in job.acceptance:
            (passed.add if _is_good(answer) else passed.discard)(name)
    return tuple(name for name in job.acceptance if name in passed)


def _is_good(answer: ToolResult) -> bool:
    if answer.is_error:
        return False
    value: Any = answer.value
    if not isinstance(value, dict):
        return value is not False
    said = cast(dict[str, Any], value)
    verdicts = [said[name] for name in ("passed", "ok", "success") if name in said]
    return all(verdict is True for verdict in verdicts) and said.get("exit_code", 0) == 0


def _digest(calls: Iterable[ToolCall], results: Iterable[ToolResult]) -> str:
    digest = sha256()
    for call in calls:
        digest.update(f"{call.name}\0{call.arguments!r}\0".encode("utf-8", "replace"))
    for tool_result in results:
        digest.update(tool_result.content)
    return digest.hexdigest()[:32]
