"""The prompt artifacts of one agent: one for each step, each text once."""

from __future__ import annotations

from collections.abc import Collection

from artelier.errors import ArtelierError
from artelier_migrate.components import Component
from artelier_migrate.format.diagnostics import Notes
from artelier_migrate.format.step import OldStep
from artelier_migrate.format.vocabulary import ACTIONS, translate
from artelier_migrate.specification import Specification, slug
from artelier_migrate.template_conversion import personality, step_prompt


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
            key, line = f"{step.path}.prompt", step.lines.get("prompt", step.line)
            return str(personality(translated(text, self._notes, line=line, key=key))["template"])
        except ArtelierError as error:
            key = f"{step.path}.prompt"
            self._notes.add("failed", error.message, line=step.lines.get("prompt", step.line), key=key)
            return ""

    def report_unplaced(self) -> None:
        """Write down the components that belong to none of the prompts."""
        for part in self._components:
            if part.name not in self._placed:
                self._notes.add(
                    "unused", f"no prompt takes the component {part.name}", line=part.line, key="components"
                )

    def of_step(self, step: OldStep, *, supplied: Collection[str]) -> str:
        """Id of the prompt of a step, with the components that name the step or one of its states."""
        names = {step.name, *step.states}
        fitting = [part for part in self._components if part.belongs(names)]
        self._placed |= {part.name for part in fitting}
        texts = [(step.prompt or "").strip(), *(part.text for part in fitting)]
        return self.add(f"{step.name}_prompt", "\n\n".join(texts), step, supplied=supplied)

    def add(self, name: str, text: str, step: OldStep, *, supplied: Collection[str]) -> str:
        """Id of the artifact with this text; a failure is written down. `supplied`: names with values."""
        key, line = f"{step.path}.prompt", step.lines.get("prompt", step.line)
        text = translated(text, self._notes, line=line, key=key)
        try:
            content, others = step_prompt(text)
        except ArtelierError as error:
            self._notes.add("failed", error.message, line=line, key=key)
            return self.new_id(name)
        if unknown := [one for one in others if one not in supplied]:
            names = ", ".join(f"{{{one}}}" for one in unknown[:20])
            self._notes.add(
                "changed",
                f"nothing here supplies {names}: it stays as it is written until the agent keeps a value"
                " under `facts` of its working memory",
                line=line,
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


def translated(text: str, notes: Notes, *, line: int, key: str) -> str:
    """Return a prompt with today's names of actions; what was translated, and what could not be, is noted."""
    found = translate(text)
    if found.renamed:
        said = ", ".join(f"{old} is {ACTIONS[old]}" for old in found.renamed)
        notes.add(
            "changed",
            f"actions have other names here: {said}; docs/actions.md has their fields",
            line=line,
            key=key,
        )
    if found.gone:
        notes.add(
            "changed",
            f"there is no action {', '.join(found.gone)} here: the prompt still names it",
            line=line,
            key=key,
        )
    return found.text


def unique(name: str, taken: Collection[str]) -> str:
    """The name, with a number if it is taken."""
    result, number = name, 2
    while result in taken:
        result, number = f"{name}{number}", number + 1
    return result
