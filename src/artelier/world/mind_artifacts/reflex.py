"""Reflexes: code of an agent that may act before any model is asked. It sees facts and can call nothing."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, cast, runtime_checkable

from artelier.artifacts import Interpreter
from artelier.artifacts.ref import safe_repr
from artelier.errors import InvalidArtifact, InvalidRequest
from artelier.ports.sandbox import SandboxLimits, SandboxResult
from artelier.sandbox import SandboxError, check_code
from artelier.sandbox.dialect_check import parse
from artelier.world.actions import Action, Rejected, action_from
from artelier.world.mind_artifacts.prompt import Skip

TIME_MS_MAX = 100

LIMITS = SandboxLimits(time_ms=TIME_MS_MAX, memory_bytes=16 * 1024 * 1024, output_bytes=256 * 1024, depth=100)
DETAIL_CHARS_MAX = 300

_PROBLEMS_SHOWN = 5
# On a line of its own: the code may end in a comment.
_CALL = "\nreflex(context)"

Why = Literal["acted", "none", "error", "timeout", "memory", "wrong_type", "malformed", "unusable"] | Skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflexOutcome:
    """The outcome of a reflex. Without an action the model is asked, and an event tells `why`."""

    action: Action | None = None
    why: Why = "none"
    """`unusable`: the artifact holds no code, or the sandbox does not work. A `Skip`: it was not read."""
    detail: str = ""
    """One bounded sentence; words of the agent's own code, so data."""


async def run_reflex(
    sandbox: Interpreter, code: object, facts: Mapping[str, Any], *, allowed: Collection[str] | None = None
) -> ReflexOutcome:
    """Call `reflex(context)` with the facts, by value; as many at once as the pool has workers.

    Shapes: `code` is the content of the artifact: text, or `{code}`. `allowed` are names of actions.
    Errors: none of the code's making: every failure is an outcome. Cost: about a quarter of a millisecond.
    """
    text = code_of(code)
    if text is None:
        return ReflexOutcome(why="unusable", detail="the artifact holds no code")
    try:
        result = await sandbox.run(text + _CALL, inputs={"context": dict(facts)}, limits=LIMITS)
    except (SandboxError, InvalidRequest) as error:
        return _failed_outcome(error)
    return _outcome(result.value, allowed)


def _failed_outcome(error: SandboxError | InvalidRequest) -> ReflexOutcome:
    if isinstance(error, SandboxError):
        return ReflexOutcome(why=_why(error), detail=_sentence(error))
    # Facts that are too large or no JSON data: the world's doing, and still no reason to stop a tick.
    return ReflexOutcome(why="unusable", detail=_short(error.message))


class ReflexJob(NamedTuple):
    """One agent's reflex in a tick."""

    code: object
    facts: Mapping[str, Any]
    allowed: Collection[str] | None = None


async def run_reflexes(
    sandbox: Interpreter, jobs: Iterable[ReflexJob], *, at_once: int = 4
) -> list[ReflexOutcome]:
    """The outcome of each job, in their order, however many there are.

    Units: `at_once` is best a little above the workers of the pool. Ten thousand calls started together
    would instead wait in the pool until some of them count as timed out.
    """
    if isinstance(sandbox, Batching):
        return await _in_batches(sandbox, list(jobs))
    waiting = enumerate(jobs)
    outcomes: dict[int, ReflexOutcome] = {}

    async def work() -> None:
        for number, job in waiting:
            outcomes[number] = await run_reflex(sandbox, job.code, job.facts, allowed=job.allowed)

    async with asyncio.TaskGroup() as group:
        for _ in range(max(1, at_once)):
            group.create_task(work())
    return [outcomes[number] for number in range(len(outcomes))]


@runtime_checkable
class Batching(Protocol):
    """An interpreter that runs many small programs at less cost than one by one."""

    async def run_many(
        self, jobs: Sequence[tuple[str, Mapping[str, Any]]], *, limits: SandboxLimits | None = None
    ) -> list[SandboxResult | SandboxError | InvalidRequest]: ...


async def _in_batches(sandbox: Batching, jobs: list[ReflexJob]) -> list[ReflexOutcome]:
    usable = [(n, text) for n, job in enumerate(jobs) if (text := code_of(job.code)) is not None]
    programs = [(text + _CALL, {"context": dict(jobs[n].facts)}) for n, text in usable]
    done = await sandbox.run_many(programs, limits=LIMITS)
    outcomes = [ReflexOutcome(why="unusable", detail="the artifact holds no code")] * len(jobs)
    for (n, _), result in zip(usable, done, strict=True):
        if isinstance(result, SandboxResult):
            outcomes[n] = _outcome(result.value, jobs[n].allowed)
        else:
            outcomes[n] = _failed_outcome(result)
    return outcomes


def code_of(content: object) -> str | None:
    """The code of an artifact of kind `reflex`, None if there is none."""
    if isinstance(content, Mapping):
        content = cast("Mapping[str, object]", content).get("code")
    return content if isinstance(content, str) else None


def check_reflex(content: object) -> None:
    """Errors: `InvalidArtifact` for code that cannot run, or defines no `reflex(context)`."""
    code = code_of(content)
    if code is None:
        raise InvalidArtifact("invalid reflex", expected="code as text or under `code`")
    problems = check_code(code, names=("context",))
    if problems:
        raise InvalidArtifact(f"the reflex cannot run: {'; '.join(map(str, problems[:_PROBLEMS_SHOWN]))}")
    tree = parse(code)
    defined = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "reflex"]
    if not defined or not _takes_one(defined[-1].args):
        raise InvalidArtifact(
            "the reflex defines no function that can be called",
            expected="def reflex(context)",
            got=safe_repr(code),
        )


def _takes_one(args: ast.arguments) -> bool:
    places = len(args.posonlyargs) + len(args.args)
    required = places - len(args.defaults)
    wants_names = any(default is None for default in args.kw_defaults)
    return required <= 1 and (places >= 1 or args.vararg is not None) and not wants_names


def _outcome(value: object, allowed: Collection[str] | None) -> ReflexOutcome:
    if value is None:
        return ReflexOutcome()
    if not isinstance(value, dict):
        return ReflexOutcome(
            why="wrong_type", detail=f"expected an action or None, got {type(value).__name__}"
        )
    action = action_from(cast("dict[str, Any]", value), allowed=allowed)
    if isinstance(action, Rejected):
        return ReflexOutcome(why="malformed", detail=_short(action.reason))
    return ReflexOutcome(action=action, why="acted")


def _why(error: SandboxError) -> Why:
    if error.reason in ("timeout", "memory"):
        return error.reason
    if error.reason == "output":
        return "wrong_type"
    return "unusable" if error.reason == "crashed" else "error"


def _sentence(error: SandboxError) -> str:
    where = f"line {error.line}: " if error.line is not None else ""
    return _short(f"{where}{error.message}")


def _short(text: str) -> str:
    return " ".join(text.encode("utf-8", "replace").decode().split())[:DETAIL_CHARS_MAX]
