"""The evaluation of outputs: judged by the success criteria alone, proved by quotes, checked by rule.

The evaluator never sees decisions, reasons or data of tools. What tools have shown, such as images, it is
shown too: no rule can look up there what an output says. Nothing it says is believed: each quote must stand
in the version that it cites. What breaks a hard rule fails without asking, so that no evaluator can wave it
through. What a rule about words has found is advice: the evaluator must say of each finding whether it is a
fault, and a verdict that passes over one does not count.

Judging of outputs by people: an event with their name, which stands above any evaluator's verdict.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from artelier.artifacts.events import artifact_stream
from artelier.context import Section, assemble
from artelier.errors import Conflict, Erased, InvalidRequest, NotFound, PatternTimeout
from artelier.ids import MAIN_SPACE, OPERATOR
from artelier.kernel import Prompt, Run
from artelier.kernel.erasure import writing_key
from artelier.kernel.prompt.manifest import encode_json, fence
from artelier.kernel.run.status import FINAL
from artelier.kernel.tenants.registry import TenantScope
from artelier.log import Batch, Blob, Draft, StreamAppend, Tx, prepared_blob
from artelier.loops.cycle import media_sections
from artelier.missions import events as ev
from artelier.missions.definition import AdvisedVerdict, Answer, Check, TaskContent, Verdict, template
from artelier.missions.queries import TaskStanding, judged_outputs, runs_of_task, standing_of
from artelier.missions.task.actions import ask, read_as
from artelier.missions.task.loop_state import TaskJob
from artelier.missions.task.output_lint import ADVICE, UNFOUNDED_FIGURE, Grounds, Judged, faults_of, json_in
from artelier.missions.task.prompt_sections import attachment_sections
from artelier.missions.task.verdict import (
    AnsweredFinding,
    CheckResult,
    JudgedCriterion,
    OutputFault,
    RuleFindings,
    StoredVerdict,
)
from artelier.missions.view import REJECTED
from artelier.patterns import Allowance, check_pattern, compile_pattern

if TYPE_CHECKING:
    from artelier.ports.model import ModelReply

TEXT_CHARS_MAX = 400_000
QUOTE_CHARS_MAX = 400


def by_rule(check: Check, outputs: Sequence[Judged]) -> CheckResult:
    """Return what came of a check that needs no tool. It may take its time."""
    ways = {"length": _by_length, "regex": _by_pattern, "schema": _by_schema}
    passed, found = ways[check.kind](check, outputs)
    return _result(check, passed, found)


def by_tool(check: Check, value: object, *, is_error: bool) -> CheckResult:
    """Return what a tool's word over the outputs means: nothing but a clear yes passes."""
    said: Any = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    verdicts = [said[name] for name in ("passed", "ok", "success") if name in said]
    passed = value is True or (bool(verdicts) and all(verdict is True for verdict in verdicts))
    return _result(check, passed and not is_error, f"{check.tool} said {value!r}")


def _result(check: Check, passed: bool, found: str) -> CheckResult:
    return CheckResult(kind=check.kind, passed=passed, found=found[:QUOTE_CHARS_MAX])


def _by_length(check: Check, outputs: Sequence[Judged]) -> tuple[bool, str]:
    words = sum(len(output.text.split()) for output in outputs)
    low, high = check.min or 0, check.max
    passed = bool(outputs) and words >= low and (high is None or words <= high)
    return passed, f"{words} words, expected {low} to {'any number' if high is None else high}"


def _by_pattern(check: Check, outputs: Sequence[Judged]) -> tuple[bool, str]:
    allowance = Allowance()
    for output in outputs:
        try:
            pattern = compile_pattern(check.pattern or "", dialect="regex", flags="m")
            if pattern.search(output.text[:TEXT_CHARS_MAX], allowance=allowance):
                return True, f"found in {output.ref}"
        except InvalidRequest as error:
            return False, str(error)
        except PatternTimeout:
            return False, f"the pattern took too long over {output.ref}"
    return False, "found in no output"


def pattern_problem(pattern: str | None) -> str | None:
    """Return what is wrong with the pattern of a check; it is read, not compiled."""
    try:
        if pattern is not None:
            check_pattern(pattern, dialect="regex")
    except InvalidRequest as error:
        return str(error)
    return None


def _by_schema(check: Check, outputs: Sequence[Judged]) -> tuple[bool, str]:
    from artelier.kernel.steps.json_schema import check_json, check_schema

    said = "no output is JSON"
    for output in outputs:
        value = json_in(output.text) if output.media == "json" else None
        if value is None:
            continue
        try:
            check_json(value, check_schema(check.json_schema or {}))
            return True, f"{output.ref} fits"
        except InvalidRequest as error:
            said = f"{output.ref} does not fit: {error}"
    return False, said


CRITERIA_MAX = 40
"""Of one task; more are not looked for in a verdict."""

QUOTE_CHARS_MIN = 12
"""A shorter quote is a whole line or a figure, or it proves nothing."""

_MARK = re.compile(r"^\s*(?:(?:[-*+\u2022\u2013]|\(?\d{1,3}[.):]|\(?[A-Za-z][.)])(?=\s)|\[[ xX]?\])\s*(?=\S)")
"""What an item of a list begins with."""

_SENTENCE = re.compile(r"(?<=[.;!?])\s+(?=[A-Z\"\u201c`\d])")
_WORD = re.compile(r"\w+")
_SPACE = re.compile(r"\s+")
_FIGURE = re.compile(r"[-+\u2212$]*[0-9][0-9.,]*(?: ?%)?")


def void_of(verdict: Verdict, criteria: str, outputs: Sequence[Judged]) -> str:
    """Return why a verdict does not count; empty if it does. Pure."""
    if not _judges_all([one.criterion for one in verdict.criteria], criteria):
        return "criteria_missing"
    texts = {output.ref: output.text for output in outputs}
    folded = {ref: _fold_space(text) for ref, text in texts.items()}
    lines: dict[str, frozenset[str]] = {}
    for one in verdict.criteria:
        if one.met and not one.evidence:
            return "no_evidence"
        for evidence in one.evidence:
            if evidence.ref not in texts:
                return "unknown_ref"
            quote = _fold_space(evidence.quote)
            if not any(char.isalnum() for char in quote):
                return "no_evidence"
            ref = evidence.ref
            if quote not in folded[ref]:
                return "quote_not_found"
            if len(quote) < QUOTE_CHARS_MIN:
                if ref not in lines:
                    lines[ref] = frozenset(_fold_space(line) for line in texts[ref].splitlines())
                if quote not in lines[ref] and not _is_figure(quote, folded[ref]):
                    return "no_evidence"
    return ""


def criteria_of(text: str) -> tuple[list[str], bool]:
    """The criteria of a task, and whether they are a list; otherwise they are sentences."""
    lines = text.splitlines()
    items = [stripped for line in lines if (stripped := _strip_marks(line)) != line]
    if items:
        return items[:CRITERIA_MAX], True
    return [part for line in lines for part in _SENTENCE.split(line)][:CRITERIA_MAX], False


def _strip_marks(line: str) -> str:
    while match := _MARK.match(line):
        line = line[match.end() :]
    return line


def _judges_all(judged: list[str], criteria: str) -> bool:
    """Return True if each criterion is judged: those of a list by entries of their own."""
    wanted, is_list = criteria_of(criteria)
    if len(wanted) <= 1:
        return True  # an entry there is, and it can be about nothing else
    entries = [_words(_strip_marks(one)) for one in judged]
    if not is_list:
        return all(any(_is_about(one, _words(part)) for one in entries) for part in wanted)
    return all(_take(entries, item) or all(_take(entries, part) for part in _parts(item)) for item in wanted)


def _parts(item: str) -> list[str]:
    """The sentences of an item, if it has several; an entry may judge one of them."""
    parts = _SENTENCE.split(item)
    return parts if len(parts) > 1 else [item]


def _take(entries: list[str], criterion: str) -> bool:
    """Use up the entry that is about a criterion."""
    words = _words(criterion)
    for entry in entries:
        if not words or f"{entry} ".startswith(f"{words} ") or _begins(words, entry):
            entries.remove(entry)
            return True
    return False


def _is_about(entry: str, criterion: str) -> bool:
    return not criterion or f" {criterion} " in f" {entry} " or _begins(criterion, entry)


def _begins(criterion: str, entry: str) -> bool:
    """Return True if an entry is a criterion that was cut, but not to a few words."""
    return criterion.startswith(entry) and 2 * len(entry) >= len(criterion)


def _is_figure(quote: str, folded: str) -> bool:
    """Return True if a short quote is a figure that stands there as a whole."""
    figure = rf"(?<![\w.,]){re.escape(quote)}(?![\w]|[.,]\d)"
    return _FIGURE.fullmatch(quote) is not None and re.search(figure, folded) is not None


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


def _fold_space(text: str) -> str:
    """White space is all that a quote may differ in."""
    return _SPACE.sub(" ", text).strip()


VERDICT_TOKENS_MAX = 8_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """The result of an evaluation."""

    passed: bool
    stored: StoredVerdict
    void: str = ""
    """Why a verdict does not count."""


async def evaluate(
    run: Run,
    job: TaskJob,
    task: TaskContent,
    outputs: Sequence[Judged],
    grounds: Grounds,
    *,
    seen: Sequence[Mapping[str, Any]] = (),
    rejected: Callable[[], Awaitable[list[OutputFault]]],
    key: str,
) -> EvaluationResult:
    """Judge the outputs; steps are keyed below `key`. `seen`: pieces of a message that show what tools have
    shown the task. `rejected` finds what a person has rejected in them.

    Errors: those of `Run.step_model`; a reply that is no verdict makes it void.
    """

    async def by_rules() -> RuleFindings:
        found = await asyncio.to_thread(_apply_rules, task, outputs, grounds, advises=job.advises)
        if job.heeds and (heeded := await rejected()):
            return replace(found, faults=(*heeded, *found.faults), checks=())
        return found

    ruled = msgspec.convert(await run.step("checks", by_rules, key=f"{key}/checks"), RuleFindings)
    advice = [AnsweredFinding(rule=one.rule, ref=one.ref, found=one.found) for one in ruled.advice or ()]
    stored = StoredVerdict(
        faults=ruled.faults, checks=ruled.checks, advice=tuple(advice) if advice else UNSET
    )
    if ruled.faults:
        return EvaluationResult(passed=False, stored=stored, void=ruled.faults[0].rule)
    for number, check in enumerate(task.checks):
        if check.kind == "tool":
            given = {"outputs": [{"ref": one.ref, "type": one.media, "content": one.text} for one in outputs]}
            said = await run.step_tool(check.tool or "", given, key=f"{key}/check/{number}")
            checked = by_tool(check, said.value, is_error=said.is_error)
            stored = replace(stored, checks=(*stored.checks, checked))
    if not all(check.passed for check in stored.checks):
        return EvaluationResult(passed=False, stored=stored)
    if task.only_checks and task.checks:
        return EvaluationResult(passed=True, stored=stored)
    return await _judge_by_model(run, job, task, outputs, stored, seen=seen, key=key)


def _apply_rules(
    task: TaskContent, outputs: Sequence[Judged], grounds: Grounds, *, advises: bool
) -> RuleFindings:
    """Return what rules say."""
    found = faults_of(outputs, grounds, only_prose=advises)
    # A figure may stand in an image: only who is shown it can say.
    advice = ADVICE | {UNFOUNDED_FIGURE} if grounds.has_unsearched else ADVICE
    faults = tuple(one for one in found if not (advises and one.rule in advice))
    checks = tuple(by_rule(check, outputs) for check in task.checks if check.kind != "tool")
    return RuleFindings(
        faults=faults,
        checks=() if faults else checks,
        advice=tuple(one for one in found if one.rule in advice) if advises else UNSET,
    )


async def _judge_by_model(
    run: Run,
    job: TaskJob,
    task: TaskContent,
    outputs: Sequence[Judged],
    stored: StoredVerdict,
    *,
    seen: Sequence[Mapping[str, Any]],
    key: str,
) -> EvaluationResult:

    advice = stored.findings
    form = AdvisedVerdict if advice else Verdict

    def read(reply: ModelReply) -> Verdict:
        return read_as(form, reply)

    asked = await ask(
        run,
        _prompt(job, task, outputs, advice, seen),
        key=key,
        models=job.models,
        read=read,
        repair="repair-verdict-1",
        form=form,
        output_tokens_max=min(job.max_output_tokens, VERDICT_TOKENS_MAX),
    )
    if asked.value is None:
        return EvaluationResult(passed=False, stored=replace(stored, summary=asked.mistakes), void="invalid")
    verdict: Verdict = asked.value
    criteria = msgspec.convert(verdict.criteria, tuple[JudgedCriterion, ...], from_attributes=True)
    answered = _answer_findings(advice, verdict) if advice else UNSET
    stored = replace(stored, criteria=criteria, summary=verdict.summary, advice=answered)
    void = _passed_over(stored) or void_of(verdict, task.success_criteria, outputs)
    met = all(one.met for one in verdict.criteria)
    met = met and not any(one.is_fault for one in stored.findings)
    return EvaluationResult(passed=met and not void, stored=stored, void=void)


def _answer_findings(advice: Sequence[AnsweredFinding], verdict: Verdict) -> tuple[AnsweredFinding, ...]:
    """Findings with what the evaluator says of each; of several answers a fault counts."""

    said = verdict.findings if isinstance(verdict, AdvisedVerdict) else []
    found: list[AnsweredFinding] = []
    for number, one in enumerate(advice, start=1):
        own = sorted((answer for answer in said if answer.number == number), key=_is_no_fault)
        found.append(replace(one, is_fault=own[0].is_fault, why=own[0].why) if own else one)
    return tuple(found)


def _is_no_fault(answer: Answer) -> bool:
    return not answer.is_fault


def _passed_over(stored: StoredVerdict) -> str:
    """The rule of the first finding of which the evaluator says nothing; empty if there is none."""
    return next((one.rule for one in stored.findings if one.is_fault is None), "")


def _prompt(
    job: TaskJob,
    task: TaskContent,
    outputs: Sequence[Judged],
    advice: Sequence[AnsweredFinding],
    seen: Sequence[Mapping[str, Any]],
) -> Prompt:
    contract = "evaluation-2" if advice else "evaluation-1"
    sections = [
        Section(tag="contract", text=template(contract), sources=(contract,), pinned=True),
        *attachment_sections(job),
        *media_sections(seen),
        Section(
            tag="criteria", role="user", text=f"## Success criteria\n\n{task.success_criteria}", pinned=True
        ),
        Section(tag="outputs", role="user", text="## Outputs", joined=True, pinned=True),
    ]
    for output in outputs:
        sections.append(
            Section(
                tag=f"output:{output.ref}"[:120],
                role="user",
                joined=True,
                is_fenced=True,
                text=fence(output.text, source=output.ref),
                trust="untrusted",
                truncation="middle",
                sources=(output.ref,),
            )
        )
    if advice:
        lines = "\n".join(
            f"{number}. {one.rule} in {one.ref}: {'; '.join(one.found)}"
            for number, one in enumerate(advice, start=1)
        )
        sections.append(
            Section(
                tag="findings",
                role="user",
                joined=True,
                pinned=True,
                trust="untrusted",
                text=f"## Findings\n\n{fence(lines, source='rules')}",
                is_fenced=True,
            )
        )
    return assemble(sections, budget_tokens=job.prompt_tokens_max)


NOTE_CHARS_MAX = 20_000
FOUND_CHARS_MAX = 400
"""Of a note, in the verdict on a copy of what it is about."""

_MACHINES = ("agent:", "model:", "run:", "system:", "tool:")


async def judge_output(
    desk: TenantScope, task: str, *, accepted: bool, output: str | None, note: str, by: str
) -> None:
    """Record that a person accepts or rejects an output of a task; None means its newest.

    Errors: `NotFound` for a task or an output that is not there; `Conflict` while somebody works on the task
    or its mission, for a cancelled task, and for one that has made nothing; `InvalidRequest` for a verdict
    that is no bool, and for a name that is no person's.
    """
    _check_verdict(accepted, by)
    standing = await standing_of(desk, task)
    ref = _choose_output(standing, output)
    event, blobs = ev.OutputJudged(task=task, ref=ref, accepted=accepted), list[Blob]()
    if note.strip():
        state = await desk.state()
        key = None
        if standing.mission:
            key = await writing_key(desk.services.store, desk.id, standing.mission)
        kept, blob = await prepared_blob(
            desk.id, key or state.key, encode_json(note.strip()[:NOTE_CHARS_MAX])
        )
        event, blobs = ev.OutputJudged(task=task, ref=ref, accepted=accepted, note=kept), [blob]
    draft = Draft(event, desk.services.clock.now_us(), by)
    append = StreamAppend(artifact_stream(desk.id, MAIN_SPACE, task), [draft])
    guard = _may_be_judged(desk.id, standing)
    await desk.services.store.append(Batch(appends=[append], blobs=blobs, guard=guard))


def _check_verdict(accepted: object, by: object) -> None:
    if not isinstance(accepted, bool):
        raise InvalidRequest(
            "accepted is neither yes nor no", expected="True or False", got=repr(accepted)[:80]
        )
    name = by.strip().lower() if isinstance(by, str) else ""
    if not name or name == "system" or name.startswith(_MACHINES):
        raise InvalidRequest(
            "an output is judged by a person",
            got=repr(by)[:80],
            expected='their name, such as "user:ana" or "operator"',
        )


def _choose_output(standing: TaskStanding, output: str | None) -> str:
    """The ref of the output that is judged. Errors: `NotFound`; `Conflict` for a task without any."""
    if not standing.outputs:
        raise Conflict(
            f"task {standing.task!r} has made no output to be judged",
            got=standing.status,
            hint="Bring what it lacks and retry it, or cancel it.",
        )
    if output is None:
        return standing.outputs[-1]
    for ref in standing.outputs:
        if output in (ref, ref.partition("@")[0]):
            return ref
    raise NotFound(
        f"task {standing.task!r} has no output {output[:200]!r}", expected=", ".join(standing.outputs)[:400]
    )


def _may_be_judged(tenant: str, standing: TaskStanding) -> Callable[[Tx], None]:
    """Refuses the batch if the task is being worked on by now."""

    def guard(tx: Tx) -> None:
        status, mission = runs_of_task(tx, tenant, standing.task)
        if status == "cancelled":
            raise Conflict(f"task {standing.task!r} is cancelled", got=status)
        if status == "budget_exhausted":
            raise Conflict(
                f"task {standing.task!r} has not ended: its budget is used up",
                got=status,
                hint="Raise the limit and retry the task, or cancel it.",
            )
        if status not in FINAL:
            raise Conflict(
                f"somebody works on task {standing.task!r}",
                got=status or "pending",
                hint="Judge its output when it has ended.",
            )
        if mission is not None and mission not in FINAL:
            raise Conflict(
                f"mission {standing.mission!r} is at work and goes on by its own verdicts",
                got=mission,
                hint="Judge the outputs of its tasks when it has ended.",
            )

    return guard


async def rejected_in(desk: TenantScope, tasks: Sequence[str], refs: Sequence[str]) -> list[OutputFault]:
    """Return a fault for each output whose content equals what a person has rejected and not accepted since.

    `tasks` are a task and, of a fork, the task that it was forked from; `refs` are its outputs.
    """
    # In the order of the log: a clock may be set back between two of them.
    said = [one for _, one in await judged_outputs(desk, list(dict.fromkeys(tasks)))]
    if all(one["accepted"] for one in said):
        return []
    contents: dict[str, Any] = {}
    for ref in (*refs, *(one["output"] for one in said)):
        if ref not in contents:
            contents[ref] = await _content(desk, ref)
    faults: list[OutputFault] = []
    for ref in refs:
        equal = [one for one in said if contents[ref] and contents[one["output"]] == contents[ref]]
        if equal and not equal[-1]["accepted"]:
            last = equal[-1]
            id_, _, version = last["output"].rpartition("@")
            other = "" if ref.startswith(f"{id_}@") else f" of {id_}"
            note = last["note"][:FOUND_CHARS_MAX]
            words = f"equal to version {version}{other}, which {last['by']} rejected"
            faults.append(OutputFault(rule=REJECTED, ref=ref, found=(f"{words}: {note}" if note else words,)))
    return faults


async def _content(desk: TenantScope, ref: str) -> object:
    """Return what a version holds, without blanks around it; None if it cannot be read any more."""
    try:
        content = (await desk.as_principal(OPERATOR).artifacts.read(ref)).content
    except (NotFound, Erased):
        return None
    return content.strip() if isinstance(content, str) else content
