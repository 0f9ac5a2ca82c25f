"""Workflow artifacts: states, and for each a prompt and the way to the next one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast, get_args

import msgspec

from artelier.artifacts import Kind, Ref, register_kind
from artelier.artifacts.content import Media
from artelier.artifacts.ref import safe_repr
from artelier.errors import InvalidArtifact, InvalidRequest
from artelier.world.mind_artifacts.condition import Condition, read_condition
from artelier.world.mind_artifacts.prompt import read_library, read_plain_prompt, read_prompt
from artelier.world.mind_artifacts.reflex import check_reflex

STATES_MAX = 64
STATE_CHARS_MAX = 64
BRANCHES_MAX = 32
PARTS_MAX = 32
"""Code steps, and prompts, of one state."""
ERRORS_MAX = 20

Mode = Literal["auto", "condition", "llm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowBranch:
    """A way out of a state, taken if its condition is the first that holds."""

    to: str = ""
    """Empty: a model is asked where to."""
    condition: Condition
    ask: str | None = None
    """The prompt that asks, where a model is asked."""
    allowed: Mapping[str, tuple[Condition, ...]] = field(default_factory=dict[str, "tuple[Condition, ...]"])
    """Of which one must hold for a model's choice of a state, else the agent stays; others are free."""

    def holds(self, facts: Mapping[str, Any], *, strict: bool = True) -> bool:
        """Return whether the way is open."""
        return self.condition.check(facts, strict=strict).holds


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeStep:
    """Code that runs in the sandbox before the prompt: what its `run` returns, by name, the tick knows."""

    artifact_id: str
    run_if: Condition | None = None
    is_skipped_on_failure: bool = False
    """Else an agent whose code fails makes no step in that tick."""
    after: int = 0
    """It runs only if none of the first so many ways out is open."""
    is_trailing: bool = False
    """It comes after all prompts and ways out, which do not see what it computes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPrompt:
    """A prompt of a state, shown if its condition holds."""

    artifact_id: str | None = None
    """A ref, which may dangle; then `inline` stands in."""
    inline: str | None = None
    run_if: Condition | None = None
    after: int = 0
    """It is shown only if none of the first so many ways out is open."""
    code_before: int | None = None
    """It sees what the first so many code steps have computed. None: what all have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowStep:
    """The action of an agent in a state, and the way out of the state."""

    state: str
    prompt_artifact_id: str | None = None
    """A ref, which may dangle; then `prompt_inline` stands in."""
    prompt_inline: str | None = None
    mode: Mode = "auto"
    to: str | None = None
    """Of `auto`. None: the state is never left."""
    branches: tuple[WorkflowBranch, ...] = ()
    transition_prompt_artifact_id: str | None = None
    """Of `llm`. None, or one that dangles: the shipped `transition_base`."""
    code: tuple[CodeStep, ...] = ()
    prompts: tuple[StepPrompt, ...] | None = None
    """Shown together. If none of them is to be shown the agent asks no model for an action. None: the one
    prompt above."""

    @property
    def shown(self) -> tuple[StepPrompt, ...]:
        """The prompts of the state."""
        if self.prompts is not None:
            return self.prompts
        return (StepPrompt(artifact_id=self.prompt_artifact_id, inline=self.prompt_inline),)

    def is_left(self, facts: Mapping[str, Any], *, first: int) -> bool:
        """Return whether one of the first so many ways out is open."""
        return any(branch.holds(facts) for branch in self.branches[:first])

    def with_closed(self, first: int) -> WorkflowStep:
        """Return the step with the first so many ways out closed, whatever becomes known later."""
        closed = tuple(replace(one, condition=read_condition("false")) for one in self.branches[:first])
        return replace(self, branches=closed + self.branches[first:])

    def asking(self, facts: Mapping[str, Any], *, strict: bool) -> WorkflowBranch | None:
        """Return the way out by which a model is asked, if that is the first that is open."""
        if self.mode == "llm":
            always = read_condition("true")
            return WorkflowBranch(condition=always, ask=self.transition_prompt_artifact_id)
        open_ways = (one for one in self.branches if one.holds(facts, strict=strict))
        found = next(open_ways, None) if self.mode == "condition" else None
        return None if found is None or found.to else found


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A workflow that has been checked."""

    states: tuple[str, ...]
    initial_state: str
    steps: Mapping[str, WorkflowStep]
    """By state. A state without a step has no prompt of its own and is not left."""
    is_decided_before_action: bool = False
    """Transitions see the facts that the prompt was made of, and the results of code; an agent without a
    valid action stays. Else they see what came of the action."""

    def with_step(self, step: WorkflowStep) -> Workflow:
        """Return the workflow with another step in its state."""
        return replace(self, steps={**self.steps, step.state: step})

    def step(self, state: str) -> WorkflowStep:
        """Return what to do in a state; one that is gone counts as the initial one."""
        known = state if state in self.states else self.initial_state
        return self.steps.get(known, WorkflowStep(state=known))


class InvalidWorkflow(InvalidArtifact):
    """`errors` are all that is wrong, each with its path, at most `ERRORS_MAX`."""

    def __init__(self, errors: list[str]) -> None:
        shown_errors = errors[:ERRORS_MAX]
        if len(errors) > ERRORS_MAX:
            shown_errors.append(f"and {len(errors) - ERRORS_MAX} more")
        super().__init__(f"invalid workflow: {'; '.join(shown_errors)}")
        self.errors = tuple(shown_errors)


def read_workflow(content: object) -> Workflow:
    """The workflow of an artifact's content. Errors: `InvalidWorkflow` with everything that is wrong."""
    reader = _WorkflowReader()
    workflow = reader.workflow(content)
    if workflow is None or reader.errors:
        raise InvalidWorkflow(reader.errors)
    return workflow


class _WorkflowReader:
    """Reads on after an error, so that all of them are told at once."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.states: tuple[str, ...] = ()

    def workflow(self, content: object) -> Workflow | None:
        given = self._object(content, "content", _TOP)
        if given is None:
            return None
        self.states = self._states(given.get("states"))
        initial = self._state(given.get("initial_state"), "initial_state")
        steps: dict[str, WorkflowStep] = {}
        for number, item in enumerate(self._list(given.get("steps", []), "steps", STATES_MAX)):
            step = self._step(item, f"steps[{number}]")
            if step is None:
                continue
            if step.state in steps:
                self._wrong(f"steps[{number}].state", "a state that no other step has", step.state)
            steps[step.state] = step
        facts = given.get("transition_facts", "after_action")
        if facts not in ("after_action", "before_action"):
            self._wrong("transition_facts", "after_action or before_action", facts)
        return Workflow(
            states=self.states,
            initial_state=initial,
            steps=steps,
            is_decided_before_action=facts == "before_action",
        )

    def _states(self, given: object) -> tuple[str, ...]:
        names: dict[str, None] = {}
        items = self._list(given, "states", STATES_MAX)
        for number, name in enumerate(items):
            path = f"states[{number}]"
            if not isinstance(name, str) or not _is_name(name):
                expected = f"a name of 1-{STATE_CHARS_MAX} printable characters"
                self._wrong(path, expected, name)
            elif name in names:
                self._wrong(path, "each state once", name)
            else:
                names[name] = None
        if not items and isinstance(given, list | tuple):
            self._wrong("states", "at least one state", cast("object", given))
        return tuple(names)

    def _step(self, item: object, path: str) -> WorkflowStep | None:
        given = self._object(item, path, _STEP)
        if given is None:
            return None
        mode = given.get("transition_mode", "auto")
        if mode not in get_args(Mode):
            self._wrong(f"{path}.transition_mode", " or ".join(get_args(Mode)), mode)
        to = given.get("transition_to")
        if to is not None:
            to = self._state(to, f"{path}.transition_to")
        elif "transition_mode" in given and mode == "auto":
            self._wrong(f"{path}.transition_to", "the state that follows", None)
        conditions: object = given.get("transition_conditions") or []
        branches = self._branches(conditions, path)
        if mode == "condition" and conditions == []:
            self._wrong(f"{path}.transition_conditions", "at least one {to, condition}", [])
        return WorkflowStep(
            state=self._state(given.get("state"), f"{path}.state"),
            prompt_artifact_id=self._ref(given, "prompt_artifact_id", path),
            prompt_inline=self._inline(given.get("prompt_inline"), path),
            mode=mode,
            to=to,
            branches=branches,
            transition_prompt_artifact_id=self._ref(given, "transition_prompt_artifact_id", path),
            code=self._code(given.get("code") or [], f"{path}.code"),
            prompts=self._prompts(given.get("prompts"), f"{path}.prompts"),
        )

    def _code(self, items: object, path: str) -> tuple[CodeStep, ...]:
        found: list[CodeStep] = []
        for number, item in enumerate(self._list(items, path, PARTS_MAX)):
            place = f"{path}[{number}]"
            given = self._object(item, place, _CODE)
            if given is None:
                continue
            ref = self._ref(given, "artifact_id", place)
            on_failure = given.get("on_failure", "stop")
            if ref is None:
                self._wrong(f"{place}.artifact_id", "a ref of a tool", given.get("artifact_id"))
            if on_failure not in ("stop", "skip"):
                self._wrong(f"{place}.on_failure", "stop or skip", on_failure)
            if given.get("trailing", False) not in (True, False):
                self._wrong(f"{place}.trailing", "true or false", given["trailing"])
            run_if = self._condition(given.get("run_if"), f"{place}.run_if")
            found.append(
                CodeStep(
                    artifact_id=ref or "",
                    run_if=run_if,
                    is_skipped_on_failure=on_failure == "skip",
                    after=self._after(given, place),
                    is_trailing=given.get("trailing") is True,
                )
            )
        return tuple(found)

    def _prompts(self, items: object, path: str) -> tuple[StepPrompt, ...] | None:
        if items is None:
            return None
        found: list[StepPrompt] = []
        for number, item in enumerate(self._list(items, path, PARTS_MAX)):
            place = f"{path}[{number}]"
            given = self._object(item, place, _PROMPT)
            if given is not None:
                found.append(
                    StepPrompt(
                        artifact_id=self._ref(given, "prompt_artifact_id", place),
                        inline=self._inline(given.get("prompt_inline"), place),
                        run_if=self._condition(given.get("run_if"), f"{place}.run_if"),
                        after=self._after(given, place),
                        code_before=self._code_before(given, place),
                    )
                )
        return tuple(found)

    def _code_before(self, given: Mapping[str, Any], path: str) -> int | None:
        number = given.get("code_before")
        if number is None or (type(number) is int and 0 <= number <= PARTS_MAX):
            return number
        self._wrong(f"{path}.code_before", f"a number of code steps, 0 to {PARTS_MAX}", number)
        return None

    def _after(self, given: Mapping[str, Any], path: str) -> int:
        after = given.get("after", 0)
        if isinstance(after, int) and not isinstance(after, bool) and 0 <= after <= BRANCHES_MAX:
            return after
        self._wrong(f"{path}.after", f"a number of ways out, 0 to {BRANCHES_MAX}", after)
        return 0

    def _condition(self, given: object, path: str) -> Condition | None:
        if given is None:
            return None
        if not isinstance(given, str):
            self._wrong(path, "an expression as text", given)
            return None
        try:
            return read_condition(given)
        except InvalidArtifact as error:
            self.errors.append(f"{path}: {error}")
            return None

    def _branches(self, given: object, path: str) -> tuple[WorkflowBranch, ...]:
        branches: list[WorkflowBranch] = []
        where = f"{path}.transition_conditions"
        for number, item in enumerate(self._list(given, where, BRANCHES_MAX)):
            branch = self._object(item, f"{where}[{number}]", _BRANCH)
            if branch is None:
                continue
            ask = self._ref(branch, "ask", f"{where}[{number}]")
            to = "" if ask else self._state(branch.get("to"), f"{where}[{number}].to")
            if ask and "to" in branch:
                self._wrong(f"{where}[{number}]", "either `to` or `ask`", branch)
            text = branch.get("condition")
            place = f"{where}[{number}].condition"
            if text is None:
                self._wrong(place, "an expression as text", text)
            elif (condition := self._condition(text, place)) is not None:
                allowed = self._read_allowed(branch.get("allowed") or {}, f"{where}[{number}].allowed")
                branches.append(WorkflowBranch(to=to, condition=condition, ask=ask, allowed=allowed))
        return tuple(branches)

    def _read_allowed(self, given: object, path: str) -> dict[str, tuple[Condition, ...]]:
        if not isinstance(given, dict):
            self._wrong(path, "an object of states and conditions", given)
            return {}
        found: dict[str, tuple[Condition, ...]] = {}
        for to, texts in cast("dict[str, object]", given).items():
            place = f"{path}.{to}"
            read = [self._condition(one, place) for one in self._list(texts, place, BRANCHES_MAX)]
            found[self._state(to, path)] = tuple(one for one in read if one is not None)
        return found

    def _inline(self, given: object, path: str) -> str | None:
        if given is None:
            return None
        if not isinstance(given, str):
            self._wrong(f"{path}.prompt_inline", "text or null", given)
            return None
        try:
            read_plain_prompt(given)
        except InvalidArtifact as error:
            self.errors.append(f"{path}.prompt_inline: {error}")
        return given

    def _ref(self, given: Mapping[str, Any], field: str, path: str) -> str | None:
        ref = given.get(field)
        if ref is None:
            return None
        try:
            Ref.parse(ref, main_allowed=True)
        except InvalidRequest:
            self._wrong(f"{path}.{field}", "a ref such as `id` or `library#part`, or null", ref)
            return None
        return ref

    def _state(self, name: object, path: str) -> str:
        if isinstance(name, str) and name in self.states:
            return name
        self._wrong(path, f"one of {', '.join(self.states[:20]) or 'the states'}", name)
        return ""

    def _object(self, value: object, path: str, known: frozenset[str]) -> dict[str, Any] | None:
        if not isinstance(value, dict):
            self._wrong(path, "an object", value)
            return None
        given = cast("dict[str, Any]", value)
        for name in sorted(set(given) - known):
            self._wrong(path, f"no field but {', '.join(sorted(known))}", name)
        return given

    def _list(self, value: object, path: str, length_max: int) -> list[object]:
        if isinstance(value, list | tuple):
            items = cast("list[Any]", value)
            if len(items) <= length_max:
                return items
        self._wrong(path, f"a list of at most {length_max}", cast("object", value))
        return []

    def _wrong(self, path: str, expected: str, got: object) -> None:
        self.errors.append(f"{path}: expected {expected}; got {safe_repr(got)}")


_NOTES = ("description", "title")
_TOP = frozenset(("states", "initial_state", "steps", "transition_facts", *_NOTES))
_CODE = frozenset(("artifact_id", "run_if", "on_failure", "after", "trailing", *_NOTES))
_PROMPT = frozenset(("prompt_artifact_id", "prompt_inline", "run_if", "after", "code_before", *_NOTES))
_BRANCH = frozenset(("to", "ask", "allowed", "condition", *_NOTES))
_STEP = frozenset(
    (
        *("state", "prompt_artifact_id", "prompt_inline", "transition_mode", "transition_to"),
        *("transition_conditions", "transition_prompt_artifact_id"),
        *("code", "prompts", *_NOTES),
    )
)


def _is_name(name: str) -> bool:
    return 0 < len(name) <= STATE_CHARS_MAX and name.isprintable() and name == name.strip()


class MindState(msgspec.Struct, frozen=True, kw_only=True):
    """The position of an agent in its workflow. It is stored between ticks."""

    state: str
    ticks_in_state: int = 0
    """Ticks that ended in this state."""
    failure_count: int = 0
    """Failed or rejected actions in a row."""


# --------------------------------------------------------------------------- artifact kinds
# The strict forms of the kinds that agents think with: what is wrong is told when it is saved.


_TEXT_OR_JSON: frozenset[Media] = frozenset(("text", "json"))
_JSON: frozenset[Media] = frozenset(("json",))

WORKFLOW_LIBRARY = "workflow_library"
"""The kind of `genesis_workflow_templates`: `{workflows: {name: workflow}}`, read by `id#name`."""


def register_minds() -> None:
    """Have prompts, libraries, workflows and reflexes checked in full when they are saved.

    Twice is once. Stored artifacts are not touched: an older one that would not pass is still read.
    """
    for kind in (
        Kind(name="prompt", media=_TEXT_OR_JSON, check=_check_prompt, default_access="private"),
        Kind(name="personality", media=_TEXT_OR_JSON, check=_check_prompt, default_access="private"),
        Kind(name="library", media=_JSON, check=_check_library, parts="prompts"),
        Kind(name="workflow", media=_JSON, check=_check_workflow, default_access="private"),
        Kind(name=WORKFLOW_LIBRARY, media=_JSON, check=_check_workflows, parts="workflows"),
        Kind(name="reflex", media=_TEXT_OR_JSON, check=check_reflex, default_access="private"),
    ):
        register_kind(kind, replace=True)


def _check_prompt(content: object) -> None:
    read_prompt(content)


def _check_library(content: object) -> None:
    read_library(content)


def _check_workflow(content: object) -> None:
    read_workflow(content)


def _check_workflows(content: object) -> None:
    given: object = None
    if isinstance(content, dict):
        given = cast("dict[str, object]", content).get("workflows")
    if not isinstance(given, dict):
        raise InvalidArtifact("invalid workflows", expected="an object", got=safe_repr(given))
    for name, workflow in cast("dict[str, Any]", given).items():
        try:
            read_workflow(workflow)
        except InvalidArtifact as error:
            raise InvalidArtifact(f"workflows.{name[:80]}: {error.message}") from None
