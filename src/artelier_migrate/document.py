"""Files of the old format as trees that know their lines, remarks about them, and the plan made of them.

Files are bounded in size, depth and what aliases unfold to. Every remark has its place: nothing is dropped
silently.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import msgspec

from artelier.artifacts.content import canonical_json
from artelier.errors import InvalidConfig

if TYPE_CHECKING:
    import yaml


NOTES_MAX = 200
"""Of one agent; more would not be read."""

What = Literal["failed", "unused", "kept", "changed", "skipped"]
"""`failed`: the agent is not written. `unused`: left out. `kept`: stands in the metadata of the agent's
artifact and nothing acts on it here. `changed`: works in another way than before."""


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """One remark."""

    what: What
    file: str
    """Below the folder that was read."""
    line: int = 0
    """From 1; 0 if it is about the whole file or folder."""
    key: str = ""
    """Path of the key, such as `workflow.steps[2].code`."""
    text: str = ""

    @property
    def place(self) -> str:
        """Such as `alice/agent.yaml:12`."""
        return f"{self.file}:{self.line}" if self.line else self.file


class Notes:
    """The remarks about one file, in the order in which they came up."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._found: list[Note] = []
        self.failed = False

    def add(self, what: What, text: str, *, line: int = 0, key: str = "") -> None:
        """Write one down. Beyond `NOTES_MAX` only failures are."""
        self.failed = self.failed or what == "failed"
        note = Note(what=what, file=self._file, line=line, key=key, text=text)
        if note not in self._found and (len(self._found) < NOTES_MAX or what == "failed"):
            self._found.append(note)

    @property
    def found(self) -> tuple[Note, ...]:
        """The remarks, sorted by line."""
        return tuple(sorted(self._found, key=lambda note: note.line))


# --------------------------------------------------------------------------- trees
# A YAML file as a tree that knows its lines, with bounds on its size, depth and what aliases unfold to.
#
# Keys are taken as they are written: `on`, `yes` and `true` stay these words, which YAML 1.1 would all read
# as the same boolean. Names (states, steps, ids) are taken the same way.


DEPTH_MAX = 40
NODES_MAX = 20_000
"""With aliases unfolded: a few lines of them would else become millions of values."""

NAME_CHARS_MAX = 200

_TAG = "tag:yaml.org,2002:"
_SCALARS = frozenset(_TAG + name for name in ("str", "int", "float", "bool", "null", "timestamp"))
_COLLECTIONS = (_TAG + "map", _TAG + "seq")
_MERGE = _TAG + "merge"
_INT_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlNode:
    """A value and where it stands."""

    line: int
    """Of its key, from 1; without a key its own."""
    first_line: int
    """Where its text begins."""
    value: Any
    """A scalar, a list of nodes or a mapping of names to nodes."""
    text: str | None = None
    """Of a scalar: as written, without quotes."""

    @property
    def members(self) -> dict[str, YamlNode]:
        """The members of a mapping; empty for anything else."""
        value: object = self.value
        return cast("dict[str, YamlNode]", value) if isinstance(value, dict) else {}

    @property
    def items(self) -> list[YamlNode]:
        """The items of a list; a single value counts as a list of one, and null as none."""
        value: object = self.value
        if isinstance(value, list):
            return cast("list[YamlNode]", value)
        return [] if value is None else [self]

    @property
    def name(self) -> str | None:
        """The scalar as a name, as it is written; None for anything else."""
        if self.text is None or self.value is None or not self.text.strip():
            return None
        return self.text.strip()[:NAME_CHARS_MAX]

    def plain(self) -> Any:
        """JSON data."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.members.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.items]
        return self.value


def read_document(text: str, notes: Notes) -> YamlNode:
    """The tree of a file. Errors: `InvalidConfig` with fact `line` for what is broken or beyond a bound."""
    import yaml

    try:
        loader = _composer(text)
        try:
            root = loader.get_single_node()
            if root is None:
                return YamlNode(line=1, first_line=1, value=None, text="")
            return _YamlReader(loader, notes).node(root, 0)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise InvalidConfig(
            f"broken YAML: {error.problem or error.context}", line=mark.line + 1 if mark else 0
        ) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InvalidConfig(f"broken YAML: {error.reason}", line=line) from None
    except RecursionError:
        raise InvalidConfig("the file is nested too deeply", line=0) from None


def _composer(text: str) -> yaml.SafeLoader:
    import yaml

    class Composer(yaml.SafeLoader):
        depth = 0
        count = 0

        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            self.count += 1
            self.depth += 1
            if self.depth > DEPTH_MAX or self.count > NODES_MAX:
                raise _too_large(self.line + 1)
            try:
                return super().compose_node(parent, index)
            finally:
                self.depth -= 1

    return Composer(text)


class _YamlReader:
    """Turns composed nodes into a tree without aliases."""

    def __init__(self, loader: yaml.SafeLoader, notes: Notes) -> None:
        self._loader = loader
        self._notes = notes
        self._left = NODES_MAX

    def node(self, node: yaml.Node, depth: int) -> YamlNode:
        import yaml

        line = node.start_mark.line + 1
        self._left -= 1
        if self._left < 0 or depth > DEPTH_MAX:
            raise _too_large(line)
        if not isinstance(node, yaml.ScalarNode) and node.tag not in _COLLECTIONS:
            raise InvalidConfig(f"a value of type {node.tag[:80]} is not read", line=line)
        if isinstance(node, yaml.MappingNode):
            return YamlNode(line=line, first_line=line, value=self._mapping(node, depth))
        if isinstance(node, yaml.SequenceNode):
            items = [self.node(item, depth + 1) for item in node.value]
            return YamlNode(line=line, first_line=line, value=items)
        scalar = cast("yaml.ScalarNode", node)
        is_block = scalar.style in ("|", ">")
        return YamlNode(line=line, first_line=line + is_block, value=self._scalar(scalar), text=scalar.value)

    def _mapping(self, node: yaml.MappingNode, depth: int) -> dict[str, YamlNode]:
        import yaml

        merged: dict[str, YamlNode] = {}
        own: dict[str, YamlNode] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise InvalidConfig("a key is neither text nor a number", line=line)
            value = replace(self.node(value_node, depth + 1), line=line)
            if key_node.tag == _MERGE:
                for source in reversed(value.items):
                    merged |= source.members
                continue
            key = key_node.value.strip()
            if key in own:
                self._notes.add(
                    "changed", "the key stands twice; the last one counts", line=line, key=key[:80]
                )
            own[key] = value
        return merged | own

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        if node.tag not in _SCALARS:
            raise InvalidConfig(f"a value of type {node.tag[:80]} is not read", line=node.start_mark.line + 1)
        if node.tag in (_TAG + "str", _TAG + "timestamp"):
            return node.value
        try:
            value: Any = self._loader.construct_object(node)  # pyright: ignore[reportUnknownMemberType] - the stubs are partial
        except (ValueError, KeyError, IndexError):
            return node.value
        is_odd = isinstance(value, float) and not abs(value) <= _INT_MAX
        is_odd = is_odd or (isinstance(value, int) and abs(value) > _INT_MAX)
        return node.value if is_odd else value


def _too_large(line: int) -> InvalidConfig:
    return InvalidConfig(
        f"the file holds more than {NODES_MAX} values, with aliases unfolded, or is nested more than"
        f" {DEPTH_MAX} deep",
        line=line,
    )


class Fields:
    """A mapping whose keys are taken one by one; what nobody took is reported."""

    def __init__(self, node: YamlNode, path: str, notes: Notes) -> None:
        self.path = path
        self.line = node.line
        self._left: dict[str, YamlNode] = dict(node.members)
        self._notes = notes

    def take(self, *names: str) -> YamlNode | None:
        """The value under the first of these keys that is there; null counts as absent."""
        for name in names:
            node = self._left.pop(name, None)
            if node is not None and node.value is not None:
                return node
        return None

    def name(self, *names: str) -> str | None:
        """A scalar as it is written. Anything else is reported."""
        node = self.take(*names)
        if node is not None and node.name is None:
            self._notes.add("unused", "expected a name", line=node.line, key=self.at(names[0]))
        return node.name if node else None

    def at(self, key: str) -> str:
        """The path of one of its keys."""
        return f"{self.path}.{key}" if self.path else key

    @property
    def left(self) -> Mapping[str, YamlNode]:
        """The fields that have not been taken yet."""
        return self._left

    def report_left(self) -> None:
        """Write down every key that was not taken."""
        for key, node in self._left.items():
            self._notes.add("unused", "nothing here uses it", line=node.line, key=self.at(key[:80]))
        self._left = {}


# --------------------------------------------------------------------------- vocabulary
# Words of the old format that are others now: names of variables, and of actions and their fields.


VARIABLES: Mapping[str, str] = {
    "_current_state": "current_state",
    "state": "current_state",
    "credits": "balance",
    "scrip": "balance",
    "memories": "recent_memories",
    "relevant_memories": "recent_memories",
    "rag_memories": "recent_memories",
    "last_result": "last_action_result",
    "consecutive_failures": "failure_count",
    "current_tick": "tick",
}
"""Old names of what is built in now."""

ACTIONS: Mapping[str, str] = {
    "read_artifact": "read",
    "write_artifact": "write",
    "edit_artifact": "edit",
    "delete_artifact": "delete",
    "invoke_artifact": "invoke",
    "transfer_scrip": "transfer",
    "send_message": "message",
}
"""Old names of actions."""

GONE = (
    "query_kernel",
    "configure_context",
    "modify_system_prompt",
    "update_metadata",
    "submit_to_mint",
    "submit_to_task",
    "mint",
)
"""Actions that have no equal here. `mint` counts only where it is named as an action."""

_FIELDS: Mapping[str, str] = {
    "action_type": "action",
    "artifact_type": "kind",
    "old_string": "old",
    "new_string": "new",
    "recipient_id": "to",
}
"""Old names of fields of actions, as they stand in JSON."""

_ACTION = re.compile(rf"(?<![A-Za-z0-9_.-])(?:{'|'.join(ACTIONS)})(?![A-Za-z0-9_-])")
_FIELD = re.compile(rf"(?<=[\"'])(?:{'|'.join(_FIELDS)})(?=[\"']\s*:)")
_READ = re.compile(r"""(["']action["']\s*:\s*["']read["']\s*,\s*["'])artifact_id(?=["']\s*:)""")
_GONE = re.compile(rf"(?<![A-Za-z0-9_.-])(?:{'|'.join(GONE[:-1])})(?![A-Za-z0-9_-])")
_MINT = re.compile(r"""["']action(?:_type)?["']\s*:\s*["'](mint)["']""")


class Translated(NamedTuple):
    """A text in today's words."""

    text: str
    renamed: tuple[str, ...]
    """Old names of the actions that were translated."""
    gone: tuple[str, ...]
    """Actions that it names and that are not there any more."""


def translate(text: str) -> Translated:
    """Return a prompt with today's names of actions, in prose and in JSON, and those that have none."""
    renamed = tuple(dict.fromkeys(_ACTION.findall(text)))
    gone = tuple(dict.fromkeys((*_GONE.findall(text), *_MINT.findall(text))))
    text = _ACTION.sub(lambda match: ACTIONS[match[0]], text)
    text = _FIELD.sub(lambda match: _FIELDS[match[0]], text)
    return Translated(_READ.sub(r"\1ref", text), renamed, gone)


class Rename(ast.NodeTransformer):
    """Puts today's names of variables and actions into an expression or code that does not assign them."""

    def __init__(self, kept: frozenset[str] = frozenset()) -> None:
        """`kept`: names that the code assigns itself."""
        self._kept = kept

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if not isinstance(node.ctx, ast.Load) or node.id in self._kept:
            return node
        return ast.Name(VARIABLES.get(node.id, node.id), node.ctx)

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if isinstance(node.value, str) and node.value in ACTIONS:
            return ast.Constant(ACTIONS[node.value])
        return node


# --------------------------------------------------------------------------- specification
# The output of the loader: plain specifications of artifacts, before anything is written.


_ODD = re.compile(r"[^A-Za-z0-9._-]+")


class Specification(msgspec.Struct, frozen=True, kw_only=True):
    """One artifact as it should be."""

    id: str
    kind: str
    content: Any
    access: str | None = None
    """None: the default of its kind."""
    metadata: dict[str, Any] = {}

    @property
    def digest(self) -> str:
        """A digest of the content: it stays the same as long as the source does."""
        data = canonical_json([self.kind, self.content, self.metadata])
        return hashlib.sha256(data).hexdigest()[:32]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One folder, read: the artifacts of its agent, or why there are none."""

    folder: str
    agent: str | None
    artifacts: tuple[Specification, ...] = ()
    """The agent itself comes last, so that its references never dangle."""
    notes: tuple[Note, ...] = ()
    skipped: bool = False
    """No agent, or one that is not enabled."""

    @property
    def failed(self) -> bool:
        """True if something forbids to write it."""
        return any(note.what == "failed" for note in self.notes)


def slug(name: str) -> str:
    """A name as a part of an id."""
    return _ODD.sub("_", name).strip("_")[:60] or "x"
