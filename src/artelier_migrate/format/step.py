"""The steps of an old workflow, as they stand in the file."""

from __future__ import annotations

from dataclasses import dataclass, field

from artelier.artifacts import Ref
from artelier.errors import ArtelierError
from artelier_migrate.format.diagnostics import Notes
from artelier_migrate.format.document import Fields
from artelier_migrate.format.state_machine import condition_text

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
