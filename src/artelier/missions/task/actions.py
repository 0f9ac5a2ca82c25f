"""The execution of a decision: what a model said is parsed, and then done.

A thought, a call of a tool, a claim, a part handed to another agent. Writing is in `artifact_writer.py`.

The parser of replies: it returns a value of the asked form, or the mistakes; nothing is salvaged.

A reply must be one JSON value, the whole of it, of the right form. No code fence is removed, and the reply is
not searched for JSON. One repair names the mistakes; a second bad reply is final.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast
from weakref import WeakKeyDictionary

import msgspec

from artelier.artifacts import Artifacts, Provenance
from artelier.artifacts.queries import SOURCES_MAX, find_kind
from artelier.context import cut, fence
from artelier.errors import (
    AccessDenied,
    ArtelierError,
    InvalidArtifact,
    InvalidRequest,
    LimitReached,
    NotFound,
    RunStopped,
    ToolFailed,
)
from artelier.ids import MAIN_SPACE, OPERATOR
from artelier.kernel import FixedPart, ModelResult, Prompt, Run, RunCore, ToolResult, find_driver
from artelier.kernel.prompt.manifest import encode_json
from artelier.kernel.tenants.registry import TenantScope
from artelier.log import Batch
from artelier.loops.cycle import go_below
from artelier.missions.definition import (
    TEXT_CHARS_MAX,
    Decision,
    TaskContent,
    mistakes,
    slug_of,
    template,
    validate_form,
)
from artelier.missions.membranes import Membranes
from artelier.missions.task.loop_state import TaskJob, TaskOutput, TaskResult, ToolSourceResult
from artelier.ports.model import ChatMessage, ModelReply
from artelier.ports.tool import ToolContext
from artelier.tokens import estimate_tokens
from artelier.tools import Tool

if TYPE_CHECKING:
    from pydantic import BaseModel

CODE_CHARS_MAX = 64
READ = "read_artifact"
MADE_MAX = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Acted:
    """The outcome of a decision."""

    said: tuple[str, ...]
    """Of the message that shows it."""
    led_to: str
    """Digest of it: equal for what brings nothing new."""
    step: str = ""
    is_error: bool = False
    code: str = ""
    source: ToolSourceResult | None = None
    output: TaskOutput | None = None
    result: ToolResult | None = None
    """Of a tool that was called."""


def digest(*parts: str | bytes) -> str:
    found = sha256()
    for part in parts:
        content = part if isinstance(part, bytes) else part.encode("utf-8", "replace")
        found.update(f"{len(content)}:".encode() + content)
    return found.hexdigest()[:32]


def equal_mark(decision: Decision) -> str:
    """Two decisions are equal if action, tool, input and target are; the reason may differ."""
    input_ = encode_json(decision.input) if decision.input is not None else b""
    return digest(decision.action, decision.tool or "", input_, decision.target or "")


def analysis_outcome() -> Acted:
    return Acted(said=(template("analyzed-1"),), led_to=digest("analyzed"))


def claim_outcome() -> Acted:
    return Acted(said=(template("claimed-1"),), led_to=digest("claimed"))


def lacks(decision: Decision, outputs: Collection[object]) -> bool:
    """Return True if a claim without any output names what is missing: such a claim can mean nothing else."""
    named = (decision.target or "").strip()
    return decision.action == "complete_task" and bool(named) and not outputs


async def used(run: Run, decision: Decision, *, key: str, trust: str) -> Acted:
    """Call the tool of a decision, if it is one that is on; what it says is data.

    Errors: Flow; whatever is wrong with the call is a result that the model reads.
    """
    name = decision.tool or ""
    result = await run.step_tool(name, decision.input or {}, key=key)
    shown = (result.shown or result.content).decode("utf-8", "replace")
    told = template("tool-failed-1" if result.is_error else "tool-said-1")
    source = None
    made = () if result.is_error else _outputs_of(name, result.value)
    if not result.is_error:
        given, _ = run.core.keep_json(decision.input or {})  # stored with the call
        content = run.core.keep(result.content)[0]
        source = ToolSourceResult(name[:200], result.key, content, given, made)
    # A call that was cut off before it did anything says nothing of the decision, which may be made again.
    torn = result.key if result.is_error and result.settled_by else ""
    return Acted(
        said=(told, fence(shown, source=name, trust=trust)),
        led_to=digest(name, result.content, *([torn] if torn else [])),
        step=result.key,
        is_error=result.is_error,
        code=_code(result) if result.is_error else "",
        source=source,
        result=result,
    )


def reads_own(decision: Decision, own: Collection[str]) -> bool:
    """Return True if a call reads on in what the task itself has made."""
    return read_id(decision) in own


def read_id(decision: Decision) -> str:
    """Id of the artifact that a call reads on in; empty for any other call."""
    if decision.tool != READ or not decision.input:
        return ""
    return str(decision.input.get("ref", "")).partition("@")[0].partition("#")[0]


def _outputs_of(name: str, value: object) -> tuple[str, ...]:
    """Whatever a tool calls itself, these are read with the agent's own rights."""
    if name != DELEGATE or not isinstance(value, dict):
        return ()
    outputs: Any = cast("dict[str, Any]", value).get("outputs")
    listed = cast("list[Any]", outputs) if isinstance(outputs, list) else []
    return tuple(ref for ref in listed[:MADE_MAX] if isinstance(ref, str) and len(ref) <= 256)


def _code(result: ToolResult) -> str:
    value: Any = result.value
    error: Any = cast("dict[str, Any]", value).get("error") if isinstance(value, dict) else None
    code: Any = cast("dict[str, Any]", error).get("code") if isinstance(error, dict) else None
    return str(code or "error")[:CODE_CHARS_MAX]


def refusal_outcome(error: ArtelierError) -> Acted:
    """A decision that could not be carried out, in words for the model."""
    return Acted(
        said=(template("not-written-1"), fence(str(error), source="task")),
        is_error=True,
        led_to=digest(error.code, str(error)),
        code=error.code,
    )


DELEGATE = "delegate_task"

Drive = Callable[..., Awaitable[TaskResult]]
"""As `task_runner.drive_task`, which this module must not import: a task's run has this tool."""

TEXT_CHARS = 4_000
"""Of the child's newest output that the answer holds; the whole of it becomes an input."""


def delegate_tool(desk: TenantScope, job: TaskJob, *, drive: Drive) -> Tool[..., Any]:
    """`delegate_task(goal, success_criteria)` for a task's run; `drive` ends the child."""

    async def delegate(goal: str, success_criteria: str, ctx: ToolContext) -> dict[str, Any]:
        core = find_driver(desk.services, ctx.tenant_id, ctx.run_id)
        if core is None:
            raise NotFound(f"run {ctx.run_id!r} is not driven here, so it takes no children")
        if max(len(goal), len(success_criteria)) > TEXT_CHARS_MAX or not goal.strip():
            raise ToolFailed("a task needs a goal", expected=f"1-{TEXT_CHARS_MAX} characters")
        step = ctx.idempotency_key.rpartition(":")[2]
        number = step.partition("/")[0].removeprefix("c")
        child = _child_of(job, f"{ctx.run_id}/{number}", goal, success_criteria)
        await _make_artifact(desk, child)
        return msgspec.to_builtins(await _drive_child(desk, child, core, step, drive=drive))

    # It may be entered again: the child's own log says what is done already.
    return Tool(
        delegate,
        name=DELEGATE,
        description=template("delegate-1"),
        side_effect=True,
        idempotent=True,
        risk="low",
        trust="untrusted",
        acts_in_store=True,
    )


def _child_of(job: TaskJob, task: str, goal: str, criteria: str) -> TaskJob:
    """The same agent, at a part of its work, with what its parent began with."""
    content = validate_form(
        TaskContent,
        {
            "goal": goal,
            "success_criteria": criteria,
            "assigned_agent_id": job.agent,
            "parent": job.task,
            "max_iterations": job.content().max_iterations,
            "inputs": job.content().inputs,
        },
        what="a task that is delegated",
    )
    return replace(job, task=task, definition=content.model_dump(mode="json"), mission="")


async def _make_artifact(desk: TenantScope, child: TaskJob) -> None:
    """The child's artifact, unless an earlier entry has made it."""
    from artelier.missions.plan.launch import task_made

    artifacts: Artifacts = desk.as_principal(OPERATOR).artifacts
    try:
        await artifacts.read(child.task)
    except NotFound:
        append, blobs = await task_made(desk, child.task, child.content(), mission="", by=child.agent)
        await desk.services.store.append(Batch(appends=(append,), blobs=blobs))


class DelegatedTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task that was handed on, and is done."""

    task: str
    outputs: list[str]
    """Refs with versions."""
    text: str
    """The beginning of its newest output."""


async def _drive_child(
    desk: TenantScope, child: TaskJob, core: RunCore, step: str, *, drive: Drive
) -> DelegatedTask:
    """Return what came of the child. Errors: `ToolFailed`; `RunSuspended` while it has no end."""

    def begin() -> Awaitable[TaskResult]:
        return drive(desk, child.task, child, on_wait=core.on_wait, parent=Run(core), parent_step=step)

    try:
        result = await go_below(core, child.task, begin)
    except RunStopped:
        await core.boundary()  # the task itself was cancelled, or only this part of it
        raise ToolFailed("the task was cancelled by a person") from None
    if result.status != "done":
        raise ToolFailed(
            f"the task is not done: it is {result.status}",
            got=result.reason or None,
            hint=result.text[:500] or None,
        )
    return DelegatedTask(task=child.task, outputs=list(result.outputs), text=result.text[:TEXT_CHARS])


REPLY_CHARS_MAX = 200_000
"""Of a decision or a verdict; content has the limit of its steering."""

BAD_REPLY_TOKENS = 1_000
"""Of a reply that is shown again to be repaired."""

MISTAKES_CHARS = 2_000

ValueT = TypeVar("ValueT")
ModelT = TypeVar("ModelT", bound="BaseModel")


class InvalidDecision(Exception):
    """The mistakes of a reply, in words for the model that gave it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer(Generic[ValueT]):
    """The answer of a model, after one repair at most."""

    value: ValueT | None
    """None if its last reply is not of the form."""
    result: ModelResult
    repaired: bool = False
    mistakes: str = ""
    """Of the last reply."""


def json_of(reply: ModelReply, *, chars_max: int = REPLY_CHARS_MAX) -> Any:
    """The one JSON value that a reply is. Errors: `InvalidDecision`."""
    if reply.tool_calls:
        raise InvalidDecision("it calls a tool by itself; tools are called through a decision")
    if len(reply.text) > chars_max:
        raise InvalidDecision(f"it has {len(reply.text)} characters; at most {chars_max} are read")
    if reply.finish_reason == "length":
        raise InvalidDecision("it was cut at the limit of its tokens; be shorter")
    if not reply.text.strip():
        raise InvalidDecision("it is empty")
    try:
        value = msgspec.json.decode(reply.text.encode())
        encode_json(value)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, InvalidRequest) as error:
        raise InvalidDecision(f"it is not one JSON value: {str(error)[:200]}") from None
    return value


def read_as(kind: type[ModelT], reply: ModelReply) -> ModelT:
    """A reply as a value of its form. Errors: `InvalidDecision` that names the first mistakes with their
    paths."""
    from pydantic import ValidationError

    value = json_of(reply)
    try:
        return kind.model_validate(value, strict=True)
    except ValidationError as error:
        raise InvalidDecision(mistakes(error)[:MISTAKES_CHARS]) from None
    except RecursionError:
        raise InvalidDecision("it is nested too deep") from None


async def ask(
    run: Run,
    prompt: Prompt,
    *,
    key: str,
    models: Sequence[str],
    read: Callable[[ModelReply], ValueT],
    repair: str,
    form: type[BaseModel] | None = None,
    **params: Any,
) -> ModelAnswer[ValueT]:
    """Ask the first of `models` that answers, and once again if its reply cannot be read by `read`.

    `form`: whose JSON schema the request names.
    Errors: those of `Run.step_model`.
    """
    output = None if form is None else _unvalidated_form(form)
    call: dict[str, Any] = {"models": models, "output": output, **params}
    first = await run.step_model(key=key, messages=prompt, **call)
    try:
        return ModelAnswer(value=read(_of(first)), result=first)
    except InvalidDecision as mistake:
        said = str(mistake)[:MISTAKES_CHARS]
    again = _repairing(prompt, _of(first), f"{template(repair)}\n\n{said}")
    second = await run.step_model(key=f"{key}/repair", messages=again, **call)
    try:
        return ModelAnswer(value=read(_of(second)), result=second, repaired=True)
    except InvalidDecision as mistake:
        said = str(mistake)[:MISTAKES_CHARS]
        return ModelAnswer(value=None, result=second, repaired=True, mistakes=said)


def _unvalidated_form(form: type[BaseModel]) -> type:
    """An output type with the schema of a form that takes any reply: its text alone decides what it is.

    Adapters take a fence off, and repairs are ours to ask for; so no step is recorded as a misfit.
    """

    def nothing(reply: ModelReply) -> None:
        return None

    members = {
        "model_json_schema": staticmethod(form.model_json_schema),
        "value_of_reply": staticmethod(nothing),
    }
    return type(form.__name__, (), members)


def _of(result: ModelResult) -> ModelReply:
    assert result.reply is not None
    return result.reply


def _repairing(prompt: Prompt, reply: ModelReply, said: str) -> Prompt:
    """The same prompt with the bad reply and what is wrong with it, before what is volatile."""
    bad = cut(reply.text, tokens=BAD_REPLY_TOKENS, where="middle") or "(nothing)"
    messages = (ChatMessage(role="assistant", content=bad), ChatMessage(role="user", content=said))
    part = FixedPart(
        tag="repair",
        messages=messages,
        stability="volatile",
        tokens=sum(estimate_tokens(message.text) for message in messages),
    )
    # Attached texts go to the last message: there must be none behind the repair.
    return Prompt(parts=(*prompt.parts, part), dropped=prompt.dropped, prices=prompt.prices)


NAMES_MAX = 100
"""Ids tried for an output whose name is somebody else's."""

FOLDER_CHARS_MAX = 76
"""Of what an output's id begins with: ids have 128 characters, slugs 40."""

KINDS = {"markdown": "report", "json": "document", "text": "document"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenContent:
    """Content that a model gave, and that fits."""

    text: str
    value: Any
    """What the artifact holds: the text, or JSON data."""
    result: ModelResult


def reader(media: str, *, bytes_max: int) -> Callable[[ModelReply], ModelReply]:
    """`read(reply)` for `decision.ask`: the reply if it can be the content. Errors: `Mistake`."""

    def read(reply: ModelReply) -> ModelReply:
        if media == "json":
            json_of(reply, chars_max=bytes_max)
        elif reply.tool_calls:
            raise InvalidDecision("it calls a tool; the content is text")
        return reply

    return read


def check_content(result: ModelResult, media: str, *, bytes_max: int) -> WrittenContent:
    """Return what a reply becomes. Errors: `ToolFailed` and others that say why nothing is written."""
    text = result.text
    if not any(char.isprintable() and not char.isspace() for char in text):
        raise ToolFailed("the content is empty", expected="the whole artifact")
    if result.finish_reason == "length":
        raise LimitReached(
            "the content was cut at the limit of its tokens",
            expected=f"at most {bytes_max} bytes",
            hint="Write less.",
        )
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidArtifact("the content is no valid text", expected="UTF-8") from None
    if size > bytes_max:
        raise LimitReached(
            "the content is larger than steering allows",
            expected=f"at most {bytes_max} bytes",
            got=size,
            hint="Write less.",
        )
    value = msgspec.json.decode(text.encode()) if media == "json" else text
    return WrittenContent(text=text, value=value, result=result)


def folder_of(run: Run, job: TaskJob, *, is_fork: bool) -> str:
    """Return what ids of outputs begin with: a fork's never become versions of its origin's."""
    fork, folder = run.core.effects, job.mission or job.task
    if fork is not None and fork.folder:
        folder = fork.folder if folder == fork.run_id else fork.own_id(folder)
    elif is_fork:
        folder = run.id
    if len(folder) <= FOLDER_CHARS_MAX:
        return folder

    return f"{folder[: FOLDER_CHARS_MAX - 17]}.{sha256(folder.encode()).hexdigest()[:16]}"


def place_of(outputs: Sequence[TaskOutput], title: str, folder: str) -> tuple[str, TaskOutput | None]:
    """`(slug, what the task has made under it)`, as far as it lies in the folder of this run."""
    slug = slug_of(title, fallback="output")
    own = next((one for one in outputs if one.slug == slug), None)
    return slug, own if own is not None and own.id.startswith(f"{folder}/") else None


async def plan_write(
    run: Run,
    desk: TenantScope,
    job: TaskJob,
    written: WrittenContent,
    *,
    slug: str,
    title: str,
    media: str,
    folder: str,
    own: TaskOutput | None,
    sources: Sequence[str],
) -> str:
    """Note the version, to be written in the batch of the next receipt; its ref.

    Errors: those of `Artifacts.plan_write`; `LimitReached` if every name is taken.
    """
    core = run.core
    artifacts = desk.as_principal(job.agent).artifacts
    access = await Membranes(desk).access_for(job.agent)
    wish: dict[str, Any] = {
        "content": written.value,
        "access": access,
        "metadata": {"title": title, "media": media},
        "provenance": Provenance(
            run_id=run.id, step=written.result.key, derived_from=tuple(sources)[:SOURCES_MAX]
        ),
    }
    id_ = own.id if own is not None else await _free(run, f"{folder}/{slug}")
    kind = KINDS[media] if own is None else None
    try:
        append, blobs, artifact = await artifacts.plan_write(id_, kind=kind, **wish)
    except (AccessDenied, NotFound):  # given away or deleted meanwhile: go on beside it
        id_ = await _free(run, f"{folder}/{slug}")
        append, blobs, artifact = await artifacts.plan_write(id_, kind=KINDS[media], **wish)
    core.writer.note_aside(append, blobs)
    return f"{artifact.id}@{artifact.version}"


async def _free(run: Run, wanted: str) -> str:
    """An id that nothing has or had, and that no other task of this process is about to take."""
    core = run.core
    for number in range(1, NAMES_MAX + 1):
        name = wanted if number == 1 else f"{wanted}-{number}"
        claim = (core.tenant.id, name)
        others = (
            names
            for other, names in _claimed.items()
            if other.store is core.store and other.run_id != core.run_id
        )
        if any(claim in names for names in others):
            continue
        # Claimed before we look: whoever looks meanwhile goes past it.
        _claimed.setdefault(core, set()).add(claim)
        if await find_kind(core.store, core.tenant.id, MAIN_SPACE, name) is None:
            return name
    raise LimitReached("every name for this output is taken", got=wanted)


_claimed: WeakKeyDictionary[RunCore, set[tuple[str, str]]] = WeakKeyDictionary()
"""Ids that runs at work have taken, which the store may not show yet."""
