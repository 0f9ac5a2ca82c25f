"""World files: settings, artifacts and agents as they are written down, read strictly.

`read_world_file` gives plain data in which no file is named any more, `read_world_text` that of a text from
outside; `read_world` checks such data.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta

from artelier.artifacts.access import PRICE_MAX
from artelier.artifacts.json_items import ITEMS_MAX
from artelier.errors import ArtelierError, InvalidConfig, NotFound
from artelier.world.config import Path as Place
from artelier.world.config import WorldConfig, line_of, mistake, read_config, shown_path
from artelier.world.deciders import POLICIES, Policy

# --------------------------------------------------------------------------- folder
# A folder of agents or of a world: reads files inside it, bounded, and nothing that a link leads out to.


FILE_BYTES_MAX = 256 * 1024
"""Of one file (guess: twenty times the largest agent that was ever seen)."""

FOLDERS_MAX = 2_000


class Folder:
    """The folder that is read."""

    def __init__(self, path: Path) -> None:
        """Errors: `NotFound` if there is no such folder."""
        if not path.is_dir():
            raise NotFound("there is no such folder", got=str(path))
        self.path = path
        self._root = path.resolve(strict=True)

    def agents(self) -> list[str]:
        """The names of the folders in it that may hold agents, sorted; `.` if it is one itself.

        What begins with `_` or `.` is none. Errors: `InvalidConfig` beyond `FOLDERS_MAX`.
        """
        if os.path.lexists(self.path / "agent.yaml"):
            return ["."]
        try:
            with os.scandir(self.path) as entries:
                names = sorted(
                    entry.name
                    for entry in entries
                    if not entry.name.startswith(("_", ".")) and (entry.is_dir() or entry.is_symlink())
                )
        except OSError as error:
            raise InvalidConfig(f"the folder cannot be read: {error.strerror}") from None
        if len(names) > FOLDERS_MAX:
            raise InvalidConfig("too many folders", expected=f"at most {FOLDERS_MAX}", got=len(names))
        return names

    def text(self, place: str) -> str | None:
        """A file below the folder as text; None if it is not there.

        Errors: `InvalidConfig` for one that is too large, no UTF-8, no plain file, or outside.
        """
        path = self.path / place
        if not os.path.lexists(path):
            return None
        try:
            real = path.resolve(strict=True)
            if not real.is_relative_to(self._root):
                raise InvalidConfig("the file is a link that leads out of the folder")
            if not stat.S_ISREG(real.stat().st_mode):
                raise InvalidConfig("this is no plain file")
            with real.open("rb") as file:
                data = file.read(FILE_BYTES_MAX + 1)
        except (OSError, RuntimeError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise InvalidConfig(f"the file cannot be read: {reason}") from None
        if len(data) > FILE_BYTES_MAX:
            raise InvalidConfig(f"the file is larger than {FILE_BYTES_MAX:,} bytes")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise InvalidConfig("the file is no UTF-8", line=line) from None
        return text.replace("\r\n", "\n")


# --------------------------------------------------------------------------- file


AGENTS_MAX = 200_000
ARTIFACTS_MAX = 200_000
FILES_MAX = 10_000
"""Different files that one world file may name."""

Scrip = Annotated[int, Meta(ge=0, le=PRICE_MAX)]
Content = str | dict[str, Any]
"""Given in place, or `{file = "path"}`."""

INLINE = ("personality", "workflow", "reflex", "working_memory", "longterm_memory")
"""What an agent entry may hold instead of naming an artifact; each becomes `<id>_<name>`."""


class _StrictEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An unknown key is a mistake that would otherwise go unseen for a thousand ticks."""


class ArtifactEntry(_StrictEntry, frozen=True, kw_only=True, omit_defaults=True):
    """An artifact that is there from the beginning."""

    id: str
    kind: str
    owner: str
    content: Any = msgspec.UNSET
    file: str = ""
    """Instead of `content`: text; `.json` is JSON, `.py` of a tool becomes `{code}`."""
    access: str | dict[str, Any] | None = None
    prices: dict[str, Scrip] | None = None
    interface: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None


class AgentEntry(_StrictEntry, frozen=True, kw_only=True, omit_defaults=True):
    """An agent, or `count` of them: then `{n}` in ids is 1, 2, 3..."""

    id: str
    count: Annotated[int, Meta(ge=0, le=AGENTS_MAX)] = 1
    scrip: Scrip | None = None
    """None: the world's start balance."""
    policy: str = ""
    model: str = ""
    template: str = ""
    """Name of a shipped workflow that becomes its own."""
    defaults: bool | None = None
    """Whether it gets artifacts for what it does not name; None: unless it has a policy."""
    system_prompt: str = ""
    profile: str = ""
    """`id@version` in the main space: operations around the agent's model step."""
    personality: Content | None = None
    workflow: Content | None = None
    reflex: Content | None = None
    working_memory: Content | None = None
    longterm_memory: dict[str, Any] | None = None
    personality_prompt_artifact_id: str = ""
    workflow_artifact_id: str = ""
    reflex_artifact_id: str = ""
    working_memory_artifact_id: str = ""
    longterm_memory_artifact_id: str = ""
    steering_artifact_id: str = ""
    subscribed_artifacts: list[str] | None = None
    """None: the handbook."""
    metadata: dict[str, Any] | None = None


class WorldEntry(_StrictEntry, frozen=True, kw_only=True, omit_defaults=True):
    """A whole world."""

    world: dict[str, Any] = {}
    settle: bool = True
    """Whether it has services, libraries and the handbook."""
    agents: list[AgentEntry] = []
    artifacts: list[ArtifactEntry] = []

    @property
    def config(self) -> WorldConfig:
        return read_config(self.world)


def read_world_file(path: Path | str) -> dict[str, Any]:
    """A world file as plain data for `found`, with the contents of the files that it names.

    Files are named relative to the folder of the world file and must lie in it.

    Errors: `NotFound` for no such file; `InvalidConfig` that names the place of whatever is wrong.
    """
    path = Path(path)
    try:
        folder = Folder(path.parent)
        text = folder.text(path.name)
    except NotFound:
        text = folder = None
    except InvalidConfig as error:
        raise _placed_error(str(path), error) from None
    if text is None or folder is None:
        raise NotFound("there is no such world file", got=str(path))
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidConfig(
            f"{path} is no TOML: {str(error)[:300]}", hint="docs/guides/worlds.md has an example."
        ) from None
    files = _Files(folder)
    for place, entry in _entries(data, "artifacts"):
        named = entry.pop("file", None)
        if named is None:
            continue
        if "content" in entry:
            raise InvalidConfig(f"{place}: `file` stands beside `content`", expected="one of them")
        content = files.content(named, f"{place}: file")
        is_tool = entry.get("kind") == "tool" and isinstance(content, str)
        entry["content"] = {"code": content} if is_tool and named.endswith(".py") else content
    for place, entry in _entries(data, "agents"):
        for key in INLINE:
            value = entry.get(key)
            if isinstance(value, dict) and "file" in value:
                given = cast("dict[str, Any]", value)
                if len(given) > 1:
                    raise InvalidConfig(f"{place}.{key}: other keys stand beside `file`")
                entry[key] = files.content(given["file"], f"{place}.{key}")
    try:
        read_world(data)
    except InvalidConfig as error:
        line = line_of(text, error.facts.get("path", ()))
        raise _placed_error(f"{path}:{line}" if line else str(path), error) from None
    return data


KEY_DOTS_MAX = 20
"""Of one key. `tomllib` takes time and memory by the square of its parts: half an hour for one of a megabyte,
and two gigabytes for 480 keys of a thousand parts each."""

_TEXTS = re.compile(
    r'''"""[^"\\]*+(?:(?:\\.|"(?!""))[^"\\]*+)*+(?:"{3,5}|\Z)|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?'''
    r"""|'''[^']*+(?:'(?!'')[^']*+)*+(?:'{3,5}|\Z)|'[^'\n]*+'?|#[^\n]*+""",
    re.DOTALL,
)
"""Texts and comments of TOML, in time that is linear in their length. One that does not end is no TOML."""
_LONG_KEY = re.compile(rf"(?<![^,={{}}\[\]\n])(?:[^.,={{}}\[\]\n]*+\.){{{KEY_DOTS_MAX + 1}}}")


def read_world_text(text: str) -> dict[str, Any]:
    """Return a world file from outside as plain data, bounded before anything makes objects of it.

    Errors: `InvalidConfig`. Cost: O(length); a second and 40 MB for the worst megabyte (measured).
    """
    bare = _TEXTS.sub("''", text)
    items = sum(map(bare.count, ".,={["))
    if items > ITEMS_MAX:
        raise InvalidConfig(
            "the world file has too many keys, elements and dots outside of texts",
            expected=f"at most {ITEMS_MAX:,}",
            got=f"{items:,}",
        )
    if _LONG_KEY.search(bare):
        raise InvalidConfig("a key of the world file has too many dots", expected=f"at most {KEY_DOTS_MAX}")
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidConfig(f"the world file is no TOML: {str(error)[:300]}") from None


def read_world(given: Mapping[str, Any]) -> WorldEntry:
    """Check the data of a world: keys, types, bounds, settings.

    Errors: `InvalidConfig` that names the place, such as `$.agents[0]`.
    """
    try:
        entry = msgspec.convert(dict(given), WorldEntry)
    except msgspec.ValidationError as error:
        raise mistake(error, WorldEntry, what="invalid world") from None
    try:
        config = entry.config
    except InvalidConfig as error:
        error.facts["path"] = ("world", *error.facts.get("path", ()))
        raise
    agents = sum(one.count for one in entry.agents)
    if agents > AGENTS_MAX or len(entry.artifacts) > ARTIFACTS_MAX:
        raise InvalidConfig(
            "the world is too large",
            expected=f"at most {AGENTS_MAX} agents, {ARTIFACTS_MAX} artifacts",
            got=f"{agents} agents, {len(entry.artifacts)} artifacts",
        )
    for number, one in enumerate(entry.artifacts):
        if one.file:
            raise InvalidConfig(
                f"artifacts[{number}]: only a world file can name a file",
                expected="content",
                path=("artifacts", number),
            )
        if one.content is msgspec.UNSET:
            raise InvalidConfig(
                f"artifacts[{number}]: {one.id} has no content",
                expected="content or file",
                path=("artifacts", number),
            )
    _check_stages(config)
    _check_named(entry, config)
    return entry


def _check_stages(config: WorldConfig) -> None:
    if config.activation == "staged" and not config.stages:
        raise InvalidConfig(
            "world.stages is empty", expected="ids of agents for each stage", path=("world", "activation")
        )


def _check_named(entry: WorldEntry, config: WorldConfig) -> None:
    """Check that settings name existing agents and that every shock does something.

    A world without agents is left alone: those it will have join later.
    """
    named: list[tuple[Place, list[str]]] = [
        (("world", "stages", number), stage) for number, stage in enumerate(config.stages)
    ]
    for agent, others in (config.network or {}).items():
        named.append((("world", "network", agent), [agent, *others]))
    for number, shock in enumerate(config.shocks):
        place: Place = ("world", "shocks", number)
        named.append(((*place, "to"), shock.to))
        if not shock.pay and not shock.message:
            raise InvalidConfig(
                f"{shown_path(place)}: shock {shock.name} does nothing",
                expected="`pay` or `message`",
                path=place,
            )
    if not named:
        return  # the ids of a society need not be made
    agents = {one.id for one in entry.artifacts if one.kind == "agent"}
    for one in entry.agents:
        numbers = range(1, one.count + 1) if "{n}" in one.id else (1,)
        agents.update(one.id.replace("{n}", str(n)) for n in numbers)
    for place, ids in named if agents else ():
        if unknown := [id_ for id_ in ids if id_ not in agents]:
            near = get_close_matches(unknown[0], agents, n=1) if len(agents) <= 1_000 else []
            raise InvalidConfig(
                f"{shown_path(place)}: there is no such agent",
                expected="ids of agents of this world",
                got=", ".join(unknown[:5])[:200],
                hint=f"Did you mean {near[0]}?" if near else None,
                path=place,
            )


def _entries(data: dict[str, Any], name: str) -> list[tuple[str, dict[str, Any]]]:
    """The tables of a list with their places; what is no list is told by `read_world`."""
    given: object = data.get(name)
    if not isinstance(given, list):
        return []
    return [
        (f"{name}[{number}]", cast("dict[str, Any]", item))
        for number, item in enumerate(cast("list[object]", given))
        if isinstance(item, dict)
    ]


class _Files:
    """The files of one world, each read once."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._read: dict[str, Any] = {}

    def content(self, named: object, place: str) -> object:
        if not isinstance(named, str) or not named or "\0" in named:
            raise InvalidConfig(f"{place}: invalid file", expected="a path", got=repr(named)[:100])
        if named not in self._read:
            if len(self._read) >= FILES_MAX:
                raise InvalidConfig(f"{place}: too many files", expected=f"at most {FILES_MAX}")
            self._read[named] = self._load(named, place)
        return self._read[named]

    def _load(self, named: str, place: str) -> object:
        try:
            text = self._folder.text(named)
        except InvalidConfig as error:
            raise _placed_error(f"{place}: {named}", error) from None
        if text is None:
            raise InvalidConfig(f"{place}: there is no file {named}")
        if not named.endswith(".json"):
            return text
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidConfig(f"{place}: {named} is no JSON: {str(error)[:200]}") from None


def _placed_error(place: str, error: ArtelierError) -> InvalidConfig:
    return InvalidConfig(f"{place}: {error.message}", expected=error.expected, got=error.got, hint=error.hint)


# --------------------------------------------------------------------------- shipped
# The worlds that are shipped as examples, and the rule agents that they name.


EXAMPLES: tuple[str, ...] = ("market",)


def shipped_names() -> tuple[str, ...]:
    """The worlds that `shipped` knows."""
    return EXAMPLES


def shipped(name: str) -> dict[str, Any]:
    """The specification of a shipped world, for `found`. Errors: `NotFound`."""
    if name not in EXAMPLES:
        raise NotFound("no such world is shipped", expected=", ".join(EXAMPLES), got=name[:80])
    with as_file(files("artelier.world") / "examples" / name) as folder:
        return read_world_file(folder / "world.toml")


def shipped_policies() -> Mapping[str, Policy]:
    """The rule agents of the shipped worlds, by the name that their agents give."""

    return POLICIES
