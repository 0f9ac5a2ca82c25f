"""The prompt artifacts of one agent: one for each step, each text once."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from artelier.errors import ArtelierError, InvalidArtifact
from artelier.world.genesis.file import Folder
from artelier.world.mind_artifacts.prompt import BUILT_IN, read_prompt
from artelier.world.mind_artifacts.template import read_template
from artelier_migrate.document import (
    ACTIONS,
    VARIABLES,
    Notes,
    Specification,
    YamlNode,
    read_document,
    slug,
    translate,
)
from artelier_migrate.step import OldStep


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


# --------------------------------------------------------------------------- template conversion
# Templates of old prompts as prompt artifacts: no value is made up, no text is lost.


_NAMED = re.compile(r"(?<!\{)\{([A-Za-z_][A-Za-z0-9_]*)(?=[}!:.\[])")
_INDEXED = re.compile(r"(?<!\{)(\{[A-Za-z_][A-Za-z0-9_]*)\[([A-Za-z_][A-Za-z0-9_]*)\](?=[}!:])")

_NUMBERS = ("balance", "failure_count", "ticks_in_state", "tick")
_TEXTS = "|".join(name for name in BUILT_IN if name not in _NUMBERS)
_PART = re.compile(rf"(?<!\{{)(\{{(?:{'|'.join(BUILT_IN)}))(?:\.[A-Za-z_][A-Za-z0-9_]*)+(?=[}}!:])")
_FORMATTED = re.compile(rf"(?<!\{{)(\{{(?:{_TEXTS}))(?:![rs])?:[^{{}}]*\}}")


def step_prompt(text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the content of a prompt artifact, and its placeholders that are no built-in variables.

    These are optional: whoever has a value gives it, and without one the placeholder stays as it is written.
    Errors: `InvalidArtifact` for a template that cannot be stored or rendered.
    """
    text = _modern(text)
    names = _names(text)
    others = tuple(name for name in names if name not in BUILT_IN)
    variables: list[Any] = [name for name in names if name in BUILT_IN]
    variables += [{"name": name, "optional": True} for name in others]
    content = {"template": text, "variables": variables}
    _check_renders(content)
    return content, others


def personality(text: str) -> dict[str, Any]:
    """Content of a personality: only what is built in is a placeholder, all other braces are text.

    Errors: `InvalidArtifact`.
    """
    text = _modern(text)
    for name in _names(text):
        if name not in BUILT_IN:
            text = re.sub(rf"(?<!\{{)\{{{name}([!:.][^{{}}]*)?\}}", r"{\g<0>}", text)
    content = {"template": text, "variables": list(_names(text))}
    _check_renders(content)
    return content


def literal(text: str) -> str:
    """Text that a template shows as it is."""
    return text.replace("{", "{{").replace("}", "}}")


def with_decisions(text: str, targets: Mapping[str, str]) -> str:
    """A prompt that asked for one of some words, made to ask for the state that the word stands for."""
    lines = "\n".join(f"- {literal(word)}: {literal(state)}" for word, state in targets.items())
    return f"{text.rstrip()}\n\n{_wording('decisions').replace('<DECISIONS>', lines)}"


def default_decision() -> str:
    """Return what was asked where a transition step had no prompt of its own."""
    return _wording("continue_pivot_ship")


@lru_cache(maxsize=8)
def _wording(name: str) -> str:
    path = files("artelier_migrate") / "templates" / f"{name}-1.md"
    return path.read_text("utf-8").strip()


def _modern(text: str) -> str:
    """The same text with today's names of the variables, and `{a[b]}` as `{a.b}`.

    What is built in is shown whole: it has no parts that a template could count on.
    """
    text = _INDEXED.sub(r"\1.\2", text)
    text = _NAMED.sub(lambda match: "{" + VARIABLES.get(match[1], match[1]), text)
    text = _PART.sub(r"\1", text)
    return _FORMATTED.sub(r"\1}", text)


def _names(text: str) -> tuple[str, ...]:
    return read_template(text).names


def _check_renders(content: dict[str, Any]) -> None:
    """Errors: `InvalidArtifact` if the prompt would fail when it is needed."""
    values: dict[str, Any] = dict.fromkeys(BUILT_IN, "")
    values.update(dict.fromkeys(_NUMBERS, 0))
    try:
        read_prompt(content).render(values)
    except InvalidArtifact:
        raise
    except ArtelierError as error:
        raise InvalidArtifact(f"the prompt cannot be rendered: {error.message}") from None


# --------------------------------------------------------------------------- components
# Components: fragments of text that old agents shared, put into the prompts of the steps they name.


SHELF = "_components"
GROUPS = ("behaviors", "traits", "goals")
COMPONENTS_MAX = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A fragment, and the steps or states whose prompts it ends."""

    name: str
    text: str
    line: int
    """Where the agent names it."""
    places: frozenset[str]
    """Empty: every prompt."""

    def belongs(self, names: set[str]) -> bool:
        """Return True if it belongs into the prompt of one of these steps or states."""
        return not self.places or bool(self.places & names)


def read_components(node: YamlNode, folder: Folder, notes: Notes) -> tuple[Component, ...]:
    """The components that an agent names, by group or in one list."""
    wanted: list[tuple[tuple[str, ...], YamlNode, str]] = []
    for group, members in node.members.items():
        path = f"components.{group[:80]}"
        if group not in GROUPS:
            notes.add("unused", "there is no such group of components", line=members.line, key=path)
            continue
        wanted += [((group,), item, path) for item in members.items]
    if not node.members:
        wanted = [(GROUPS, item, "components") for item in node.items]
    found: list[Component] = []
    for groups, item, path in wanted[:COMPONENTS_MAX]:
        if (component := _component(groups, item, path, folder, notes)) is not None:
            found.append(component)
    for _, item, path in wanted[COMPONENTS_MAX:]:
        notes.add("unused", f"an agent has {COMPONENTS_MAX} components at most", line=item.line, key=path)
    return tuple(found)


def _component(
    groups: tuple[str, ...], item: YamlNode, path: str, folder: Folder, notes: Notes
) -> Component | None:
    name = item.name
    if name is None or not name.replace("_", "").replace("-", "").isalnum():
        notes.add("unused", "expected the name of a component", line=item.line, key=path)
        return None
    for group in groups:
        place = f"{SHELF}/{group}/{name}.yaml"
        try:
            text = folder.text(place)
            if text is not None:
                return _fragment(name, read_document(text, Notes(place)), item.line)
        except ArtelierError as error:
            notes.add("unused", f"{place}: {error.message}", line=item.line, key=path)
            return None
    shelves = " or ".join(f"{SHELF}/{group}" for group in groups)
    notes.add("unused", f"there is no component {name} in {shelves}", line=item.line, key=path)
    return None


def _fragment(name: str, node: YamlNode, line: int) -> Component:
    text = node.members.get("prompt_fragment")
    places = node.members.get("inject_into")
    return Component(
        name=name,
        line=line,
        text=(text.text or "").strip() if text else "",
        places=frozenset(item.name for item in (places.items if places else []) if item.name),
    )
