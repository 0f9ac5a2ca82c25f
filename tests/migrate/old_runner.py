"""The rules of the old runner, written down once more for tests: it shares no code with us.

In a turn it went through all steps in order. A step runs if the machine is in one of its states and its
condition holds; one that cannot be evaluated does not. Code runs with the facts as its locals, and what it
assigns later steps see. A step may lead to a state if the machine has a transition there whose condition
holds, or has none at all. A state that no step leads out of is left by the machine's transitions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Decide = Callable[[str, list[str]], str]
"""From the state and the words of a decision to one of them."""


class OldAgent:
    """One agent of the old format, from the mapping that its file holds."""

    def __init__(self, config: Mapping[str, Any], decide: Decide) -> None:
        flow = config["workflow"]
        machine = flow.get("state_machine") or {}
        self.steps: list[dict[str, Any]] = flow.get("steps", [])
        self.transitions = [_transition(one) for one in machine.get("transitions", [])]
        self.states: list[str] = machine["states"]
        self.state: str = machine.get("initial_state", self.states[0])
        self.skips = flow.get("error_handling", {}).get("default_on_failure") == "skip"
        self.visited = [self.state]
        self.prompts: list[str] = []
        """Those of the newest turn."""
        self.decide = decide
        self.working_memory = config.get("working_memory", {})

    def turn(self, facts: Mapping[str, Any], *, cut: bool) -> bool:
        """One turn; whether it came to its end. `cut`: it ends at the first step that leads out of the state,
        which is where a tick of a world ends; the rest of the turn is the next one."""
        ctx = {**facts, "_current_state": self.state, "working_memory": self.working_memory}
        self.prompts = []
        began = self.state
        for step in self.steps:
            if not self._applies(step, ctx):
                continue
            kind = step.get("type") or ("llm" if "prompt" in step else "code")
            if kind == "code":
                if not self._run(step, ctx):
                    return False
            elif kind == "llm":
                self.prompts.append(_filled(step["prompt"], ctx))
            to = step.get("transition_to")
            if kind == "transition" and to is None:
                if not self._leads(step["transition_map"].values(), began):
                    continue  # whatever it says, the agent stays
                words = list(step["transition_map"])
                to = step["transition_map"][self.decide(began, words)]
                self._move(to, ctx)
                if cut:
                    return True
                continue
            if to is not None:
                self._move(to, ctx)
            if cut and self.state != began:
                return True
        if not self._is_led_out_of(began):
            self._follow_machine(ctx)
        return True

    def _applies(self, step: Mapping[str, Any], ctx: dict[str, Any]) -> bool:
        states = step.get("in_state")
        if states and self.state not in ([states] if isinstance(states, str) else states):
            return False
        return "run_if" not in step or _holds(step["run_if"], ctx)

    def _run(self, step: Mapping[str, Any], ctx: dict[str, Any]) -> bool:
        names = dict(ctx)
        try:
            exec(step["code"], {}, names)
        except Exception:
            return step.get("on_failure") == "skip" or ("on_failure" not in step and self.skips)
        ctx.update(names)
        return True

    def _move(self, to: str, ctx: dict[str, Any]) -> None:
        fitting = [one for one in self.transitions if one[0] in ("*", self.state) and one[1] == to]
        if self.transitions and not any(not c or _holds(c, ctx) for _, _, c in fitting):
            return
        self._go(to)

    def _go(self, to: str) -> None:
        if to != self.state:
            self.state = to
            self.visited.append(to)

    def _is_led_out_of(self, state: str) -> bool:
        """Whether some step that the state has leads anywhere that the machine could allow."""
        for step in self.steps:
            states = step.get("in_state")
            if states and state not in ([states] if isinstance(states, str) else states):
                continue
            targets = [step["transition_to"]] if "transition_to" in step else []
            targets += list(step.get("transition_map", {}).values())
            if self._leads(targets, state):
                return True
        return False

    def _leads(self, targets: Iterable[str], state: str) -> bool:
        """Whether one of these is another state that the machine could allow."""
        fitting = {to for origin, to, _ in self.transitions if origin in ("*", state)}
        return any(to != state and (not self.transitions or to in fitting) for to in targets)

    def _follow_machine(self, ctx: dict[str, Any]) -> None:
        for origin in (self.state, "*"):
            for start, to, condition in self.transitions:
                if start == origin and condition and not (origin == "*" and to == self.state):
                    if _holds(condition, ctx):
                        return self._go(to)
        own = [one[1] for one in self.transitions if one[0] == self.state and not one[2]]
        own = list(dict.fromkeys(to for to in own if to != self.state))
        has_conditions = any(
            c
            for start, to, c in self.transitions
            if start == self.state or (start == "*" and to != self.state)
        )
        if len(own) == 1 or (own and has_conditions):
            return self._go(own[0])  # of several without any condition a model chooses
        if not own and not has_conditions:
            for start, to, condition in self.transitions:
                if start == "*" and not condition and to != self.state:
                    return self._go(to)


def _transition(given: Any) -> tuple[str, str, str]:
    if isinstance(given, str):
        origin, to = (part.strip() for part in given.split("->"))
        return origin, to, ""
    return given.get("from", "*"), given["to"], given.get("condition") or ""


def _holds(text: str, ctx: Mapping[str, Any]) -> bool:
    try:
        return bool(eval(text, {"__builtins__": {}}, dict(ctx)))
    except Exception:
        return False


def _filled(text: str, ctx: Mapping[str, Any]) -> str:
    """What has a value is shown; everything else stays as it is written."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in ctx:
            return match[0]
        found = ctx[match[1]]
        return ", ".join(map(str, found)) if isinstance(found, list) else format(found, match[2] or "")

    return re.sub(r"\{(\w+)(?::([^{}]*))?\}", value, text.strip())
