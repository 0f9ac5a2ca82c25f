"""Workflow artifacts: states, and for each a prompt and the way to the next one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from artelier.agents.minds.condition import Condition, read_condition
from artelier.agents.minds.prompt import read_plain_prompt
from artelier.artifacts import Ref
from artelier.artifacts.shown import shown
from artelier.errors import InvalidArtifact, InvalidRequest

STATES_MAX = 64
STATE_CHARS_MAX = 64
BRANCHES_MAX = 32
ERRORS_MAX = 20

Mode = Literal["auto", "condition", "llm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A way out of a state, taken if its condition is the first that holds."""

    to: str
    condition: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What an agent does in a state, and how it leaves."""

    state: str
    prompt_artifact_id: str | None = None
    """A ref, which may dangle; then `prompt_inline` stands in."""
    prompt_inline: str | None = None
    mode: Mode = "auto"
    to: str | None = None
    """Of `auto`. None: the state is never left."""
    branches: tuple[Branch, ...] = ()
    transition_prompt_artifact_id: str | None = None
    """Of `llm`. None, or one that dangles: the shipped `transition_base`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A workflow that has been checked."""

    states: tuple[str, ...]
    initial_state: str
    steps: Mapping[str, Step]
    """By state. A state without a step has no prompt of its own and is not left."""

    def step(self, state: str) -> Step:
        """What to do in a state; one that is gone counts as the initial one."""
        known = state if state in self.states else self.initial_state
        return self.steps.get(known, Step(state=known))


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
    reader = _Reader()
    workflow = reader.workflow(content)
    if workflow is None or reader.errors:
        raise InvalidWorkflow(reader.errors)
    return workflow


class _Reader:
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
        steps: dict[str, Step] = {}
        for number, item in enumerate(self._list(given.get("steps", []), "steps", STATES_MAX)):
            step = self._step(item, f"steps[{number}]")
            if step is None:
                continue
            if step.state in steps:
                self._wrong(f"steps[{number}].state", "a state that no other step has", step.state)
            steps[step.state] = step
        return Workflow(states=self.states, initial_state=initial, steps=steps)

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

    def _step(self, item: object, path: str) -> Step | None:
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
        return Step(
            state=self._state(given.get("state"), f"{path}.state"),
            prompt_artifact_id=self._ref(given, "prompt_artifact_id", path),
            prompt_inline=self._inline(given.get("prompt_inline"), path),
            mode=mode,
            to=to,
            branches=branches,
            transition_prompt_artifact_id=self._ref(given, "transition_prompt_artifact_id", path),
        )

    def _branches(self, given: object, path: str) -> tuple[Branch, ...]:
        branches: list[Branch] = []
        where = f"{path}.transition_conditions"
        for number, item in enumerate(self._list(given, where, BRANCHES_MAX)):
            branch = self._object(item, f"{where}[{number}]", _BRANCH)
            if branch is None:
                continue
            to = self._state(branch.get("to"), f"{where}[{number}].to")
            text = branch.get("condition")
            if not isinstance(text, str):
                self._wrong(f"{where}[{number}].condition", "an expression as text", text)
                continue
            try:
                branches.append(Branch(to=to, condition=read_condition(text)))
            except InvalidArtifact as error:
                self.errors.append(f"{where}[{number}].condition: {error}")
        return tuple(branches)

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

    def _list(self, value: object, path: str, length_max: int) -> list[Any]:
        if isinstance(value, list | tuple):
            items = cast("list[Any]", value)
            if len(items) <= length_max:
                return items
        self._wrong(path, f"a list of at most {length_max}", cast("object", value))
        return []

    def _wrong(self, path: str, expected: str, got: object) -> None:
        self.errors.append(f"{path}: expected {expected}; got {shown(got)}")


_NOTES = ("description", "title")
_TOP = frozenset(("states", "initial_state", "steps", *_NOTES))
_BRANCH = frozenset(("to", "condition", *_NOTES))
_STEP = frozenset(
    (
        *("state", "prompt_artifact_id", "prompt_inline", "transition_mode", "transition_to"),
        *("transition_conditions", "transition_prompt_artifact_id", *_NOTES),
    )
)


def _is_name(name: str) -> bool:
    return 0 < len(name) <= STATE_CHARS_MAX and name.isprintable() and name == name.strip()
