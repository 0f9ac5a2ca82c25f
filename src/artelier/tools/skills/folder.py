"""Skills that are found: folders with a SKILL.md, and artifacts of a space.

Nothing in a folder is executed; links are not followed out of it. The files beside a SKILL.md are part of
what is pinned: one that changes parks the skill, and one that was changed after the listing is not read.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, cast

from artelier.artifacts import Artifact, Artifacts, Summary, check_principal
from artelier.errors import AccessDenied, InvalidArtifact, InvalidRequest, NotFound, ToolFailed
from artelier.ids import MAIN_SPACE, check_space
from artelier.kernel import Services
from artelier.tools.skills.frontmatter import NAME, Matter, links_out, read_matter, strange_path
from artelier.tools.skills.injection_heuristics import invisible, suspicions
from artelier.tools.skills.source import SKILL_FILE, Definition, FileEntry, FoundSkill, schema_texts
from artelier.tools.workspace.files import WorkspaceFolder

SKILL_BYTES_MAX = 128 * 1024
"""Read of a SKILL.md at most; its own bounds are lower."""
FILES_MAX = 200
FILES_BYTES_MAX = 32 * 1024 * 1024
"""All files of one skill, since each is hashed."""
TEXT_BYTES_MAX = 64 * 1024
"""One answer of `read_skill_file`."""
CHECKED_BYTES_MAX = 256 * 1024
"""Of a file beside a SKILL.md that is searched for orders to a model."""
ENTRIES_MAX = 2_000
DEPTH_MAX = 8
FOLDERS_MAX = 500

PROSE = frozenset((".md", ".markdown", ".txt", ".rst", ".adoc", ""))
"""Files that are read as instructions; of others only hidden characters are looked for."""


class SkillFolder:
    """One folder with a SKILL.md."""

    shared = True

    def __init__(self, path: str | Path, *, name: str | None = None) -> None:
        """`name` stands in pins instead of the folder's place, for folders that move.

        Errors: `InvalidRequest` if there is no such folder.
        """
        if not os.path.isdir(path):
            raise InvalidRequest("no folder of a skill", expected="a folder", got=str(path))
        self.path = Path(os.path.abspath(path))
        self.name = name or f"folder:{os.path.realpath(path)}"
        self._reader = _FolderReader()

    async def find(self, services: Services, tenant: str) -> Sequence[FoundSkill]:
        """The skill, whatever state it is in; nothing if there is no SKILL.md any more."""
        return await asyncio.to_thread(self._reader.read_all, [(self.path, "")])


class SkillsIn:
    """A folder of folders, each with a SKILL.md; others are passed over."""

    shared = True

    def __init__(self, path: str | Path, *, name: str | None = None) -> None:
        """Set the folder; `name` and errors are those of `SkillFolder`."""
        if not os.path.isdir(path):
            raise InvalidRequest("no folder of skills", expected="a folder", got=str(path))
        self.path = Path(os.path.realpath(path))
        self.name = name or f"folder:{self.path}"
        self._reader = _FolderReader()

    async def find(self, services: Services, tenant: str) -> Sequence[FoundSkill]:
        """Every skill in it, at most 500."""
        return await asyncio.to_thread(lambda: self._reader.read_all(self._folders()))

    def _folders(self) -> list[tuple[Path, str]]:
        found: list[tuple[Path, str]] = []
        for name in sorted(os.listdir(self.path))[:ENTRIES_MAX]:
            path = self.path / name
            if name.startswith(".") or not path.is_dir():
                continue
            inside = os.path.realpath(path).startswith(os.path.join(self.path, ""))
            found.append((path, "" if inside else "its folder is a link to another place"))
        return found[:FOLDERS_MAX]


def skills_at(path: str | Path) -> SkillFolder | SkillsIn:
    """A folder with a SKILL.md, or a folder of such folders."""
    is_one = os.path.lexists(os.path.join(path, SKILL_FILE))
    return SkillFolder(path) if is_one else SkillsIn(path)


def place_of(source: str, name: str) -> Path | None:
    """Return where a folder's skill lies, by the name of its source; None if that says no place."""
    kind, _, root = source.partition(":")
    if kind != "folder" or not os.path.isabs(root):
        return None
    within = Path(root, name)
    here = within if os.path.lexists(within / SKILL_FILE) else Path(root)
    return here if here.name == name and os.path.lexists(here / SKILL_FILE) else None


class SkillFile(NamedTuple):
    """A file below a skill's folder, unread."""

    path: str
    info: os.stat_result


class SkillTree(NamedTuple):
    """The contents of a skill's folder."""

    entries: tuple[SkillFile, ...]
    reasons: tuple[str, ...]
    broken: str

    @property
    def signature(self) -> tuple[object, ...]:
        """The same as long as nothing changed: a file can't be written without a new ctime."""
        states = [
            (path, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
            for path, info in self.entries
        ]
        return (*states, self.reasons, self.broken)


class _FolderReader:
    """Reads folders, and those again only that changed."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[object, ...], FoundSkill]] = {}

    def read_all(self, folders: Sequence[tuple[Path, str]]) -> list[FoundSkill]:
        found: list[FoundSkill] = []
        for path, reason in folders:
            if not os.path.lexists(path / SKILL_FILE):
                continue
            tree = _tree(path)
            signature = (*tree.signature, reason)
            known = self._known.get(path)
            if known is None or known[0] != signature:
                known = self._known[path] = (signature, _read(path, tree, reason))
            found.append(known[1])
        return found


def _read(path: Path, tree: SkillTree, reason: str) -> FoundSkill:
    """The skill of a folder; one that can't be read is one too, for a person to look at."""
    folder = WorkspaceFolder(path)
    reasons = [reason] if reason else []
    content = b""
    try:
        if tree.broken:
            raise InvalidArtifact(tree.broken)
        content = _content(folder, SKILL_FILE, SKILL_BYTES_MAX + 1)
        matter = read_matter(content)
        files = tuple(_entry(folder, entry) for entry in tree.entries)
    except (InvalidArtifact, ToolFailed) as error:
        return _broken(path, error, content)
    reasons += [*_reasons(path, matter, content), *tree.reasons, *_file_reasons(folder, files)]
    definition = Definition(
        origin="folder",
        name=path.name,
        description=matter.description,
        instructions=matter.body,
        files=files,
        allowed_tools=matter.allowed_tools,
        license=matter.license,
        compatibility=matter.compatibility,
        metadata=matter.metadata,
        unknown_keys=matter.unknown_keys,
    )
    pinned = {one.path: one for one in files}

    async def read_file(asked: str) -> str:
        return await asyncio.to_thread(text_of, folder, asked, pinned)

    return FoundSkill(definition=definition, reasons=tuple(reasons), read_file=read_file)


def _reasons(path: Path, matter: Matter, content: bytes) -> Iterator[str]:
    if matter.name != path.name:
        yield f"its name is not its folder's: `{matter.name}` in `{path.name[:64]}`"
    yield from matter.reasons
    # The whole file, frontmatter included, as it stands there.
    text = content.decode("utf-8")
    yield from suspicions(text)
    yield from links_out(text)


def _file_reasons(folder: WorkspaceFolder, files: Sequence[FileEntry]) -> Iterator[str]:
    for one in files:
        if one.path == SKILL_FILE:
            continue
        try:
            text = _content(folder, one.path, CHECKED_BYTES_MAX).decode("utf-8")
        except UnicodeDecodeError:
            continue  # no text: it is never shown to a model
        found = suspicions(text)
        if os.path.splitext(one.path)[1].lower() not in PROSE:
            found = tuple(reason for reason in found if reason.startswith("invisible"))
        yield from (f"{one.path}: {reason}" for reason in found[:3])


def _broken(path: Path, error: InvalidArtifact | ToolFailed, content: bytes) -> FoundSkill:
    problem = str(error)[:400]
    definition = Definition(
        origin="folder",
        name=path.name,
        raw=content[:SKILL_BYTES_MAX].decode("utf-8", "replace"),
        broken=problem,
    )
    return FoundSkill(definition=definition, reasons=(problem,))


def _tree(root: Path) -> SkillTree:
    """Every file below a folder, links not followed."""
    entries: list[SkillFile] = []
    reasons: list[str] = []
    real = os.path.join(os.path.realpath(root), "")
    pending, seen = [("", 0)], 0
    while pending:
        below, depth = pending.pop()
        for name in sorted(os.listdir(root / below)):
            seen += 1
            if seen > ENTRIES_MAX or len(entries) > FILES_MAX or depth > DEPTH_MAX:
                broken = f"it has more than {FILES_MAX} files, or they lie too deep"
                return SkillTree((), (), broken)
            path = f"{below}/{name}" if below else name
            info = os.lstat(root / path)
            if stat.S_ISLNK(info.st_mode) and not _stays(root / path, real):
                reasons.append(f"a link leads out of its folder: {path[:80]!r}")
            elif name.startswith("."):
                continue
            elif stat.S_ISDIR(info.st_mode):
                pending.append((path, depth + 1))
            elif stat.S_ISREG(info.st_mode):
                entries.append(SkillFile(path, info))
                reasons += strange_path(path)
    if sum(entry.info.st_size for entry in entries) > FILES_BYTES_MAX:
        return SkillTree((), (), f"its files are larger than {FILES_BYTES_MAX // 1024**2} MB")
    return SkillTree(tuple(sorted(entries)), tuple(reasons), "")


def _stays(path: Path, real: str) -> bool:
    return os.path.join(os.path.realpath(path), "").startswith(real)


def _entry(folder: WorkspaceFolder, entry: SkillFile) -> FileEntry:
    content = _content(folder, entry.path, FILES_BYTES_MAX)
    return FileEntry(path=entry.path, size_bytes=len(content), sha256=sha256(content).hexdigest())


def _content(folder: WorkspaceFolder, path: str, bytes_max: int) -> bytes:
    """The first bytes of a file. Errors: `ToolFailed` if it is outside or no regular file."""
    with folder.file(path) as (descriptor, _):
        pieces: list[bytes] = []
        left = bytes_max
        while left > 0 and (piece := os.read(descriptor, min(left, 1 << 20))):
            pieces.append(piece)
            left -= len(piece)
    return b"".join(pieces)


def text_of(folder: WorkspaceFolder, asked: str, pinned: Mapping[str, FileEntry]) -> str:
    """A file of a skill as it was pinned. Errors: `ToolFailed`."""
    path = "/".join(folder.clean(asked))
    entry = pinned.get(path)
    if entry is None:
        names = ", ".join(name for name in pinned if name != SKILL_FILE)[:500]
        raise ToolFailed("the skill has no such file", expected=f"one of: {names or 'none'}")
    if entry.size_bytes > TEXT_BYTES_MAX:
        raise ToolFailed(
            "the file is too large to be read",
            expected=f"at most {TEXT_BYTES_MAX} bytes",
            got=f"{entry.size_bytes} bytes",
        )
    content = _content(folder, path, TEXT_BYTES_MAX + 1)
    if sha256(content).hexdigest() != entry.sha256:
        raise ToolFailed("the file has changed since the skill was listed", hint="Go on without it.")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise ToolFailed("the file is no text") from None
    if "\0" in text:
        raise ToolFailed("the file is no text")
    return text


# --------------------------------------------------------------------------- artifacts
# Skills that are artifacts of a space: what an agent wrote, was given or has bought.


SKILLS_MAX = 500
KNOWN_MAX = 10_000
"""Versions held in memory, so that a listing reads only new ones."""
CODE_BYTES_MAX = 32 * 1024
KEYS = frozenset(("name", "description", "instructions", "code", "parameters"))


class ArtifactSkills:
    """Artifacts of kind `skill` that a principal may read for nothing.

    Their own are usable at once; those of others are parked until a person approves them.
    """

    shared = False

    def __init__(self, principal: str, *, space: str = MAIN_SPACE) -> None:
        """The tenant is that of the listing: no catalogue can mix two. Errors: `InvalidRequest`."""
        self.principal = check_principal(principal)
        self.space = check_space(space)
        self.name = f"artifacts:{space}:{principal}"
        self._known: dict[tuple[str, str, str, int], FoundSkill] = {}
        self._store: object = None
        """The store that `_known` is of."""

    async def find(self, services: Services, tenant: str) -> Sequence[FoundSkill]:
        """All that can be read, own ones first."""
        handle = Artifacts(services.store, services.clock, tenant, self.space, self.principal)
        summaries = await handle.list(kind="skill", limit=SKILLS_MAX)
        if self._store is not services.store:
            self._known.clear()
            self._store = services.store
        found: list[FoundSkill] = []
        for one in sorted(summaries, key=lambda item: item.owner != self.principal):
            key = (tenant, one.id, one.owner, one.version)
            known = self._known.get(key) or await self._read(handle, one)
            if known is None:
                continue
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[key] = known
            found.append(known)
        return found

    async def _read(self, handle: Artifacts, summary: Summary) -> FoundSkill | None:
        try:
            artifact = await handle.read(f"{summary.id}@{summary.version}", price_max=0)
        except (AccessDenied, NotFound):
            return None  # what costs something is bought by a decision, not by a listing
        return found_in(artifact, reader=self.principal)


def found_in(artifact: Artifact, *, reader: str) -> FoundSkill:
    """A skill artifact as a definition; one that can't be read is one too, for a person to look at."""
    foreign = [] if artifact.owner == reader else [f"it belongs to {artifact.owner}"]
    try:
        if isinstance(artifact.content, str):
            definition, texts, reasons = _from_text(artifact.id, artifact.content)
        else:
            definition, texts, reasons = _from_json(artifact.id, artifact.content)
    except InvalidArtifact as error:
        problem = str(error)[:400]
        raw = str(artifact.content)[:TEXT_BYTES_MAX]
        broken = Definition(
            origin="artifact", name=artifact.id, artifact=artifact.id, raw=raw, broken=problem
        )
        return FoundSkill(definition=broken, reasons=(problem,))
    reasons = [*foreign, *reasons, *suspicions(texts), *links_out(texts)]
    trust = "untrusted" if foreign else "trusted"
    return FoundSkill(definition=definition, reasons=tuple(reasons), trust=trust)


def _from_text(id_: str, content: str) -> tuple[Definition, str, list[str]]:
    matter = read_matter(content.encode("utf-8", "surrogatepass"))
    definition = Definition(
        origin="artifact",
        name=matter.name,
        artifact=id_,
        description=matter.description,
        instructions=matter.body,
        allowed_tools=matter.allowed_tools,
        license=matter.license,
        compatibility=matter.compatibility,
        metadata=matter.metadata,
        unknown_keys=matter.unknown_keys,
    )
    return definition, content, list(matter.reasons)


def _from_json(id_: str, content: object) -> tuple[Definition, str, list[str]]:
    if not isinstance(content, dict):
        raise InvalidArtifact("a skill is a SKILL.md or a JSON object")
    fields = cast("dict[str, Any]", content)
    name, description, instructions, code = (
        _text(fields, key) for key in ("name", "description", "instructions", "code")
    )
    if not NAME.fullmatch(name):
        raise InvalidArtifact("its name is no skill name", expected="1-64 characters of a-z 0-9 -")
    if not description or len(description) > 1_024:
        raise InvalidArtifact("its description is missing or too long", expected="1-1024 characters")
    if len(instructions.encode()) > TEXT_BYTES_MAX or len(code.encode()) > CODE_BYTES_MAX:
        raise InvalidArtifact("its instructions or its code are too long")
    parameters = fields.get("parameters")
    if parameters is None and code:
        parameters = {"type": "object"}
    if parameters is not None and not isinstance(parameters, dict):
        raise InvalidArtifact("its parameters are no JSON schema")
    definition = Definition(
        origin="artifact",
        name=name,
        artifact=id_,
        description=description,
        instructions=instructions or description,
        code=code,
        parameters=cast("dict[str, Any] | None", parameters),
        unknown_keys=tuple(sorted(fields.keys() - KEYS)),
    )
    texts = [description, instructions, *schema_texts(cast("dict[str, Any] | None", parameters))]
    hidden = ["its code has characters that nobody can see"] if invisible(code) else []
    return definition, "\n".join(texts), hidden


def _text(fields: dict[str, Any], key: str) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise InvalidArtifact(f"its {key} is no text")
    return value.strip()
