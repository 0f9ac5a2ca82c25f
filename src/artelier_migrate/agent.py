"""One old agent, `agent.yaml`, `system_prompt.md` and its memory, as specifications of artifacts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

from artelier.artifacts import Ref, check_principal
from artelier.artifacts.kinds import check_content, kind_named
from artelier.artifacts.ref import check_new_id
from artelier.errors import ArtelierError, InvalidArtifact
from artelier.tokens.model_info import canonical_name
from artelier.world.genesis.file import Folder
from artelier_migrate.document import Fields, Notes, Plan, Specification, YamlNode, read_document
from artelier_migrate.prompts import Component, personality, read_components, translated
from artelier_migrate.workflow import WorkflowConverter

ENTRIES_MAX = 1000

_SETTINGS = ("max_entries", "auto_prune", "embedder", "dims")
_HABITS = ("enabled", "auto_inject", "include_in_rag", "max_size_bytes")
"""Of a working memory: it is always shown, within a limit of its own."""


class Memories(NamedTuple):
    """Both memories, and whether the agent looks things up in the long one."""

    artifacts: tuple[Specification, Specification]
    remembers: bool
    rag: dict[str, Any]
    """Settings of the search that are only kept."""


def read_memories(id: str, fields: Fields, notes: Notes) -> Memories:
    """The memories of the agent `id` by `memory`, `working_memory` and `rag`."""
    return _MemoryReader(fields, notes).memories(id)


class _MemoryReader:
    def __init__(self, fields: Fields, notes: Notes) -> None:
        self._fields = fields
        self._notes = notes
        self._config: dict[str, Any] = {"max_entries": ENTRIES_MAX, "auto_prune": "oldest"}
        self._working: dict[str, Any] = {
            "goal": "",
            "progress": "",
            "lessons": [],
            "objectives": [],
            "facts": {},
        }
        self._rag: dict[str, Any] = {}

    def memories(self, id: str) -> Memories:
        remembers = self._searches()
        node = self._fields.take("memory")
        if node is not None and node.members:
            fields = Fields(node, "memory", self._notes)
            enabled = fields.take("enabled")
            remembers = remembers and (enabled is None or enabled.value is not False)
            self._settings(fields)
            self._take_working(fields, "working", "working_memory")
            fields.report_left()
        elif node is not None and isinstance(node.value, bool):
            remembers = remembers and node.value
        elif node is not None:
            self._unused("expected a mapping", node, "memory")
        self._take_working(self._fields, "working_memory")
        working = Specification(
            id=f"{id}_working_memory", kind="document", content=self._working, access="private"
        )
        store = Specification(
            id=f"{id}_longterm_memory", kind="memory_store", content={"config": self._config}
        )
        return Memories((working, store), remembers, self._rag)

    def _searches(self) -> bool:
        """Return True if memories are looked up at each step."""
        node = self._fields.take("rag")
        if node is None or not node.members:
            return node is None or node.value is not False
        fields = Fields(node, "rag", self._notes)
        enabled = fields.take("enabled")
        for key in ("limit", "query_template"):
            if (given := fields.take(key)) is not None:
                self._rag[key] = given.plain()
                self._notes.add(
                    "kept",
                    "memories are looked up by state, goal and last result, five at a time",
                    line=given.line,
                    key=f"rag.{key}",
                )
        fields.report_left()
        return enabled is None or enabled.value is not False

    def _settings(self, fields: Fields) -> None:
        """Settings of the store, at the top of `memory` or below `longterm`."""
        nested = fields.take("longterm", "long_term", "config")
        places = [fields]
        if nested is not None and nested.members:
            places.append(Fields(nested, "memory.longterm", self._notes))
        elif nested is not None:
            self._unused("expected a mapping", nested, "memory.longterm")
        for place in places:
            for key in _SETTINGS:
                node = place.take(key)
                if node is not None and _fits(key, node.value):
                    self._config[key] = node.value
                elif node is not None:
                    self._unused("no such setting of a memory store", node, place.at(key))
            if place is not fields:
                place.report_left()

    def _take_working(self, fields: Fields, *names: str) -> None:
        node = fields.take(*names)
        if node is None:
            return
        if isinstance(node.value, str):
            self._working["goal"] = node.value.strip()
            return
        if not node.members:
            self._unused("expected text or a mapping", node, fields.at(names[0]))
            return
        given: dict[str, Any] = {}
        for key, value in node.members.items():
            if key in _HABITS:
                self._unused("nothing here uses it", value, fields.at(f"{names[0]}.{key}"))
            else:
                given[key] = value.plain()
        facts: Any = given.pop("facts", {})
        own = cast("dict[str, Any]", facts) if isinstance(facts, dict) else {"facts": facts}
        known = {key: given.pop(key) for key in self._working if key in given}
        # What it kept under names of its own, conditions find as facts.
        self._working = {**self._working, **known, "facts": {**given, **own}}

    def _unused(self, text: str, node: YamlNode, key: str) -> None:
        self._notes.add("unused", text, line=node.line, key=key)


def _fits(key: str, value: object) -> bool:
    if key in ("max_entries", "dims"):
        return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 10**9
    if key == "auto_prune":
        return value in ("oldest", "lowest_score")
    return isinstance(value, str)


# --------------------------------------------------------------------------- agents


CONFIG = "agent.yaml"
PROMPT = "system_prompt.md"

KNOWN = frozenset(
    "id llm_model model starting_credits starting_scrip system_prompt workflow components rag memory"
    " working_memory genotype visibility error_handling".split()
)
"""Any of these makes a file an agent."""

KEPT = ("genotype", "visibility", "error_handling")
"""Kept in the metadata of the agent's artifact for whoever wants them."""

PROVIDERS: Mapping[str, str] = {"gemini": "google", "vertex_ai": "google"}
"""Names of providers that have changed."""

_REFERENCES = (
    "personality_prompt_artifact_id",
    "workflow_artifact_id",
    "reflex_artifact_id",
    "working_memory_artifact_id",
    "longterm_memory_artifact_id",
    "steering_artifact_id",
)
_AMOUNT_MAX = 2**53


def read_agent(folder: Folder, name: str, *, include_disabled: bool = False) -> Plan:
    """Return what the folder `name` becomes. Every problem is a note; nothing is raised for bad input.

    `include_disabled`: also agents with `enabled: false`.
    """
    place = CONFIG if name == "." else f"{name}/{CONFIG}"
    notes = Notes(place)
    try:
        text = folder.text(place)
        if text is None:
            notes.add("skipped", f"no agent: there is no {CONFIG}")
            return Plan(folder=name, agent=None, notes=notes.found, skipped=True)
        root = read_document(text, notes)
    except ArtelierError as error:
        notes.add("failed", error.message, line=error.facts.get("line", 0))
        return Plan(folder=name, agent=None, notes=notes.found)
    if not root.members:
        notes.add("failed", "no agent: expected a mapping", line=root.line)
        return Plan(folder=name, agent=None, notes=notes.found)
    fields = Fields(root, "", notes)
    enabled = fields.take("enabled")
    if (why := _no_agent(fields, None if include_disabled else enabled)) is not None:
        notes.add("skipped", why)
        return Plan(folder=name, agent=None, notes=notes.found, skipped=True)
    return _Agent(folder, name, fields, notes).plan()


def _no_agent(fields: Fields, enabled: YamlNode | None) -> str | None:
    if enabled is not None and enabled.value is False:
        return "the agent is not enabled; --include-disabled takes it too"
    if {"principal", "artifacts"} <= fields.left.keys():
        return "no agent of this format: it lists its own artifacts"
    return None if KNOWN & fields.left.keys() else f"no agent: none of {', '.join(sorted(KNOWN))}"


class _Agent:
    def __init__(self, folder: Folder, name: str, fields: Fields, notes: Notes) -> None:
        self._folder = folder
        self._name = name
        self._fields = fields
        self._notes = notes
        self._prompt_notes = Notes(PROMPT if name == "." else f"{name}/{PROMPT}")
        self._metadata: dict[str, Any] = {}
        self._content: dict[str, Any] = {}
        self._made: list[Specification] = []

    def plan(self) -> Plan:
        id = self._id()
        if id is not None:
            self._model()
            self._money()
            components = self._components()
            memories = read_memories(id, self._fields, self._notes)
            self._mind(id, components, supplied=memories.artifacts[0].content["facts"])
            self._memories(memories)
            self._references()
            self._keep()
            self._fields.report_left()
            agent = Specification(id=id, kind="agent", content=self._content, metadata=self._metadata)
            self._made.append(agent)
            self._check_made()
        notes = (*self._notes.found, *self._prompt_notes.found)
        made = () if self._notes.failed or self._prompt_notes.failed else tuple(self._made)
        return Plan(folder=self._name, agent=id, artifacts=made, notes=notes)

    def _id(self) -> str | None:
        given = self._fields.left.get("id")
        id = self._fields.name("id") or self._own_name
        try:
            check_principal(check_new_id(id))
        except ArtelierError as error:
            line = given.line if given else 0
            self._notes.add("failed", f"{error.message}: expected {error.expected}", line=line, key="id")
            return None
        return id

    @property
    def _own_name(self) -> str:
        return self._folder.path.resolve().name if self._name == "." else self._name

    def _check_made(self) -> None:
        for made in self._made:
            try:
                check_new_id(made.id)
                check_content(kind_named(made.kind), made.content)
            except InvalidArtifact as error:
                if not self._notes.failed:  # else it is said already, with its line
                    self._notes.add("failed", f"{made.id}: {error}")
            except ArtelierError:
                self._notes.add(
                    "failed", f"the id {made.id[:160]} of its {made.kind} would be too long", key="id"
                )

    def _model(self) -> None:
        key = "llm_model" if "llm_model" in self._fields.left else "model"
        node = self._fields.take(key)
        if node is None:
            return
        if node.name is None:
            self._notes.add("unused", "expected the name of a model", line=node.line, key=key)
            return
        provider, slash, rest = node.name.partition("/")
        name = node.name
        if slash and ":" not in provider:
            name = f"{PROVIDERS.get(provider.lower(), provider)}:{rest}"
        name = canonical_name(name)
        if name != node.name:
            self._notes.add("changed", f"the model is called {name} here", line=node.line, key=key)
        self._content["model"] = name

    def _money(self) -> None:
        for key in ("starting_scrip", "starting_credits"):
            node = self._fields.take(key)
            if node is None:
                continue
            amount = node.value
            if isinstance(amount, float) and amount.is_integer():
                amount = int(amount)
            if not isinstance(amount, int) or isinstance(amount, bool) or not 0 <= amount <= _AMOUNT_MAX:
                self._notes.add("unused", "expected whole scrip", line=node.line, key=key)
            elif "starting_scrip" in self._metadata:
                self._notes.add("unused", "starting_scrip stands beside it", line=node.line, key=key)
            else:
                self._metadata["starting_scrip"] = amount
                self._notes.add("kept", "a world that the agent joins pays it, once", line=node.line, key=key)

    def _components(self) -> tuple[Component, ...]:
        node = self._fields.take("components")
        return read_components(node, self._folder, self._notes) if node else ()

    # -- what it thinks with

    def _mind(self, id: str, components: tuple[Component, ...], *, supplied: Iterable[str]) -> None:
        node = self._fields.take("workflow")
        workflow_id = None
        if node is not None and node.members:
            fields = Fields(node, "workflow", self._notes)
            skips = self._error_handling(fields)
            mind = WorkflowConverter(
                id, fields, self._notes, components, supplied=supplied, skips=skips
            ).mind()
            fields.report_left()
            self._made += mind.artifacts
            workflow_id = mind.workflow_id
        elif node is not None:
            self._notes.add("unused", "expected a mapping", line=node.line, key="workflow")
        text = self._system_prompt()
        if workflow_id is None:
            text = "\n\n".join(filter(None, (text, *(part.text for part in components))))
        self._content["personality_prompt_artifact_id"] = self._personality(id, text)
        self._content["workflow_artifact_id"] = workflow_id
        self._content["reflex_artifact_id"] = None

    def _system_prompt(self) -> str:
        inline = self._fields.take("system_prompt")
        place = PROMPT if self._name == "." else f"{self._name}/{PROMPT}"
        try:
            text = self._folder.text(place)
        except ArtelierError as error:
            self._prompt_notes.add("failed", error.message, line=error.facts.get("line", 0))
            return ""
        if text is not None and text.strip():
            if inline is not None:
                self._notes.add("unused", f"{PROMPT} stands beside it", line=inline.line, key="system_prompt")
            return text.strip()
        return (inline.text or "").strip() if inline else ""

    def _personality(self, id: str, text: str) -> str | None:
        if not text:
            self._notes.add("changed", f"there is no {PROMPT}: the agent has no personality")
            return None
        try:
            said = translated(text, self._prompt_notes, line=0, key="")
            content = personality(said)
        except ArtelierError as error:
            self._prompt_notes.add("failed", error.message)
            return None
        self._made.append(Specification(id=f"{id}_personality", kind="personality", content=content))
        return f"{id}_personality"

    def _memories(self, found: Memories) -> None:
        working, store = found.artifacts
        self._made += found.artifacts
        self._content["working_memory_artifact_id"] = working.id
        self._content["longterm_memory_artifact_id"] = store.id if found.remembers else None
        if found.rag:
            self._metadata["rag"] = found.rag

    # -- the rest

    def _references(self) -> None:
        for key in _REFERENCES:
            node = self._fields.take(key)
            if node is None:
                self._content.setdefault(key, None)
                continue
            try:
                Ref.parse(node.text or "")
            except ArtelierError as error:
                self._notes.add("unused", error.message, line=node.line, key=key)
            else:
                self._content[key] = node.text
        node = self._fields.take("subscribed_artifacts")
        self._content["subscribed_artifacts"] = [
            item.name for item in (node.items if node else []) if item.name
        ]

    def _keep(self) -> None:
        for key in KEPT:
            if (node := self._fields.take(key)) is not None:
                self._metadata[key] = node.plain()
                self._notes.add("kept", "nothing here acts on it", line=node.line, key=key)

    def _error_handling(self, fields: Fields) -> bool:
        """Keep how failures were handled; return whether code steps that fail are left out."""
        node = fields.take("error_handling")
        if node is None:
            return False
        self._metadata["error_handling"] = node.plain()
        self._notes.add(
            "kept",
            "a failed model call is tried again by the runtime's own rules",
            line=node.line,
            key="workflow.error_handling",
        )
        policy = node.members.get("default_on_failure")
        return policy is not None and policy.name == "skip"
