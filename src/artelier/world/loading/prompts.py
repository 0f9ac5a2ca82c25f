"""The prompt artifacts of one agent: one for each state, each text once."""

from __future__ import annotations

from collections.abc import Collection

from artelier.errors import ArtelierError
from artelier.world.loading.components import Component
from artelier.world.loading.notes import Notes
from artelier.world.loading.specification import Specification, slug
from artelier.world.loading.step import OldStep
from artelier.world.loading.wording import personality, step_prompt


class Prompts:
    """Makes them; `made` also takes what else belongs to the agent's steps."""

    def __init__(self, agent: str, notes: Notes, components: tuple[Component, ...]) -> None:
        self.made: dict[str, Specification] = {}
        self._agent = agent
        self._notes = notes
        self._components = components
        self._placed: set[str] = set()

    def inline(self, text: str, step: OldStep) -> str:
        """A text that stands in where an artifact is missing. It declares no variables."""
        try:
            return str(personality(text)["template"])
        except ArtelierError as error:
            key = f"{step.path}.prompt"
            self._notes.add(
                "failed", error.message, line=step.lines.get("prompt", step.line), key=key
            )
            return ""

    def report_unplaced(self) -> None:
        """Write down the components that belong to none of the prompts."""
        for part in self._components:
            if part.name not in self._placed:
                self._notes.add(
                    "unused", f"no prompt takes the component {part.name}", line=part.line,
                    key="components",
                )  # fmt: skip

    def of_state(self, state: str, steps: list[OldStep]) -> str:
        """Id of the prompt of a state, put together from its steps and components."""
        texts = [step.prompt.strip() for step in steps if step.prompt]
        if len(texts) > 1:
            names = ", ".join(step.name for step in steps)
            self._notes.add(
                "changed",
                f"the prompts of {names} are one prompt in the state {state}",
                line=steps[-1].line,
                key=steps[-1].path,
            )
        for step in steps:
            if step.run_if is not None and step.to is None:
                self._notes.add(
                    "unused",
                    "the prompt of a state is used whenever the agent is in it",
                    line=step.lines.get("run_if", step.line),
                    key=f"{step.path}.run_if",
                )
        names = {state, *(step.name for step in steps)}
        fitting = [part for part in self._components if part.belongs(names)]
        self._placed |= {part.name for part in fitting}
        texts += [part.text for part in fitting]
        name = steps[0].name if len(steps) == 1 else state
        return self.add(f"{name}_prompt", "\n\n".join(texts), steps[0])

    def add(self, name: str, text: str, step: OldStep) -> str:
        """Id of the artifact with this text; a failure is written down."""
        key = f"{step.path}.prompt"
        try:
            content, unknown = step_prompt(text)
        except ArtelierError as error:
            self._notes.add(
                "failed", error.message, line=step.lines.get("prompt", step.line), key=key
            )
            return self.new_id(name)
        if unknown:
            names = ", ".join(f"{{{one}}}" for one in unknown[:20])
            self._notes.add(
                "changed",
                f"nothing here supplies {names}: a default is shown",
                line=step.lines.get("prompt", step.line),
                key=key,
            )
        for id, made in self.made.items():
            if made.kind == "prompt" and made.content == content:
                return id
        id = self.new_id(name)
        self.made[id] = Specification(id=id, kind="prompt", content=content)
        return id

    def new_id(self, name: str) -> str:
        """An id of the agent that nothing of its own has."""
        return unique(f"{self._agent}_{slug(name)}", self.made)


def unique(name: str, taken: Collection[str]) -> str:
    """The name, with a number if it is taken."""
    result, number = name, 2
    while result in taken:
        result, number = f"{name}{number}", number + 1
    return result
