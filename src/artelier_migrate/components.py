"""Components: fragments of text that old agents shared, put into the prompts of the steps they name."""

from __future__ import annotations

from dataclasses import dataclass

from artelier.errors import ArtelierError
from artelier.world.genesis.file import Folder
from artelier_migrate.format.diagnostics import Notes
from artelier_migrate.format.document import YamlNode, read_document

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
