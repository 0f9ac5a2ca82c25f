"""The code steps of a workflow: run in the sandbox before the prompt, as pure functions of facts.

What a step returns by name feeds the steps after it, the prompts and the conditions of that tick. The code
sees facts and can call nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from artelier.artifacts.invoke.program import code_of, program_of
from artelier.errors import InvalidArtifact, InvalidRequest
from artelier.ports.sandbox import SandboxLimits
from artelier.sandbox import SandboxError
from artelier.sandbox.dialect_check import parse
from artelier.world.mind import prompt_sections
from artelier.world.mind.billed_reads import BilledReader
from artelier.world.mind_artifacts import Reading, WorkflowStep
from artelier.world.mind_artifacts.workflow import StepPrompt

LIMITS = SandboxLimits(time_ms=250, memory_bytes=16 * 1024 * 1024, output_bytes=64 * 1024, depth=100)
REASON_CHARS_MAX = 300


class Computed(NamedTuple):
    """The result of running the code of a state."""

    values: Mapping[str, Any]
    """By name, for facts and conditions."""
    shown: Mapping[str, object]
    """The same for prompts: words that do not stand in the code itself are data."""
    failed: str = ""
    """Why the agent makes no step in this tick."""
    earlier: Mapping[int, tuple[Mapping[str, Any], Mapping[str, object]]] = MappingProxyType({})
    """Values and what is shown of them as prompts between code steps see them, by the steps before."""
    closed: int = 0
    """Ways out that stand before a code step that ran: they were not open, whatever it has computed."""

    def seen_by(self, prompt: StepPrompt) -> tuple[Mapping[str, Any], Mapping[str, object]]:
        """Return the values at the place of a prompt, and what is shown of them."""
        last = (self.values, self.shown)
        return last if prompt.code_before is None else self.earlier.get(prompt.code_before, last)


class _ComputationFailed(Exception):
    """A code step came to no result."""


async def compute(
    reader: BilledReader, step: WorkflowStep, facts: Mapping[str, Any], *, strict: bool
) -> Computed:
    """Run the code of a state, in order. Errors: none of what agents can bring about."""
    values: dict[str, Any] = {}
    shown: dict[str, object] = {}
    trailing: dict[str, Any] = {}
    places = {one.code_before for one in step.shown}
    earlier: dict[int, tuple[Mapping[str, Any], Mapping[str, object]]] = {}
    closed = 0
    for number, one in enumerate(step.code):
        if number in places:
            earlier[number] = dict(values), dict(shown)
        known = {**facts, **values, **trailing}
        if one.after and step.with_closed(closed).is_left(known, first=one.after):
            continue
        closed = max(closed, one.after) if strict else 0  # else ways are judged after the action
        if one.run_if is not None and not one.run_if.check(known, strict=strict).holds:
            continue
        try:
            code, found = await _run(reader, one.artifact_id, known)
        except _ComputationFailed as error:
            if one.is_skipped_on_failure:
                continue
            said = f"the code step {one.artifact_id} failed: {error}"
            why = " ".join(said.split())[:REASON_CHARS_MAX]
            return Computed(values, shown, why, earlier, closed)
        if one.is_trailing:
            trailing |= found
            continue
        values |= found
        shown |= {name: _format_value(value, code) for name, value in found.items()}
    return Computed(values, shown, "", earlier, closed)


async def _run(reader: BilledReader, ref: str, known: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the code of a tool and what its `run` gives for the facts that it asks for by name."""
    reading = await reader.read(ref, action="read", why="code", adopted=True)
    if not isinstance(reading, Reading):
        raise _ComputationFailed(f"it cannot be read: {reading}")
    code = code_of(reading.content)
    scene = reader.scene
    if code is None or scene.interpreter is None:
        raise _ComputationFailed("it holds no code" if code is None else "this world has no sandbox")
    try:
        program = program_of(code)
        if missing := sorted(program.required - known.keys()):
            raise _ComputationFailed(f"name {missing[0]!r} is not defined")
        names = known.keys() if program.takes_any else known.keys() & set(program.parameters)
        args = {name: known[name] for name in sorted(names)}
        async with scene.computing:
            result = await scene.interpreter.run(f"{code}\nrun(**args)", inputs={"args": args}, limits=LIMITS)
    except SandboxError as error:
        where = f"line {error.line}: " if error.line is not None else ""
        raise _ComputationFailed(f"{where}{error.message}") from None
    except (InvalidArtifact, InvalidRequest) as error:
        raise _ComputationFailed(error.message) from None
    value: object = result.value
    if not isinstance(value, dict):
        raise _ComputationFailed("it gave no values by name")
    return code, cast("dict[str, Any]", value)


def _format_value(value: object, code: str) -> object:
    is_own = isinstance(value, str) and value in _words(code)
    return value if is_own or isinstance(value, int | float) else prompt_sections.result_text(value)


@lru_cache(maxsize=128)
def _words(code: str) -> frozenset[str]:
    """Return the texts that stand in code as constants: the words of whoever adopted it."""
    nodes = ast.walk(parse(code))
    return frozenset(
        node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
