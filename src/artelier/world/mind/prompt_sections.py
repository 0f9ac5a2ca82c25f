"""The sections of an agent's prompt, from what was read for it: pure, with the words of others fenced."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import msgspec

from artelier.artifacts.kinds import code_of, program_of
from artelier.context import Section, Source, fence
from artelier.context.builder import shipped_text
from artelier.errors import InvalidArtifact, InvalidRequest
from artelier.kernel.prompt.manifest import balance_fences
from artelier.ports.sandbox import SandboxLimits
from artelier.sandbox import SandboxError
from artelier.sandbox.dialect_check import parse
from artelier.world.actions import actions_prompt
from artelier.world.mind.billed_reads import BilledReader
from artelier.world.mind_artifacts import (
    MissingVariable,
    PromptArtifact,
    Reading,
    Skip,
    WorkflowStep,
    choose_prompt,
    clip,
    memory_text,
    read_prompt,
)
from artelier.world.mind_artifacts.prompt import INLINE, TEXT_BYTES_MAX
from artelier.world.mind_artifacts.template import as_text
from artelier.world.mind_artifacts.transition import VALUE_BYTES_MAX
from artelier.world.mind_artifacts.workflow import StepPrompt
from artelier.world.queries.market import OfferFact
from artelier.world.tick.agent_facts import NEWS_FROM

# --------------------------------------------------------------------------- shipped texts
# The shipped texts of an agent's prompt: files with a version, read once.


@lru_cache(maxsize=32)
def template(name: str) -> PromptArtifact:
    """A shipped template, such as `now-1`."""
    return read_prompt(shipped_text("artelier.world.mind", name))


# --------------------------------------------------------------------------- prompt sections


RESULT = "last_action_result"
MEMORIES = "recent_memories"


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidPrompt:
    """A prompt of an agent as it stands in its request."""

    text: str = ""
    source: str = ""
    """A ref with its version, `inline`, or the name of a shipped prompt; empty without a prompt."""
    uses: tuple[str, ...] = ()
    """The variables that it shows."""
    skipped: str = ""
    """Why the artifact that was named does not stand."""


def say(
    values: Mapping[str, object],
    reading: Reading | Skip | None,
    *,
    inline: str | None = None,
    shipped: str | None = None,
) -> SaidPrompt:
    """The first of artifact, inline and shipped prompt that can be rendered. Never raises."""
    skipped = ""
    options: tuple[tuple[Reading | Skip | None, str | None], ...] = (
        (reading, inline),
        (None, inline),
        (None, None),
    )
    for one, own in options:
        chosen = choose_prompt(one, inline=own, shipped=shipped)
        skipped = skipped or chosen.skipped.partition(":")[0]
        if chosen.prompt is None:
            continue
        try:
            text = chosen.prompt.render(values)
        except MissingVariable as missing:
            skipped = skipped or f"missing_variable:{missing.name}"
        except InvalidRequest:
            skipped = skipped or "broken"
        else:
            # A format such as {x:.9} may have cut the end of a fence off.
            uses = chosen.prompt.template.names
            return SaidPrompt(text=balance_fences(text), source=chosen.source, uses=uses, skipped=skipped)
    # Words of the agent's own artifact that are no template are still its words.
    return SaidPrompt(text=inline or "", source=INLINE if inline else "", skipped=skipped)


def data(text: str, *, source: str, limit_bytes: int = VALUE_BYTES_MAX) -> str:
    """Text of others between marks, within a number of bytes; empty text stays empty."""
    if not text:
        return ""
    # Marks in the text are made harmless before it is measured, because that makes it longer.
    inside = fence(text, source="").partition("\n")[2].rpartition("\n")[0]
    return fence(clip(inside, limit_bytes=limit_bytes).text, source=source)


def result_text(result: object) -> str:
    """The result of an action as a prompt shows it: anything but a bare number or truth value is data."""
    if result is None or isinstance(result, bool | int | float):
        return as_text(result)
    try:
        return data(as_text(result), source="result") or "none"
    except InvalidRequest:
        return "none"


# The sections, in the order of the prompt


def standing_sections(agent: str, *, actions: Sequence[str] | None) -> list[Section]:
    """Return what all agents of a world are told, word by word the same, then the agent's name."""
    return [
        *_alike(None if actions is None else tuple(actions)),
        Section(
            tag="identity",
            text=template("identity-1").render({"agent_id": agent}),
            pinned=True,
            sources=("agent",),
        ),
    ]


@lru_cache(maxsize=64)
def _alike(actions: tuple[str, ...] | None) -> tuple[Section, Section]:
    rules = template("rules-1").render({})
    return (
        Section(tag="rules", text=rules, pinned=True, sources=("world",)),
        Section(tag="actions", text=actions_prompt(actions), pinned=True, sources=("actions",)),
    )


def personality_sections(said: SaidPrompt, shown: Sequence[Source | str] = ()) -> list[Section]:
    """Return who the agent is. Values that change from tick to tick stand behind what does not.

    `shown`: where the values in it are from, if they are from artifacts.
    """
    sections = left_out("personality", said.skipped)
    if said.text:
        stability = "slow" if set(said.uses) - {"agent_id"} else "fixed"
        source = Source(ref=said.source, why="personality")
        sections.append(
            Section(
                tag="personality", text=said.text, priority=95, stability=stability, sources=(source, *shown)
            )
        )
    return sections


def step_sections(said: SaidPrompt, state: str | None, shown: Sequence[Source | str] = ()) -> list[Section]:
    """Return what the state of the workflow asks for; `shown` as above."""
    sections = left_out("step", said.skipped)
    if said.text:
        source = Source(ref=said.source, why="prompt" if state is None else f"state {state}")
        sections.append(
            Section(tag="step", text=said.text, stability="volatile", priority=90, sources=(source, *shown))
        )
    return sections


def memory_sections(reading: Reading | Skip | None) -> list[Section]:
    """The working memory, within its bytes."""
    if not isinstance(reading, Reading):
        return left_out("working_memory", reading or "")
    text, is_cut = memory_text(reading.content)
    if not text:
        return left_out("working_memory", "empty")
    if reading.trust != "trusted":
        text = data(text, source=reading.ref, limit_bytes=TEXT_BYTES_MAX)
    return [
        Section(
            tag="working_memory",
            text=f"## Working memory\n\n{text}",
            stability="slow",
            priority=70,
            sources=(Source(ref=reading.ref, why="working memory", grant=reading.grant),),
            trust=reading.trust,
            is_fenced=True,
            cut="end" if is_cut else "",
        )
    ]


def recalled_section(text: str, sources: Sequence[Source | str]) -> Section:
    """Return what the long-term memory holds on this, where no prompt shows it."""
    return Section(
        tag=MEMORIES,
        text=f"## What you remember\n\n{text}",
        stability="volatile",
        priority=60,
        sources=tuple(sources),
        trust="untrusted",
        is_fenced=True,
    )


def now_section(values: Mapping[str, object], missing: Sequence[str]) -> Section:
    """The facts of the tick; `missing` is what this prompt had no right or no money to show."""
    text = template("now-1").render(values)
    if missing:
        text += f"\nNot shown: {', '.join(missing)}"
    return Section(tag="now", text=text, stability="volatile", pinned=True, sources=("world",))


def news_sections(
    result: str, inbox: Sequence[Mapping[str, Any]], offers: Sequence[OfferFact]
) -> list[Section]:
    """Return what came of the last action, what others said, what is for sale: words and names of others."""
    made: list[Section] = []
    for tag, heading, text, priority in (
        ("result", "Result of your last action", result, 60),
        ("messages", "Messages", data(_newest(inbox), source="messages", limit_bytes=_NEWS), 65),
        (
            "offers",
            "Open offers",
            data(_lines(msgspec.to_builtins(offers)), source="offers", limit_bytes=_NEWS),
            40,
        ),
    ):
        if text and text != "none":
            made.append(
                Section(
                    tag=tag,
                    text=f"## {heading}\n\n{text}",
                    stability="volatile",
                    priority=priority,
                    sources=("world",),
                    trust="untrusted",
                    is_fenced=True,
                )
            )
    return made


def left_out(tag: str, why: str) -> list[Section]:
    """An entry of the manifest for what is not there; none without a reason."""
    return [Section(tag=tag, dropped=why)] if why else []


def sanitise_tags(sections: Iterable[Section]) -> list[Section]:
    """Sections with tags that are names, as events hold them: a list written by hand may hold any text."""
    return [replace(one, tag=_NO_NAME.sub("?", one.tag)) for one in sections]


_NO_NAME = re.compile(r"[^A-Za-z0-9._:/@#-]+")


_NEWS = 4 * VALUE_BYTES_MAX
"""Bytes of messages, or of offers."""


def _newest(messages: Sequence[Mapping[str, Any]]) -> str:
    """News of the world, then messages: of each the newest, oldest first; the others are counted.

    However many messages there are, they push no news out.
    """
    # Half of the bytes, since marks in them grow when they are made harmless.
    room = _NEWS // 2
    news = [one for one in messages if one.get("from") == NEWS_FROM]
    shown = _fitting(news, room, shortens=True)
    room -= sum(len(line.encode()) for line in shown)
    shown += _fitting([one for one in messages if one.get("from") != NEWS_FROM], room)
    left = len(messages) - len(shown)
    return "\n".join([json.dumps({"earlier": left}), *shown] if left else shown)


def _fitting(messages: Sequence[Mapping[str, Any]], room: int, *, shortens: bool = False) -> list[str]:
    """Lines of the newest messages within a number of bytes. `shortens`: the newest is there at any rate,
    if need be cut to half of them."""
    lines, half = list[str](), room // 2
    for message in reversed(messages):
        line, limit = _lines((message,)), room
        while shortens and not lines and len(line.encode()) > half:
            limit //= 2  # escapes make a text longer
            line = _lines(({**message, "text": clip(message["text"], limit_bytes=limit).text},))
        room -= len(line.encode())
        if room < 0:
            break
        lines.append(line)
    return lines[::-1]


def _lines(items: Sequence[Mapping[str, Any]]) -> str:
    """One object a line: a line break in a message cannot begin another one."""
    return "\n".join(json.dumps(item, ensure_ascii=False) for item in items)


# --------------------------------------------------------------------------- computation
# The code steps of a workflow: run in the sandbox before the prompt, as pure functions of facts.
# What a step returns by name feeds the steps after it, the prompts and the conditions of that tick. The
# code sees facts and can call nothing.


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
    return value if is_own or isinstance(value, int | float) else result_text(value)


@lru_cache(maxsize=128)
def _words(code: str) -> frozenset[str]:
    """Return the texts that stand in code as constants: the words of whoever adopted it."""
    nodes = ast.walk(parse(code))
    return frozenset(
        node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
