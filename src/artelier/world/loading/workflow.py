"""Inline workflows of the old format as workflow artifacts, with their prompts beside them.

The old runner went through all steps in one turn and moved on before the action was known. Here an agent is
in one state for a tick: the prompts of that state's steps are put together, and the way out is chosen after
the action.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from artelier.agents.minds.prompt import BUILT_IN
from artelier.agents.minds.workflow import BRANCHES_MAX, read_workflow
from artelier.errors import InvalidArtifact
from artelier.world.loading.code_step import FACTS, CodeStep, folded, names_in, read_code
from artelier.world.loading.components import Component
from artelier.world.loading.document import Fields, Node
from artelier.world.loading.machine import ALWAYS, Machine, read_machine
from artelier.world.loading.notes import Notes
from artelier.world.loading.prompts import Prompts, unique
from artelier.world.loading.specification import Specification
from artelier.world.loading.step import OldStep, read_steps
from artelier.world.loading.wording import (
    RENAMED,
    default_decision,
    with_decisions,
)

_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mind:
    """What became of a workflow."""

    artifacts: tuple[Specification, ...]
    workflow_id: str | None


class Converter:
    """Makes the artifacts of one workflow."""

    def __init__(
        self, agent: str, fields: Fields, notes: Notes, components: tuple[Component, ...]
    ) -> None:
        self._agent = agent
        self._path = fields.path
        self._line = fields.line
        self._notes = notes
        self._prompts = Prompts(agent, notes, components)
        self._values: Mapping[str, ast.expr] = {}
        self._computed: frozenset[str] = frozenset()
        machine = fields.take("state_machine")
        self._steps, codes = read_steps(fields, notes)
        self._machine = self._states(machine)
        for step, code, line in codes:
            self._code(step, code, line)

    def mind(self) -> Mind:
        """The artifacts. Without states and prompts there is no workflow."""
        states = self._machine.states
        if not states:
            self._prompts.report_unplaced()
            return Mind(artifacts=tuple(self._prompts.made.values()), workflow_id=None)
        content = {
            "states": list(states),
            "initial_state": self._machine.initial,
            "steps": [self._state(state) for state in states],
        }
        self._prompts.report_unplaced()
        id = f"{self._agent}_workflow"
        try:
            read_workflow(content)
        except InvalidArtifact as error:
            self._notes.add("failed", error.message, line=self._line, key=self._path)
        workflow = Specification(id=id, kind="workflow", content=content)
        return Mind(artifacts=(*self._prompts.made.values(), workflow), workflow_id=id)

    def _states(self, node: Node | None) -> Machine:
        machine = read_machine(node, f"{self._path}.state_machine", self._notes)
        named = [state for step in self._steps for state in step.states]
        if not machine.states and named:
            states = tuple(dict.fromkeys(named))
            machine = Machine(
                states=states, initial=machine.initial or states[0], ways=machine.ways
            )
        elif not machine.states:
            machine = self._cycle(machine)
        for step in self._steps:
            self._check_states(step, machine.states)
        return machine

    def _cycle(self, machine: Machine) -> Machine:
        """Without states the old runner made all steps in one turn: here they take turns."""
        prompts = [step for step in self._steps if step.type == "llm"]
        states: list[str] = []
        for step in prompts:
            step.name = unique(step.name, states)
            states.append(step.name)
        for index, step in enumerate(prompts):
            step.states, step.to = (states[index],), states[(index + 1) % len(states)]
        if len(states) == 1:
            prompts[0].to = None
        elif states:
            self._notes.add(
                "changed",
                "steps without states become states of a tick each, one after the other",
                line=self._line,
                key=f"{self._path}.steps",
            )
        return Machine(states=tuple(states), initial=states[0] if states else "", ways=machine.ways)

    def _check_states(self, step: OldStep, states: tuple[str, ...]) -> None:
        def unknown(state: str, key: str) -> None:
            line = step.lines.get(key, step.line)
            self._notes.add(
                "unused", f"there is no state {state}", line=line, key=f"{step.path}.{key}"
            )

        gone = [state for state in step.states if state not in states]
        for state in gone:
            unknown(state, "in_state")
        if gone:
            step.states = tuple(state for state in step.states if state in states)
            step.type = step.type if step.states else "none"
        if step.to is not None and step.to not in states:
            unknown(step.to, "transition_to")
            step.to = None
        for word, state in list(step.decisions.items()):
            if state not in states:
                unknown(state, "transition_map")
                del step.decisions[word]

    # -- code

    def _code(self, step: OldStep, code: str, line: int) -> None:
        found: CodeStep = read_code(code, known=self._values)
        key = f"{step.path}.code"
        for at, problem in found.problems:
            self._notes.add(
                "unused",
                f"the sandbox cannot run this code: {problem}",
                line=line + at - 1,
                key=key,
            )
        news = sorted(set(found.values) - set(self._values))
        self._values = found.values
        self._computed |= set(found.other)
        said = f"conditions compute {', '.join(news)} by themselves" if news else ""
        if found.program is not None:
            id = self._prompts.new_id(f"{step.name}_code")
            self._prompts.made[id] = Specification(
                id=id, kind="tool", content={"code": found.program}, access="private"
            )
            said = "; ".join(
                filter(None, (said, f"the code is the tool {id}, which no step calls"))
            )
        if said:
            self._notes.add("changed", said, line=step.lines["code"], key=key)

    # -- one state

    def _state(self, state: str) -> dict[str, Any]:
        steps = [step for step in self._steps if not step.states or state in step.states]
        result: dict[str, Any] = {"state": state}
        prompts = [step for step in steps if step.type == "llm"]
        named = next((step for step in prompts if step.prompt_ref), None)
        if named is not None:
            result["prompt_artifact_id"] = named.prompt_ref
            if inline := "\n\n".join(step.prompt for step in prompts if step.prompt):
                result["prompt_inline"] = self._prompts.inline(inline, named)
        elif any(step.prompt for step in prompts):
            result["prompt_artifact_id"] = self._prompts.of_state(state, prompts)
        return {**result, **self._way_out(state, steps)}

    # -- ways out

    def _way_out(self, state: str, steps: list[OldStep]) -> dict[str, Any]:
        chooser = next((step for step in steps if _asks_model(step)), None)
        branches = list(self._branches(state, steps))
        if chooser is not None:
            if branches:
                self._notes.add(
                    "unused",
                    f"in the state {state} a model chooses; its other ways out are not looked at",
                    line=chooser.line,
                    key=chooser.path,
                )
            return self._choice(chooser)
        always = [to for to, condition in branches if condition == ALWAYS]
        conditional = [(to, text) for to, text in branches if text != ALWAYS]
        if not always:
            always = [to for to in self._machine.free_ways(state) if to not in dict(conditional)]
            if len(always) > 1 and not conditional:
                self._notes.add(
                    "changed",
                    f"several ways lead out of the state {state} without a condition: a model chooses",
                    line=self._machine.line,
                    key=f"{self._path}.state_machine",
                )
                return {"transition_mode": "llm"}
            if not always and not conditional:
                always = list(self._machine.fallbacks(state))
        if not conditional:
            return {"transition_mode": "auto", "transition_to": always[0]} if always else {}
        while always and conditional and conditional[-1][0] == always[0]:
            conditional.pop()  # it leads where the agent goes anyway
        if not conditional:
            return {"transition_mode": "auto", "transition_to": always[0]}
        chosen = [*conditional, *((to, ALWAYS) for to in always[:1])]
        if len(chosen) > BRANCHES_MAX:
            self._notes.add(
                "unused",
                f"the state {state} has more ways out than {BRANCHES_MAX}",
                line=self._machine.line,
            )
        return {
            "transition_mode": "condition",
            "transition_conditions": [
                {"to": to, "condition": text} for to, text in chosen[:BRANCHES_MAX]
            ],
        }

    def _choice(self, step: OldStep) -> dict[str, Any]:
        if step.transition_ref is not None or not (step.decisions or step.type == "transition"):
            ref = step.transition_ref
            return {
                "transition_mode": "llm",
                **({"transition_prompt_artifact_id": ref} if ref else {}),
            }
        text = step.prompt or default_decision()
        if step.decisions:
            text = with_decisions(text, step.decisions)
        id = self._prompts.add(f"{step.name}_transition", text, step)
        return {"transition_mode": "llm", "transition_prompt_artifact_id": id}

    def _branches(self, state: str, steps: list[OldStep]) -> Iterator[tuple[str, str]]:
        """Ways out with conditions: those of the steps, then those of the state machine."""
        seen: set[tuple[str, str]] = set()
        for to, text, line, key in (
            *_step_ways(state, steps, self._machine), *self._machine.conditional_ways(state),
        ):  # fmt: skip
            condition = self._checked(text, line=line, key=key)
            if condition is not None and condition != "false" and (to, condition) not in seen:
                seen.add((to, condition))
                yield to, condition

    def _checked(self, text: str, *, line: int, key: str) -> str | None:
        try:
            condition = folded(_renamed(text), self._values)
        except InvalidArtifact as error:
            self._notes.add("unused", f"{error.message}: {text[:80]}", line=line, key=key)
            return None
        lost = sorted((names_in(condition) & self._computed) - FACTS)
        if lost:
            self._notes.add(
                "changed",
                f"no condition can compute {', '.join(lost)}: it counts as false until the agent keeps it"
                " under `facts` of its working memory",
                line=line, key=key,
            )  # fmt: skip
        return condition


def _asks_model(step: OldStep) -> bool:
    if step.mode == "llm" or step.transition_ref is not None:
        return True
    if step.type != "transition" or step.to is not None:
        return False
    return step.prompt is not None or not (step.run_if and _is_boolean(step.decisions))


def _is_boolean(decisions: Mapping[str, str]) -> bool:
    return bool(decisions) and all(word.lower() in _BOOLEANS for word in decisions)


def _step_ways(
    state: str, steps: list[OldStep], machine: Machine
) -> Iterator[tuple[str, str, int, str]]:
    for step in steps:
        if step.type == "none" or _asks_model(step):
            continue
        key = f"{step.path}.run_if"
        line = step.lines.get("run_if", step.line)
        if step.to is not None:
            required = machine.condition(state, step.to)
            yield step.to, _both(step.run_if, required), line, key
        elif step.type == "transition" and step.run_if and _is_boolean(step.decisions):
            for word, to in step.decisions.items():
                holds = _BOOLEANS[word.lower()]
                yield to, step.run_if if holds else f"not ({step.run_if})", line, key


def _both(first: str | None, second: str | None) -> str:
    given = [text for text in (first, second) if text and text != ALWAYS]
    return " and ".join(f"({text})" for text in given) if len(given) > 1 else (given or [ALWAYS])[0]


class _Rename(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.Name:
        new = RENAMED.get(node.id, node.id) if node.id not in FACTS else node.id
        return ast.Name(new, node.ctx) if new in BUILT_IN else node


def _renamed(text: str) -> str:
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text  # whoever reads it as a condition says what is wrong
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - FACTS
    return ast.unparse(_Rename().visit(tree)) if names & RENAMED.keys() else text.strip()
