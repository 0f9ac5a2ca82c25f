"""The steps and the state machine of an old workflow, as they stand in the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from artelier.artifacts import Ref
from artelier.errors import ArtelierError
from artelier_migrate.document import Fields, Notes, YamlNode

TYPES = ("code", "llm", "transition")


@dataclass(slots=True, kw_only=True)
class OldStep:
    """A step as it stood in the file."""

    name: str
    type: str
    line: int
    path: str
    lines: dict[str, int]
    """Of its keys."""
    states: tuple[str, ...] = ()
    """Empty: in every state."""
    run_if: str | None = None
    prompt: str | None = None
    prompt_ref: str | None = None
    to: str | None = None
    decisions: dict[str, str] = field(default_factory=dict[str, str])
    mode: str | None = None
    transition_ref: str | None = None
    code: str | None = None
    code_line: int = 0
    """Where its code begins."""
    is_skipped_on_failure: bool = False


def read_steps(fields: Fields, notes: Notes, *, skips: bool = False) -> list[OldStep]:
    """Return the steps in their order. `skips`: code that fails is left out, unless it says otherwise."""
    node = fields.take("steps")
    steps: list[OldStep] = []
    for number, item in enumerate(node.items if node else []):
        path = fields.at(f"steps[{number}]")
        if not item.members:
            notes.add("unused", "a step is a mapping", line=item.line, key=path)
            continue
        steps.append(_step(Fields(item, path, notes), number, notes, skips=skips))
    return steps


def _step(fields: Fields, number: int, notes: Notes, *, skips: bool) -> OldStep:
    name = fields.name("name") or f"step{number + 1}"
    lines = {key: node.line for key, node in fields.left.items()}
    code = fields.take("code")
    kind = fields.name("type") or ("llm" if "prompt" in fields.left else "code")
    if kind not in TYPES:
        expected = ", ".join(TYPES)
        notes.add("unused", f"a step of type {kind}; there are {expected}", line=fields.line, key=fields.path)
        kind = "none"
    states = fields.take("in_state", "in_states")
    step = OldStep(
        lines=lines,
        name=name,
        type=kind,
        line=fields.line,
        path=fields.path,
        run_if=_condition(fields, "run_if", notes),
        states=tuple(item.name for item in (states.items if states else []) if item.name),
        prompt=_prompt(fields, notes),
        prompt_ref=_ref(fields, "prompt_artifact_id", notes),
        to=fields.name("transition_to"),
        mode=fields.name("transition_mode"),
        transition_ref=_ref(fields, "transition_prompt_artifact_id", notes),
    )
    decisions = fields.take("transition_map")
    if decisions is not None:
        for word, target in decisions.members.items():
            if target.name is None:
                notes.add(
                    "unused",
                    "expected the name of a state",
                    line=target.line,
                    key=fields.at(f"transition_map.{word[:80]}"),
                )
            else:
                step.decisions[word] = target.name
    _source(fields, step, notes)
    is_code = code is not None and code.text is not None and kind == "code"
    on_failure = fields.take("on_failure") if is_code else None
    step.is_skipped_on_failure = on_failure.name == "skip" if on_failure is not None else skips
    for key in ("on_failure", "max_retries"):
        if (given := fields.take(key)) is not None:
            notes.add(
                "unused",
                "a failed model call is tried again by the runtime's own rules",
                line=given.line,
                key=fields.at(key),
            )
    fields.report_left()
    if code is not None and not is_code:
        notes.add("unused", "code belongs to a step of type code", line=code.line, key=fields.at("code"))
    elif code is not None:
        step.code, step.code_line = str(code.text), code.first_line
    elif kind == "code" and step.to is None:
        step.type = "none"
        notes.add("unused", "a step of type code has code", line=fields.line, key=fields.path)
    return step


def _prompt(fields: Fields, notes: Notes) -> str | None:
    node = fields.take("prompt")
    if node is None:
        return None
    if node.members:
        fallback = node.members.get("fallback")
        notes.add(
            "unused",
            "a prompt that an artifact writes is not asked for; its fallback stands in",
            line=node.line,
            key=fields.at("prompt"),
        )
        return fallback.text if fallback and isinstance(fallback.value, str) else None
    return node.text


def _condition(fields: Fields, key: str, notes: Notes) -> str | None:
    node = fields.take(key)
    return None if node is None else condition_text(node, fields.at(key), notes)


def _source(fields: Fields, step: OldStep, notes: Notes) -> None:
    """A decision by an artifact: only its fallback can be taken over."""
    node = fields.take("transition_source")
    if node is None:
        return
    fallback = node.members.get("fallback")
    target = step.decisions.get(fallback.text or "") if fallback else None
    step.decisions, step.to = {}, target or step.to
    what = f"its fallback leads to {target}" if target else "and its fallback leads nowhere"
    notes.add(
        "changed",
        f"no artifact is asked for the next state; {what}",
        line=node.line,
        key=fields.at("transition_source"),
    )
    if target is None:
        step.type = "none"


def _ref(fields: Fields, key: str, notes: Notes) -> str | None:
    node = fields.take(key)
    if node is None:
        return None
    try:
        Ref.parse(node.text or "")
    except ArtelierError as error:
        notes.add("unused", error.message, line=node.line, key=fields.at(key))
        return None
    return node.text


# --------------------------------------------------------------------------- state machine
# The state machine of an old workflow: its states, and which may follow which, under what condition.


ANY = "*"
ALWAYS = "true"
NEVER = "false"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A transition; `origin` may be any state."""

    origin: str
    to: str
    condition: str | None = None
    line: int = 0
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """States and transitions, in the order of the file."""

    states: tuple[str, ...] = ()
    initial: str = ""
    ways: tuple[Way, ...] = ()
    line: int = 0

    def conditional_ways(self, state: str) -> Iterator[tuple[str, str, int, str]]:
        """Yield the ways that have a condition: first those of the state, then those of any state."""
        for origin in (state, ANY):
            for way in self.ways:
                stays = origin == ANY and way.to == state
                if way.origin == origin and way.condition and not stays:
                    yield way.to, way.condition, way.line, way.key

    def free_ways(self, state: str) -> tuple[str, ...]:
        """The state's own ways without a condition."""
        return self._free(state, state)

    def fallbacks(self, state: str) -> tuple[str, ...]:
        """Ways of any state without a condition."""
        return self._free(ANY, state)

    def needed(self, state: str, to: str) -> tuple[str, ...]:
        """Return what a move of a step needs: that one of these holds. Without ways every move is free."""
        fitting = [way.condition for way in self.ways if way.origin in (state, ANY) and way.to == to]
        if to == state or not self.ways or None in fitting:
            return (ALWAYS,)
        return tuple(dict.fromkeys(text for text in fitting if text)) or (NEVER,)

    def _free(self, origin: str, state: str) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(
                way.to
                for way in self.ways
                if way.origin == origin and way.to != state and way.condition is None
            )
        )


def read_machine(node: YamlNode | None, path: str, notes: Notes) -> Machine:
    """The machine of a file; an empty one if there is none."""
    if node is None:
        return Machine()
    if not node.members:
        notes.add("unused", "expected a mapping", line=node.line, key=path)
        return Machine()
    fields = Fields(node, path, notes)
    given = fields.take("states")
    # Also as a mapping of names to descriptions.
    named = list(given.members) if given and given.members else []
    named += [item.name for item in given.items if item.name] if given and not named else []
    initial_line = fields.left["initial_state"].line if "initial_state" in fields.left else node.line
    initial = fields.name("initial_state", "initial")
    ways = tuple(_ways(fields, notes))
    states = tuple(dict.fromkeys(named)) or tuple(
        dict.fromkeys(name for way in ways for name in (way.origin, way.to) if name != ANY)
    )
    if initial is not None and states and initial not in states:
        notes.add(
            "changed",
            f"there is no state {initial}; it begins in {states[0]}",
            line=initial_line,
            key=fields.at("initial_state"),
        )
        initial = None
    fields.report_left()
    known: list[Way] = []
    for way in ways:
        gone = [name for name in (way.origin, way.to) if name not in (*states, ANY)]
        if gone or way.to == ANY:
            notes.add("unused", f"there is no state {(gone or [ANY])[0]}", line=way.line, key=way.key)
        else:
            known.append(way)
    return Machine(
        states=states, initial=initial or (states[0] if states else ""), ways=tuple(known), line=node.line
    )


def _ways(fields: Fields, notes: Notes) -> Iterator[Way]:
    given = fields.take("transitions")
    for number, item in enumerate(given.items if given else []):
        path = fields.at(f"transitions[{number}]")
        if not item.members:
            yield from _arrow(item, path, notes)
            continue
        one = Fields(item, path, notes)
        origins, to = one.take("from"), one.name("to")
        condition = one.take("condition", "when")
        one.report_left()
        if to is None:
            notes.add("unused", "a transition without `to`", line=item.line, key=path)
            continue
        text = condition_text(condition, one.at("condition"), notes) if condition else None
        names = [one.name for one in origins.items if one.name] if origins else [ANY]
        for name in names:
            yield Way(origin=name, to=to, condition=text, line=item.line, key=path)


def _arrow(item: YamlNode, path: str, notes: Notes) -> Iterator[Way]:
    """`a -> b`, or a chain of them."""
    names = [name.strip() for name in (item.name or "").split("->")]
    if len(names) < 2 or not all(names):
        notes.add("unused", "expected {from, to, condition} or `a -> b`", line=item.line, key=path)
        return
    for origin, to in pairwise(names):
        yield Way(origin=origin, to=to, line=item.line, key=path)


def condition_text(node: YamlNode, path: str, notes: Notes) -> str | None:
    """A condition as text. One that asks an artifact becomes what it falls back to."""
    if not node.members:
        return node.name and (node.text or "").strip()
    fallback = node.members.get("fallback")
    holds = fallback is not None and bool(fallback.value)
    notes.add(
        "changed",
        f"a condition asks no artifact; its fallback {str(holds).lower()} stands in",
        line=node.line,
        key=path,
    )
    return ALWAYS if holds else NEVER
