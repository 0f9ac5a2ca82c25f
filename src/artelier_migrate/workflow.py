"""Inline workflows of the old format as workflow artifacts, with their prompts beside them.

The old runner went through all steps in one turn, each in the state that the steps before had led to, and
moved on before the action was known. Here an agent is in one state for a tick: the steps that apply to it run
in their order, up to one that leads out. The state machine says which moves are allowed; only where no step
leads out of a state do its transitions move the agent.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from artelier.errors import InvalidArtifact
from artelier.world.mind_artifacts.condition import read_condition
from artelier.world.mind_artifacts.prompt import PROMPT_LIBRARY
from artelier.world.mind_artifacts.workflow import Workflow, read_workflow
from artelier_migrate.code_step import FACTS, names_in, read_code
from artelier_migrate.document import Fields, Notes, Rename, Specification, YamlNode
from artelier_migrate.prompts import Component, Prompts, default_decision, unique, with_decisions
from artelier_migrate.step import ALWAYS, NEVER, Machine, OldStep, read_machine, read_steps

_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mind:
    """The result of loading a workflow."""

    artifacts: tuple[Specification, ...]
    workflow_id: str | None


class WorkflowConverter:
    """Makes the artifacts of one workflow."""

    def __init__(
        self,
        agent: str,
        fields: Fields,
        notes: Notes,
        components: tuple[Component, ...],
        *,
        supplied: Iterable[str] = (),
        skips: bool = False,
    ) -> None:
        """`supplied`: facts that the agent keeps from the beginning. `skips`: code that fails is left out."""
        self._agent = agent
        self._path = fields.path
        self._line = fields.line
        self._notes = notes
        self._supplied = FACTS.union(supplied)
        machine = fields.take("state_machine")
        self._steps = read_steps(fields, notes, skips=skips)
        self._prompts = Prompts(agent, notes, components)
        self._machine = self._states(machine)
        self._codes: dict[str, _Code] = {}
        """By the path of the step."""
        self._given: set[str] = set()
        """Names that some code step computes."""
        for step in self._steps:
            if step.code is not None:
                self._codes[step.path] = code = self._code(step)
                self._given |= set(code.assigned)
        self._moves = any(step.to or step.decisions for step in self._steps)
        """Whether steps lead out of states in this workflow at all."""
        self._targets: dict[str, frozenset[str]] = {}
        """States that a model may choose, by the state in which it is asked."""

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
            "transition_facts": "before_action",
        }
        self._prompts.report_unplaced()
        id = f"{self._agent}_workflow"
        try:
            self._report_unreachable(read_workflow(content))
        except InvalidArtifact as error:
            self._notes.add("failed", error.message, line=self._line, key=self._path)
        workflow = Specification(id=id, kind="workflow", content=content)
        return Mind(artifacts=(*self._prompts.made.values(), workflow), workflow_id=id)

    def _states(self, node: YamlNode | None) -> Machine:
        machine = read_machine(node, f"{self._path}.state_machine", self._notes)
        named = [state for step in self._steps for state in step.states]
        if not machine.states and named:
            states = tuple(dict.fromkeys(named))
            machine = Machine(states=states, initial=machine.initial or states[0], ways=machine.ways)
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
            self._notes.add("unused", f"there is no state {state}", line=line, key=f"{step.path}.{key}")

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

    def _code(self, step: OldStep) -> _Code:
        """Make the tool of a code step, and say what it lacks."""
        found = read_code(str(step.code))
        key = f"{step.path}.code"
        for at, problem in found.problems:
            self._notes.add(
                "unused",
                f"the sandbox cannot run this code: {problem}",
                line=step.code_line + at - 1,
                key=key,
            )
        if found.program is None:
            return _Code(None, found.assigned)
        id = self._prompts.new_id(f"{step.name}_code")
        self._prompts.made[id] = Specification(
            id=id, kind="tool", content={"code": found.program}, access="private"
        )
        missing = sorted(found.required - self._supplied - self._given)
        said = f"the code is the tool {id}, which runs in the sandbox before the prompt"
        if missing:
            said += f"; it fails while nothing supplies {', '.join(missing)}"
        self._notes.add("changed", said, line=step.lines["code"], key=key)
        return _Code(id, found.assigned)

    # -- one state

    def _state(self, state: str) -> dict[str, Any]:
        """Take the steps that apply to a state in their order, up to one that surely leaves it."""
        made = _MadeSteps()
        for step in self._steps:
            if made.is_left or step.type == "none" or (step.states and state not in step.states):
                continue
            run_if = None if step.run_if is None else self._checked(step, made.computed)
            if run_if == NEVER:
                continue
            if step.path in self._codes:
                self._take_code(made, step, run_if)
            elif step.type == "llm" and (step.prompt or step.prompt_ref):
                made.fed = len(made.code)
                made.prompts.append(
                    {**self._prompt(step, run_if), **made.after, "code_before": len(made.code)}
                )
            before = len(made.ways)
            if _asks_model(step):
                self._take_choice(made, state, step, run_if)
            else:
                self._take_ways(made, state, step, run_if)
            if len(made.ways) > before:
                made.fed = len(made.code)
        if made.ways:
            made.mark_trailing()
        way_out = _branching(made.ways) if made.ways else self._machine_way_out(state, made)
        if not way_out:
            made.mark_trailing()
        return {"state": state, **made.parts(), **way_out}

    def _take_code(self, made: _MadeSteps, step: OldStep, run_if: str | None) -> None:
        code = self._codes[step.path]
        if code.id is None:
            return
        made.computed |= set(code.assigned)
        entry: dict[str, Any] = {"artifact_id": code.id, **made.after}
        if run_if is not None:
            entry["run_if"] = run_if
        if step.is_skipped_on_failure:
            entry["on_failure"] = "skip"
        made.code.append(entry)

    def _prompt(self, step: OldStep, run_if: str | None) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if step.prompt_ref:
            found["prompt_artifact_id"] = step.prompt_ref
            if step.prompt:
                found["prompt_inline"] = self._prompts.inline(step.prompt, step)
        elif step.prompt:
            found["prompt_artifact_id"] = self._prompts.of_step(
                step, supplied=self._supplied.union(self._given)
            )
        if run_if is not None:
            found["run_if"] = run_if
        return found

    def _take_ways(self, made: _MadeSteps, state: str, step: OldStep, run_if: str | None) -> None:
        """Take the ways by which a step itself leaves a state, where the state machine allows them."""
        for to, condition in _ways_of(step, run_if):
            if to == state:
                continue  # it stays, and the steps after it run
            needed = self._machine.needed(state, to)
            if needed == (NEVER,):
                self._notes.add(
                    "unused",
                    f"the state machine allows no way from {state} to {to}",
                    line=step.lines.get("transition_to", step.line),
                    key=step.path,
                )
                continue
            for allowed in self._read_all(needed, made, step):
                both = _both(condition, allowed)
                made.ways.append({"to": to, "condition": both})
                if both == ALWAYS:
                    made.is_left = True
                    return

    # -- conditions

    def _checked(self, step: OldStep, computed: set[str]) -> str | None:
        """Return when a step runs; `NEVER` for what cannot be read, as the old runner skipped it."""
        line = step.lines.get("run_if", step.line)
        found = self._read(str(step.run_if), computed, line=line, key=f"{step.path}.run_if")
        return NEVER if found is None else None if found == ALWAYS else found

    def _read(self, text: str, computed: set[str], *, line: int, key: str) -> str | None:
        """Return a condition in today's words; None for what is none."""
        try:
            condition = _translated(text, kept=self._supplied.union(self._given))
            read_condition(condition)
        except InvalidArtifact as error:
            self._notes.add("unused", f"{error.message}: {text[:80]}", line=line, key=key)
            return None
        names = names_in(condition)
        later = sorted((names & self._given) - computed - self._supplied)
        lost = sorted(names - self._given - self._supplied - _CONSTANTS)
        if later:
            self._notes.add(
                "changed",
                f"no code step before this computes {', '.join(later)}: the condition does not hold",
                line=line,
                key=key,
            )
        if lost:
            self._notes.add(
                "changed",
                f"nothing here supplies {', '.join(lost)}: the condition does not hold until the agent"
                " keeps it under `facts` of its working memory",
                line=line,
                key=key,
            )
        return _not_yet(condition, later) if later else condition

    def _read_all(self, texts: Iterable[str], made: _MadeSteps, step: OldStep) -> list[str]:
        """Return those of some conditions that can ever hold, in today's words."""
        found = (self._read(one, made.computed, line=step.line, key=step.path) for one in texts)
        return [one for one in found if one not in (None, NEVER)]

    # -- ways out

    def _take_choice(self, made: _MadeSteps, state: str, step: OldStep, run_if: str | None) -> None:
        """Take a step at which a model is asked where to go, by the step's own words or the shipped ones."""
        decisions: dict[str, str] = {}
        allowed: dict[str, list[str]] = {}
        for word, to in step.decisions.items():
            needed = self._machine.needed(state, to)
            if needed == (NEVER,):
                self._notes.add(
                    "changed",
                    f"the state machine allows no way from {state} to {to}: the agent stays",
                    line=step.line,
                    key=f"{step.path}.transition_map",
                )
            held = self._read_all(needed, made, step)
            decisions[word] = to if held else state
            if held and ALWAYS not in held:
                allowed[to] = held
        if step.decisions and set(decisions.values()) <= {state}:
            return  # whatever the model said, the agent stayed
        self._targets[state] = self._targets.get(state, frozenset()).union(
            decisions.values() or self._machine.states
        )
        ref = self._question(step, decisions)
        way: dict[str, Any] = {"ask": ref, "condition": run_if or ALWAYS}
        made.ways.append({**way, "allowed": allowed} if allowed else way)
        made.is_left = run_if is None

    def _question(self, step: OldStep, decisions: Mapping[str, str]) -> str:
        """Return the ref of the prompt that asks."""
        if step.transition_ref is not None:
            return step.transition_ref
        if step.type != "transition":
            return SHIPPED_QUESTION
        text = step.prompt or default_decision()
        if decisions:
            text = with_decisions(text, decisions)
        supplied = self._supplied.union(self._given)
        return self._prompts.add(f"{step.name}_transition", text, step, supplied=supplied)

    def _machine_way_out(self, state: str, made: _MadeSteps) -> dict[str, Any]:
        """Return where no step leads out of a state, follow the transitions of the state machine."""
        conditional: list[tuple[str, str]] = []
        for to, text, line, key in self._machine.conditional_ways(state):
            condition = self._read(text, made.computed, line=line, key=key)
            if condition not in (None, NEVER) and (to, condition) not in conditional:
                conditional.append((to, str(condition)))
        always = [to for to, text in conditional if text == ALWAYS][:1]
        conditional = [(to, text) for to, text in conditional if text != ALWAYS]
        if not always:
            always = list(self._machine.free_ways(state))
            if len(always) > 1 and not conditional:
                self._notes.add(
                    "changed",
                    f"several ways lead out of the state {state} without a condition: a model chooses",
                    line=self._machine.line,
                    key=f"{self._path}.state_machine",
                )
                self._targets[state] = frozenset(self._machine.states)
                return {"transition_mode": "llm"}
            if not always and not conditional:
                always = list(self._machine.fallbacks(state))
        ways = [{"to": to, "condition": text} for to, text in conditional]
        ways += [{"to": to, "condition": ALWAYS} for to in always[:1]]
        if any(way["to"] != state for way in ways) and self._moves:
            self._notes.add(
                "changed",
                f"no step leads out of the state {state}: the transitions of the state machine do",
                line=self._machine.line,
                key=f"{self._path}.state_machine",
            )
        return _branching(ways)

    def _report_unreachable(self, workflow: Workflow) -> None:
        """Write down the states that no way leads to, so that nobody waits for them."""
        reached = {workflow.initial_state}
        waiting = [workflow.initial_state]
        while waiting:
            step = workflow.step(waiting.pop())
            found = {one.to for one in step.branches if one.to} | self._targets.get(step.state, frozenset())
            if step.to is not None:
                found.add(step.to)
            waiting += found - reached
            reached |= found
        for state in workflow.states:
            if state not in reached:
                self._notes.add(
                    "changed",
                    f"the state {state} is unreachable: no way leads to it",
                    line=self._machine.line or self._line,
                    key=f"{self._path}.state_machine",
                )


class _Code(NamedTuple):
    """The tool of a code step; None where the sandbox cannot run it."""

    id: str | None
    assigned: tuple[str, ...]


@dataclass(slots=True)
class _MadeSteps:
    """The result of translating the steps of one state."""

    code: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    prompts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    ways: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Ways out, in their order."""
    computed: set[str] = field(default_factory=set[str])
    """Names that the code so far gives values to."""
    is_left: bool = False
    """Whether no later step is reached."""
    fed: int = 0
    """Code steps before the last prompt or way out."""

    @property
    def after(self) -> dict[str, int]:
        """A mapping that places the next step: `after` is the number of ways out that stand before it."""
        return {"after": len(self.ways)} if self.ways else {}

    def mark_trailing(self) -> None:
        """Mark the code after the last prompt and way out: what it computes reached nothing in its turn."""
        for entry in self.code[self.fed :]:
            entry["trailing"] = True

    def parts(self) -> dict[str, Any]:
        """Return code and prompts as a workflow holds them."""
        found: dict[str, Any] = {"code": self.code} if self.code else {}
        seen = sum("trailing" not in entry for entry in self.code)
        for prompt in self.prompts:
            if prompt["code_before"] >= seen:
                del prompt["code_before"]  # no code after it that could change what it sees
        if len(self.prompts) == 1 and not _PLACED & self.prompts[0].keys():
            return {**found, **self.prompts[0]}
        return {**found, "prompts": self.prompts}


_PLACED = frozenset(("run_if", "after", "code_before"))
"""Fields of a prompt that only one in a list has."""


def _branching(ways: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the way out, of several the first whose condition holds."""
    if not ways:
        return {}
    first = ways[0]
    if first["condition"] != ALWAYS or "allowed" in first:
        return {"transition_mode": "condition", "transition_conditions": ways}
    if "ask" in first:
        return {"transition_mode": "llm", "transition_prompt_artifact_id": first["ask"]}
    return {"transition_mode": "auto", "transition_to": first["to"]}


def _ways_of(step: OldStep, run_if: str | None) -> Iterator[tuple[str, str]]:
    """The ways out of a step, with what each needs of the step itself."""
    if step.to is not None:
        yield step.to, run_if or ALWAYS
    elif step.type == "transition" and step.run_if and _is_boolean(step.decisions):
        for word, to in step.decisions.items():
            holds = _BOOLEANS[word.lower()]
            text = run_if or ALWAYS
            yield to, text if holds else f"not ({text})"


SHIPPED_QUESTION = f"{PROMPT_LIBRARY}#transition_base"


def _asks_model(step: OldStep) -> bool:
    if step.mode == "llm" or step.transition_ref is not None:
        return True
    if step.type != "transition" or step.to is not None:
        return False
    return step.prompt is not None or not (step.run_if and _is_boolean(step.decisions))


def _is_boolean(decisions: Mapping[str, str]) -> bool:
    return bool(decisions) and all(word.lower() in _BOOLEANS for word in decisions)


def _both(first: str | None, second: str | None) -> str:
    given = [text for text in (first, second) if text and text != ALWAYS]
    return " and ".join(f"({text})" for text in given) if len(given) > 1 else (given or [ALWAYS])[0]


def _not_yet(condition: str, names: Sequence[str]) -> str:
    """Return a condition for which these names are unknown, though code that comes later computes them."""
    tree = ast.parse(condition, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in names:
            node.id = f"{node.id}_before_it_is_computed"
    return ast.unparse(tree)


def _translated(text: str, *, kept: frozenset[str]) -> str:
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text  # whoever reads it as a condition says what is wrong
    before = ast.unparse(tree)
    after = ast.unparse(Rename(kept).visit(tree))
    return text.strip() if before == after else after


_CONSTANTS = frozenset(("true", "false", "null", "none", "True", "False", "None"))
